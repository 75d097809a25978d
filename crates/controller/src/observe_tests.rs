use chrono::TimeDelta;
use rollout::testing::{at, record};
use rollout::{Attempt, Record};

use super::*;
use crate::fixture::{Given, cluster, desks, finished, index, note, upgrade, work, write};
use crate::index::Change;

const OLD: &str = "2026-05-28T09:00:00Z";
const NEW: &str = "2026-05-28T11:00:00Z";

fn seen(desk: &Desk, others: Vec<Desk>, index: &mut Index, now: DateTime<Utc>) -> Sight {
    let owned = index.clusters_of(&desk.uid);
    sight(desk, &desks(others), index, &owned, false, now)
}

fn observed(desk: &Desk, others: Vec<Desk>, index: &mut Index) -> Fleet {
    seen(desk, others, index, at(0)).fleet
}

fn names(fleet: &Fleet) -> Vec<&str> {
    fleet.clusters.iter().map(|cluster| &*cluster.name).collect()
}

fn one(fleet: &Fleet, name: &str) -> Cluster {
    let found = fleet.clusters.iter().find(|cluster| *cluster.name == *name);
    found.unwrap().clone()
}

/// What an upgrade of cluster `c1` sees of another one, which is older or newer and may have a record and a work.
fn rival(
    other_created: &'static str,
    record: impl Into<Option<Record>>,
    step: Option<Step>,
) -> (Option<RivalHold>, Cluster) {
    let mut index = index(&["c1"]);
    let desk = upgrade("mine", &["c1"]).desk(&index);
    let mut other = Given {
        created: other_created,
        ..upgrade("other", &["c1"])
    }
    .desk(&index);
    if let Some(record) = record.into() {
        note(&mut other, "c1", record);
        write(&mut other);
    }
    if let Some(step) = step {
        index.work(&Change::Applied(work("c1", step, "other", 5)), at(0));
    }
    let cluster = one(&observed(&desk, vec![other], &mut index), "c1");
    if let Some(rival) = &cluster.rival {
        assert_eq!(&*rival.upgrade, "ns/other");
    }
    (cluster.rival.as_ref().map(|rival| rival.hold), cluster)
}

fn of(phase: Phase) -> Record {
    record(phase).into()
}

const NOTHING: Option<Record> = None;

#[test]
fn an_older_upgrade_goes_first_where_neither_has_started() {
    assert_eq!(rival(OLD, NOTHING, None).0, Some(RivalHold::Active));
    assert_eq!(rival(OLD, of(Phase::Pending), None).0, Some(RivalHold::Active));
    assert_eq!(rival(NEW, NOTHING, None).0, None);
    assert_eq!(rival(NEW, of(Phase::Pending), None).0, None);
}

#[test]
fn an_older_upgrade_that_is_done_gives_way() {
    assert_eq!(rival(OLD, of(Phase::Complete), None).0, None);
    assert_eq!(rival(OLD, of(Phase::Failed), None).0, None);
    for phase in [Phase::Complete, Phase::Failed] {
        let (hold, cluster) = rival(OLD, of(phase), Some(Step::Platform));
        assert_eq!(hold, Some(RivalHold::Yielding), "with kept works");
        assert_eq!(
            *cluster.slot(rollout::Step::Platform),
            Slot::Rival { terminating: false }
        );
    }
}

#[test]
fn an_end_that_is_not_on_record_yet_holds_the_cluster() {
    for phase in [Phase::Complete, Phase::Failed] {
        let mut index = index(&["c1"]);
        let desk = upgrade("mine", &["c1"]).desk(&index);
        let mut other = Given {
            created: OLD,
            ..upgrade("other", &["c1"])
        }
        .desk(&index);
        note(&mut other, "c1", of(phase));
        index.work(&Change::Applied(work("c1", Step::Platform, "other", 5)), at(0));
        let cluster = one(&observed(&desk, vec![other], &mut index), "c1");
        assert_eq!(cluster.rival.unwrap().hold, RivalHold::Active);
    }
}

