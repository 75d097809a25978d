use chrono::{DateTime, Utc};
use rollout::testing::{at, record};
use serde_json::json;

use api::names::{ANNOTATION_OWNER, LABEL_MCU_UID, Step, WorkKind};
use observe::index::{Change, WorkRequest};
use serde_json::Value;

use super::*;
use crate::fixture::{context, note, settings, upgrade, work};
use crate::state::orphans::keeps_cluster_version;
use crate::state::orphans::{ExistingUpgrades, SWEEP_AFTER, evaluate};

fn now() -> DateTime<Utc> {
    at(0)
}

fn candidate(step: Step) -> OrphanCandidate {
    OrphanCandidate {
        cluster: Arc::from("c1"),
        kind: WorkKind::Step(step),
        uid: Arc::from(format!("c1-{step}-gone")),
        upgrade: Arc::from("gone"),
        judged: 0,
    }
}

fn object(step: Step, owner: &str, delete_option: &Value) -> Value {
    json!({
        "metadata": {"name": step.work_name("c1"), "namespace": "c1", "uid": format!("c1-{step}-gone"),
            "labels": {LABEL_MCU_UID: "gone"}, "annotations": {ANNOTATION_OWNER: owner}},
        "spec": {"deleteOption": delete_option, "workload": {"manifests": []}},
    })
}

fn shipped() -> Value {
    json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [
        {"group": "config.openshift.io", "resource": "clusterversions", "name": "version", "namespace": ""}]}})
}

fn existing(uid: &str, name: &str) -> ExistingUpgrades {
    ExistingUpgrades {
        uids: [uid.to_owned()].into(),
        names: [name.to_owned()].into(),
    }
}

#[test]
fn a_work_is_an_orphan_only_while_its_upgrade_is_unknown_and_is_judged_after_ten_minutes() {
    let context = context(&["c1"]);
    let begun = Instant::now();
    context.with(|state| {
        state.apply_upgrade(upgrade("u1", &["c1"]).view());
        for (step, owner, version) in [(Step::Platform, "gone", 5), (Step::PreAction, "u1", 6)] {
            let work = work("c1", step, owner, version);
            state.index.work(&Change::Applied(work), now());
        }
        assert!(state.find_orphans(begun).is_empty());
        assert_eq!(state.orphans.count(), 1);
        assert!(state.find_orphans(begun + SWEEP_AFTER / 2).is_empty());
        let due = begun + SWEEP_AFTER;
        assert_eq!(state.find_orphans(due), [candidate(Step::Platform)]);
        assert!(
            state.find_orphans(due + INTERVAL).is_empty(),
            "one evaluation at a time"
        );
        let decisions = vec![(candidate(Step::Platform), OrphanDecision::Remove)];
        let (jobs, reports) = state.record_decisions(decisions, due);
        assert!(reports.is_empty());
        let [
            WriteJob {
                write:
                    Write::Delete {
                        cluster,
                        step,
                        uid,
                        version: Some(5),
                        halt,
                    },
                ..
            },
        ] = jobs.as_slice()
        else {
            panic!("{jobs:?}")
        };
        assert_eq!(
            (&**cluster, *step, &**uid, *halt),
            ("c1", Step::Platform, "c1-cluster-upgrade-gone", false)
        );
        assert!(
            state.find_orphans(due + RECHECK_AFTER * 2).is_empty(),
            "it is on its way out"
        );
    });
}

#[test]
fn an_upgrade_that_was_seen_in_between_starts_the_ten_minutes_anew() {
    let context = context(&["c1"]);
    let begun = Instant::now();
    context.with(|state| {
        let work = work("c1", Step::Platform, "gone", 5);
        state.index.work(&Change::Applied(work), now());
        let _ = state.find_orphans(begun);
        state.apply_upgrade(upgrade("gone", &["c1"]).view());
        let _ = state.find_orphans(begun + SWEEP_AFTER / 2);
        assert_eq!(state.orphans.count(), 0);
        state.delete_upgrade("gone");
        assert!(state.find_orphans(begun + SWEEP_AFTER).is_empty());
        assert_eq!(state.find_orphans(begun + SWEEP_AFTER * 2).len(), 1);
    });
}

/// The agent of a detached cluster never releases its works.
#[test]
fn works_that_are_on_their_way_out_keep_no_other_waiting() {
    let context = context(&[]);
    let begun = Instant::now();
    context.with(|state| {
        for number in 0..60 {
            let cluster = format!("a{number:02}");
            let stuck = work(&cluster, Step::Platform, "gone", 5);
            state.index.work(&Change::Applied(stuck), now());
            let uid = format!("{cluster}-cluster-upgrade-gone");
            state.index.mark_deleting(&cluster, Step::Platform, &uid, None);
        }
        let left = work("c1", Step::Platform, "gone", 6);
        state.index.work(&Change::Applied(left), now());
        let _ = state.find_orphans(begun);
        let due = state.find_orphans(begun + SWEEP_AFTER);
        assert_eq!(due, [candidate(Step::Platform)]);
    });
}

