use std::time::{Duration, Instant};

use chrono::TimeDelta;
use observe::index::Change;
use observe::writes::{BlockerKind, MISSING_RETRY, RunningWrites};
use rollout::testing::{at, first_attempt, policy, record};
use rollout::{Cluster, Phase, Plan, RivalHold, Selection, Step, StepWork};

use super::*;
use crate::fixture::{Given, cluster, finished, index, note, upgrade, upgrades, work, write};
use crate::reconcile::commit::record_observation;

fn seen(
    entry: &UpgradeEntry,
    others: Vec<UpgradeEntry>,
    index: &mut Index,
    now: DateTime<Utc>,
) -> Observation {
    let owned = index.clusters_of(&entry.uid);
    observe(entry, &upgrades(others), index, &owned, false, now)
}

fn observed(entry: &UpgradeEntry, others: Vec<UpgradeEntry>, index: &mut Index) -> Fleet {
    seen(entry, others, index, at(0)).fleet
}

fn names(fleet: &Fleet) -> Vec<&str> {
    fleet.clusters.iter().map(|cluster| &*cluster.name).collect()
}

fn one(fleet: &Fleet, name: &str) -> Cluster {
    let found = fleet.clusters.iter().find(|cluster| *cluster.name == *name);
    found.unwrap().clone()
}

#[test]
fn leaving_is_counted_from_the_first_look() {
    let mut index = index(&["b"]);
    let mut entry = upgrade("mine", &[]).entry(&index);
    note(&mut entry, "b", record(Phase::Pending));
    let observation = seen(&entry, Vec::new(), &mut index, at(0));
    record_observation(&mut entry, &observation, at(0));
    let later = at(0) + TimeDelta::seconds(5);
    let second = seen(&entry, Vec::new(), &mut index, later).fleet;
    assert_eq!(one(&second, "b").selection, Selection::Left(at(0)));
}

#[test]
fn no_cluster_has_left_for_longer_or_shorter_because_the_clock_was_set() {
    let begun = Instant::now();
    for jump in [-3600, -10, 0, 10, 3600].map(TimeDelta::seconds) {
        let mut entry = upgrade("mine", &[]).entry(&index(&["b"]));
        entry.follow_clock(at(0), begun);
        entry.left.insert(Arc::from("b"), at(0));
        let now = at(2) + jump;
        entry.clamp_waits(now);
        entry.follow_clock(now, begun + Duration::from_secs(2));
        assert_eq!(now - entry.left["b"], TimeDelta::seconds(2), "{jump}");
    }
}

#[test]
fn works_where_the_upgrade_neither_selects_nor_has_a_record_are_told_and_nothing_else() {
    let mut index = index(&["a", "b"]);
    let mut entry = upgrade("mine", &["b"]).entry(&index);
    index.work(&Change::Applied(finished("a", "mine", 5)), at(0));
    let observation = seen(&entry, Vec::new(), &mut index, at(0));
    assert_eq!(names(&observation.fleet), ["b"]);
    record_observation(&mut entry, &observation, at(0));
    assert!(
        entry
            .notes
            .iter()
            .any(|note| note.contains("has a record of (1, such as a)")),
        "{:?}",
        entry.notes
    );
    let gone = finished("a", "mine", 6);
    index.work(&Change::Deleted(gone), at(0));
    let observation = seen(&entry, Vec::new(), &mut index, at(0));
    record_observation(&mut entry, &observation, at(0));
    assert!(entry.notes.is_empty(), "{:?}", entry.notes);
}

#[test]
fn an_upgrade_that_is_deleted_cleans_up_where_it_has_been_and_nowhere_else() {
    let mut index = index(&["a", "b", "c"]);
    let mut entry = upgrade("mine", &[]).entry(&index);
    note(&mut entry, "b", record(Phase::Pending));
    let observation = seen(&entry, Vec::new(), &mut index, at(0));
    record_observation(&mut entry, &observation, at(0));
    for (cluster, version) in [("a", 5), ("b", 6), ("c", 7)] {
        index.work(
            &Change::Applied(work(cluster, Step::PreAction, "mine", version)),
            at(0),
        );
    }
    let mut deleted = Given {
        deleting: true,
        ..upgrade("mine", &["c"])
    }
    .entry(&index);
    deleted.former.clone_from(&entry.former);
    let observation = seen(&deleted, Vec::new(), &mut index, at(0));
    assert_eq!(names(&observation.fleet), ["b", "c"], "let go of, and selected");
    assert_eq!(observation.unaccounted, ["a".into()]);
}