#[test]
fn an_older_upgrade_that_waits_for_a_human_is_stuck() {
    for reason in [Reason::Paused, Reason::CanaryFailed, Reason::MaxFailuresExceeded] {
        let gated = Record::from(record(Phase::Pending).reason(reason));
        assert_eq!(rival(OLD, gated, None).0, Some(RivalHold::Stuck));
    }
    let blocked = |reason| Record::from(record(Phase::Blocked).reason(reason));
    assert_eq!(
        rival(OLD, blocked(Reason::InvalidClusterID), None).0,
        Some(RivalHold::Stuck)
    );
    assert_eq!(
        rival(OLD, blocked(Reason::Conflict), None).0,
        Some(RivalHold::Active)
    );
    let degraded = of(Phase::PreActionDegraded);
    assert_eq!(
        rival(OLD, degraded, Some(Step::PreAction)).0,
        Some(RivalHold::Stuck)
    );
}

#[test]
fn an_upgrade_whose_work_the_hub_refuses_is_stuck_and_ends_what_it_began_before_an_older_one_begins() {
    let refused = |phase| Record::from(record(phase).reason(Reason::WorkRefused));
    for phase in [Phase::Blocked, Phase::PostAction] {
        let hold = rival(NEW, refused(phase), Some(Step::Platform)).0;
        assert_eq!(hold, Some(RivalHold::Stuck), "{phase:?}");
    }
    let mut index = index(&["c1"]);
    let mut mine = upgrade("mine", &["c1"]).desk(&index);
    let upgraded = record(Phase::Blocked).reason(Reason::WorkRefused);
    let older = || {
        let given = Given {
            created: OLD,
            ..upgrade("other", &["c1"])
        };
        let mut older = given.desk(&crate::fixture::index(&["c1"]));
        note(&mut older, "c1", record(Phase::Blocked).reason(Reason::Conflict));
        older
    };
    note(&mut mine, "c1", upgraded.clone());
    let hold = |desk: &Desk, index: &mut Index| one(&observed(desk, vec![older()], index), "c1").rival;
    assert_eq!(
        hold(&mine, &mut index).map(|rival| rival.hold),
        Some(RivalHold::Active)
    );
    note(&mut mine, "c1", upgraded.succeeded(Stage::Platform, 0));
    assert_eq!(hold(&mine, &mut index), None);
}

#[test]
fn an_upgrade_whose_spec_became_invalid_is_stuck_where_it_is_at_work() {
    let mut index = index(&["c1"]);
    let desk = upgrade("mine", &["c1"]).desk(&index);
    let mut other = Given {
        spec: serde_json::json!({}),
        ..upgrade("other", &["c1"])
    }
    .desk(&index);
    assert!(other.brief.is_err());
    note(&mut other, "c1", of(Phase::Initialized));
    index.work(&Change::Applied(work("c1", Step::Platform, "other", 5)), at(0));
    let cluster = one(&observed(&desk, vec![other], &mut index), "c1");
    assert_eq!(cluster.rival.unwrap().hold, RivalHold::Stuck);
}

#[test]
fn a_newer_upgrade_that_failed_holds_its_cluster_and_one_that_is_complete_does_not() {
    assert_eq!(
        rival(NEW, of(Phase::Failed), Some(Step::Platform)).0,
        Some(RivalHold::Stuck)
    );
    assert_eq!(
        rival(NEW, of(Phase::Complete), Some(Step::Platform)).0,
        Some(RivalHold::Yielding)
    );
}

#[test]
fn an_upgrade_at_work_holds_its_cluster_whatever_its_age() {
    for created in [OLD, NEW] {
        for phase in [
            Phase::PreAction,
            Phase::Initialized,
            Phase::Partial,
            Phase::Operators,
        ] {
            assert_eq!(
                rival(created, of(phase), Some(Step::Platform)).0,
                Some(RivalHold::Active)
            );
        }
        assert_eq!(
            rival(created, NOTHING, Some(Step::PreAction)).0,
            Some(RivalHold::Active),
            "no record yet"
        );
    }
}

#[test]
fn between_two_works_of_a_newer_upgrade_its_cluster_is_not_free() {
    for phase in [
        Phase::PreAction,
        Phase::Operators,
        Phase::Soaking,
        Phase::PostAction,
    ] {
        assert_eq!(
            rival(NEW, of(phase), None).0,
            Some(RivalHold::Active),
            "{phase:?}"
        );
    }
}

