use serde_json::json;

use super::*;
use crate::fixture::{Given, context, note, upgrade};
use crate::report::rows::Rows;
use crate::state::upgrade::UpgradeEntry;
use api::names::Step;
use rollout::testing::{at, record};
use rollout::{OperationKind, Phase};

fn known(state: &State) -> Vec<String> {
    let mut known: Vec<String> = state.upgrades.keys().map(ToString::to_string).collect();
    known.sort();
    known
}

fn owner(uid: &str) -> serde_json::Value {
    json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
        "name": "u1", "uid": uid, "controller": true, "blockOwnerDeletion": true})
}

/// The report to which the rows of an entry would be written.
fn report_of(entry: &mut UpgradeEntry, uid: &str, version: u64) -> Report {
    let due = entry
        .rows
        .due(Instant::now() + std::time::Duration::from_secs(5))
        .remove(0);
    serde_json::from_value(json!({
        "metadata": {"name": due.name, "namespace": "ns", "resourceVersion": version.to_string(),
            "ownerReferences": [owner(uid)]},
        "rows": due.rows,
    }))
    .unwrap()
}

fn report(version: u64) -> Report {
    let index = observe::index::Index::default();
    let mut entry = upgrade("u1", &[]).entry(&index);
    note(&mut entry, "c1", record(Phase::Complete));
    report_of(&mut entry, "u1", version)
}

fn rows(state: &State) -> &Rows {
    &state.upgrades["u1"].rows
}

#[test]
fn older_news_of_an_upgrade_is_ignored() {
    let context = context(&[]);
    context.with(|state| {
        let new = Given {
            version: 9,
            ..upgrade("u1", &["c2"])
        };
        state.apply_upgrade(new.view());
        state.apply_upgrade(upgrade("u1", &["c1"]).view());
        assert_eq!(
            state.upgrades["u1"].object.metadata.resource_version.as_deref(),
            Some("9")
        );
    });
}

#[test]
fn a_status_alone_is_no_reason_to_look() {
    let context = context(&[]);
    context.with(|state| {
        state.apply_upgrade(upgrade("u1", &["c1"]).view());
        let entry = state.upgrades.get_mut("u1").unwrap();
        entry.dirty = false;
        let spec = Arc::clone(entry.spec.as_ref().unwrap());
        let with_status = Given {
            version: 2,
            status: json!({"progress": "1/2"}),
            ..upgrade("u1", &["c1"])
        };
        state.apply_upgrade(with_status.view());
        let entry = &state.upgrades["u1"];
        assert!(!entry.dirty);
        assert!(
            Arc::ptr_eq(&spec, entry.spec.as_ref().unwrap()),
            "nor to check the spec again"
        );
        let retried = Given {
            version: 3,
            retry: Some("t1".to_owned()),
            ..upgrade("u1", &["c1"])
        };
        state.apply_upgrade(retried.view());
        assert!(state.upgrades["u1"].dirty);
    });
}

#[test]
fn the_answer_to_a_write_does_not_bring_a_deleted_upgrade_back() {
    let context = context(&[]);
    context.with(|state| {
        state.apply_upgrade(upgrade("u1", &[]).view());
        state.delete_upgrade("u1");
        let answer = Given {
            version: 5,
            deleting: true,
            finalizer: false,
            ..upgrade("u1", &[])
        };
        state.answered_upgrade(answer.view());
        assert!(state.upgrades.is_empty());
    });
}

#[test]
fn an_upgrade_made_anew_under_a_name_takes_the_place_of_the_earlier_one() {
    let context = context(&[]);
    context.with(|state| {
        let earlier = || Given {
            name: "up",
            version: 5,
            ..upgrade("u1", &[])
        };
        let anew = Given {
            name: "up",
            version: 9,
            ..upgrade("u2", &[])
        };
        state.apply_upgrade(earlier().view());
        state.apply_upgrade(anew.view());
        assert_eq!(known(state), ["u2"], "a list that contains only the new one");
        state.apply_upgrade(earlier().view());
        assert_eq!(known(state), ["u2"], "a late event of the earlier one");
    });
}

