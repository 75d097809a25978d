//! `pause`, `resume` and `retry`: one merge patch each, told in words.

use std::fmt::Write as _;

use api::names::{ANNOTATION_RESUME_RESTORED, ANNOTATION_RETRY_FAILED};
use api::time::to_rfc3339;
use chrono::Utc;
use serde_json::{Value, json};

use crate::args::{Common, RetryArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::render::objects;
use crate::screen::Screen;
use crate::upgrade::{TYPE_AND_GROUP, Upgrade};

/// Most names that an answer lists.
const MOST_NAMES: usize = 10;

pub(super) async fn pause(
    common: &Common,
    name: &str,
    paused: bool,
    screen: Screen,
) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let before = hub.upgrade(name).await?;
    let after = if !paused && before.restored {
        hub.patch(name, &resume_restored_patch(&before)).await?
    } else if before.paused == paused {
        before.clone()
    } else {
        hub.patch(name, &pause_patch(paused)).await?
    };
    let text = objects::upgrade(common.output, &after).unwrap_or_else(|| paused_text(&before, paused));
    screen.print(&text);
    Ok(Exit::Done)
}

pub(super) async fn retry(common: &Common, args: &RetryArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(&args.name).await?;
    let rows = hub.rows(&upgrade).await?;
    let clusters = rows.retryable();
    if clusters.is_empty() && !args.force {
        return Err(Failure::Other(format!(
            "nothing to retry: no cluster of {}/{} is Failed or PreActionDegraded; --force sets the annotation anyway",
            hub.namespace(),
            args.name
        )));
    }
    let token = retry_token(&upgrade.retry, &to_rfc3339(Utc::now()));
    let after = hub.patch(&args.name, &retry_patch(&token)).await?;
    let text = objects::upgrade(common.output, &after).unwrap_or_else(|| retried_text(&upgrade, &clusters));
    screen.print(&text);
    Ok(Exit::Done)
}

fn pause_patch(paused: bool) -> Value {
    json!({"spec": {"paused": paused}})
}

/// Says of the object with this UID, and of no later restore of it, that it is to go on.
fn resume_restored_patch(before: &Upgrade) -> Value {
    let mut patch = json!({
        "metadata": {"uid": before.uid, "annotations": {ANNOTATION_RESUME_RESTORED: before.uid}},
    });
    if before.paused {
        patch["spec"] = json!({"paused": false});
    }
    patch
}

fn retry_patch(token: &str) -> Value {
    json!({"metadata": {"annotations": {ANNOTATION_RETRY_FAILED: token}}})
}

/// A value that differs from the current one, even within a clock tick.
fn retry_token(current: &str, now: &str) -> String {
    if current == now {
        format!("{now}-again")
    } else {
        now.to_owned()
    }
}

fn paused_text(before: &Upgrade, paused: bool) -> String {
    let name = format!("{TYPE_AND_GROUP}/{}", before.name);
    let mut text = match (before.paused == paused, paused) {
        (true, true) => format!("{name} already paused\n"),
        _ if before.restored && !paused => format!("{name} resumed after its restore\n"),
        (true, false) => format!("{name} not paused\n"),
        (false, true) => format!("{name} paused\n"),
        (false, false) => format!("{name} resumed\n"),
    };
    let Some(status) = &before.status else { return text };
    let pending = counted(status.clusters_summery.unwrap_or_default().pending);
    if paused {
        let in_flight = counted(status.in_flight.unwrap_or_default());
        let _ = writeln!(
            text,
            "In flight, to go through all their steps: {in_flight}. Pending, not to start until resumed: {pending}."
        );
    } else {
        let _ = writeln!(text, "Pending, to start as slots are free: {pending}.");
    }
    text
}

fn counted(count: i64) -> String {
    let noun = if count == 1 { "cluster" } else { "clusters" };
    format!("{count} {noun}")
}

