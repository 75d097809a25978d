//! The values that a hub learns of a ClusterVersion: their names, paths and types.
//!
//! The platform work is rendered from the same list of feedback rules that is read here, so that the two cannot differ. The
//! modules `progress` and `cause` interpret the values.

/// Name and JSONPath of each value of the ClusterVersion `version`, in the order of the rules. `message` is that of condition
/// Progressing, because history entries have no message.
pub const RULES: [(&str, &str); 25] = [
    ("version", ".status.history[0].version"),
    ("state", ".status.history[0].state"),
    ("verified", ".status.history[0].verified"),
    (
        "message",
        r#".status.conditions[?(@.type=="Progressing")].message"#,
    ),
    ("image", ".status.history[0].image"),
    ("desiredVersion", ".status.desired.version"),
    ("generation", ".metadata.generation"),
    ("observedGeneration", ".status.observedGeneration"),
    ("failing", r#".status.conditions[?(@.type=="Failing")].status"#),
    ("invalid", r#".status.conditions[?(@.type=="Invalid")].status"#),
    (
        "releaseAccepted",
        r#".status.conditions[?(@.type=="ReleaseAccepted")].status"#,
    ),
    (
        "releaseAcceptedMessage",
        r#".status.conditions[?(@.type=="ReleaseAccepted")].message"#,
    ),
    (
        "failingReason",
        r#".status.conditions[?(@.type=="Failing")].reason"#,
    ),
    (
        "failingMessage",
        r#".status.conditions[?(@.type=="Failing")].message"#,
    ),
    (
        "invalidMessage",
        r#".status.conditions[?(@.type=="Invalid")].message"#,
    ),
    (
        "releaseAcceptedReason",
        r#".status.conditions[?(@.type=="ReleaseAccepted")].reason"#,
    ),
    (
        "upgradeable",
        r#".status.conditions[?(@.type=="Upgradeable")].status"#,
    ),
    (
        "upgradeableReason",
        r#".status.conditions[?(@.type=="Upgradeable")].reason"#,
    ),
    (
        "upgradeableMessage",
        r#".status.conditions[?(@.type=="Upgradeable")].message"#,
    ),
    (
        "retrievedUpdates",
        r#".status.conditions[?(@.type=="RetrievedUpdates")].status"#,
    ),
    (
        "retrievedUpdatesReason",
        r#".status.conditions[?(@.type=="RetrievedUpdates")].reason"#,
    ),
    (
        "retrievedUpdatesMessage",
        r#".status.conditions[?(@.type=="RetrievedUpdates")].message"#,
    ),
    ("mode", ".spec.desiredUpdate.mode"),
    ("requestedVersion", ".spec.desiredUpdate.version"),
    ("requestedImage", ".spec.desiredUpdate.image"),
];

/// One reported value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedValue<'a> {
    /// A string.
    Text(&'a str),
    /// An integer.
    Number(i64),
    /// A boolean.
    Flag(bool),
}

/// The reported values. `None`: not reported, or reported with another type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback<'a> {
    /// Version of the newest history entry; empty until the payload is loaded.
    pub version: Option<&'a str>,
    /// State of the newest history entry: `Partial` or `Completed`.
    pub state: Option<&'a str>,
    /// Whether the signature of the newest history entry was verified.
    pub verified: Option<bool>,
    /// Message of condition Progressing.
    pub message: Option<&'a str>,
    /// Release image of the newest history entry.
    pub image: Option<&'a str>,
    /// Version of the release being reconciled.
    pub desired_version: Option<&'a str>,
    /// Generation of the ClusterVersion.
    pub generation: Option<i64>,
    /// Generation the CVO has acted on.
    pub observed_generation: Option<i64>,
    /// Status of condition Failing.
    pub failing: Option<&'a str>,
    /// Reason of condition Failing.
    pub failing_reason: Option<&'a str>,
    /// Message of condition Failing.
    pub failing_message: Option<&'a str>,
    /// Status of condition Invalid; absent while the spec is valid.
    pub invalid: Option<&'a str>,
    /// Message of condition Invalid.
    pub invalid_message: Option<&'a str>,
    /// Status of condition `ReleaseAccepted`.
    pub release_accepted: Option<&'a str>,
    /// Reason of condition `ReleaseAccepted`: the step, such as `PreconditionChecks`.
    pub release_accepted_reason: Option<&'a str>,
    /// Message of condition `ReleaseAccepted`.
    pub release_accepted_message: Option<&'a str>,
    /// Status of condition Upgradeable; absent means upgradeable.
    pub upgradeable: Option<&'a str>,
    /// Reason of condition Upgradeable.
    pub upgradeable_reason: Option<&'a str>,
    /// Message of condition Upgradeable.
    pub upgradeable_message: Option<&'a str>,
    /// Status of condition `RetrievedUpdates`.
    pub retrieved_updates: Option<&'a str>,
    /// Reason of condition `RetrievedUpdates`.
    pub retrieved_updates_reason: Option<&'a str>,
    /// Message of condition `RetrievedUpdates`.
    pub retrieved_updates_message: Option<&'a str>,
    /// Mode of the request in the spec: absent for an update, `Preflight` for a mere check.
    pub mode: Option<&'a str>,
    /// Version of the request in the spec.
    pub requested_version: Option<&'a str>,
    /// Release image of the request in the spec.
    pub requested_image: Option<&'a str>,
}

impl<'a> Feedback<'a> {
    /// Stores a value under the name of its rule. An unknown name or a wrong type changes nothing. Of several values with the
    /// same name the first one is kept.
    pub fn put(&mut self, name: &str, value: ReportedValue<'a>) {
        match value {
            ReportedValue::Text(text) => {
                if let Some(slot) = self.text_slot(name) {
                    slot.get_or_insert(text);
                }
            }
            ReportedValue::Number(number) => {
                let slot = match name {
                    "generation" => &mut self.generation,
                    "observedGeneration" => &mut self.observed_generation,
                    _ => return,
                };
                slot.get_or_insert(number);
            }
            ReportedValue::Flag(flag) => {
                if name == "verified" {
                    self.verified.get_or_insert(flag);
                }
            }
        }
    }

    /// Whether no value was reported at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Feedback::default()
    }

    fn text_slot(&mut self, name: &str) -> Option<&mut Option<&'a str>> {
        Some(match name {
            "version" => &mut self.version,
            "state" => &mut self.state,
            "message" => &mut self.message,
            "image" => &mut self.image,
            "desiredVersion" => &mut self.desired_version,
            "failing" => &mut self.failing,
            "failingReason" => &mut self.failing_reason,
            "failingMessage" => &mut self.failing_message,
            "invalid" => &mut self.invalid,
            "invalidMessage" => &mut self.invalid_message,
            "releaseAccepted" => &mut self.release_accepted,
            "releaseAcceptedReason" => &mut self.release_accepted_reason,
            "releaseAcceptedMessage" => &mut self.release_accepted_message,
            "upgradeable" => &mut self.upgradeable,
            "upgradeableReason" => &mut self.upgradeable_reason,
            "upgradeableMessage" => &mut self.upgradeable_message,
            "retrievedUpdates" => &mut self.retrieved_updates,
            "retrievedUpdatesReason" => &mut self.retrieved_updates_reason,
            "retrievedUpdatesMessage" => &mut self.retrieved_updates_message,
            "mode" => &mut self.mode,
            "requestedVersion" => &mut self.requested_version,
            "requestedImage" => &mut self.requested_image,
            _ => return None,
        })
    }
}

