//! Whether the CRDs of the hub have the fields that this release uses. The API server drops fields that a CRD does not know, so a
//! controller beside an older CRD would write causes and counts that nobody sees.

use std::collections::BTreeSet;

use serde_json::Value;

use super::facts::Installed;
use super::{Checks, Level, some};

/// Judges the CRDs, which are named like ours.
pub fn judge(checks: &mut Checks, facts: &Installed) {
    if facts.is_simulated {
        return;
    }
    let definitions = match &facts.definitions {
        Err(why) => return checks.unread("The CRDs", why),
        Ok(definitions) => definitions,
    };
    for ours in api::schema::crds() {
        let name = ours.metadata.name.clone().unwrap_or_default();
        let Some(served) = definitions.iter().find(|crd| crd["metadata"]["name"] == *name) else {
            // That the hub does not serve the kind is said already.
            continue;
        };
        let ours = serde_json::to_value(ours).unwrap_or_default();
        let missing = missing(&fields(&ours), &fields(served));
        if missing.is_empty() {
            checks.ok(format!("The CRD {name} has all fields of this release"));
        } else {
            checks.add(
                Level::Warning,
                format!("The CRD {name} is older than this plugin and lacks {}", some(&missing)),
                "Apply the CRDs of the release, and then update the controller (docs/guide/upgrade-the-controller.md).",
            );
        }
    }
}

/// Our fields that are not served. Below a field that is missing all others are missing, too, so they are not named.
fn missing(ours: &BTreeSet<String>, served: &BTreeSet<String>) -> Vec<String> {
    let has_parent = |path: &String| {
        let parent = path.rsplit_once('.').map(|(parent, _)| parent);
        parent.is_none_or(|parent| served.contains(parent))
    };
    let missing = ours.difference(served).filter(|path| has_parent(path));
    missing.cloned().collect()
}

/// The fields of the version that we use, as paths such as `status.causes.message`.
fn fields(crd: &Value) -> BTreeSet<String> {
    let versions = crd["spec"]["versions"].as_array();
    let mut versions = versions.into_iter().flatten();
    let mut found = BTreeSet::new();
    if let Some(version) = versions.find(|version| version["name"] == api::VERSION) {
        collect(&version["schema"]["openAPIV3Schema"], "", &mut found);
    }
    found
}

fn collect(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        collect(below, &path, found);
        found.insert(path);
    }
    for below in ["items", "additionalProperties"] {
        if schema[below].is_object() {
            collect(&schema[below], path, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::good_installation;

    fn ours() -> Vec<Value> {
        let crds = api::schema::crds().into_iter();
        crds.map(|crd| serde_json::to_value(crd).unwrap()).collect()
    }

    fn judged(definitions: Vec<Value>) -> Vec<(Level, String)> {
        let mut facts = good_installation();
        facts.definitions = Ok(definitions);
        let mut checks = Checks::default();
        judge(&mut checks, &facts);
        let all = checks.all.into_iter();
        all.map(|check| (check.level, check.message)).collect()
    }

    #[test]
    fn crds_of_this_release_have_all_fields() {
        let all = judged(ours());
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|(level, _)| *level == Level::Ok), "{all:?}");
    }

    #[test]
    fn an_older_crd_is_named_with_the_fields_that_it_lacks() {
        let mut older = ours();
        let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
        let status = older[0].pointer_mut(status).unwrap().as_object_mut().unwrap();
        assert!(status.remove("causes").is_some());
        let all = judged(older);
        assert_eq!(all[0].0, Level::Warning);
        assert!(all[0].1.ends_with(" and lacks status.causes"), "{}", all[0].1);
        assert_eq!(all[1].0, Level::Ok);
    }
}