#[test]
fn a_list_without_an_upgrade_ends_it_and_others_look_again() {
    let context = context(&[]);
    context.with(|state| {
        state.apply_upgrade(upgrade("u1", &[]).view());
        state.apply_upgrade(upgrade("u2", &[]).view());
        state.index.all_dirty = false;
        let seen = [(Arc::from("ns"), Arc::from("u2"))].into_iter().collect();
        state.retain_upgrades(&seen);
        assert_eq!(known(state), ["u2"]);
        assert!(state.index.all_dirty);
    });
}

#[test]
fn operations_stay_limited_when_everything_else_is_discarded() {
    let context = context(&[]);
    let given = upgrade("u1", &["c1"]);
    let (cluster, now): (Arc<str>, _) = (Arc::from("c1"), Instant::now());
    let is_taken = |state: &mut State| {
        let limit = &mut state.upgrades.get_mut("u1").unwrap().operation_limit;
        let wait = limit.take(&cluster, Step::Platform, OperationKind::MarkSoak, now);
        wait.is_none()
    };
    context.with(|state| {
        state.apply_upgrade(given.view());
        while is_taken(state) {}
    });
    // The storage may go back again before the upgrade is listed.
    for _ in 0..2 {
        context.discard_all(WatchKind::Work, 1, 2);
    }
    context.with(|state| {
        assert!(state.upgrades.is_empty());
        state.apply_upgrade(given.view());
        assert!(!is_taken(state));
    });
}

#[test]
fn what_is_kept_of_upgrades_that_are_discarded_goes_with_those_that_are_not_listed_again() {
    let context = context(&[]);
    context.with(|state| state.apply_upgrade(upgrade("u1", &["c1"]).view()));
    context.discard_all(WatchKind::Work, 1, 2);
    context.with(|state| {
        assert_eq!(state.kept_limits.len(), 1);
        state.retain_upgrades(&AHashSet::new());
        assert!(state.kept_limits.is_empty());
    });
}

#[test]
fn reports_of_an_earlier_upgrade_of_the_same_name_are_not_taken() {
    let context = context(&[]);
    context.with(|state| {
        let anew = Given {
            name: "u1",
            ..upgrade("u2", &[])
        };
        state.apply_upgrade(anew.view());
        state.observe_report(&report(3), false, false, at(0));
        assert!(state.upgrades["u2"].rows.get("c1").is_none());
    });
}

#[test]
fn a_leader_is_woken_by_a_hand_edit_of_a_report_and_not_by_its_own_write() {
    let context = context(&[]);
    context.with(|state| {
        state.apply_upgrade(upgrade("u1", &[]).view());
        let entry = state.upgrades.get_mut("u1").unwrap();
        note(entry, "c1", record(Phase::Complete));
        let due = entry
            .rows
            .due(Instant::now() + std::time::Duration::from_secs(5))
            .remove(0);
        entry
            .rows
            .wrote(due, Some(crate::fixture::stored(3)), Instant::now());
        entry.dirty = false;
        state.observe_report(&report(3), false, true, at(0));
        assert!(!state.upgrades["u1"].dirty);
        state.observe_report(&report(4), false, true, at(0));
        assert!(state.upgrades["u1"].dirty);
        assert!(rows(state).due_at().is_some());
    });
}

#[test]
fn reports_of_upgrades_that_are_not_served_are_only_read() {
    let context = context(&[]);
    context.with(|state| {
        state.settings.namespaces = vec![Arc::from("elsewhere")];
        state.apply_upgrade(upgrade("u1", &[]).view());
        state.observe_report(&report(3), false, true, at(0));
        assert!(rows(state).get("c1").is_some());
        state.observe_report(&report(4), true, true, at(0));
        assert!(rows(state).get("c1").is_none());
        assert!(rows(state).due_at().is_none());
    });
}

#[test]
fn a_new_term_knows_only_what_the_hub_has() {
    let context = context(&[]);
    context.with(|state| {
        state.apply_upgrade(upgrade("u1", &[]).view());
        let entry = state.upgrades.get_mut("u1").unwrap();
        note(entry, "c1", record(Phase::Partial));
        note(entry, "c2", record(Phase::Partial));
        state.end_term();
        state.begin_term();
        state.observe_report(&report(8), false, false, at(0));
        let rows = rows(state);
        assert_eq!(rows.all().len(), 1);
        assert_eq!(rows.get("c1").unwrap().record.phase, Phase::Complete);
        state.observe_report(&report(7), true, true, at(0));
        assert!(
            self::rows(state).get("c1").is_some(),
            "an event from before the term"
        );
    });
}

