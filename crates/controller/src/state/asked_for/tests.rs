use std::sync::Arc;

use api::names::Step;
use chrono::TimeDelta;
use resolve::spec::resolve_spec;
use resolve::works::WorkFlags;
use rollout::Attempt;
use rollout::testing::at;

use super::*;
use crate::apply::WorkParams;
use crate::fixture::{context, upgrade};
use crate::state::context::Context;

const CLUSTER: &str = "c1";

/// Creation of a work by the spec that is in force now.
fn queued(context: &Context, is_start: bool) -> WriteJob {
    context.with(|state| {
        let entry = state.upgrades.get_mut("u1").unwrap();
        entry.begin(&Arc::from(CLUSTER), is_start);
        let params = WorkParams {
            spec: Arc::clone(entry.in_force().unwrap()),
            owner: Arc::from("ns/u1"),
            cluster_id: None,
            image: None,
            attempt: Attempt {
                revision: Arc::from("r1"),
                retry: Arc::from(""),
            },
            started: at(0),
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
    context.with(|state| state.is_asked_for(job))
}

#[test]
fn a_queued_start_is_called_back_by_any_edit_of_the_spec_and_by_no_other_change() {
    let context = known();
    let job = queued(&context, true);
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
        is_asked_for(&context, &queued(&context, false)),
        "planned by the new one"
    );
}

#[test]
fn after_an_invalid_edit_only_clusters_in_flight_go_on() {
    let context = known();
    for (is_start, expected) in [(false, true), (true, false)] {
        let job = queued(&context, is_start);
        context.with(|state| {
            let mut view = upgrade("u1", &[CLUSTER]);
            view.spec["clusterVersion"]["version"] = "v4".into();
            let invalid = resolve_spec(&view.view(), &WorkFlags::default(), TimeDelta::zero());
            assert!(invalid.is_err());
            state.upgrades.get_mut("u1").unwrap().set_spec(invalid, true);
        });
        assert_eq!(is_asked_for(&context, &job), expected);
    }
}

#[test]
fn nothing_is_created_for_an_upgrade_that_is_being_deleted_or_is_gone() {
    let context = known();
    let job = queued(&context, false);
    let mut given = upgrade("u1", &[CLUSTER]);
    (given.version, given.deleting) = (2, true);
    context.with(|state| state.apply_upgrade(given.view()));
    assert!(!is_asked_for(&context, &job));
    context.with(|state| state.delete_upgrade("u1"));
    assert!(!is_asked_for(&context, &job));
}