#[test]
fn a_creation_of_a_newer_upgrade_that_is_under_way_holds_the_cluster() {
    let mut index = index(&["c1", "c2"]);
    let desk = upgrade("mine", &["c1", "c2"]).desk(&index);
    let mut other = Given {
        created: NEW,
        ..upgrade("other", &["c1", "c2"])
    }
    .desk(&index);
    other.begin(&Arc::from("c1"), true);
    other.begin(&Arc::from("c2"), false);
    let fleet = observed(&desk, vec![other], &mut index);
    assert_eq!(one(&fleet, "c1").rival.unwrap().hold, RivalHold::Active);
    assert_eq!(one(&fleet, "c2").rival, None);
}

#[test]
fn of_two_equally_old_upgrades_the_first_by_name_goes_first() {
    let mut index = index(&["c1"]);
    let (first, second) = (
        upgrade("a", &["c1"]).desk(&index),
        upgrade("b", &["c1"]).desk(&index),
    );
    let fleet_of = |desk: &Desk, other: Desk, index: &mut Index| {
        one(&observed(desk, vec![other], index), "c1")
            .rival
            .map(|rival| rival.hold)
    };
    assert_eq!(
        fleet_of(&second, upgrade("a", &["c1"]).desk(&index), &mut index),
        Some(RivalHold::Active)
    );
    assert_eq!(
        fleet_of(&first, upgrade("b", &["c1"]).desk(&index), &mut index),
        None
    );
}

#[test]
fn an_upgrade_that_is_deleted_or_invalid_reserves_nothing() {
    let mut index = index(&["c1"]);
    let desk = upgrade("mine", &["c1"]).desk(&index);
    let deleting = Given {
        created: OLD,
        deleting: true,
        ..upgrade("other", &["c1"])
    };
    let fleet = observed(&desk, vec![deleting.desk(&index)], &mut index);
    assert_eq!(one(&fleet, "c1").rival, None);
    let mut invalid = Given {
        created: OLD,
        ..upgrade("other", &["c1"])
    }
    .desk(&index);
    invalid.brief = Err(Arc::default());
    let fleet = observed(&desk, vec![invalid], &mut index);
    assert_eq!(one(&fleet, "c1").rival, None);
}

#[test]
fn works_whose_owner_does_not_exist_give_way() {
    let mut index = index(&["c1"]);
    let desk = upgrade("mine", &["c1"]).desk(&index);
    index.work(&Change::Applied(work("c1", Step::Platform, "deleted", 5)), at(0));
    let cluster = one(&observed(&desk, Vec::new(), &mut index), "c1");
    let rival = cluster.rival.unwrap();
    assert_eq!((&*rival.upgrade, rival.hold), ("(deleted)", RivalHold::Yielding));
}

#[test]
fn a_work_that_holds_outweighs_one_that_gives_way() {
    let mut index = index(&["c1"]);
    let desk = upgrade("mine", &["c1"]).desk(&index);
    let mut other = Given {
        created: NEW,
        ..upgrade("other", &["c1"])
    }
    .desk(&index);
    note(&mut other, "c1", record(Phase::Partial));
    index.work(&Change::Applied(work("c1", Step::PreAction, "deleted", 5)), at(0));
    index.work(&Change::Applied(work("c1", Step::Platform, "other", 6)), at(0));
    let cluster = one(&observed(&desk, vec![other], &mut index), "c1");
    assert_eq!(cluster.rival.unwrap().hold, RivalHold::Active);
}

#[test]
fn the_fleet_is_the_union_of_selection_and_records_by_name() {
    let mut index = index(&["a", "b", "c", "d"]);
    let mut desk = upgrade("mine", &["b", "d"]).desk(&index);
    note(&mut desk, "c", record(Phase::Partial));
    index.work(&Change::Applied(work("a", Step::Platform, "mine", 5)), at(0));
    index.work(&Change::Applied(work("b", Step::Platform, "mine", 6)), at(0));
    let Sight { fleet, unaccounted } = seen(&desk, Vec::new(), &mut index, at(0));
    assert_eq!(names(&fleet), ["b", "c", "d"]);
    assert_eq!(unaccounted, ["a".into()], "a work alone draws no cluster in");
    let selected: Vec<bool> = fleet
        .clusters
        .iter()
        .map(|cluster| cluster.selection == Selection::In)
        .collect();
    assert_eq!(selected, [true, false, true]);
    assert_eq!(
        one(&fleet, "b")
            .slot(rollout::Step::Platform)
            .ours()
            .unwrap()
            .attempt,
        Attempt {
            revision: Arc::from("r1"),
            retry: Arc::from("")
        }
    );
}