#[test]
fn all_lists_must_have_arrived_before_anything_is_planned() {
    let context = context(&[]);
    for kind in KINDS {
        assert!(!context.freshness.is_complete());
        context.refreshed(kind, 0);
        context.refreshed(kind, 0);
    }
    assert!(context.freshness.is_complete());
}

#[test]
fn a_spec_that_is_too_large_is_not_kept_and_the_last_valid_one_stays_in_force() {
    let context = context(&["c1"]);
    let action = |data: &str| {
        let manifest =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": data}});
        let mut given = upgrade("u1", &["c1"]);
        given.spec["preUpgradeAction"] = json!({"manifestWork": {"workload": {"manifests": [manifest]}}});
        given
    };
    context.with(|state| {
        state.apply_upgrade(action("small").view());
        let entry = &state.upgrades["u1"];
        let spec = Arc::clone(entry.spec.as_ref().unwrap());
        assert!(spec.policy.wants(rollout::Step::PreAction));
        assert_eq!(spec.fields.pre_upgrade_action, None);
        assert!(
            entry.object.spec.good().unwrap().parse().is_err(),
            "its text is not in memory"
        );

        let mut large = Given {
            version: 2,
            ..action(&"x".repeat(api::validate::MAX_SPEC_BYTES))
        }
        .view();
        large.metadata.generation = Some(2);
        state.apply_upgrade(large);
        let entry = &state.upgrades["u1"];
        assert!(entry.is_in_force(&spec));
        let violations = entry.spec.as_ref().unwrap_err();
        assert_eq!(violations[0].field, "spec");
        assert!(
            violations[0].message.contains("more than the 1310720 bytes"),
            "{violations:?}"
        );
    });
}

/// A revision may have been missed if the number is not the next one, and the storage of the hub went back if it is none of the later
/// ones: then the known spec is lost, and another valid one may have come before the invalid one.
#[test]
fn a_spec_stays_in_force_only_beside_an_invalid_one_of_the_next_revision() {
    let of = |version: u64, generation: i64, wanted: &str| {
        let mut given = Given {
            version,
            ..upgrade("u1", &["c1"])
        };
        given.spec["clusterVersion"]["version"] = json!(wanted);
        let mut view = given.view();
        view.metadata.generation = Some(generation);
        view
    };
    for (version, generation, stays) in [
        (2, 8, true),
        (2, 9, false),
        (2, 7, false),
        (1, 7, false),
        (2, 6, false),
    ] {
        let context = context(&["c1"]);
        context.with(|state| {
            state.apply_upgrade(of(1, 7, "4.12.0"));
            let spec = Arc::clone(state.upgrades["u1"].spec.as_ref().unwrap());
            state.apply_upgrade(of(version, generation, "v4"));
            let entry = &state.upgrades["u1"];
            assert!(entry.spec.is_err());
            assert_eq!(entry.is_in_force(&spec), stays, "{version} {generation}");
        });
    }
}

#[test]
fn the_same_spec_is_known_again_without_its_text() {
    let context = context(&["c1"]);
    context.with(|state| {
        state.apply_upgrade(upgrade("u1", &["c1"]).view());
        let spec = Arc::clone(state.upgrades["u1"].spec.as_ref().unwrap());
        let again = |version, clusters: &[&str]| {
            Given {
                version,
                ..upgrade("u1", clusters)
            }
            .view()
        };
        state.apply_upgrade(again(2, &["c1"]));
        assert!(Arc::ptr_eq(state.upgrades["u1"].spec.as_ref().unwrap(), &spec));
        state.apply_upgrade(again(3, &["c2"]));
        assert!(!Arc::ptr_eq(state.upgrades["u1"].spec.as_ref().unwrap(), &spec));
    });
}

#[test]
fn too_many_finalizers_are_a_broken_rule_until_they_are_fewer() {
    let context = context(&["c1"]);
    let with = |version: u64, count: usize| {
        let mut object = json!({"metadata": {"name": "u1", "namespace": "ns", "uid": "u1", "generation": 1}});
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        object["metadata"]["finalizers"] = (0..count).map(|number| json!(format!("a/{number}"))).collect();
        object["spec"] = crate::fixture::spec(&["c1"]);
        serde_json::from_value::<Upgrade>(object).unwrap()
    };
    context.with(|state| {
        for (version, count, field) in [
            (1, 64, None),
            (2, 1_000, Some("metadata.finalizers")),
            (3, 3, None),
        ] {
            state.apply_upgrade(with(version, count));
            let broken = state.upgrades["u1"].spec.as_ref().err();
            assert_eq!(broken.map(|found| found[0].field.as_str()), field, "{count}");
            assert!(state.upgrades["u1"].in_force().is_some(), "it is the same spec");
        }
    });
}

