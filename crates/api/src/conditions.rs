//! Condition types and reasons of a `ManagedClustersUpgrade` (`docs/design/rules.md#eight-conditions`).
//!
//! Pipelines and dashboards rely on the reasons, so they are a closed set and never built from input.

use crate::message;

/// At least one cluster is selected.
pub const SELECTED: &str = "Selected";
/// At least one pre-action or upgrade was applied to a cluster. Stays True.
pub const APPLIED: &str = "Applied";
/// At least one cluster is updating its platform or its operators.
pub const IN_PROGRESS: &str = "InProgress";
/// At least one cluster is selected and all are complete, including their post-actions.
pub const COMPLETE: &str = "Complete";
/// At least one cluster failed.
pub const FAILED: &str = "Failed";
/// Ready for kstatus. Equals Complete. While it is False, its reason is that of Stalled, Paused, `WaitingForApproval` or
/// `UpgradeRunning`.
pub const READY: &str = "Ready";
/// Reconciling for kstatus. A cluster is in flight or will start without a human.
pub const RECONCILING: &str = "Reconciling";
/// Stalled for kstatus. The upgrade is neither complete nor paused nor waits for an approval, and nothing will move until a human
/// acts.
pub const STALLED: &str = "Stalled";

/// The controller's clock differs from the hub's by more than 30 seconds, so no deadline fires, or steps have recorded starts in the
/// future. Listed only while this is the case.
pub const CLOCK_SKEW: &str = "ClockSkew";

/// Every condition type that is always present, in the order in which the status lists them.
pub const TYPES: [&str; 8] = [
    SELECTED,
    APPLIED,
    IN_PROGRESS,
    COMPLETE,
    FAILED,
    READY,
    RECONCILING,
    STALLED,
];

/// The message of condition Selected: the number of selected clusters, then a sentence for each note. A note says why
/// fewer clusters may be selected than the author expects.
#[must_use]
pub fn selected_message<'a>(number: usize, notes: impl IntoIterator<Item = &'a str>) -> String {
    let selected = match number {
        0 => "No cluster is selected".to_owned(),
        1 => "1 cluster is selected".to_owned(),
        number => format!("{number} clusters are selected"),
    };
    let notes = message::join(notes);
    message::join([selected.as_str(), &notes])
}

/// True when a message of [`selected_message`] has notes after the number of clusters.
#[must_use]
pub fn has_selection_notes(message: &str) -> bool {
    // The sentence about the number has no period, unless a note follows it.
    message.contains(". ")
}

/// Reasons of the conditions.
pub mod reason {
    /// Selected=True.
    pub const CLUSTERS_SELECTED: &str = "ManagedClustersSelected";
    /// Selected=False.
    pub const CLUSTERS_NOT_SELECTED: &str = "ManagedClustersNotSelected";
    /// Applied.
    pub const APPLIED: &str = "ManagedClustersUpgradeApplied";
    /// `InProgress`.
    pub const IN_PROGRESS: &str = "ManagedClustersUpgradeInProgress";
    /// Complete, and Ready=True.
    pub const COMPLETE: &str = "ManagedClustersUpgradeComplete";
    /// Failed.
    pub const FAILED: &str = "ManagedClustersUpgradeFailed";
    /// Complete and Ready: the upgrade was complete before its object was restored, and does not run again.
    pub const COMPLETED_BEFORE: &str = "CompletedBefore";
    /// Stalled=True and Ready=False: the object was restored or copied. No cluster starts until a human resumes it.
    pub const RESTORED: &str = "Restored";
    /// Ready=False while paused.
    pub const PAUSED: &str = "Paused";
    /// Ready=False while nothing is in flight and the starts wait for an approval.
    pub const WAITING_FOR_APPROVAL: &str = "WaitingForApproval";
    /// Reconciling=True, and Ready=False while the upgrade is neither paused nor stalled.
    pub const RECONCILING: &str = "UpgradeRunning";
    /// Reconciling=False: no cluster is in flight and none will start without a human.
    pub const IDLE: &str = "NothingToDo";
    /// Stalled=False.
    pub const MOVING: &str = "NotStalled";
    /// Stalled=True, Ready=False and Reconciling=False: the spec violates a rule.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// The upgrade is being deleted.
    pub const DELETING: &str = "Deleting";
    /// Stalled=True and Ready=False: the hub rejects a write that the deletion needs.
    pub const DELETION_REFUSED: &str = "DeletionRefused";
    /// Stalled=True and Ready=False: the hub rejects the record of a cluster.
    pub const RECORD_REFUSED: &str = "RecordRefused";
    /// Stalled=True and Ready=False: no cluster is selected, or the canary selector matches none.
    pub const NOTHING_SELECTED: &str = "NothingSelected";
    /// Stalled=True and Ready=False: a canary failed or its pre-action is degraded.
    pub const CANARY_FAILED: &str = "CanaryFailed";
    /// Stalled=True and Ready=False: more clusters failed than `maxFailures` allows.
    pub const MAX_FAILURES_EXCEEDED: &str = "MaxFailuresExceeded";
    /// Stalled=True and Ready=False: all other clusters are done; only failed or degraded ones remain.
    pub const CLUSTERS_FAILED: &str = "ClustersFailed";
    /// `ClockSkew=True`: the clocks of controller and hub differ.
    pub const CLOCK_SKEW: &str = "ClockSkew";
    /// `ClockSkew=True`: the clocks agree, but steps have recorded starts in the future.
    pub const STARTS_IN_FUTURE: &str = "StartsInFuture";
    /// Stalled=True and Ready=False: all other clusters are done; only blocked ones remain.
    pub const CLUSTERS_BLOCKED: &str = "ClustersBlocked";
    /// Stalled=True and Ready=False: all other clusters are done; the maintenance windows never open for the rest.
    pub const NO_WINDOW: &str = "NoWindow";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_notes_exactly_when_notes_were_given() {
        for number in [0, 1, 2, 10_000] {
            let plain = selected_message(number, []);
            assert!(!has_selection_notes(&plain), "{plain}");
            assert_eq!(message::violation(&plain), None, "{plain}");
            for notes in [&["Placement a/b does not exist"][..], &["One", "Two. Three."]] {
                let text = selected_message(number, notes.iter().copied());
                assert!(has_selection_notes(&text), "{text}");
                assert_eq!(message::violation(&text), None, "{text}");
            }
        }
        assert_eq!(
            selected_message(1, ["Placement a/b does not exist"]),
            "1 cluster is selected. Placement a/b does not exist."
        );
    }
}