#[test]
fn a_work_whose_upgrade_appears_while_it_is_judged_stays() {
    let context = context(&["c1"]);
    let begun = Instant::now();
    context.with(|state| {
        let work = work("c1", Step::Platform, "gone", 5);
        state.index.work(&Change::Applied(work), now());
        let _ = state.find_orphans(begun);
        assert_eq!(state.find_orphans(begun + SWEEP_AFTER).len(), 1);
        state.apply_upgrade(upgrade("gone", &["c1"]).view());
        let (jobs, _) = state.record_decisions(
            vec![(candidate(Step::Platform), OrphanDecision::Remove)],
            begun + SWEEP_AFTER,
        );
        assert!(jobs.is_empty());
    });
}

/// Its platform work is changed in place, so it is the same object.
#[test]
fn a_work_that_another_upgrade_takes_over_while_it_is_judged_stays() {
    let context = context(&["c1"]);
    let begun = Instant::now();
    context.with(|state| {
        let left = work("c1", Step::Platform, "gone", 5);
        state.index.work(&Change::Applied(left.clone()), now());
        let _ = state.find_orphans(begun);
        let due = begun + SWEEP_AFTER;
        assert_eq!(state.find_orphans(due), [candidate(Step::Platform)]);
        state.apply_upgrade(upgrade("u1", &["c1"]).view());
        let mut taken = work("c1", Step::Platform, "u1", 6);
        taken.metadata.uid = left.metadata.uid;
        state.index.work(&Change::Applied(taken), now());
        let decisions = vec![(candidate(Step::Platform), OrphanDecision::Remove)];
        let (jobs, _) = state.record_decisions(decisions, due + Duration::from_secs(5));
        assert!(jobs.is_empty(), "{jobs:?}");
        let view = state.index.work_of("c1", Step::Platform).unwrap();
        assert!(!view.work.terminating);
    });
}

/// Its deleteOption may have been changed since it was read.
#[test]
fn a_work_is_deleted_only_at_the_version_that_was_judged() {
    let context = context(&["c1"]);
    let begun = Instant::now();
    context.with(|state| {
        let edited = work("c1", Step::Platform, "gone", 6);
        state.index.work(&Change::Applied(edited), now());
        let _ = state.find_orphans(begun);
        let due = begun + SWEEP_AFTER;
        let _ = state.find_orphans(due);
        let judged = OrphanCandidate {
            judged: 5,
            ..candidate(Step::Platform)
        };
        let (jobs, _) = state.record_decisions(vec![(judged, OrphanDecision::Remove)], due);
        let [job] = jobs.as_slice() else {
            panic!("{jobs:?}")
        };
        assert!(
            matches!(job.write, Write::Delete { version: Some(5), .. }),
            "{job:?}"
        );
        let view = state.index.work_of("c1", Step::Platform).unwrap();
        assert!(!view.work.terminating, "the hub rejects that");
    });
}

#[test]
fn an_orphan_goes_unless_the_hub_knows_its_upgrade_or_one_of_that_name() {
    let one = candidate(Step::Platform);
    let work = object(Step::Platform, "ns/spring", &shipped());
    let evaluated = |existing: &ExistingUpgrades| evaluate(&work, &one, existing, &settings(), |_| true);
    assert_eq!(evaluated(&ExistingUpgrades::default()), OrphanDecision::Remove);
    assert_eq!(evaluated(&existing("other", "ns/autumn")), OrphanDecision::Remove);
    assert_eq!(evaluated(&existing("gone", "ns/x")), OrphanDecision::Leave);
    assert_eq!(
        evaluated(&existing("new", "ns/spring")),
        OrphanDecision::Leave,
        "restored under its name"
    );
    let decision = evaluate(&work, &one, &existing("new", "ns/spring"), &settings(), |_| false);
    assert_eq!(
        decision,
        OrphanDecision::Remove,
        "which never concerns the cluster"
    );
}

