//! Checkpoints at which starts wait for an approval, and approvals (`docs/design/approvals.md`).

use std::fmt;
use std::sync::Arc;

use api::text::hex;
use api::validate::Limit;
use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};

use crate::model::record::Attempt;

/// A point of the rollout behind which no cluster starts without an approval of the present plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its name, by which approvals name it.
    pub name: Arc<str>,
    /// Where it is.
    pub at: CheckpointPlace,
}

/// Where a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointPlace {
    /// All canaries are complete. It concerns all other clusters.
    CanariesComplete,
    /// That many clusters have started.
    Started(Limit),
}

/// An approval, as somebody gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenApproval {
    /// The checkpoint that it is for.
    pub checkpoint: Arc<str>,
    /// The hash of the plan that was approved, as the approver has given it.
    pub plan_hash: Arc<str>,
    /// Who approved.
    pub approver: Arc<str>,
    /// Why, or what for.
    pub message: Arc<str>,
    /// When the approval was given, if the hub tells it.
    pub given: Option<DateTime<Utc>>,
    /// From then on it does not count.
    pub expires: Option<DateTime<Utc>>,
}

/// How far the approvals of an upgrade are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownApprovals {
    /// They are those that the hub has.
    Current,
    /// They were, and may be deleted since. Nothing starts by them.
    Outdated,
    /// Nobody has read them yet.
    Missing,
}

/// What is approved: `SPEC-CLUSTERS-CANARIES-WHOLE`. The first three parts are four digits each and tell what has changed since; the
/// last one has 32 digits and makes sure of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanHash(Arc<str>);

/// A canary, as far as the hash of a plan covers it.
#[derive(Clone, Copy, Debug)]
pub struct HashedCanary<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its present attempt: a retry is another one.
    pub attempt: &'a Attempt,
    /// It and all others are complete.
    pub are_complete: bool,
}

impl PlanHash {
    /// The hash over the spec (by its own hash), the clusters in their order, and the canaries in theirs.
    #[must_use]
    pub fn new<'a>(
        spec: &str,
        clusters: impl Iterator<Item = &'a str>,
        canaries: impl Iterator<Item = HashedCanary<'a>>,
    ) -> PlanHash {
        let mut all = Sha256::new();
        let mut part = |texts: &mut dyn Iterator<Item = String>| {
            let mut hash = Sha256::new();
            for text in texts {
                // No name contains a line end.
                hash.update(text.as_bytes());
                hash.update(b"\n");
            }
            let bytes = hash.finalize();
            all.update(bytes);
            hex(&bytes[..2])
        };
        let spec = part(&mut std::iter::once(spec.to_owned()));
        let clusters = part(&mut clusters.map(str::to_owned));
        let canaries = part(&mut canaries.map(|canary| {
            let HashedCanary {
                name,
                attempt,
                are_complete,
            } = canary;
            format!("{name} {} {} {are_complete}", attempt.revision, attempt.retry)
        }));
        let whole = hex(&all.finalize()[..16]);
        PlanHash(Arc::from(format!("{spec}-{clusters}-{canaries}-{whole}")))
    }

    /// The text that an approval names.
    #[must_use]
    pub const fn as_str(&self) -> &Arc<str> {
        &self.0
    }

    /// What has changed since a plan of another hash, in words; `None` if that is no hash of a plan.
    #[must_use]
    pub fn changed_since(&self, other: &str) -> Option<String> {
        const PARTS: [&str; 3] = ["the spec", "the selected clusters", "the canaries"];
        let (own, other): (Vec<&str>, Vec<&str>) = (self.0.split('-').collect(), other.split('-').collect());
        if other.len() != own.len() {
            return None;
        }
        let pairs = PARTS.iter().zip(own.iter().zip(&other));
        let changed: Vec<&str> = pairs
            .filter(|(_, (own, other))| own != other)
            .map(|(part, _)| *part)
            .collect();
        (!changed.is_empty()).then(|| changed.join(" and "))
    }
}

impl fmt::Display for PlanHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a plan says of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointState {
    /// Its name.
    pub name: Arc<str>,
    /// How far the rollout is.
    pub progress: CheckpointProgress,
    /// The approval that counts, if there is one.
    pub approval: Option<GivenApproval>,
    /// What has changed since the newest approval, if none counts and that one is of another plan.
    pub changed: Option<Arc<str>>,
}

/// How far the rollout is, seen from a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointProgress {
    /// It is ahead, or nothing is left to start behind it.
    Ahead,
    /// It is reached, and nothing starts without an approval.
    Waiting,
    /// It is reached and approved.
    Approved,
    /// Nothing starts behind it, because it is not known at present whether it is approved.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(retry: &str) -> Attempt {
        Attempt {
            revision: Arc::from("r1"),
            retry: Arc::from(retry),
        }
    }

    fn hash(spec: &str, clusters: &[&str], canary: (&str, bool)) -> PlanHash {
        let attempt = attempt(canary.0);
        let canary = HashedCanary {
            name: "a",
            attempt: &attempt,
            are_complete: canary.1,
        };
        PlanHash::new(spec, clusters.iter().copied(), std::iter::once(canary))
    }

    #[test]
    fn a_hash_tells_what_has_changed_and_is_equal_only_for_the_same_plan() {
        let plan = hash("s", &["a", "b"], ("", true));
        assert_eq!(plan, hash("s", &["a", "b"], ("", true)));
        for (other, what) in [
            (hash("t", &["a", "b"], ("", true)), "the spec"),
            (hash("s", &["a", "b", "c"], ("", true)), "the selected clusters"),
            (hash("s", &["ab"], ("", true)), "the selected clusters"),
            (hash("s", &["a", "b"], ("x", true)), "the canaries"),
            (hash("s", &["a", "b"], ("", false)), "the canaries"),
            (
                hash("t", &["a"], ("", true)),
                "the spec and the selected clusters",
            ),
        ] {
            assert_ne!(plan, other);
            assert_eq!(plan.changed_since(other.as_str()).as_deref(), Some(what));
        }
        assert_eq!(plan.changed_since(plan.as_str()), None);
        assert_eq!(plan.changed_since("9f3c2a"), None);
        assert_eq!(plan.to_string().len(), 3 * 5 + 32);
    }
}
