use std::sync::Arc;
use std::time::{Duration, Instant};

use observe::index::{Change, WorkRequest};
use observe::writes::Forbidden;
use resolve::works::WorkFlags;
use rollout::Phase;
use rollout::testing::{at, first_attempt, record};
use serde_json::json;

use super::*;
use crate::apply::{WriteError, WriteErrorKind};
use crate::fixture::{Given, context, note, upgrade, work};
use crate::state::upgrade::UpgradeEntry;

fn cluster() -> Arc<str> {
    Arc::from("c1")
}

/// A context with the upgrade `u1`, which has a running write for `c1`.
fn writing() -> Context {
    let context = context(&["c1"]);
    context.with(|state| {
        state.apply_upgrade(upgrade("u1", &["c1"]).view());
        let entry = state.upgrades.get_mut("u1").unwrap();
        entry.begin(&cluster(), Some(&first_attempt()));
        entry.dirty = false;
    });
    context
}

fn answered(context: &Context, write: Write, outcome: &WriteResult) {
    let job = WriteJob {
        upgrade: Arc::from("u1"),
        write,
    };
    context.with(|state| record_result(context, state, job, outcome));
}

fn with_entry<T>(context: &Context, look: impl FnOnce(&mut UpgradeEntry) -> T) -> T {
    context.with(|state| look(state.upgrades.get_mut("u1").unwrap()))
}

fn create(context: &Context) -> Write {
    let spec = with_entry(context, |entry| Arc::clone(entry.spec.as_ref().unwrap()));
    Write::Create {
        cluster: cluster(),
        step: Step::Platform,
        params: crate::apply::WorkParams {
            spec,
            violations: None,
            owner: Arc::from("ns/u1"),
            cluster_uid: Arc::from(""),
            cluster_id: None,
            request: WorkRequest::AsPlanned,
            attempt: rollout::Attempt {
                revision: Arc::from("r1"),
                retry: Arc::from(""),
            },
            started: rollout::testing::at(0),
            starts: false,
            until: None,
            approvals: Arc::default(),
        },
        slot_released_at: None,
    }
}

fn delete() -> Write {
    Write::Delete {
        cluster: cluster(),
        step: Step::Platform,
        uid: Arc::from("c1-cluster-upgrade-u1"),
        version: None,
        halt: false,
    }
}

fn is_indexed(context: &Context) -> bool {
    context.with(|state| state.index.work_of("c1", Step::Platform).is_some())
}

#[test]
fn a_created_work_is_seen_by_the_next_plan_and_its_cluster_is_free_for_writes() {
    let context = writing();
    let work = WriteResult::Work(Box::new(work("c1", Step::Platform, "u1", 5)));
    answered(&context, create(&context), &work);
    assert!(is_indexed(&context));
    with_entry(&context, |entry| assert!(entry.running.is_empty() && entry.dirty));
}

#[test]
fn a_failed_write_is_not_repeated_before_its_wait_which_doubles() {
    let context = writing();
    for expected in [1, 2, 4] {
        with_entry(&context, |entry| entry.begin(&cluster(), Some(&first_attempt())));
        let before = context.now();
        answered(
            &context,
            create(&context),
            &WriteResult::Failed(WriteError::new(WriteErrorKind::Broken, "no")),
        );
        with_entry(&context, |entry| {
            let waits = entry.backoff[&cluster()].until - before;
            assert!(
                (waits - TimeDelta::seconds(expected)).abs() < TimeDelta::seconds(1),
                "{waits}"
            );
            assert_eq!(&*entry.backoff[&cluster()].text, "no");
        });
    }
    with_entry(&context, |entry| entry.begin(&cluster(), Some(&first_attempt())));
    answered(&context, create(&context), &WriteResult::Gone);
    with_entry(&context, |entry| {
        assert!(entry.backoff.is_empty(), "a success ends it");
    });
}

#[test]
fn a_rivals_work_found_in_the_way_is_seen_as_such() {
    let context = writing();
    with_entry(&context, |entry| {
        entry.block_step(&cluster(), Step::Platform, context.now(), BlockerKind::Foreign);
    });
    let work = WriteResult::Rival(Box::new(work("c1", Step::Platform, "other", 5)));
    answered(&context, create(&context), &work);
    context.with(|state| {
        let view = state.index.work_of("c1", Step::Platform).unwrap();
        assert_eq!(&*view.upgrade, "other");
        assert!(
            state.upgrades["u1"].blockers.is_empty(),
            "it is nobody else's any more"
        );
    });
}