#[test]
fn reports_count_only_from_the_namespace_of_their_upgrade_under_a_name_of_theirs_and_with_its_ownership() {
    let good = report(3);
    let entry = || {
        let index = observe::index::Index::default();
        upgrade("u1", &[]).entry(&index)
    };
    assert_eq!(relation_of(&good, &entry()), ReportRelation::Own);
    let change = |change: &dyn Fn(&mut Report)| {
        let mut report = good.clone();
        change(&mut report);
        report
    };
    let of_owner = |change: &dyn Fn(&mut k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference)| {
        let mut report = good.clone();
        change(&mut report.metadata.owner_references.as_mut().unwrap()[0]);
        report
    };
    let odd = [
        (
            change(&|report| report.metadata.namespace = Some("elsewhere".to_owned())),
            ReportRelation::Unrelated,
        ),
        (
            change(&|report| report.metadata.name = Some("u1-report-01".to_owned())),
            ReportRelation::Unrelated,
        ),
        (
            change(&|report| report.metadata.name = Some("u2-report-1".to_owned())),
            ReportRelation::Unrelated,
        ),
        (
            change(&|report| report.metadata.owner_references = None),
            ReportRelation::Unrelated,
        ),
        (
            of_owner(&|owner| owner.kind = "ConfigMap".to_owned()),
            ReportRelation::Unrelated,
        ),
        (
            of_owner(&|owner| owner.api_version = "example.com/v1beta1".to_owned()),
            ReportRelation::Unrelated,
        ),
        (
            of_owner(&|owner| owner.name = "u2".to_owned()),
            ReportRelation::Unrelated,
        ),
        (
            of_owner(&|owner| owner.controller = None),
            ReportRelation::Unrelated,
        ),
        (
            of_owner(&|owner| owner.uid = "u9".to_owned()),
            ReportRelation::OtherUid,
        ),
    ];
    for (report, belonging) in odd {
        assert_eq!(relation_of(&report, &entry()), belonging, "{:?}", report.metadata);
        let context = context(&[]);
        context.with(|state| {
            state.apply_upgrade(upgrade("u1", &[]).view());
            state.begin_term();
            state.observe_report(&report, false, false, at(0));
            assert!(rows(state).get("c1").is_none());
            // The same if the report arrives before the upgrade.
            state.delete_upgrade("u1");
            state.observe_report(&report, false, false, at(0));
            state.apply_upgrade(upgrade("u1", &[]).view());
            assert!(rows(state).get("c1").is_none());
        });
    }
}

#[test]
fn a_leader_restores_the_ownership_of_its_reports() {
    let context = context(&[]);
    context.with(|state| {
        state.apply_upgrade(upgrade("u1", &[]).view());
        note(
            state.upgrades.get_mut("u1").unwrap(),
            "c1",
            record(Phase::Complete),
        );
        crate::fixture::write(state.upgrades.get_mut("u1").unwrap());
        let mut stripped = report(9);
        stripped.metadata.owner_references = None;
        state.observe_report(&stripped, false, true, at(0));
        let rows = rows(state);
        assert_eq!(rows.get("c1").unwrap().record.phase, Phase::Complete);
        assert!(rows.get("c1").unwrap().written.is_none() && rows.due_at().is_some());
    });
}

#[test]
fn while_the_clocks_differ_nothing_begins_before_either_of_them() {
    let hours = |hours| Utc::now() + TimeDelta::hours(hours);
    for (hub, now) in [(1, 1), (-1, 0), (0, 0)] {
        let context = context(&[]);
        let (at, took) = (tokio::time::Instant::now(), std::time::Duration::from_millis(20));
        context.clock.answered(at, Utc::now(), took, hours(hub));
        let apart = (context.now() - hours(now)).abs();
        assert!(apart < TimeDelta::seconds(5), "{hub}: {apart}");
    }
}
