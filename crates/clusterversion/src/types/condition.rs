//! Conditions: merged by type in the order in which they first came, with a transition time that moves on flips only.

use std::fmt;

use serde_json::Value;

use super::field::{Field, Time, object, require};

/// Most characters that the schema takes in the message of an update's or a risk's condition.
const MAX_MESSAGE: usize = 32_768;

/// `True`, `False` or `Unknown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionStatus {
    /// Not given; never written.
    #[default]
    Unset,
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It cannot be said.
    Unknown,
}

impl ConditionStatus {
    /// As it is written; empty for [`ConditionStatus::Unset`].
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
    /// A condition, of a ClusterVersion or (there with required reason and message) of an update or a risk.
    pub struct Condition {
        /// `type`.
        pub kind: String = "type",
        /// Whether it holds.
        pub status: ConditionStatus = "status",
        /// One word; may be empty.
        pub reason: String = "reason",
        /// For people; may be empty and have several lines.
        pub message: String = "message",
        /// When the status last changed.
        pub last_transition_time: Option<Time> = "lastTransitionTime",
    }
}

impl Condition {
    /// A condition that has just come about.
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

    /// Does it hold?
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == ConditionStatus::True
    }

    /// Is it known not to hold?
    #[must_use]
    pub fn is_false(&self) -> bool {
        self.status == ConditionStatus::False
    }
}

/// Conditions by type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions(pub Vec<Condition>);

impl Conditions {
    /// The condition of a type.
    #[must_use]
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.0.iter().find(|condition| condition.kind == kind)
    }

    /// Whether the condition of a type is True.
    #[must_use]
    pub fn is_true(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(Condition::is_true)
    }

    /// Merges a condition: status, reason and message are taken over, the transition time only when the status changes.
    pub fn set(&mut self, new: Condition) {
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

    /// Takes a condition out.
    pub fn remove(&mut self, kind: &str) {
        self.0.retain(|condition| condition.kind != kind);
    }

    /// All of them, in the order in which they came.
    pub fn iter(&self) -> std::slice::Iter<'_, Condition> {
        self.0.iter()
    }

    /// Puts in what the schema of an update's or risk's conditions requires.
    pub(crate) fn complete_strictly(&mut self) {
        for condition in &mut self.0 {
            if let Some((at, _)) = condition.message.char_indices().nth(MAX_MESSAGE) {
                condition.message.truncate(at);
            }
            require(&mut condition.other, "message", Value::from(""));
            require(&mut condition.other, "reason", Value::from(""));
        }
    }
}

impl<'a> IntoIterator for &'a Conditions {
    type Item = &'a Condition;
    type IntoIter = std::slice::Iter<'a, Condition>;

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
        conditions.set(Condition::new(
            start,
            "Available",
            ConditionStatus::True,
            "",
            "one",
        ));
        conditions.set(Condition::new(start, "Failing", ConditionStatus::False, "", ""));
        conditions.set(Condition::new(
            later,
            "Available",
            ConditionStatus::True,
            "R",
            "two",
        ));
        conditions.set(Condition::new(later, "Failing", ConditionStatus::True, "", ""));
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