#[test]
fn foreign_works_are_looked_at_ever_less_often() {
    let context = writing();
    let mut waits = Vec::new();
    for _ in 0..6 {
        with_entry(&context, |entry| entry.begin(&cluster(), Some(&first_attempt())));
        let before = context.now();
        answered(&context, create(&context), &WriteResult::Foreign);
        let retry_at = with_entry(&context, |entry| {
            entry.blockers[&(cluster(), Step::Platform)].retry_at
        });
        waits.push((retry_at - before + TimeDelta::milliseconds(500)).num_seconds());
    }
    assert_eq!(waits, [30, 60, 120, 240, 300, 300]);
}

#[test]
fn a_refused_work_stands_in_the_way_until_the_spec_changes() {
    let context = writing();
    let key = || (cluster(), Step::Platform);
    let of_this_spec = create(&context);
    let of_an_earlier_spec = create(&context);
    answered(
        &context,
        of_this_spec,
        &WriteResult::Refused("spec.x: is bad".to_owned()),
    );
    with_entry(&context, |entry| {
        let refused = BlockerKind::Refused(Arc::from("spec.x: is bad"));
        assert_eq!(entry.blockers[&key()].kind, refused);
        let view = upgrade("u1", &["c1"]).view();
        let edited = resolve::spec::resolve_spec(&view, &WorkFlags::default(), TimeDelta::zero());
        entry.set_spec(edited, true);
        assert!(entry.blockers.is_empty(), "the new spec may do");
        entry.begin(&cluster(), Some(&first_attempt()));
    });
    answered(
        &context,
        of_an_earlier_spec,
        &WriteResult::Refused("spec.x: is bad".to_owned()),
    );
    with_entry(&context, |entry| {
        assert!(entry.blockers.is_empty());
        assert!(entry.dirty && entry.running.is_empty());
    });
}

#[test]
fn what_the_hub_forbids_is_known_from_the_first_time_to_the_last_and_other_failures_end_it() {
    let context = writing();
    let failed = |kind| WriteError::new(kind, "may not");
    with_entry(&context, |entry| {
        for second in [0, 1, 63] {
            entry.fail_to_start(&cluster(), at(second), &failed(WriteErrorKind::Forbidden));
            entry.fail_to_delete(&cluster(), at(second), &failed(WriteErrorKind::Unavailable));
        }
        let known = entry.backoff[&cluster()].clone();
        let forbidden = Forbidden {
            first: at(0),
            last: at(63),
        };
        assert_eq!(
            known.start_forbidden,
            Some(forbidden),
            "deletions say nothing of it"
        );
        assert_eq!(known.deletion_forbidden, None);
        entry.fail_to_start(&cluster(), at(64), &failed(WriteErrorKind::Unavailable));
        assert_eq!(entry.backoff[&cluster()].start_forbidden, None);
    });
}

#[test]
fn a_forbidden_deletion_leaves_it_known_that_creations_are_forbidden() {
    let context = writing();
    let forbidden = WriteResult::Failed(WriteError::new(WriteErrorKind::Forbidden, "may not"));
    let known = |write: Write, outcome: &WriteResult| {
        with_entry(&context, |entry| entry.begin(&cluster(), Some(&first_attempt())));
        answered(&context, write, outcome);
        with_entry(&context, |entry| {
            let backoff = entry.backoff.get(&cluster())?;
            let kinds = [backoff.start_forbidden, backoff.deletion_forbidden];
            Some(kinds.map(|kind| kind.is_some()))
        })
    };
    assert_eq!(known(create(&context), &forbidden), Some([true, false]));
    assert_eq!(known(delete(), &forbidden), Some([true, true]));
    let made = WriteResult::Work(Box::new(work("c1", Step::Platform, "u1", 5)));
    assert_eq!(known(create(&context), &made), None);
}

