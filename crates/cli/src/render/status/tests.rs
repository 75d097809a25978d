use super::*;
use crate::render::fixtures::{complete, condition, now, running, stalled, unseen};
use crate::upgrade::Verdict;

#[test]
fn a_running_upgrade_shows_progress_slots_and_what_it_waits_for() {
    insta::assert_snapshot!(render(&running(), false, now(), Paint::Never));
}

#[test]
fn a_stalled_upgrade_shows_its_cause_and_remedy() {
    insta::assert_snapshot!(render(&stalled(), false, now(), Paint::Never));
}

#[test]
fn causes_of_the_status_are_shown_in_groups() {
    let mut upgrade = stalled();
    let groups = crate::causes::of_status(&upgrade);
    upgrade.status.as_mut().unwrap().causes = groups;
    let text = render(&upgrade, false, now(), Paint::Never);
    assert!(
        text.contains("Causes:\n  CAUSE                   PHASE     CLUSTERS   EXAMPLE\n"),
        "{text}"
    );
}

#[test]
fn a_complete_upgrade_has_a_full_bar() {
    insta::assert_snapshot!(render(&complete(), true, now(), Paint::Never));
}

#[test]
fn selected_is_shown_only_if_nothing_is_selected_or_its_message_has_notes() {
    let is_shown = |status, message: &str| {
        let condition = condition("Selected", status, "ManagedClustersSelected", message);
        matters(&serde_json::from_value(condition).unwrap())
    };
    let note = "Placement a/b does not exist";
    assert!(!is_shown("True", &conditions::selected_message(3, [])));
    assert!(is_shown("True", &conditions::selected_message(3, [note])));
    assert!(is_shown("False", &conditions::selected_message(0, [])));
}

#[test]
fn an_upgrade_without_status_says_so() {
    insta::assert_snapshot!(render(&unseen(), false, now(), Paint::Never));
}

#[test]
fn a_paused_upgrade_with_an_unhandled_retry_says_both() {
    let mut upgrade = running();
    upgrade.paused = true;
    upgrade.generation = 3;
    upgrade.retry = "again".to_owned();
    insta::assert_snapshot!(advice(&upgrade, Paint::Never));
}

#[test]
fn a_finished_upgrade_that_is_paused_needs_nothing() {
    let paused = Upgrade {
        paused: true,
        ..complete()
    };
    assert_eq!(advice(&paused, Paint::Never), "");
}

#[test]
fn colour_only_adds_escapes() {
    let coloured = render(&stalled(), false, now(), Paint::Ansi);
    let coloured = Paint::Ansi.clean(&coloured);
    let mut plain = String::new();
    let mut escape = false;
    for c in coloured.chars() {
        match c {
            '\u{1b}' => escape = true,
            'm' if escape => escape = false,
            _ if escape => {}
            _ => plain.push(c),
        }
    }
    assert_eq!(plain, render(&stalled(), false, now(), Paint::Never));
    assert_ne!(coloured, plain);
}

#[test]
fn a_line_says_what_moved() {
    assert_eq!(
        line(&running()),
        "Upgrading  12/24 complete  canaries 2/2  in flight 5/10  failed 0  pending 6"
    );
    assert!(line(&stalled()).ends_with("Stalled (ClustersFailed): 1 cluster failed, 1 cluster is blocked"));
    assert_eq!(line(&unseen()), "<unknown>  not processed yet");
}

#[test]
fn a_bar_is_full_only_when_every_cluster_is_complete() {
    let bar = |complete, total| {
        progress(ClustersSummary {
            total,
            complete,
            ..ClustersSummary::default()
        })
    };
    assert!(bar(9999, 10_000).contains("#-]"));
    assert!(bar(10_000, 10_000).contains("#] 10000/10000 complete (100%)"));
    assert_eq!(bar(0, 0), "no clusters selected");
}

