use std::sync::Arc;

use chrono::TimeDelta;
use rollout::testing::{at, fleet, policy, record, work};
use rollout::{Fleet, Policy, Record, Step, StepWork};

use super::*;
use crate::events::EventReason;
use crate::report::estimate::Estimated;
use api::validate::SpecViolation;
use chrono::{DateTime, Utc};
use resolve::retry::CarriedOut;
use rollout::remedy::Names;
use rollout::{Reason, Stage};

mod checkpoints;

fn input(now: DateTime<Utc>) -> StatusInput<'static> {
    StatusInput {
        generation: 3,
        names: Names {
            namespace: "upgrades",
            name: "spring",
            cluster: "",
        },
        target: "4.12.0",
        paused: false,
        restored: None,
        notes: &[],
        retries: CarriedOut::default(),
        retries_after: CarriedOut::default(),
        refused: None,
        skew: None,
        preflight: None,
        warned: Vec::new(),
        estimated: Estimated::Not,
        minimum_remaining: None,
        now,
    }
}

fn none() -> ManagedClustersUpgradeStatus {
    ManagedClustersUpgradeStatus::default()
}

fn made(input: &StatusInput<'_>, policy: &Policy, fleet: &Fleet) -> ManagedClustersUpgradeStatus {
    let plan = rollout::plan(input.now, policy, fleet);
    let none = none();
    draft(
        input,
        &Situation::Planned(&plan),
        PreviousStatus {
            latest: &none,
            written: &none,
        },
    )
}

/// Many clusters in a phase, with the longest possible names and messages.
fn crowd(number: usize, phase: Phase, reason: Reason, message: &str) -> Fleet {
    let clusters = (0..number).map(|number| {
        let mut record: Record = record(phase).reason(reason).into();
        record.message = Arc::from(message);
        let name = format!("{number:05}-{}", "n".repeat(57));
        fleet().cluster(&name).record(record).build().clusters.remove(0)
    });
    Fleet {
        clusters: clusters.collect(),
        calendars: Vec::new(),
        approvals: Arc::default(),
        unreleased: 0,
    }
}

#[test]
fn the_capped_lists_hold_ten_and_count_the_rest() {
    let policy = policy().max_concurrency(1).build();
    let mut fleet = crowd(
        25,
        Phase::Failed,
        Reason::ClusterUpgradeTimeout,
        "The step was not done within 3h",
    );
    fleet.clusters.extend(
        crowd(40, Phase::Pending, Reason::None, "")
            .clusters
            .into_iter()
            .map(|mut cluster| {
                cluster.name = Arc::from(format!("z{}", cluster.name));
                cluster
            }),
    );
    let status = made(&input(at(100)), &policy, &fleet);
    assert_eq!(status.failed_clusters.len(), MAX_LISTED);
    assert_eq!(status.waiting_clusters.len(), MAX_LISTED);
    let truncated = status.truncated.unwrap();
    assert_eq!(truncated.failed, 15);
    assert_eq!(truncated.waiting, 29, "39 wait for the one that has just started");
    let failed = &status.failed_clusters[0];
    assert_eq!(failed.reason, "ClusterUpgradeTimeout");
    assert_eq!(failed.since, Some(from_chrono(at(0))));
}

#[test]
fn lists_that_are_complete_are_not_truncated() {
    let fleet = crowd(10, Phase::Failed, Reason::ClusterUpgradeTimeout, "late");
    let status = made(&input(at(100)), &policy().build(), &fleet);
    assert_eq!(status.failed_clusters.len(), 10);
    assert_eq!(status.truncated, None);
}

#[test]
fn clusters_that_need_a_human_are_listed_before_those_that_wait_their_turn() {
    let fleet = fleet()
        .cluster("a")
        .cluster("b")
        .cluster("c")
        .blocked(Reason::InvalidClusterID)
        .cluster("d")
        .unavailable()
        .build();
    let status = made(&input(at(100)), &policy().max_concurrency(1).build(), &fleet);
    let names: Vec<&str> = status
        .waiting_clusters
        .iter()
        .map(|note| note.name.as_str())
        .collect();
    assert_eq!(names, ["c", "d", "b"]);
}

