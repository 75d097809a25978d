use std::sync::Arc;

use api::names::Step;
use chrono::TimeDelta;
use observe::index::WorkRequest;
use resolve::spec::resolve_spec;
use resolve::works::WorkFlags;
use rollout::testing::{at, record};
use rollout::{Attempt, Phase};
use serde_json::{Value, json};

use super::*;
use crate::apply::WorkParams;
use crate::fixture::{context, note, upgrade};
use crate::state::context::Context;

const CLUSTER: &str = "c1";

/// Creation of a work, planned now.
fn queued(context: &Context) -> WriteJob {
    context.with(|state| {
        let entry = &state.upgrades["u1"];
        let params = WorkParams {
            spec: Arc::clone(entry.in_force().unwrap()),
            violations: entry.spec.as_ref().err().cloned(),
            owner: Arc::from("ns/u1"),
            cluster_uid: Arc::from(""),
            cluster_id: None,
            request: WorkRequest::AsPlanned,
            attempt: Attempt {
                revision: Arc::from("r1"),
                retry: Arc::from(""),
            },
            started: at(0),
            starts: false,
            until: None,
            approvals: Arc::default(),
        };
        WriteJob {
            upgrade: Arc::clone(&entry.uid),
            write: Write::Create {
                cluster: Arc::from(CLUSTER),
                step: Step::Platform,
                params,
                slot_released_at: None,
            },
        }
    })
}

fn known() -> Context {
    let context = context(&[CLUSTER]);
    context.with(|state| state.apply_upgrade(upgrade("u1", &[CLUSTER]).view()));
    context
}

fn is_asked_for(context: &Context, job: &WriteJob) -> bool {
    context.with(|state| state.is_asked_for(job, at(0)))
}

#[test]
fn a_queued_start_is_called_back_by_any_edit_of_the_spec_and_by_no_other_change() {
    let context = known();
    let job = queued(&context);
    assert!(is_asked_for(&context, &job));
    let mut given = upgrade("u1", &[CLUSTER]);
    given.version = 2;
    given.retry = Some("t1".to_owned());
    context.with(|state| state.apply_upgrade(given.view()));
    assert!(is_asked_for(&context, &job), "its spec is the same");
    given.version = 3;
    given.spec["paused"] = true.into();
    context.with(|state| state.apply_upgrade(given.view()));
    assert!(!is_asked_for(&context, &job));
    assert!(
        is_asked_for(&context, &queued(&context)),
        "planned by the new one"
    );
}

#[test]
fn a_queued_start_is_called_back_once_the_windows_have_closed_by_which_it_was_planned() {
    let context = known();
    let mut job = queued(&context);
    let is_asked_for_at =
        |job: &WriteJob, seconds| context.with(|state| state.is_asked_for(job, at(seconds)));
    assert!(is_asked_for_at(&job, 60), "it goes by no window");
    let Write::Create { params, .. } = &mut job.write else {
        panic!("no creation")
    };
    params.until = Some(at(60));
    assert!(is_asked_for_at(&job, 59));
    assert!(!is_asked_for_at(&job, 60));
}

/// A canary has failed since, or more clusters than maxFailures allows.
#[test]
fn a_queued_start_is_called_back_once_the_latest_plan_starts_nothing_any_more() {
    let context = known();
    let (step, mut start) = (queued(&context), queued(&context));
    let Write::Create { params, .. } = &mut start.write else {
        panic!("no creation")
    };
    params.starts = true;
    assert!(is_asked_for(&context, &start));
    context.with(|state| state.upgrades.get_mut("u1").unwrap().starts_stopped = true);
    assert!(!is_asked_for(&context, &start));
    assert!(is_asked_for(&context, &step), "what has started goes on");
}

#[test]
fn a_queued_start_is_called_back_once_its_cluster_has_left_the_selection() {
    let context = known();
    let (step, mut start) = (queued(&context), queued(&context));
    let Write::Create { params, .. } = &mut start.write else {
        panic!("no creation")
    };
    params.starts = true;
    context.with(|state| {
        let entry = state.upgrades.get_mut("u1").unwrap();
        entry.left.insert(Arc::from(CLUSTER), at(10));
    });
    let is_asked_for_at =
        |job: &WriteJob, seconds| context.with(|state| state.is_asked_for(job, at(seconds)));
    assert!(is_asked_for_at(&start, 14), "it may be back in a moment");
    assert!(!is_asked_for_at(&start, 15));
    assert!(is_asked_for_at(&step, 15), "a leaver goes through all its steps");
    let Write::Create { params, .. } = &mut start.write else {
        panic!("no creation")
    };
    params.started = at(15);
    assert!(
        is_asked_for_at(&start, 20),
        "so does one that was blocked before its next step"
    );
}

#[test]
fn a_queued_start_is_called_back_once_an_approval_is_deleted_that_there_was_when_it_was_planned() {
    let context = known();
    let approval = |name: &str| {
        let object = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"upgrade": "u1", "checkpoint": name, "planHash": "h", "approver": "anna"},
        }));
        ((Arc::from("ns"), Arc::from(name)), object.unwrap())
    };
    let give = |name: &str| {
        let (key, object) = approval(name);
        context.with(|state| state.index.approvals.apply(&key, &object));
    };
    give("half");
    let mut job = queued(&context);
    let Write::Create { params, .. } = &mut job.write else {
        panic!("no creation")
    };
    params.approvals = context.with(|state| state.index.approvals.of(&params.owner).into());
    assert_eq!(params.approvals.len(), 1);
    give("most");
    assert!(is_asked_for(&context, &job), "nothing is taken back");
    context.with(|state| state.index.approvals.delete(&approval("half").0));
    assert!(!is_asked_for(&context, &job));
}