#[test]
fn an_upgrade_takes_over_what_one_of_its_name_left_only_in_its_own_clusters() {
    let context = context(&["c1", "c2"]);
    context.with(|state| {
        assert!(state.may_take_over("ns/u1", "c2"), "it is not known yet");
        state.apply_upgrade(upgrade("u1", &["c1"]).view());
        assert!(
            state.may_take_over("ns/u1", "c2"),
            "its selection is not known yet"
        );
        let entry = state.upgrades.get_mut("u1").unwrap();
        entry.refresh_selection(&state.index, false);
        entry.last_reconcile = Some((Instant::now(), Duration::ZERO));
        assert!(state.may_take_over("ns/u1", "c1"));
        assert!(!state.may_take_over("ns/u1", "c2"));
        let entry = state.upgrades.get_mut("u1").unwrap();
        note(entry, "c1", record(Phase::Blocked));
        assert!(!state.may_take_over("ns/u1", "c1"), "it does not start there");
        let entry = state.upgrades.get_mut("u1").unwrap();
        note(entry, "c1", record(Phase::Complete));
        assert!(state.may_take_over("ns/u1", "c1"), "the spec has changed since");
        let entry = state.upgrades.get_mut("u1").unwrap();
        let revision = entry.spec.as_ref().unwrap().policy.revision.to_string();
        note(entry, "c1", record(Phase::Complete).revision(&revision));
        assert!(!state.may_take_over("ns/u1", "c1"), "it is complete there");
        let entry = state.upgrades.get_mut("u1").unwrap();
        entry.origin = Origin::Restored(Arc::from("hold"));
        assert!(
            state.may_take_over("ns/u1", "c2"),
            "it may get another spec before it continues"
        );
    });
}

#[test]
fn a_work_that_is_not_the_one_that_was_found_stays() {
    let one = candidate(Step::Platform);
    let good = object(Step::Platform, "ns/spring", &shipped());
    for (pointer, value) in [
        ("/metadata/uid", json!("another")),
        ("/metadata/labels", json!({})),
        ("/metadata/name", json!("c1-something")),
        (
            "/metadata/annotations",
            json!({ANNOTATION_OWNER: "elsewhere/spring"}),
        ),
    ] {
        let mut work = good.clone();
        *work.pointer_mut(pointer).unwrap() = value;
        let mut restricted = settings();
        restricted.namespaces = vec![Arc::from("ns")];
        assert_eq!(
            evaluate(&good, &one, &ExistingUpgrades::default(), &restricted, |_| true),
            OrphanDecision::Remove
        );
        assert_eq!(
            evaluate(&work, &one, &ExistingUpgrades::default(), &restricted, |_| true),
            OrphanDecision::Leave,
            "{pointer}"
        );
    }
}

#[test]
fn a_work_whose_deletion_would_delete_clusterversion_is_only_told() {
    let evaluated = |step, option: &Value| {
        evaluate(
            &object(step, "ns/spring", option),
            &candidate(step),
            &ExistingUpgrades::default(),
            &settings(),
            |_| true,
        )
    };
    for option in [
        Value::Null,
        json!({"propagationPolicy": "Foreground"}),
        json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [
            {"group": "", "resource": "ClusterVersion.config.openshift.io", "name": "version", "namespace": ""}]}}),
    ] {
        assert!(
            matches!(evaluated(Step::Platform, &option), OrphanDecision::Keep(_)),
            "{option}"
        );
        assert_eq!(
            evaluated(Step::PreAction, &option),
            OrphanDecision::Remove,
            "{option}"
        );
    }
    let mut action = object(Step::PreAction, "ns/spring", &Value::Null);
    action["spec"]["workload"]["manifests"] = json!([{"kind": "ClusterVersion"}]);
    let decision = evaluate(
        &action,
        &candidate(Step::PreAction),
        &ExistingUpgrades::default(),
        &settings(),
        |_| true,
    );
    assert!(matches!(decision, OrphanDecision::Keep(_)));
}

#[test]
fn the_platform_work_as_this_controller_writes_it_spares_clusterversion() {
    let index = observe::index::Index::default();
    let entry = upgrade("u1", &["c1"]).entry(&index);
    let spec = entry.spec.as_ref().unwrap();
    let facts = resolve::works::ClusterFacts {
        name: "c1",
        uid: "",
        cluster_id: None,
        request: &WorkRequest::AsPlanned,
    };
    let stamp = resolve::works::Stamp {
        mcu_uid: "u1",
        owner: "ns/u1",
        revision: "r1",
        retry: "",
        started_at: now(),
    };
    let body = spec.templates.body(Step::Platform, &facts, &stamp).unwrap();
    let work: Value = serde_json::from_slice(&body).unwrap();
    assert!(keeps_cluster_version(&work), "{work}");
}

#[test]
fn a_probe_of_an_upgrade_that_was_created_anew_is_taken_over_by_nobody() {
    let probe = OrphanCandidate {
        kind: WorkKind::Probe,
        ..candidate(Step::Platform)
    };
    let mut work = object(Step::Platform, "ns/spring", &shipped());
    work["metadata"]["name"] = json!(WorkKind::Probe.work_name("c1"));
    let decision = evaluate(&work, &probe, &existing("new", "ns/spring"), &settings(), |_| {
        true
    });
    assert_eq!(decision, OrphanDecision::Remove);
}