#[test]
fn the_status_stays_below_16_kib_whatever_ten_thousand_clusters_say() {
    let policy = policy().build();
    let texts = [
        "m".repeat(256),
        "\u{1}".repeat(256),
        "\"\\".repeat(128),
        "\u{1f980}".repeat(64),
    ];
    let notes: Vec<String> = (0..200)
        .map(|number| format!("Placement ns/{number}\"\u{2}{} does not exist", "p".repeat(60)))
        .collect();
    for text in &texts {
        let mut fleet = crowd(5_000, Phase::Failed, Reason::ClusterUpgradeTimeout, text);
        let mut waiting = crowd(5_000, Phase::Pending, Reason::None, "");
        for cluster in &mut waiting.clusters {
            cluster.name = Arc::from(format!("z{}", &cluster.name[1..]));
            cluster.backoff = Some(rollout::ClusterBackoff {
                until: at(1_000),
                error: Arc::from(text.as_str()),
                lasting: false,
                deletion_lasting: false,
            });
        }
        fleet.clusters.extend(waiting.clusters);
        let input = StatusInput {
            notes: &notes,
            ..input(at(100))
        };
        let status = made(&input, &policy, &fleet);
        assert_eq!(status.failed_clusters.len() + status.waiting_clusters.len(), 20);
        let size = serde_json::to_vec(&status).unwrap().len();
        assert!(size < 16 * 1024, "{size} bytes");
    }
}

/// As many groups of causes as there are reasons, each with the longest texts that a cluster can have, in an upgrade with the
/// longest names.
#[test]
fn the_status_stays_below_16_kib_whatever_causes_there_are() {
    let name = "n".repeat(63);
    let notes = vec![format!("Placement ns/p{} does not exist", "p".repeat(2000))];
    for text in ["m".repeat(256), "\"\\".repeat(128), "\u{1}".repeat(256)] {
        let mut fleet = Fleet::default();
        for (number, (reason, _)) in Reason::ALL.iter().enumerate() {
            for mut cluster in crowd(2, Phase::Failed, *reason, &text).clusters {
                cluster.name = Arc::from(format!("{number:02}{}", cluster.name));
                fleet.clusters.push(cluster);
            }
        }
        let input = StatusInput {
            names: Names {
                namespace: &name,
                name: &name,
                cluster: "",
            },
            notes: &notes,
            refused: Some(text.repeat(8)),
            ..input(at(100))
        };
        let status = made(&input, &policy().build(), &fleet);
        let size = serde_json::to_vec(&status).unwrap().len();
        assert!(size < 16 * 1024, "{size} bytes");
        let causes = i64::try_from(status.causes.len()).unwrap();
        assert!(causes >= 5, "{causes} causes");
        let all = i64::try_from(Reason::ALL.len()).unwrap();
        assert_eq!(causes + status.truncated.unwrap().causes, all);
    }
}

/// As many gates as clusters, each with the longest name that is told.
#[test]
fn the_status_stays_below_16_kib_whatever_names_causes_have() {
    let mut fleet = crowd(40, Phase::Failed, Reason::AdminAckRequired, "");
    let mut names = Vec::new();
    for (number, cluster) in fleet.clusters.iter_mut().enumerate() {
        names.push(format!("{number:02}{}", "k".repeat(126)));
        let record = cluster.record.as_mut().map(Arc::make_mut).unwrap();
        record.message = Arc::from(format!("{}: {}", names[number], "\"\\".repeat(60)));
    }
    let status = made(&input(at(100)), &policy().build(), &fleet);
    let size = serde_json::to_vec(&status).unwrap().len();
    assert!(size < 16 * 1024, "{size} bytes");
    assert!(status.causes.len() >= 5, "{} causes", status.causes.len());
    let whole = |cause: &api::mcu::CauseGroup| cause.name.as_ref().is_some_and(|name| names.contains(name));
    assert!(status.causes.iter().all(whole), "a name is never cut");
}

#[test]
fn phases_add_up_to_the_total_and_counts_are_also_given_as_fractions() {
    let fleet = fleet()
        .cluster("a")
        .canary()
        .record(record(Phase::Complete))
        .cluster("b")
        .record(record(Phase::Partial).stage(Stage::Platform, 50))
        .cluster("c")
        .cluster("d")
        .blocked(Reason::NotOpenShift)
        .build();
    let policy = policy().canaries().max_concurrency(1).build();
    let status = made(&input(at(100)), &policy, &fleet);
    let phases: Vec<(&str, i64)> = status
        .phases
        .iter()
        .map(|(phase, number)| (phase.as_str(), *number))
        .collect();
    assert_eq!(
        phases,
        [("Blocked", 1), ("Complete", 1), ("Partial", 1), ("Pending", 1)]
    );
    assert_eq!(
        phases.iter().map(|(_, number)| number).sum::<i64>(),
        status.clusters_summery.unwrap().total
    );
    assert_eq!(status.slots.as_deref(), Some("1/1"));
    assert_eq!(status.canaries.as_deref(), Some("1/1"));
    assert_eq!(status.target.as_deref(), Some("4.12.0"));
    let reasons: Vec<&str> = status.causes.iter().map(|cause| cause.reason.as_str()).collect();
    assert_eq!(reasons, ["NotOpenShift", "WaitingForSlot"]);
}