#[test]
fn leaving_is_counted_from_the_first_look() {
    let mut index = index(&["b"]);
    let mut desk = upgrade("mine", &[]).desk(&index);
    note(&mut desk, "b", record(Phase::Pending));
    desk.take_sight(&seen(&desk, Vec::new(), &mut index, at(0)));
    let later = at(0) + TimeDelta::seconds(5);
    let second = seen(&desk, Vec::new(), &mut index, later).fleet;
    assert_eq!(one(&second, "b").selection, Selection::Left(at(0)));
}

#[test]
fn works_where_the_upgrade_neither_selects_nor_has_a_record_are_told_and_nothing_else() {
    let mut index = index(&["a", "b"]);
    let mut desk = upgrade("mine", &["b"]).desk(&index);
    index.work(&Change::Applied(finished("a", "mine", 5)), at(0));
    let sight = seen(&desk, Vec::new(), &mut index, at(0));
    assert_eq!(names(&sight.fleet), ["b"]);
    desk.take_sight(&sight);
    assert!(
        desk.notes
            .iter()
            .any(|note| note.contains("has a record of: 1, such as a")),
        "{:?}",
        desk.notes
    );
    let gone = finished("a", "mine", 6);
    index.work(&Change::Deleted(gone), at(0));
    desk.take_sight(&seen(&desk, Vec::new(), &mut index, at(0)));
    assert!(desk.notes.is_empty(), "{:?}", desk.notes);
}

#[test]
fn an_upgrade_that_is_deleted_cleans_up_where_it_has_been_and_nowhere_else() {
    let mut index = index(&["a", "b", "c"]);
    let mut desk = upgrade("mine", &[]).desk(&index);
    note(&mut desk, "b", record(Phase::Pending));
    desk.take_sight(&seen(&desk, Vec::new(), &mut index, at(0)));
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
    .desk(&index);
    deleted.former.clone_from(&desk.former);
    let sight = seen(&deleted, Vec::new(), &mut index, at(0));
    assert_eq!(names(&sight.fleet), ["b", "c"], "let go of, and selected");
    assert_eq!(sight.unaccounted, ["a".into()]);
}

#[test]
fn a_work_with_our_uid_and_another_owner_is_not_ours() {
    let mut index = index(&["a", "b"]);
    let desk = upgrade("mine", &["a", "b"]).desk(&index);
    let mut forged = work("a", Step::Platform, "mine", 5);
    let notes = forged.metadata.annotations.as_mut().unwrap();
    notes.insert(api::names::ANNOTATION_OWNER.to_owned(), "ns/other".to_owned());
    index.work(&Change::Applied(forged), at(0));
    index.work(&Change::Applied(work("b", Step::Platform, "mine", 6)), at(0));
    let fleet = observed(&desk, Vec::new(), &mut index);
    assert_eq!(*one(&fleet, "a").slot(rollout::Step::Platform), Slot::Absent);
    assert!(one(&fleet, "b").slot(rollout::Step::Platform).ours().is_some());
}

#[test]
fn a_cluster_that_comes_back_has_not_left() {
    let mut index = index(&["a"]);
    let mut desk = upgrade("mine", &["a"]).desk(&index);
    desk.left.insert(Arc::from("a"), at(0));
    let fleet = observed(&desk, Vec::new(), &mut index);
    assert_eq!(one(&fleet, "a").selection, Selection::In);
    assert!(leavers(&fleet).is_empty());
}

#[test]
fn a_canary_that_left_stays_one() {
    let mut index = index(&["a"]);
    let mut desk = upgrade("mine", &[]).desk(&index);
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
    desk.rows
        .take(&plan, &policy, std::time::Instant::now(), |_| (true, true));
    assert!(one(&observed(&desk, Vec::new(), &mut index), "a").canary);
}

#[test]
fn a_cluster_is_gone_without_its_managed_cluster_or_while_its_namespace_is_missing() {
    let mut index = index(&["a"]);
    let mut desk = upgrade("mine", &["a"]).desk(&index);
    note(&mut desk, "b", record(Phase::Partial));
    let fleet = observed(&desk, Vec::new(), &mut index);
    assert!(!one(&fleet, "a").gone);
    assert!(one(&fleet, "b").gone);
    desk.miss(&Arc::from("a"), at(0));
    assert!(one(&observed(&desk, Vec::new(), &mut index), "a").gone);
    let later = seen(&desk, Vec::new(), &mut index, at(0) + MISSING).fleet;
    assert!(!one(&later, "a").gone, "looked at again after a while");
}