#[test]
fn a_watcher_goes_on_ready_and_stalled_of_the_newest_spec_only() {
    assert_eq!(complete().verdict(), Verdict::Ready);
    assert!(matches!(stalled().verdict(), Verdict::Stalled(reason, _) if reason == "ClustersFailed"));
    assert_eq!(running().verdict(), Verdict::Open);
    assert_eq!(unseen().verdict(), Verdict::Open);
    let edited = Upgrade {
        generation: 3,
        ..complete()
    };
    assert_eq!(edited.verdict(), Verdict::Open);
    let retried = Upgrade {
        retry: "now".to_owned(),
        ..stalled()
    };
    assert_eq!(retried.verdict(), Verdict::Open);
}

#[test]
fn an_estimate_is_shown_with_what_it_is_known_from() {
    let at = |now: &str, samples: i64| {
        let estimate = serde_json::json!({
            "p50": "2026-05-28T12:00:00Z", "p90": "2026-05-28T13:00:00Z", "basis": "Upgrade", "samples": samples,
        });
        eta(&serde_json::from_value(estimate).unwrap(), now.parse().unwrap())
    };
    let of = |samples| at("2026-05-28T11:00:00Z", samples);
    let times = "2026-05-28T12:00:00Z, in nine of ten cases before 2026-05-28T13:00:00Z";
    assert_eq!(of(12), format!("{times} (basis: Upgrade, 12 samples)"));
    assert_eq!(of(0), format!("{times} (basis: Upgrade)"));
    assert_eq!(
        at("2026-05-28T12:00:00Z", 0),
        "any time now, in nine of ten cases before 2026-05-28T13:00:00Z (basis: Upgrade)"
    );
    assert_eq!(
        at("2026-05-28T15:00:00Z", 0),
        "any time now; it was expected before 2026-05-28T13:00:00Z (basis: Upgrade)"
    );
}

/// A running upgrade with these fields in its status.
fn with_status(fields: &serde_json::Value) -> Upgrade {
    let mut object = running().object;
    for (key, value) in fields.as_object().unwrap() {
        object["status"][key] = value.clone();
    }
    Upgrade::read(object)
}

#[test]
fn the_numbers_of_a_line_add_up_to_the_total() {
    let upgrade = with_status(&serde_json::json!({
        "clustersSummery": {"total": 12, "initialized": 2, "partialUpgrade": 0, "complete": 2, "failed": 0, "pending": 10},
        "canaryClustersSummery": null, "inFlight": 3, "effectiveMaxConcurrency": 3,
        "phases": {"Complete": 2, "PreAction": 3, "Pending": 6, "Blocked": 1},
    }));
    assert_eq!(
        line(&upgrade),
        "Upgrading  2/12 complete  in flight 3/3  failed 0  pending 7"
    );
    let upgrade = with_status(&serde_json::json!({
        "clustersSummery": {"total": 12, "initialized": 6, "partialUpgrade": 1, "complete": 3, "failed": 1, "pending": 5},
        "canaryClustersSummery": null, "inFlight": 2, "effectiveMaxConcurrency": 3,
        "phases": {"Complete": 2, "Workers": 1, "Partial": 1, "Soaking": 1, "PostAction": 1, "Failed": 1,
            "PreActionDegraded": 1, "Pending": 3, "Newer": 1},
    }));
    assert_eq!(
        line(&upgrade),
        "Upgrading  2/12 complete  in flight 2/3  finishing 2  failed 1  degraded 1  pending 4"
    );
}

#[test]
fn clusters_that_are_left_out_are_named_and_not_called_pending() {
    let upgrade = with_status(&serde_json::json!({
        "clustersSummery": {"total": 9, "initialized": 3, "partialUpgrade": 1, "complete": 2, "failed": 0, "pending": 6},
        "canaryClustersSummery": null, "inFlight": 1, "effectiveMaxConcurrency": 3,
        "phases": {"Complete": 2, "Partial": 1, "Pending": 3, "Skipped": 2, "Aborted": 1},
    }));
    assert_eq!(
        line(&upgrade),
        "Upgrading  2/9 complete  in flight 1/3  failed 0  pending 3  skipped 2  aborted 1"
    );
    let text = render(&upgrade, false, now(), Paint::Never);
    assert!(
        text.contains("\nPending:      3\nSkipped:      2\nAborted:      1\n"),
        "{text}"
    );
}