#[test]
fn the_first_start_is_found_in_the_records_and_then_kept_whatever_is_edited() {
    let running = |started: i64| {
        let running = record(Phase::Partial).stage(Stage::Platform, started);
        fleet().cluster("a").record(running).cluster("b").build()
    };
    let policy = policy().build();
    let waiting = made(&input(at(10)), &policy, &fleet().cluster("a").build());
    assert_eq!(waiting.started_at, None, "the start is not recorded yet");
    let status = made(&input(at(100)), &policy, &running(50));
    assert_eq!(status.started_at, Some(from_chrono(at(50))));
    // An edit has queued the cluster again, which has started anew since.
    let plan = rollout::plan(at(900), &policy, &running(800));
    let previous = PreviousStatus {
        latest: &status,
        written: &status,
    };
    let later = draft(&input(at(900)), &Situation::Planned(&plan), previous);
    assert_eq!(later.started_at, Some(from_chrono(at(50))));
}

#[test]
fn an_upgrade_says_since_when_it_is_complete_and_only_while_it_is() {
    let policy = policy().build();
    let complete = fleet().cluster("a").record(record(Phase::Complete)).build();
    let status = made(&input(at(100)), &policy, &complete);
    assert_eq!(status.completed_at, Some(from_chrono(at(100))));
    let next = |now: DateTime<Utc>, situation: &Situation<'_>| {
        let previous = PreviousStatus {
            latest: &status,
            written: &status,
        };
        draft(&input(now), situation, previous)
    };
    let plan = rollout::plan(at(200), &policy, &complete);
    let later = next(at(200), &Situation::Planned(&plan));
    assert_eq!(later, status, "time alone changes nothing");
    let deleting = next(at(200), &Situation::Deleting(None));
    assert_eq!(deleting.completed_at, status.completed_at);
    let joined = fleet()
        .cluster("a")
        .record(record(Phase::Complete))
        .cluster("b")
        .build();
    let plan = rollout::plan(at(300), &policy, &joined);
    assert_eq!(next(at(300), &Situation::Planned(&plan)).completed_at, None);
    let before = Completed {
        revision: String::new(),
        time: at(7),
        clusters: 3,
        carried: None,
    };
    let restored = next(at(300), &Situation::CompletedBefore(&before));
    assert_eq!(restored.completed_at, Some(from_chrono(at(7))));
    assert_eq!(restored.phases["Complete"], 3);
}

#[test]
fn an_upgrade_that_is_deleted_or_not_tracked_has_no_end() {
    let estimate = UpgradeEstimate {
        p50: from_chrono(at(600)),
        p90: from_chrono(at(900)),
        basis: "Usual".to_owned(),
        samples: 1,
    };
    let before = ManagedClustersUpgradeStatus {
        estimate: Some(estimate),
        ..none()
    };
    let previous = PreviousStatus {
        latest: &before,
        written: &before,
    };
    let invalid = Situation::InvalidSpec {
        violations: &[],
        plan: None,
    };
    for situation in [Situation::Deleting(None), invalid] {
        assert_eq!(draft(&input(at(0)), &situation, previous).estimate, None);
    }
}

#[test]
fn counters_and_progress_are_those_of_the_plan() {
    let fleet = fleet()
        .cluster("a")
        .record(record(Phase::Complete))
        .cluster("b")
        .record(record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout))
        .cluster("c")
        .cluster("d")
        .build();
    let status = made(&input(at(100)), &policy().max_concurrency(1).build(), &fleet);
    let all = status.clusters_summery.unwrap();
    assert_eq!(all.total, all.initialized + all.pending);
    assert_eq!((all.total, all.complete, all.failed, all.pending), (4, 1, 1, 2));
    assert_eq!(status.progress.as_deref(), Some("1/4"));
    assert_eq!(status.effective_max_concurrency, Some(1));
    assert_eq!(status.observed_generation, Some(3));
}