/// Somebody edits the version to one that is invalid.
fn misspell(context: &Context, version: &str) {
    context.with(|state| {
        let mut view = upgrade("u1", &[CLUSTER]);
        view.spec["clusterVersion"]["version"] = version.into();
        let invalid = resolve_spec(&view.view(), &WorkFlags::default(), TimeDelta::zero());
        assert!(invalid.is_err());
        state.upgrades.get_mut("u1").unwrap().set_spec(invalid, true);
    });
}

#[test]
fn after_an_invalid_edit_what_was_planned_before_is_called_back_and_what_is_planned_since_is_sent() {
    let context = known();
    let before = queued(&context);
    misspell(&context, "v4");
    let since = queued(&context);
    assert!(!is_asked_for(&context, &before), "it may be a start");
    assert!(
        is_asked_for(&context, &since),
        "only clusters in flight are in such a plan"
    );
    misspell(&context, "v5");
    assert!(!is_asked_for(&context, &since));
    assert!(is_asked_for(&context, &queued(&context)));
}

#[test]
fn a_queued_probe_is_called_back_by_an_invalid_edit_unless_its_cluster_is_under_way() {
    let context = known();
    let probe = context.with(|state| {
        let entry = &state.upgrades["u1"];
        WriteJob {
            upgrade: Arc::clone(&entry.uid),
            write: Write::CreateProbe {
                cluster: Arc::from(CLUSTER),
                kind: ProbeKind::Preflight,
                spec: Arc::clone(entry.in_force().unwrap()),
                owner: Arc::from("ns/u1"),
            },
        }
    });
    assert!(is_asked_for(&context, &probe));
    misspell(&context, "v4");
    assert!(!is_asked_for(&context, &probe));
    context.with(|state| {
        let entry = state.upgrades.get_mut("u1").unwrap();
        note(entry, CLUSTER, record(Phase::PreAction));
    });
    assert!(is_asked_for(&context, &probe));
}

/// An overloaded hub may make it wait for minutes.
#[test]
fn a_queued_probe_is_called_back_once_its_cluster_has_left_the_selection() {
    let context = known();
    let probe = |kind| {
        context.with(|state| {
            let entry = &state.upgrades["u1"];
            WriteJob {
                upgrade: Arc::clone(&entry.uid),
                write: Write::CreateProbe {
                    cluster: Arc::from(CLUSTER),
                    kind,
                    spec: Arc::clone(entry.in_force().unwrap()),
                    owner: Arc::from("ns/u1"),
                },
            }
        })
    };
    let (before, pools) = (probe(ProbeKind::Preflight), probe(ProbeKind::Workers));
    context.with(|state| {
        let State { index, upgrades, .. } = state;
        upgrades.get_mut("u1").unwrap().refresh_selection(index, false);
    });
    assert!(is_asked_for(&context, &before));
    context.with(|state| {
        let entry = state.upgrades.get_mut("u1").unwrap();
        assert!(entry.selected.clusters.remove(CLUSTER).is_some());
    });
    assert!(!is_asked_for(&context, &before));
    assert!(is_asked_for(&context, &pools), "its update has begun");
}

#[test]
fn a_queued_withdrawal_is_called_back_when_the_cluster_is_not_left_out_any_more() {
    let context = context(&[CLUSTER]);
    let edit = |version: u64, strategy: Value| {
        let mut given = upgrade("u1", &[CLUSTER]);
        given.version = version;
        given.spec["upgradeStrategy"] = strategy;
        context.with(|state| state.apply_upgrade(given.view()));
    };
    let withdrawal = || {
        context.with(|state| {
            let entry = &state.upgrades["u1"];
            WriteJob {
                upgrade: Arc::clone(&entry.uid),
                write: Write::Withdraw {
                    cluster: Arc::from(CLUSTER),
                    uid: Arc::from("w1"),
                    version: 5,
                    spec: Arc::clone(entry.in_force().unwrap()),
                    violations: entry.spec.as_ref().err().cloned(),
                },
            }
        })
    };
    edit(1, json!({"abort": [{"cluster": CLUSTER, "reason": "no power"}]}));
    let job = withdrawal();
    assert!(is_asked_for(&context, &job));
    edit(2, json!({}));
    assert!(!is_asked_for(&context, &job));
    edit(3, json!({"abort": [{"cluster": CLUSTER, "reason": "no power"}]}));
    assert!(!is_asked_for(&context, &job), "it is planned again");
    assert!(is_asked_for(&context, &withdrawal()));
    context.with(|state| state.delete_upgrade("u1"));
    assert!(!is_asked_for(&context, &job));
}

#[test]
fn nothing_is_created_for_an_upgrade_that_is_being_deleted_or_is_gone() {
    let context = known();
    let job = queued(&context);
    let mut given = upgrade("u1", &[CLUSTER]);
    (given.version, given.deleting) = (2, true);
    context.with(|state| state.apply_upgrade(given.view()));
    assert!(!is_asked_for(&context, &job));
    context.with(|state| state.delete_upgrade("u1"));
    assert!(!is_asked_for(&context, &job));
}