impl<'a> FromIterator<(&'a str, ReportedValue<'a>)> for Feedback<'a> {
    fn from_iter<I: IntoIterator<Item = (&'a str, ReportedValue<'a>)>>(values: I) -> Self {
        let mut feedback = Feedback::default();
        for (name, value) in values {
            feedback.put(name, value);
        }
        feedback
    }
}

/// The release that a cluster was told to run. At least one field is set in a valid request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target<'a> {
    /// Version; empty when only an image was given.
    pub version: &'a str,
    /// Release image; empty when only a version was given.
    pub image: &'a str,
}

impl Target<'_> {
    /// Whether no release was requested.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.version.is_empty() && self.image.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_read_with_its_type_and_no_other() {
        for (name, _) in RULES {
            let values = [
                ReportedValue::Text("x"),
                ReportedValue::Number(7),
                ReportedValue::Flag(true),
            ];
            let taken = values.map(|value| !Feedback::from_iter([(name, value)]).is_empty());
            let expected = match name {
                "generation" | "observedGeneration" => [false, true, false],
                "verified" => [false, false, true],
                _ => [true, false, false],
            };
            assert_eq!(taken, expected, "{name}");
        }
    }

    #[test]
    fn rule_names_are_unique_and_version_state_verified_and_message_come_first() {
        let names: Vec<_> = RULES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names[..4], ["version", "state", "verified", "message"]);
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }

    #[test]
    fn an_unknown_name_changes_nothing_and_the_first_value_of_a_name_stands() {
        let mut feedback = Feedback::default();
        feedback.put("colour", ReportedValue::Text("blue"));
        assert!(feedback.is_empty());
        feedback.put("version", ReportedValue::Text("4.12.0"));
        feedback.put("version", ReportedValue::Text("4.13.0"));
        assert_eq!(feedback.version, Some("4.12.0"));
    }
}