#[test]
fn states_tell_the_strongest_truth() {
    let state =
        |input: &StatusInput<'_>, policy: &Policy, fleet: &Fleet| made(input, policy, fleet).state.unwrap();
    let now = input(at(100));
    let complete = fleet().cluster("a").record(record(Phase::Complete)).build();
    let failed = fleet()
        .cluster("a")
        .record(record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout))
        .build();
    let fresh = fleet().cluster("a").build();
    let canary = fleet().cluster("a").canary().cluster("b").build();
    let paused = StatusInput {
        paused: true,
        ..now.clone()
    };
    let plain = policy().build();
    assert_eq!(state(&now, &plain, &complete), UpgradeState::Complete);
    assert_eq!(
        state(&paused, &policy().paused().build(), &complete),
        UpgradeState::Complete
    );
    assert_eq!(
        state(&paused, &policy().paused().build(), &fresh),
        UpgradeState::Paused
    );
    assert_eq!(state(&now, &plain, &failed), UpgradeState::Stalled);
    assert_eq!(
        state(&now, &policy().canaries().build(), &canary),
        UpgradeState::Canary
    );
    // The others start without it.
    let skipped = fleet().cluster("a").canary().skipped("why").cluster("b").build();
    assert_ne!(
        state(&now, &policy().canaries().build(), &skipped),
        UpgradeState::Canary
    );
}

#[test]
fn a_canary_whose_post_action_runs_is_not_complete_yet() {
    let policy = policy().canaries().post_action().build();
    let checking = fleet()
        .cluster("a")
        .canary()
        .work(Step::PostAction, work(50).running())
        .record(
            record(Phase::PostAction)
                .succeeded(Stage::Platform, 10)
                .stage(Stage::PostAction, 50),
        )
        .cluster("b");
    let before = made(&input(at(100)), &policy, &checking.clone().build());
    assert_eq!(
        (before.state, before.canaries.as_deref()),
        (Some(UpgradeState::Canary), Some("0/1"))
    );
    assert_eq!(before.progress.as_deref(), Some("0/2"));
    assert_eq!(
        before.canary_clusters_summery.map(|canaries| canaries.complete),
        Some(1)
    );
    let after = checking.build();
    let mut after = after.clusters;
    after[0].works[Step::PostAction.index()] = StepWork::Ours(Arc::new(work(50).succeeded().into()));
    let fleet = Fleet {
        clusters: after,
        calendars: Vec::new(),
        approvals: Arc::default(),
        unreleased: 0,
    };
    let next = made(&input(at(101)), &policy, &fleet);
    let said = crate::report::notable::of_status(&before, &next, 0);
    assert_eq!(
        said.first().map(|(reason, _)| *reason),
        Some(EventReason::CanariesComplete)
    );
}

#[test]
fn a_retry_is_observed_only_when_it_is_carried_out_and_stays_observed() {
    let failed = record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout);
    let fleet = fleet().cluster("a").record(failed).build();
    let policy = policy().retry("t2").build();
    let input = StatusInput {
        retries: CarriedOut {
            token: Some("t1".to_owned()),
            retries: vec!["a".to_owned()],
        },
        retries_after: CarriedOut {
            token: Some("t2".to_owned()),
            retries: vec!["a".to_owned(), "b".to_owned()],
        },
        ..input(at(100))
    };
    let status = made(&input, &policy, &fleet);
    assert_eq!(
        status.observed_retry.as_deref(),
        Some("t1"),
        "its record is not written yet"
    );
    assert_eq!(status.retries, ["a"]);
    let requeued = rollout::plan(at(100), &policy, &fleet).clusters[0].record.clone();
    let mut fleet = fleet;
    fleet.clusters[0].record = Some(Arc::clone(&requeued));
    fleet.clusters[0].written = Some(requeued);
    let status = made(&input, &policy, &fleet);
    assert_eq!(status.observed_retry.as_deref(), Some("t2"));
    assert_eq!(status.retries, ["a", "b"]);
}