/// The hub holds no row of a start when a new term begins, and the cluster leaves before its selection is known again.
#[test]
fn an_upgrade_that_is_deleted_cleans_up_where_it_had_started_in_an_earlier_term() {
    let mut index = index(&["a", "b"]);
    let mut entry = upgrade("mine", &["b"]).entry(&index);
    note(&mut entry, "b", record(Phase::Initialized));
    entry.begin_term();
    for (cluster, version) in [("a", 5), ("b", 6)] {
        index.work(
            &Change::Applied(work(cluster, Step::Platform, "mine", version)),
            at(0),
        );
    }
    let mut deleted = Given {
        deleting: true,
        ..upgrade("mine", &[])
    }
    .entry(&index);
    deleted.former.clone_from(&entry.former);
    let observation = seen(&deleted, Vec::new(), &mut index, at(0));
    assert_eq!(names(&observation.fleet), ["b"]);
    assert_eq!(observation.unaccounted, ["a".into()]);
}

#[test]
fn a_dropped_cluster_whose_start_is_on_its_way_or_that_is_back_holds_one_slot() {
    let mut index = index(&["b"]);
    let mut entry = upgrade("mine", &["a", "b"]).entry(&index);
    note(&mut entry, "a", record(Phase::Partial));
    write(&mut entry);
    let plan = Plan {
        dropped: vec![Arc::from("a")],
        ..Plan::default()
    };
    entry
        .rows
        .commit(&plan, &policy().build(), Instant::now(), |_| (false, false));
    let dropped = observed(&entry, Vec::new(), &mut index);
    assert_eq!(names(&dropped), ["b"]);
    assert_eq!(dropped.unreleased, 1);
    let writes = RunningWrites {
        count: 1,
        starting: Some(first_attempt()),
    };
    entry.running.insert(Arc::from("a"), writes);
    // A plan also looks at the clusters whose starts are on their way.
    let awaited: [Arc<str>; 1] = [Arc::from("a")];
    let starting = observe(&entry, &upgrades(Vec::new()), &index, &awaited, false, at(0)).fleet;
    assert_eq!(names(&starting), ["a", "b"]);
    assert_eq!(starting.unreleased, 0, "it is part of the fleet");
    assert!(one(&starting, "a").slot_in_doubt && !one(&starting, "b").slot_in_doubt);
    entry.running.clear();
    index.cluster(&Change::Applied(cluster("a")));
    entry.refresh_selection(&index, false);
    let back = observed(&entry, Vec::new(), &mut index);
    assert_eq!(names(&back), ["a", "b"]);
    assert_eq!(back.unreleased, 0, "it is selected again");
    assert!(one(&back, "a").slot_in_doubt);
}

#[test]
fn a_cluster_that_another_upgrade_has_dropped_is_free_once_its_row_is_gone_from_the_hub() {
    let mut index = index(&["a"]);
    let entry = upgrade("mine", &["a"]).entry(&index);
    let dropped = |index: &Index| {
        let mut other = upgrade("other", &[]).entry(index);
        note(&mut other, "a", record(Phase::PreAction));
        write(&mut other);
        let plan = Plan {
            dropped: vec![Arc::from("a")],
            ..Plan::default()
        };
        other
            .rows
            .commit(&plan, &policy().build(), Instant::now(), |_| (false, false));
        other
    };
    let other = dropped(&index);
    assert!(
        one(&observed(&entry, vec![other], &mut index), "a")
            .rival
            .is_some()
    );
    let mut other = dropped(&index);
    write(&mut other);
    assert!(
        one(&observed(&entry, vec![other], &mut index), "a")
            .rival
            .is_none()
    );
}

#[test]
fn a_canary_that_left_stays_one() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &[]).entry(&index);
    let plan = rollout::Plan {
        clusters: vec![rollout::ClusterState {
            name: Arc::from("a"),
            record: Arc::new(record(Phase::Partial).into()),
            urgent: false,
            starting: false,
        }],
        ..rollout::Plan::default()
    };
    let policy = rollout::testing::policy().build();
    entry
        .rows
        .commit(&plan, &policy, std::time::Instant::now(), |_| (true, true));
    assert!(one(&observed(&entry, Vec::new(), &mut index), "a").canary);
}