#[test]
fn somebody_elses_work_stands_in_the_way_until_its_next_look() {
    let mut index = index(&["a"]);
    let mut desk = upgrade("mine", &["a"]).desk(&index);
    desk.obstruct(&Arc::from("a"), Step::Platform, at(0), ObstacleKind::Foreign);
    let fleet = observed(&desk, Vec::new(), &mut index);
    let Slot::Foreign { retry_at } = *one(&fleet, "a").slot(rollout::Step::Platform) else {
        panic!("{fleet:?}");
    };
    assert_eq!((retry_at - at(0)).num_seconds(), 30);
    assert_eq!(*one(&fleet, "a").slot(rollout::Step::PreAction), Slot::Absent);
}

#[test]
fn a_refused_work_is_a_slot_with_what_the_hub_said() {
    let mut index = index(&["a"]);
    let mut desk = upgrade("mine", &["a"]).desk(&index);
    desk.obstruct(
        &Arc::from("a"),
        Step::PreAction,
        at(0),
        ObstacleKind::Refused(Arc::from("no")),
    );
    let fleet = observed(&desk, Vec::new(), &mut index);
    let refused = Slot::Refused {
        retry_at: at(30),
        message: Arc::from("no"),
    };
    assert_eq!(*one(&fleet, "a").slot(rollout::Step::PreAction), refused);
}

#[test]
fn what_is_left_of_anothers_vanished_work_is_nothing_to_us() {
    let mut index = index(&["a"]);
    let desk = upgrade("mine", &["a"]).desk(&index);
    let done = finished("a", "other", 5);
    index.work(&Change::Applied(done.clone()), at(0));
    index.work(&Change::Deleted(done), at(0));
    assert!(index.work_of("a", Step::Operators).unwrap().work.vanished);
    let cluster = one(&observed(&desk, Vec::new(), &mut index), "a");
    assert_eq!(*cluster.slot(rollout::Step::Operators), Slot::Absent);
    assert_eq!(cluster.rival, None);
}

#[test]
fn the_selection_is_made_again_only_when_something_moved() {
    let mut index = index(&["a"]);
    let mut desk = upgrade("mine", &["a", "b"]).desk(&index);
    assert!(!refresh_selection(&mut desk, &index, false));
    index.cluster(&Change::Applied(cluster("z")));
    assert!(!refresh_selection(&mut desk, &index, false), "not concerned");
    index.cluster(&Change::Applied(cluster("b")));
    assert!(refresh_selection(&mut desk, &index, false));
    assert_eq!(desk.selected.clusters.len(), 2);
}

#[test]
fn a_work_whose_annotations_are_not_ours_tells_no_attempt_and_blocks_its_cluster() {
    let long = "a".repeat(65);
    for (key, value) in [
        ("upgrade-revision", long.as_str()),
        ("upgrade-revision", ""),
        ("upgrade-revision", "not a hash"),
        ("upgrade-retry", &"t".repeat(257)),
        ("upgrade-step-hash", &long),
        ("upgrade-target-version", "4.12\u{1b}[2J"),
        ("upgrade-target-version", &"4".repeat(129)),
    ] {
        let mut index = index(&["c1"]);
        let mut spoiled = work("c1", Step::Platform, "u1", 7);
        let name = ALL_ANNOTATIONS.iter().find(|name| name.ends_with(key)).unwrap();
        let notes = spoiled.metadata.annotations.as_mut().unwrap();
        notes.insert((*name).to_owned(), value.to_owned());
        index.work(&Change::Applied(spoiled), Utc::now());
        let desk = upgrade("u1", &["c1"]).desk(&index);
        let fleet = observed(&desk, vec![], &mut index);
        let cluster = one(&fleet, "c1");
        assert!(
            matches!(cluster.slot(rollout::Step::Platform), Slot::Unreadable { what, terminating: false } if what.contains(key)),
            "{key}={value}: {:?}",
            cluster.works
        );
    }
}

/// Annotations that say which attempt a work serves.
const ALL_ANNOTATIONS: [&str; 4] = [
    api::names::ANNOTATION_REVISION,
    api::names::ANNOTATION_ATTEMPT,
    api::names::ANNOTATION_STEP_HASH,
    api::names::ANNOTATION_TARGET_VERSION,
];