#[test]
fn an_invalid_spec_keeps_the_counters_and_says_what_to_correct() {
    let before = made(
        &input(at(100)),
        &policy().build(),
        &fleet().cluster("a").record(record(Phase::Complete)).build(),
    );
    let violations = [SpecViolation {
        field: "spec.clusterVersion.version".to_owned(),
        message: "must not begin with v".to_owned(),
    }];
    let later = input(at(100) + TimeDelta::seconds(60));
    let status = draft(
        &later,
        &Situation::InvalidSpec {
            violations: &violations,
            plan: None,
        },
        PreviousStatus {
            latest: &before,
            written: &before,
        },
    );
    assert_eq!(status.state, Some(UpgradeState::Invalid));
    assert_eq!(status.clusters_summery, before.clusters_summery);
    assert_eq!(status.conditions.len(), 8);
    let stalled = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Stalled")
        .unwrap();
    assert_eq!(
        (stalled.status.as_str(), stalled.reason.as_str()),
        ("True", "InvalidSpec")
    );
    assert!(stalled.message.contains("spec.clusterVersion.version"));
}

/// The plan would be that of the last valid spec, and the approval would count once the edit is taken back.
#[test]
fn an_invalid_spec_tells_no_plan_that_somebody_could_approve() {
    let policy = policy().checkpoint_at("first", 0).build();
    let fleet = fleet().cluster("a").build();
    let before = made(&input(at(100)), &policy, &fleet);
    assert!(before.approvals[0].is_waiting());
    let violations = [SpecViolation {
        field: "spec.clusterVersion.version".to_owned(),
        message: "must not begin with v".to_owned(),
    }];
    let last_valid = rollout::plan(at(160), &policy, &fleet);
    for plan in [Some(&last_valid), None] {
        let status = draft(
            &input(at(160)),
            &Situation::InvalidSpec {
                violations: &violations,
                plan,
            },
            PreviousStatus {
                latest: &before,
                written: &before,
            },
        );
        let told = &status.approvals[0];
        assert_eq!(
            (&*told.name, &*told.state, &*told.plan_hash),
            ("first", "Ahead", "")
        );
    }
}

#[test]
fn texts_are_cut_on_characters_and_by_their_size_on_the_wire() {
    assert_eq!(cut("abc", 3), "abc");
    assert_eq!(cut("abcd", 3), "abc");
    assert_eq!(cut("a\u{e9}\u{e9}", 4), "a\u{e9}");
    assert_eq!(cut("\u{1}\u{1}", 11), "\u{1}");
    assert_eq!(cut("a\"b", 2), "a");
    for text in [
        "plain",
        "\"quoted\"\n\ttab",
        "\u{1}\u{1f}\u{7f}",
        "\u{1f980}\u{2028}",
    ] {
        let size = serde_json::to_string(text).unwrap().len() - 2;
        assert_eq!(cut(text, size), text);
        assert_ne!(cut(text, size - 1), text);
    }
}

#[test]
fn what_a_cluster_says_never_keeps_the_status_from_being_written() {
    let mut odd: Record = record(Phase::Failed).reason(Reason::Failing).into();
    odd.message = Arc::from("etcd\u{7f}is\u{85}\u{feff}degraded");
    let fleet = fleet().cluster("a").record(odd).build();
    let made = made(&input(at(1)), &policy().build(), &fleet);
    assert_eq!(made.failed_clusters[0].message, "etcd is  degraded");
}

#[test]
fn an_upgrade_whose_record_is_refused_is_not_complete() {
    let fleet = fleet().cluster("a").record(record(Phase::Complete)).build();
    let refused = StatusInput {
        refused: Some("The hub rejects the record of cluster a: rows[0].revision: Too long".to_owned()),
        ..input(at(1))
    };
    let policy = policy().build();
    assert_eq!(
        made(&input(at(1)), &policy, &fleet).state,
        Some(UpgradeState::Complete)
    );
    assert_eq!(made(&refused, &policy, &fleet).state, Some(UpgradeState::Stalled));
    let status = made(&refused, &policy, &fleet);
    let find = |type_: &str| {
        let mut conditions = status.conditions.iter();
        conditions.find(|condition| condition.type_ == type_).unwrap()
    };
    assert_eq!(find("Complete").status, "False");
    assert_eq!(find("Ready").status, "False");
    let stalled = find("Stalled");
    assert_eq!(
        (stalled.status.as_str(), stalled.reason.as_str()),
        ("True", "RecordRefused")
    );
    assert!(stalled.message.contains("cluster a") && stalled.message.contains("Too long"));
    let events = crate::report::notable::of_status(&none(), &status, 0);
    assert!(
        events
            .iter()
            .any(|(reason, _)| *reason == crate::events::EventReason::RecordRefused),
        "{events:?}"
    );
}
