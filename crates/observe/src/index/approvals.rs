//! Approvals of upgrades (`docs/design/approvals.md`).

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use api::text::cut;
use api::time::to_chrono;
use api::views::Approval;
use rollout::GivenApproval;

use super::placement::Key;

/// Longest text of an approval that is kept, in bytes.
const MAX_TEXT: usize = 512;
/// Most approvals of an upgrade that are looked at.
const MAX_APPROVALS: usize = 256;

/// The approvals that the hub has.
#[derive(Debug, Default)]
pub struct Approvals {
    /// By `namespace/name` of the upgrade, and by their own names.
    of_upgrades: BTreeMap<Arc<str>, BTreeMap<Arc<str>, GivenApproval>>,
    /// Which upgrade each is for, by its own namespace and name.
    upgrades: AHashMap<Key, Arc<str>>,
}

impl Approvals {
    /// Adds, changes or, without a spec that can be read, removes an approval. Returns the upgrades for which something may have changed.
    pub fn apply(&mut self, key: &Key, object: &Approval) -> Vec<Arc<str>> {
        let mut concerned: Vec<Arc<str>> = self.delete(key).into_iter().collect();
        let is_there = object.metadata.deletion_timestamp.is_none();
        let Some(spec) = object.spec.good().filter(|_| is_there) else {
            return concerned;
        };
        let text = |text: &str| Arc::from(cut(text, MAX_TEXT));
        let given = GivenApproval {
            checkpoint: text(&spec.checkpoint),
            plan_hash: text(&spec.plan_hash),
            approver: text(&spec.approver),
            message: text(&spec.message),
            given: object.metadata.creation_timestamp.as_ref().and_then(to_chrono),
            expires: spec.expires,
        };
        let upgrade: Arc<str> = Arc::from(format!("{}/{}", key.0, cut(&spec.upgrade, MAX_TEXT)));
        let approvals = self.of_upgrades.entry(Arc::clone(&upgrade)).or_default();
        approvals.insert(Arc::clone(&key.1), given);
        self.upgrades.insert(key.clone(), Arc::clone(&upgrade));
        if !concerned.contains(&upgrade) {
            concerned.push(upgrade);
        }
        concerned
    }

    /// Removes an approval. Returns the upgrade that it was for.
    pub fn delete(&mut self, key: &Key) -> Option<Arc<str>> {
        let upgrade = self.upgrades.remove(key)?;
        if let Some(approvals) = self.of_upgrades.get_mut(&upgrade) {
            approvals.remove(&key.1);
            if approvals.is_empty() {
                self.of_upgrades.remove(&upgrade);
            }
        }
        Some(upgrade)
    }

    /// Removes those that a complete list did not contain. Returns the upgrades that they were for.
    pub fn retain(&mut self, seen: &AHashSet<Key>) -> Vec<Arc<str>> {
        let mut gone: Vec<Key> = self
            .upgrades
            .keys()
            .filter(|key| !seen.contains(*key))
            .cloned()
            .collect();
        gone.sort_unstable();
        gone.iter().filter_map(|key| self.delete(key)).collect()
    }

    /// The newest approvals of an upgrade, by its `namespace/name`, in the order in which they were given, the newest first.
    #[must_use]
    pub fn of(&self, upgrade: &str) -> Vec<GivenApproval> {
        let Some(approvals) = self.of_upgrades.get(upgrade) else {
            return Vec::new();
        };
        let mut approvals: Vec<GivenApproval> = approvals.values().cloned().collect();
        approvals.sort_by_key(|approval| std::cmp::Reverse(approval.given));
        approvals.truncate(MAX_APPROVALS);
        approvals
    }

    /// Number of approvals, for metrics.
    #[must_use]
    pub fn count(&self) -> usize {
        self.upgrades.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn approval(name: &str, upgrade: &str, second: u32) -> (Key, Approval) {
        let object = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "n", "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z")},
            "spec": {"upgrade": upgrade, "checkpoint": "half", "planHash": "h", "approver": "anna"},
        }))
        .unwrap();
        ((Arc::from("n"), Arc::from(name)), object)
    }

    fn named(upgrades: &[&str]) -> Vec<Arc<str>> {
        upgrades.iter().map(|name| Arc::from(*name)).collect()
    }

    #[test]
    fn approvals_are_found_by_the_upgrade_that_they_name_until_they_are_gone() {
        let mut approvals = Approvals::default();
        let (a, object) = approval("a", "spring", 1);
        assert_eq!(approvals.apply(&a, &object), named(&["n/spring"]));
        let (b, object) = approval("b", "spring", 2);
        approvals.apply(&b, &object);
        let of = approvals.of("n/spring");
        assert!(of[0].given > of[1].given, "the newest first");
        let (_, moved) = approval("a", "autumn", 1);
        assert_eq!(approvals.apply(&a, &moved), named(&["n/spring", "n/autumn"]));
        assert_eq!(approvals.of("n/spring").len(), 1);
        assert_eq!(approvals.of("n/autumn").len(), 1);
        assert_eq!(approvals.delete(&a), Some(Arc::from("n/autumn")));
        assert_eq!(approvals.retain(&AHashSet::new()), named(&["n/spring"]));
        assert_eq!((approvals.count(), approvals.of("n/spring").len()), (0, 0));
    }

    #[test]
    fn an_approval_that_cannot_be_read_or_is_being_deleted_approves_nothing() {
        let mut approvals = Approvals::default();
        let (a, object) = approval("a", "spring", 1);
        approvals.apply(&a, &object);
        let unreadable: Approval = serde_json::from_value(
            json!({"metadata": {"name": "a", "namespace": "n"}, "spec": {"upgrade": 7}}),
        )
        .unwrap();
        assert_eq!(approvals.apply(&a, &unreadable), named(&["n/spring"]));
        assert_eq!(approvals.count(), 0);
        let mut ending = object;
        ending.metadata.deletion_timestamp = ending.metadata.creation_timestamp.clone();
        approvals.apply(&a, &ending);
        assert_eq!(approvals.count(), 0);
    }
}