#[test]
fn a_foreign_work_that_does_not_go_for_a_minute_waits_for_a_human() {
    let context = writing();
    let mut kinds = Vec::new();
    for _ in 0..13 {
        with_entry(&context, |entry| entry.begin(&cluster(), Some(&first_attempt())));
        answered(&context, create(&context), &WriteResult::ForeignTerminating);
        kinds.push(with_entry(&context, |entry| {
            entry.blockers[&(cluster(), Step::Platform)].kind.clone()
        }));
    }
    assert!(
        kinds[..12]
            .iter()
            .all(|kind| *kind == BlockerKind::ForeignTerminating)
    );
    assert_eq!(kinds[12], BlockerKind::Foreign);
}

#[test]
fn a_foreign_work_stays_in_the_way_of_an_edited_spec() {
    let context = writing();
    answered(&context, create(&context), &WriteResult::Foreign);
    with_entry(&context, |entry| {
        let view = upgrade("u1", &["c1"]).view();
        let edited = resolve::spec::resolve_spec(&view, &WorkFlags::default(), TimeDelta::zero());
        entry.set_spec(edited, true);
        assert_eq!(entry.blockers.len(), 1);
    });
}

#[test]
fn a_missing_namespace_takes_the_cluster_out_whatever_was_written() {
    for write in [create(&writing()), delete()] {
        let context = writing();
        answered(&context, write, &WriteResult::NamespaceTerminating);
        with_entry(&context, |entry| {
            assert!(entry.missing.contains_key(&cluster()));
        });
    }
}

#[test]
fn a_cluster_that_has_begun_is_out_when_its_namespace_does_not_exist() {
    for phase in [
        Phase::PreAction,
        Phase::Partial,
        Phase::Soaking,
        Phase::PostAction,
    ] {
        let context = writing();
        with_entry(&context, |entry| note(entry, "c1", record(phase)));
        answered(&context, create(&context), &WriteResult::NamespaceMissing);
        with_entry(&context, |entry| {
            assert!(entry.missing.contains_key(&cluster()), "{phase}");
            assert!(entry.backoff.get(&cluster()).is_none(), "{phase}");
        });
    }
}

#[test]
fn a_cluster_that_waits_is_told_that_its_namespace_does_not_exist() {
    for phase in [Phase::Pending, Phase::Blocked] {
        let context = writing();
        with_entry(&context, |entry| note(entry, "c1", record(phase)));
        answered(&context, create(&context), &WriteResult::NamespaceMissing);
        with_entry(&context, |entry| {
            assert!(!entry.missing.contains_key(&cluster()), "{phase}");
            let text = &entry.backoff[&cluster()].text;
            assert!(text.contains("namespace of the cluster does not exist"), "{text}");
        });
    }
}

#[test]
fn a_deletion_that_failed_leaves_the_work_as_it_was() {
    let context = writing();
    context.with(|state| {
        let work = work("c1", Step::Platform, "u1", 5);
        state.index.work(&Change::Applied(work), context.now());
        state
            .index
            .mark_deleting("c1", Step::Platform, "c1-cluster-upgrade-u1", None);
    });
    answered(
        &context,
        delete(),
        &WriteResult::Failed(WriteError::new(WriteErrorKind::Broken, "no")),
    );
    let terminating = |context: &Context| {
        context.with(|state| {
            state
                .index
                .work_of("c1", Step::Platform)
                .unwrap()
                .work
                .terminating
        })
    };
    assert!(!terminating(&context));
    context.with(|state| {
        state
            .index
            .mark_deleting("c1", Step::Platform, "c1-cluster-upgrade-u1", None);
    });
    with_entry(&context, |entry| entry.begin(&cluster(), None));
    answered(&context, delete(), &WriteResult::DeletionAccepted { version: 0 });
    assert!(terminating(&context));
}

#[test]
fn a_work_that_is_gone_is_forgotten() {
    let context = writing();
    context.with(|state| {
        let work = work("c1", Step::Platform, "u1", 5);
        state.index.work(&Change::Applied(work), context.now());
    });
    answered(&context, delete(), &WriteResult::Gone);
    assert!(!is_indexed(&context));
}

#[test]
fn an_answer_for_an_upgrade_that_is_gone_still_tells_of_the_work() {
    let context = writing();
    let write = create(&context);
    context.with(|state| state.delete_upgrade("u1"));
    let work = WriteResult::Work(Box::new(work("c1", Step::Platform, "u1", 5)));
    answered(&context, write, &work);
    assert!(is_indexed(&context));
}

