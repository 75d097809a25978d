//! ManifestWork, with the fields that show the progress of a step. The bodies of manifests are never kept.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::{Condition, resource, slim_meta};
use crate::lenient::Lenient;

/// A ManifestWork (`work.open-cluster-management.io/v1`, in the namespace of its cluster).
#[derive(Clone, Debug, Deserialize)]
pub struct ManifestWork {
    /// Name, namespace, uid, generation, labels, our annotations.
    #[serde(deserialize_with = "slim_meta")]
    pub metadata: ObjectMeta,
    /// What the work agent has reported.
    #[serde(default)]
    pub status: Lenient<WorkStatus>,
}

resource!(
    ManifestWork,
    NamespaceResourceScope,
    "work.open-cluster-management.io",
    "v1",
    "ManifestWork",
    "manifestworks"
);

/// Status of a ManifestWork.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkStatus {
    /// The conditions Applied, Available and those of condition rules.
    pub conditions: Vec<Condition>,
    /// Per-manifest status.
    pub resource_status: WorkResourceStatus,
}

/// Per-manifest status.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct WorkResourceStatus {
    /// One entry per manifest.
    pub manifests: Vec<ManifestStatus>,
}

/// Status of one manifest.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManifestStatus {
    /// Which manifest.
    pub resource_meta: ResourceMeta,
    /// The conditions Applied, Available, `StatusFeedbackSynced` and those of condition rules.
    pub conditions: Vec<Condition>,
    /// The values that the feedback rules request.
    pub status_feedback: StatusFeedback,
}

/// Identifies a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourceMeta {
    /// Position in the workload.
    pub ordinal: i64,
    /// API group; empty for core.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Plural resource name.
    pub resource: String,
    /// Name.
    pub name: String,
    /// Namespace; empty when cluster-scoped.
    pub namespace: String,
}

/// Feedback of one manifest.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct StatusFeedback {
    /// The values, in the order of the rules.
    pub values: Vec<FeedbackValue>,
}

/// One named value.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FeedbackValue {
    /// Name of the rule.
    pub name: String,
    /// The value.
    pub field_value: FieldValue,
}

/// A typed value. A value that does not match its type is [`FieldValue::Other`] and not an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FieldValue {
    /// `type: Integer`.
    Integer(i64),
    /// `type: String`.
    String(String),
    /// `type: Boolean`.
    Boolean(bool),
    /// `type: JsonRaw`: the text of a JSON list or object.
    JsonRaw(String),
    /// Anything else.
    #[default]
    Other,
}

impl FieldValue {
    /// The text of a string value.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            FieldValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number of an integer value.
    #[must_use]
    pub const fn as_i64(&self) -> Option<i64> {
        match self {
            FieldValue::Integer(number) => Some(*number),
            _ => None,
        }
    }
}

/// A value as it is sent. Only the field that its type names is read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SentValue {
    #[serde(rename = "type")]
    type_: Lenient<String>,
    integer: Lenient<i64>,
    string: Lenient<String>,
    boolean: Lenient<bool>,
    json_raw: Lenient<String>,
}

impl<'de> Deserialize<'de> for FieldValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Lenient::Good(sent) = Lenient::<SentValue>::deserialize(deserializer)? else {
            return Ok(FieldValue::Other);
        };
        Ok(match sent.type_.good().map(String::as_str) {
            Some("Integer") => sent.integer.into_good().map(FieldValue::Integer),
            Some("String") => sent.string.into_good().map(FieldValue::String),
            Some("Boolean") => sent.boolean.into_good().map(FieldValue::Boolean),
            Some("JsonRaw") => sent.json_raw.into_good().map(FieldValue::JsonRaw),
            _ => None,
        }
        .unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(text: &str) -> FieldValue {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_value_is_read_by_its_type_and_a_mistyped_one_is_other() {
        assert_eq!(field(r#"{"type":"Integer","integer":3}"#).as_i64(), Some(3));
        assert_eq!(field(r#"{"type":"String","string":"x"}"#).as_str(), Some("x"));
        assert_eq!(field(r#"{"type":"Integer","string":"3"}"#), FieldValue::Other);
        assert_eq!(field(r#"{"type":"Later","integer":3}"#), FieldValue::Other);
        assert_eq!(field("[1]"), FieldValue::Other);
        assert_eq!(field("7"), FieldValue::Other);
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        let of = |key: &str| field(&format!(r#"{{"type":"String","string":"x","{key}":{deep}}}"#));
        assert_eq!(of("integer").as_str(), Some("x"));
        assert_eq!(field(&deep), FieldValue::Other);
    }
}