#[test]
fn a_cluster_is_gone_without_its_managed_cluster_or_while_its_namespace_is_missing() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a"]).entry(&index);
    note(&mut entry, "b", record(Phase::Partial));
    let fleet = observed(&entry, Vec::new(), &mut index);
    assert!(!one(&fleet, "a").gone);
    assert!(one(&fleet, "b").gone);
    entry.record_missing_namespace(&Arc::from("a"), at(0));
    assert!(one(&observed(&entry, Vec::new(), &mut index), "a").gone);
    let later = seen(&entry, Vec::new(), &mut index, at(0) + MISSING_RETRY).fleet;
    assert!(!one(&later, "a").gone, "looked at again after a while");
}

/// Another leader may have begun there since, and whoever is gone is dropped in any phase.
#[test]
fn a_namespace_that_was_missing_in_an_earlier_term_is_not_missing_in_a_new_one() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a"]).entry(&index);
    entry.record_missing_namespace(&Arc::from("a"), at(0));
    entry.begin_term();
    note(&mut entry, "a", record(Phase::Partial));
    assert!(!one(&observed(&entry, Vec::new(), &mut index), "a").gone);
}

#[test]
fn a_missing_namespace_is_looked_for_at_once_after_the_clock_was_set_back() {
    let index = index(&["a", "b"]);
    let mut entry = upgrade("mine", &["a", "b"]).entry(&index);
    entry.record_missing_namespace(&Arc::from("a"), at(7200));
    entry.record_missing_namespace(&Arc::from("b"), at(10));
    entry.clamp_waits(at(20));
    assert_eq!(
        entry.missing.keys().map(|name| &**name).collect::<Vec<_>>(),
        ["b"]
    );
}

#[test]
fn somebody_elses_work_stands_in_the_way_until_its_next_look() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a"]).entry(&index);
    entry.block_step(&Arc::from("a"), Step::Platform, at(0), BlockerKind::Foreign);
    let fleet = observed(&entry, Vec::new(), &mut index);
    let StepWork::Foreign { retry_at } = *one(&fleet, "a").step_work(Step::Platform) else {
        panic!("{fleet:?}");
    };
    assert_eq!((retry_at - at(0)).num_seconds(), 30);
    assert_eq!(*one(&fleet, "a").step_work(Step::PreAction), StepWork::Absent);
}

#[test]
fn a_refused_work_is_a_slot_with_what_the_hub_said() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a"]).entry(&index);
    entry.block_step(
        &Arc::from("a"),
        Step::PreAction,
        at(0),
        BlockerKind::Refused(Arc::from("no")),
    );
    let fleet = observed(&entry, Vec::new(), &mut index);
    let refused = StepWork::Refused {
        retry_at: at(30),
        message: Arc::from("no"),
    };
    assert_eq!(*one(&fleet, "a").step_work(Step::PreAction), refused);
}

#[test]
fn an_upgrade_whose_spec_became_invalid_is_stuck_where_it_is_at_work() {
    let mut index = index(&["c1"]);
    let entry = upgrade("mine", &["c1"]).entry(&index);
    let mut other = Given {
        spec: serde_json::json!({}),
        ..upgrade("other", &["c1"])
    }
    .entry(&index);
    assert!(other.spec.is_err());
    note(&mut other, "c1", record(Phase::Initialized));
    index.work(&Change::Applied(work("c1", Step::Platform, "other", 5)), at(0));
    let cluster = one(&observed(&entry, vec![other], &mut index), "c1");
    assert_eq!(cluster.rival.unwrap().hold, RivalHold::Stuck);
}

#[test]
fn the_selection_is_made_again_only_when_something_moved() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a", "b"]).entry(&index);
    assert!(!entry.refresh_selection(&index, false));
    index.cluster(&Change::Applied(cluster("z")));
    assert!(!entry.refresh_selection(&index, false), "not concerned");
    index.cluster(&Change::Applied(cluster("b")));
    assert!(entry.refresh_selection(&index, false));
    assert_eq!(entry.selected.clusters.len(), 2);
}