#[test]
fn an_answer_to_a_report_of_an_earlier_term_is_let_pass() {
    let context = writing();
    let due = with_entry(&context, |entry| {
        note(entry, "c1", record(Phase::Complete));
        entry.rows.due(Instant::now() + Duration::from_secs(5)).remove(0)
    });
    context.with(|state| {
        state.end_term();
        state.begin_term();
    });
    let write = Write::Report {
        namespace: Arc::from("ns"),
        due: Box::new(due),
        body: None,
    };
    answered(&context, write, &WriteResult::Report(crate::fixture::stored(5)));
    with_entry(&context, |entry| assert!(entry.rows.all().is_empty()));
}

#[test]
fn a_written_record_is_news_for_the_planner() {
    let context = writing();
    let due = with_entry(&context, |entry| {
        note(entry, "c1", record(Phase::Complete));
        entry.rows.due(Instant::now() + Duration::from_secs(5)).remove(0)
    });
    let write = Write::Report {
        namespace: Arc::from("ns"),
        due: Box::new(due),
        body: None,
    };
    answered(&context, write, &WriteResult::Report(crate::fixture::stored(5)));
    with_entry(&context, |entry| {
        assert!(entry.dirty);
        assert!(entry.rows.get("c1").unwrap().written.is_some());
    });
}

#[test]
fn finalizers_that_cannot_be_written_are_tried_ever_less_often() {
    let context = writing();
    let write = || Write::Finalizers {
        namespace: Arc::from("ns"),
        name: Arc::from("u1"),
        version: "1".to_owned(),
        finalizers: Vec::new(),
        recorded_uid: None,
    };
    for failures in [1, 2] {
        with_entry(&context, |entry| entry.finalizing = true);
        answered(
            &context,
            write(),
            &WriteResult::Failed(WriteError::new(WriteErrorKind::Broken, "forbidden")),
        );
        with_entry(&context, |entry| {
            assert!(!entry.finalizing);
            assert_eq!(entry.finalizer_backoff.as_ref().unwrap().failures, failures);
        });
    }
    let written = Given {
        version: 2,
        ..upgrade("u1", &["c1"])
    };
    answered(&context, write(), &WriteResult::Upgrade(Box::new(written.view())));
    with_entry(&context, |entry| assert!(entry.finalizer_backoff.is_none()));
}

#[test]
fn a_status_counts_as_written_only_when_the_hub_said_so() {
    let context = writing();
    let status: api::ManagedClustersUpgradeStatus =
        serde_json::from_value(json!({"progress": "1/2"})).unwrap();
    for (round, outcome, repeated) in [
        (
            5,
            WriteResult::Failed(WriteError::new(WriteErrorKind::Broken, "no")),
            true,
        ),
        (
            10,
            WriteResult::Upgrade(Box::new(
                Given {
                    version: 2,
                    status: json!({"progress": "1/2"}),
                    ..upgrade("u1", &["c1"])
                }
                .view(),
            )),
            false,
        ),
    ] {
        let later = Instant::now() + Duration::from_secs(round);
        let due = with_entry(&context, |entry| {
            entry.status.set(status.clone(), rollout::testing::at(0));
            entry.status.due(later).unwrap()
        });
        let write = Write::Status {
            namespace: Arc::from("ns"),
            name: Arc::from("u1"),
            version: "1".to_owned(),
            status: Box::new(due),
        };
        answered(&context, write, &outcome);
        with_entry(&context, |entry| {
            assert_eq!(entry.status.due_at(later).is_some(), repeated);
        });
    }
}

fn failed(counted: WriteErrorKind) -> WriteResult {
    WriteResult::Failed(WriteError::new(counted, "no"))
}

fn tried(context: &Context, outcome: &WriteResult) {
    with_entry(context, |entry| entry.begin(&cluster(), Some(&first_attempt())));
    answered(context, create(context), outcome);
}

#[test]
fn a_write_that_was_not_sent_ends_no_pause() {
    let context = writing();
    tried(&context, &failed(WriteErrorKind::Forbidden));
    for outcome in [WriteResult::NotLeading, WriteResult::GivenUp] {
        for write in [create(&context), delete()] {
            with_entry(&context, |entry| entry.begin(&cluster(), Some(&first_attempt())));
            answered(&context, write, &outcome);
            with_entry(&context, |entry| assert!(entry.backoff.contains_key(&cluster())));
        }
    }
}

