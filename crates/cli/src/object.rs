//! An upgrade, report or work as the hub sends it. Reading an object never fails, because one malformed object must not hide
//! the other objects of a list.

use std::borrow::Cow;

use api::lenient::shallow;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::ApiResource;
use kube::core::DynamicResourceScope;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// Any object. Values that are nested too deeply are cut off, so that reading it cannot overflow the stack.
#[derive(Clone, Debug)]
pub struct Object {
    /// Only name, namespace, UID and resource version.
    metadata: ObjectMeta,
    value: Value,
}

impl Object {
    /// The object as JSON. It always has `apiVersion` and `kind`, which the items of a list lack.
    #[must_use]
    pub fn into_value(self) -> Value {
        let mut value = self.value;
        if let Some(fields) = value.as_object_mut()
            && !(fields.contains_key("apiVersion") && fields.contains_key("kind"))
        {
            fields.insert(
                "apiVersion".to_owned(),
                json!(format!("{}/{}", api::GROUP, api::VERSION)),
            );
            fields.insert("kind".to_owned(), json!("ManagedClustersUpgrade"));
        }
        value
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = shallow(deserializer)?;
        let text = |key: &str| value["metadata"][key].as_str().map(str::to_owned);
        let metadata = ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        };
        Ok(Object { metadata, value })
    }
}

impl Resource for Object {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }

    fn api_version(of: &ApiResource) -> Cow<'_, str> {
        of.api_version.as_str().into()
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectList;

    use super::*;
    use crate::upgrade::Upgrade;

    #[test]
    fn a_deep_object_is_shown_like_the_others_of_its_list() {
        let deep = format!("{}{}", r#"{"a":["#.repeat(5_000), "]}".repeat(5_000));
        let item = |name: &str, part: &str| {
            format!(
                r#"{{"metadata":{{"name":"{name}","managedFields":[{part}]}},
                    "spec":{{"paused":true,"preUpgradeAction":{part}}},"status":{{"state":"Pending","later":{part}}}}}"#
            )
        };
        let text = format!(
            r#"{{"metadata":{{}},"items":[{},{}]}}"#,
            item("bad", &deep),
            item("good", "1")
        );
        let list: ObjectList<Object> = serde_json::from_str(&text).unwrap();
        let read = |object: Object| Upgrade::read(object.into_value());
        let all: Vec<_> = list.items.into_iter().map(read).collect();
        let names: Vec<_> = all.iter().map(|upgrade| upgrade.name.as_str()).collect();
        assert_eq!(names, ["bad", "good"]);
        assert!(
            all.iter()
                .all(|upgrade| upgrade.paused && upgrade.state() == "Pending")
        );
        assert!(all[0].object.to_string().contains("not shown"));
        assert_eq!(all[0].object["kind"], "ManagedClustersUpgrade");
    }

    #[test]
    fn a_status_that_cannot_be_read_is_said_to_be_so() {
        let upgrade = Upgrade::read(json!({"metadata": {"name": "a"}, "status": {"inFlight": "many"}}));
        assert_eq!(upgrade.state(), "<unreadable>");
        assert!(upgrade.unreadable.unwrap().contains("many"));
        assert_eq!(Upgrade::read(json!({"metadata": {}})).state(), "<unknown>");
    }
}