fn retried_text(upgrade: &Upgrade, clusters: &[&str]) -> String {
    let done = if clusters.is_empty() {
        "annotated, not retried"
    } else {
        "retried"
    };
    let mut text = format!("{TYPE_AND_GROUP}/{} {done}\n", upgrade.name);
    if clusters.is_empty() {
        text.push_str(
            "No cluster is Failed or PreActionDegraded, so nothing is queued again; clusters that fail later need another retry.\n",
        );
    } else {
        let shown = clusters
            .iter()
            .take(MOST_NAMES)
            .copied()
            .collect::<Vec<_>>()
            .join(", ");
        let more = clusters.len().saturating_sub(MOST_NAMES);
        let rest = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "To be requeued: {} ({shown}{rest}).",
            counted(i64::try_from(clusters.len()).unwrap_or(i64::MAX))
        );
    }
    if upgrade.paused {
        let _ = writeln!(
            text,
            "The upgrade is paused: they start after kubectl mcu resume {} -n {}",
            upgrade.name, upgrade.namespace
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixtures::{running, stalled};

    #[test]
    fn a_restored_upgrade_is_resumed_by_its_own_uid_and_freed_of_a_pause() {
        let restored = |status: &str| {
            Upgrade::read(serde_json::json!({
                "metadata": {"namespace": "upgrades", "name": "spring", "uid": "new", "annotations": {
                    "cluster.open-cluster-management.io/upgrade-uid": "old"}},
                "spec": {"paused": true},
                "status": serde_json::from_str::<Value>(status).unwrap(),
            }))
        };
        let on_hold = r#"{"conditions": [{"type": "Stalled", "status": "True", "reason": "Restored", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}"#;
        for status in ["null", on_hold] {
            let before = restored(status);
            assert!(before.restored, "{status}");
            assert_eq!(
                resume_restored_patch(&before),
                json!({
                    "metadata": {"uid": "new", "annotations": {
                        "cluster.open-cluster-management.io/resume-restored": "new"}},
                    "spec": {"paused": false},
                })
            );
            assert!(paused_text(&before, false).contains("resumed after its restore"));
        }
        assert!(
            !restored(r#"{"conditions": []}"#).restored,
            "it was taken up since"
        );
    }

    #[test]
    fn patches_touch_one_field_only() {
        assert_eq!(pause_patch(true), json!({"spec": {"paused": true}}));
        assert_eq!(
            retry_patch("t"),
            json!({"metadata": {"annotations": {"cluster.open-cluster-management.io/retry-failed": "t"}}})
        );
    }

    #[test]
    fn a_retry_always_has_a_new_value() {
        assert_eq!(retry_token("", "now"), "now");
        assert_eq!(retry_token("now", "now"), "now-again");
        assert_eq!(retry_token("now-again", "now"), "now");
    }

    #[test]
    fn pausing_says_what_happens_to_the_fleet() {
        assert_eq!(
            paused_text(&running(), true),
            "managedclustersupgrade.cluster.open-cluster-management.io/spring paused\n\
             In flight, to go through all their steps: 5 clusters. Pending, not to start until resumed: 6 clusters.\n"
        );
        let paused = Upgrade {
            paused: true,
            ..running()
        };
        assert!(paused_text(&paused, true).contains("already paused"));
        assert!(
            paused_text(&paused, false)
                .contains("resumed\nPending, to start as slots are free: 6 clusters.\n")
        );
        assert!(paused_text(&running(), false).contains("not paused"));
    }

    #[test]
    fn a_retry_names_what_it_requeues() {
        let text = retried_text(&stalled(), &["edge-17"]);
        assert!(text.ends_with("To be requeued: 1 cluster (edge-17).\n"), "{text}");
        let names: Vec<String> = (0..12).map(|n| format!("c{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let paused = Upgrade {
            paused: true,
            ..stalled()
        };
        let text = retried_text(&paused, &names);
        assert!(
            text.contains("To be requeued: 12 clusters (c0,") && text.contains("c9 and 2 more).\n"),
            "{text}"
        );
        assert!(text.contains("kubectl mcu resume spring -n upgrades"));
    }

    #[test]
    fn a_retry_that_is_forced_where_nothing_failed_says_that_nothing_is_retried() {
        let text = retried_text(&running(), &[]);
        assert!(
            text.starts_with(
                "managedclustersupgrade.cluster.open-cluster-management.io/spring annotated, not retried\n"
            ),
            "{text}"
        );
        assert!(text.contains("nothing is queued again"), "{text}");
    }
}