fn read(context: &Context, uid: Option<&str>, outcome: &WriteResult) {
    with_entry(context, |entry| entry.begin(&cluster(), None));
    let write = Write::Read {
        cluster: cluster(),
        step: Step::Platform,
        owner: Arc::from("ns/u1"),
        uid: uid.map(Arc::from),
        asked: context.now(),
    };
    answered(context, write, outcome);
}

#[test]
fn a_reading_is_remembered_for_a_deadline_unless_it_failed() {
    let context = writing();
    let reading = |context: &Context| {
        let now = context.now();
        with_entry(context, |entry| entry.reading("c1", now).map(|(step, _)| step))
    };
    read(&context, None, &failed(WriteErrorKind::Broken));
    assert_eq!(reading(&context), None);
    with_entry(&context, |entry| assert!(entry.backoff.contains_key(&cluster())));
    context.with(|state| {
        let work = work("c1", Step::Platform, "u1", 5);
        state.index.work(&Change::Applied(work), context.now());
    });
    read(&context, Some("c1-cluster-upgrade-u1"), &WriteResult::Gone);
    assert_eq!(reading(&context), Some(Step::Platform));
    assert!(!is_indexed(&context), "the watch has not said so");
    with_entry(&context, |entry| assert!(entry.backoff.is_empty()));
    let later = context.now() + TimeDelta::seconds(61);
    with_entry(&context, |entry| {
        assert_eq!(entry.reading("c1", later), None, "an old result");
    });
}

#[test]
fn only_a_deletion_that_the_hub_has_taken_leaves_the_work_doomed() {
    let here = || Box::new(work("c1", Step::Platform, "u1", 5));
    for (outcome, terminating) in [
        (WriteResult::DeletionAccepted { version: 0 }, Some(true)),
        (WriteResult::Gone, None),
        (WriteResult::Work(here()), Some(false)),
        (failed(WriteErrorKind::Conflict), Some(false)),
        (WriteResult::GivenUp, Some(false)),
        (WriteResult::NotLeading, Some(false)),
        (WriteResult::Foreign, Some(false)),
        (WriteResult::Refused("no".to_owned()), Some(false)),
        (
            WriteResult::Rival(Box::new(work("c1", Step::Platform, "other", 5))),
            None,
        ),
    ] {
        let context = writing();
        context.with(|state| {
            state.index.work(&Change::Applied(*here()), context.now());
            state
                .index
                .mark_deleting("c1", Step::Platform, "c1-cluster-upgrade-u1", None);
        });
        answered(&context, delete(), &outcome);
        let found = context.with(|state| {
            let view = state.index.work_of("c1", Step::Platform);
            view.map(|view| view.work.terminating)
        });
        assert_eq!(found, terminating, "{outcome:?}");
    }
}

mod forbidden;
mod namespace;
mod status;
mod unsettled;
mod withdrawal;

/// Otherwise an upgrade that waits for the cluster would wait until something else happens.
#[test]
fn upgrades_that_wait_for_a_cluster_are_woken_when_the_writes_of_its_owner_are_settled() {
    let context = writing();
    let write = create(&context);
    let Write::Create { params, .. } = &write else {
        panic!("a creation");
    };
    let attempt = params.attempt.clone();
    context.with(|state| {
        state.apply_upgrade(upgrade("u2", &["c1"]).view());
        let waiting = state.upgrades.get_mut("u2").unwrap();
        waiting.has_conflicts = true;
        waiting.dirty = false;
    });
    let is_woken = || context.with(|state| state.upgrades["u2"].dirty);
    with_entry(&context, |entry| {
        let unknown = WriteResult::Failed(WriteError::new(WriteErrorKind::Timeout, "no response"));
        let long_ago = clock::now().checked_sub(Duration::from_mins(2)).unwrap();
        entry.record_certainty(
            &cluster(),
            (Step::Platform, OperationKind::Create),
            &attempt,
            &unknown,
            long_ago,
        );
        assert_eq!(entry.unsettled.len(), 1);
    });
    assert!(!is_woken());
    answered(&context, write, &WriteResult::Refused("it is invalid".to_owned()));
    with_entry(&context, |entry| assert!(entry.unsettled.is_empty()));
    assert!(is_woken());
}
