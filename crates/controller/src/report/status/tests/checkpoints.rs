//! The size of a status with all that is kept of approvals.

use api::mcu::{CheckpointStatus, LastApproval, MAX_CHECKPOINTS, MAX_RETRIES};
use rollout::GivenApproval;

use super::*;

/// Longest name of a retry.
const MAX_ID: usize = 64;

fn checkpoint(number: usize) -> String {
    format!("{number}{}", "c".repeat(62))
}

/// An approval of each checkpoint, with the longest texts that its schema allows.
fn approvals(plan_hash: &str, message: &str) -> Arc<[GivenApproval]> {
    let given = (0..MAX_CHECKPOINTS).map(|number| GivenApproval {
        checkpoint: Arc::from(checkpoint(number)),
        plan_hash: Arc::from(plan_hash),
        approver: Arc::from("a".repeat(512)),
        message: Arc::from(message),
        given: Some(at(0)),
        expires: Some(at(10_000)),
    });
    given.collect()
}

fn next(
    input: &StatusInput<'_>,
    plan: &Plan,
    before: &ManagedClustersUpgradeStatus,
) -> ManagedClustersUpgradeStatus {
    let previous = PreviousStatus {
        latest: before,
        written: before,
    };
    draft(input, &Situation::Planned(plan), previous)
}

/// All checkpoints wait, were approved before, and tell what has changed since; ten clusters have failed and ten wait.
#[test]
fn the_status_stays_below_16_kib_whatever_was_approved() {
    let name = "n".repeat(63);
    let notes = vec![format!("Placement ns/p{} does not exist", "p".repeat(2000))];
    let mut policy = policy();
    for number in 0..MAX_CHECKPOINTS {
        policy = policy.checkpoint_at(&checkpoint(number), 0);
    }
    let policy = policy.build();
    for text in ["m".repeat(256), "\"\\".repeat(128), "\u{1}".repeat(256)] {
        let message: String = text.chars().take(200).collect();
        let mut fleet = crowd(20, Phase::Failed, Reason::ClusterUpgradeTimeout, &text);
        for mut cluster in crowd(20, Phase::Pending, Reason::None, "").clusters {
            cluster.name = Arc::from(format!("z{}", &cluster.name[1..]));
            cluster.backoff = Some(rollout::ClusterBackoff {
                until: at(1_000),
                error: Arc::from(text.as_str()),
                lasting: false,
                deletion_lasting: false,
            });
            fleet.clusters.push(cluster);
        }
        let input = StatusInput {
            names: Names {
                namespace: &name,
                name: &name,
                cluster: "",
            },
            notes: &notes,
            refused: Some(text.repeat(8)),
            skew: Some(TimeDelta::hours(3)),
            retries: CarriedOut {
                token: Some("t".repeat(256)),
                retries: vec!["r".repeat(MAX_ID); MAX_RETRIES],
            },
            ..input(at(100))
        };
        let hash = rollout::plan(input.now, &policy, &fleet).hash.unwrap();
        fleet.approvals = approvals(hash.as_str(), &message);
        let approved = next(&input, &rollout::plan(input.now, &policy, &fleet), &none());
        let is_approved = |checkpoint: &CheckpointStatus| !checkpoint.approver.is_empty();
        assert!(approved.approvals.iter().all(is_approved));

        fleet.approvals = approvals(&format!("0000-0000-0000-{}", "0".repeat(32)), &message);
        let status = next(&input, &rollout::plan(input.now, &policy, &fleet), &approved);
        let size = serde_json::to_vec(&status).unwrap().len();
        assert!(size < 16 * 1024, "{size} bytes");
        assert_eq!(status.approvals.len(), MAX_CHECKPOINTS);
        for told in &status.approvals {
            let last: &LastApproval = told.last_approval.as_ref().unwrap();
            assert!(told.is_waiting() && !told.changed.is_empty());
            assert_eq!(last.approver.len(), 128);
        }
        let truncated = status.truncated.unwrap();
        let listed = |notes: &[ClusterNote]| i64::try_from(notes.len()).unwrap();
        assert_eq!(listed(&status.failed_clusters) + truncated.failed, 20);
        assert_eq!(listed(&status.waiting_clusters) + truncated.waiting, 20);
    }
}
