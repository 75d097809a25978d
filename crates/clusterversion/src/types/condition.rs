//! Conditions. They keep the order in which they were first set, and the transition time changes only with the status.

use std::fmt;

use serde_json::Value;

use super::field::{Field, Time, object};

/// `True`, `False` or `Unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionStatus {
    /// Not given. This is never written.
    #[default]
    Unset,
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// It is not known whether the condition holds.
    Unknown,
}

impl ConditionStatus {
    /// The written form; empty for [`ConditionStatus::Unset`].
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unset => "",
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Field for ConditionStatus {
    fn read(value: &Value) -> Result<Self, String> {
        match value.as_str() {
            Some("True") => Ok(Self::True),
            Some("False") => Ok(Self::False),
            Some("Unknown") => Ok(Self::Unknown),
            Some("") => Ok(Self::Unset),
            _ => Err(format!("expected True, False or Unknown, found {value}")),
        }
    }

    fn write(&self) -> Value {
        Value::from(self.as_str())
    }
}

object! {
    /// A condition of a ClusterVersion, of an update or of a risk. The latter two require a reason and a message.
    pub struct ClusterOperatorCondition {
        /// `type`.
        pub kind: String = "type",
        /// Whether the condition holds.
        pub status: ConditionStatus = "status",
        /// One word. It may be empty.
        pub reason: String = "reason",
        /// A text for people. It may be empty or have several lines.
        pub message: String = "message",
        /// When the status last changed.
        pub last_transition_time: Option<Time> = "lastTransitionTime",
    }
}

impl ClusterOperatorCondition {
    /// A condition whose status changed at `now`.
    #[must_use]
    pub fn new(
        now: Time,
        kind: &str,
        status: ConditionStatus,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind: kind.to_owned(),
            status,
            reason: reason.into(),
            message: message.into(),
            last_transition_time: Some(now),
            other: serde_json::Map::new(),
        }
    }

    /// Whether the condition holds.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }

    /// Whether the condition is known not to hold.
    #[must_use]
    pub fn is_false(&self) -> bool {
        self.status == ConditionStatus::False
    }
}

/// Conditions by type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions(pub Vec<ClusterOperatorCondition>);

impl Conditions {
    /// The condition of a type.
    #[must_use]
    pub fn get(&self, kind: &str) -> Option<&ClusterOperatorCondition> {
        self.0.iter().find(|condition| condition.kind == kind)
    }

    /// Whether the condition of a type is True.
    #[must_use]
    pub fn is_true(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(ClusterOperatorCondition::is_true)
    }

    /// Sets a condition. An existing one of that type takes over status, reason and message, and the transition time only if
    /// the status changes.
    pub fn set(&mut self, new: ClusterOperatorCondition) {
        match self.0.iter_mut().find(|old| old.kind == new.kind) {
            Some(old) => {
                if old.status != new.status {
                    old.status = new.status;
                    old.last_transition_time = new.last_transition_time;
                }
                old.reason = new.reason;
                old.message = new.message;
            }
            None => self.0.push(new),
        }
    }

    /// Removes a condition.
    pub fn remove(&mut self, kind: &str) {
        self.0.retain(|condition| condition.kind != kind);
    }

    /// All conditions, in the order in which they were first set.
    pub fn iter(&self) -> std::slice::Iter<'_, ClusterOperatorCondition> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Conditions {
    type Item = &'a ClusterOperatorCondition;
    type IntoIter = std::slice::Iter<'a, ClusterOperatorCondition>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Field for Conditions {
    fn read(value: &Value) -> Result<Self, String> {
        Vec::read(value).map(Self)
    }

    fn write(&self) -> Value {
        self.0.write()
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn the_transition_time_moves_on_flips_only_and_the_order_stays() {
        let start = Time::UNIX_EPOCH;
        let later = start + TimeDelta::hours(1);
        let mut conditions = Conditions::default();
        conditions.set(ClusterOperatorCondition::new(
            start,
            "Available",
            ConditionStatus::True,
            "",
            "one",
        ));
        conditions.set(ClusterOperatorCondition::new(
            start,
            "Failing",
            ConditionStatus::False,
            "",
            "",
        ));
        conditions.set(ClusterOperatorCondition::new(
            later,
            "Available",
            ConditionStatus::True,
            "R",
            "two",
        ));
        conditions.set(ClusterOperatorCondition::new(
            later,
            "Failing",
            ConditionStatus::True,
            "",
            "",
        ));
        let seen: Vec<_> = conditions
            .iter()
            .map(|c| (c.kind.as_str(), c.message.as_str(), c.last_transition_time))
            .collect();
        assert_eq!(
            seen,
            [("Available", "two", Some(start)), ("Failing", "", Some(later))]
        );
        conditions.remove("Available");
        assert_eq!(conditions.get("Available"), None);
    }
}
