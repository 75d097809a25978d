//! `ManifestWork.status`: its serialized form and the rules for changing it in place.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::catalog::Text;
use crate::fields::{self, Time};

/// `status`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkStatus {
    /// Conditions of the work.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// The status of each manifest.
    #[serde(default)]
    pub resource_status: ResourceStatus,
}

/// `status.resourceStatus`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceStatus {
    /// In the order of the manifests.
    #[serde(default)]
    pub manifests: Vec<ManifestStatus>,
}

/// `status.resourceStatus.manifests[]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManifestStatus {
    /// Identifies the object.
    pub resource_meta: ResourceMeta,
    /// Feedback values.
    #[serde(default)]
    pub status_feedback: StatusFeedback,
    /// Applied, Available, `StatusFeedbackSynced` and those of condition rules.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// `statusFeedback`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusFeedback {
    /// In the order of the rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<FeedbackValue>,
}

/// `resourceMeta`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceMeta {
    /// Index in `spec.workload.manifests`.
    pub ordinal: i32,
    /// API group.
    pub group: Text,
    /// API version.
    pub version: Text,
    /// Kind.
    pub kind: Text,
    /// Plural resource; empty when the cluster does not serve the kind.
    pub resource: Text,
    /// Name.
    pub name: Box<str>,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: Box<str>,
}

impl ResourceMeta {
    /// Whether both identify the same resource, whatever their index.
    #[must_use]
    pub fn same_resource(&self, other: &Self) -> bool {
        (
            &self.group,
            &self.version,
            &self.kind,
            &self.resource,
            &self.name,
            &self.namespace,
        ) == (
            &other.group,
            &other.version,
            &other.kind,
            &other.resource,
            &other.name,
            &other.namespace,
        )
    }
}

/// A feedback value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedbackValue {
    /// Name given by the rule.
    #[serde(serialize_with = "write_shared", deserialize_with = "read_shared")]
    pub name: Arc<str>,
    /// Typed value.
    pub field_value: FieldValue,
}

/// A typed feedback value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum FieldValue {
    /// int64
    Integer {
        /// The value.
        integer: i64,
    },
    /// string
    String {
        /// The value.
        string: Box<str>,
    },
    /// bool
    Boolean {
        /// The value.
        boolean: bool,
    },
    /// A list or object as JSON text, at most 1024 bytes.
    JsonRaw {
        /// The text.
        #[serde(rename = "jsonRaw")]
        json_raw: Box<str>,
    },
}

/// A metav1.Condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type, the key of the list.
    #[serde(rename = "type")]
    pub kind: Text,
    /// True, False or Unknown.
    pub status: Status,
    /// The observed generation of the work; 0 if the agent does not set it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// When `status` last changed.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub last_transition_time: Time,
    /// CamelCase reason.
    #[serde(default)]
    pub reason: Text,
    /// A text for people.
    #[serde(default)]
    pub message: Text,
}

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Status {
    True,
    False,
    Unknown,
}

impl From<bool> for Status {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

impl Condition {
    /// A condition whose status changed at `now`.
    pub fn new(
        kind: impl Into<Text>,
        status: Status,
        reason: impl Into<Text>,
        message: impl Into<Text>,
        generation: i64,
        now: Time,
    ) -> Self {
        Self {
            kind: kind.into(),
            status,
            observed_generation: generation,
            last_transition_time: fields::from_unix(now.timestamp()),
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// Sets a condition by type like apimachinery's `SetStatusCondition`: the transition time changes only with the status. Returns
/// whether anything changed.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    if let Some(old) = conditions.iter_mut().find(|c| c.kind == condition.kind) {
        if old.status == condition.status {
            condition.last_transition_time = old.last_transition_time;
        }
        let changed = *old != condition;
        *old = condition;
        changed
    } else {
        conditions.push(condition);
        true
    }
}

/// Whether a condition is True.
#[must_use]
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    conditions
        .iter()
        .any(|c| c.kind == kind && c.status == Status::True)
}

// serde passes a reference
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn write_time<S: Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&fields::timestamp(*time))
}

fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    let text: Cow<'de, str> = Deserialize::deserialize(deserializer)?;
    Ok(fields::parse_timestamp(&text).unwrap_or_else(|| fields::from_unix(0)))
}

fn write_shared<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

fn read_shared<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    let text: Cow<'de, str> = Deserialize::deserialize(deserializer)?;
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::{Condition, FieldValue, Status, WorkStatus, set};
    use crate::fields;

    #[test]
    fn a_transition_time_moves_only_when_the_status_flips() {
        let (then, now) = (fields::from_unix(1000), fields::from_unix(2000));
        let mut conditions = Vec::new();
        assert!(set(
            &mut conditions,
            Condition::new("Applied", Status::True, "A", "m", 1, then)
        ));
        assert!(!set(
            &mut conditions,
            Condition::new("Applied", Status::True, "A", "m", 1, now)
        ));
        assert!(set(
            &mut conditions,
            Condition::new("Applied", Status::True, "A", "m", 2, now)
        ));
        assert_eq!(conditions[0].last_transition_time, then);
        assert!(set(
            &mut conditions,
            Condition::new("Applied", Status::False, "B", "m", 2, now)
        ));
        assert_eq!(conditions[0].last_transition_time, now);
    }

    #[test]
    fn the_wire_form_is_the_one_of_the_api() {
        let text = r#"{"conditions":[{"type":"Applied","status":"True","observedGeneration":2,
            "lastTransitionTime":"2026-01-02T03:04:05Z","reason":"R","message":"m"}],
            "resourceStatus":{"manifests":[{"resourceMeta":{"ordinal":0,"group":"g","version":"v1","kind":"K",
            "resource":"ks","name":"n","namespace":""},"statusFeedback":{"values":[
            {"name":"a","fieldValue":{"type":"Integer","integer":4}},
            {"name":"b","fieldValue":{"type":"JsonRaw","jsonRaw":"[1]"}}]},"conditions":[]}]}}"#;
        let status: WorkStatus = serde_json::from_str(text).unwrap();
        assert_eq!(
            status.resource_status.manifests[0].status_feedback.values[0].field_value,
            FieldValue::Integer { integer: 4 }
        );
        let expected: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_value(&status).unwrap(), expected);
    }
}