#[test]
fn clusters_that_would_refuse_the_update_are_told_with_the_command_that_says_why() {
    let blocked = |blocked: i64| {
        let mut upgrade = with_status(&serde_json::json!({
            "preflight": {"ready": 1, "blocked": blocked, "unknown": 0},
        }));
        upgrade.paused = true;
        advice(&upgrade, Paint::Never)
    };
    assert!(!blocked(0).contains("preflight"));
    let text = blocked(2);
    assert!(
        text.contains(
            "  2 clusters reported something that speaks against a start: kubectl mcu preflight spring -n upgrades\n"
        ),
        "{text}"
    );
}

#[test]
fn slots_that_are_held_without_a_cluster_under_way_are_told_when_none_is_free() {
    let shown = |held: i64| {
        let upgrade = with_status(&serde_json::json!({
            "inFlight": held, "effectiveMaxConcurrency": 3, "phases": {"Partial": 1, "Pending": 3},
        }));
        render(&upgrade, false, now(), Paint::Never)
    };
    let text = shown(3);
    assert!(
        text.contains(" 1/3 in use, and 2 held until the reports"),
        "{text}"
    );
    assert!(shown(2).contains(" 1/3 in use\n"), "{}", shown(2));
}

#[test]
fn a_watcher_waits_for_no_retry_that_an_invalid_spec_holds_up() {
    let retried = Upgrade {
        retry: "now".to_owned(),
        ..crate::render::fixtures::invalid()
    };
    assert!(matches!(retried.verdict(), Verdict::Stalled(reason, _) if reason == "InvalidSpec"));
}

#[test]
fn a_watcher_knows_a_retry_that_the_status_tells_in_a_shorter_form() {
    let long = "edge-17 has disk again, ".repeat(10);
    let mut retried = complete();
    retried.status.as_mut().unwrap().observed_retry = Some(resolve::retry::token_of(&long));
    retried.retry = long;
    assert_eq!(retried.verdict(), Verdict::Ready);
}

/// The status has no causes at all here; with many groups of them it may leave out the one of the clusters that wait.
#[test]
fn that_failures_stop_the_others_is_told_by_counts() {
    let stopped = |failed: i64, canaries: i64, phases: serde_json::Value| {
        let counts = |total: i64, failed: i64| serde_json::json!({"total": total, "initialized": failed, "partialUpgrade": 0, "complete": 0, "failed": failed, "pending": 0});
        let mut object = with_status(&serde_json::json!({
            "clustersSummery": counts(24, failed), "canaryClustersSummery": counts(2, canaries), "phases": phases,
        }))
        .object;
        object["spec"]["upgradeStrategy"]["maxFailures"] = serde_json::json!("5%");
        starts_are_stopped(&Upgrade::read(object))
    };
    let waiting = |failed: i64| serde_json::json!({"Failed": failed, "Pending": 6});
    assert!(!stopped(2, 0, waiting(2)), "5% of 24 clusters are 2");
    assert!(stopped(3, 0, waiting(3)));
    assert!(stopped(1, 1, waiting(1)), "a canary failed");
    assert!(
        !stopped(3, 0, serde_json::json!({"Failed": 3, "Partial": 6})),
        "none waits"
    );
    assert!(stopped(
        2,
        0,
        serde_json::json!({"Failed": 2, "PreActionDegraded": 1, "Pending": 6})
    ));
    assert!(!starts_are_stopped(&running()) && !starts_are_stopped(&unseen()));
}
