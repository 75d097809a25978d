use chrono::TimeDelta;
use rollout::testing::{at, record};
use rollout::{Attempt, Record};

use super::*;
use crate::fixture::{Given, cluster, finished, index, note, upgrade, upgrades, work, write};
use crate::observe::index::Change;
use crate::reconcile::commit::record_observation;

const OLD: &str = "2026-05-28T09:00:00Z";
const NEW: &str = "2026-05-28T11:00:00Z";

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

/// How an upgrade of cluster `c1` sees another upgrade, which is older or newer and may have a record and a
/// work.
fn rival(
    other_created: &'static str,
    record: impl Into<Option<Record>>,
    step: Option<Step>,
) -> (Option<RivalHold>, Cluster) {
    let mut index = index(&["c1"]);
    let entry = upgrade("mine", &["c1"]).entry(&index);
    let mut other = Given {
        created: other_created,
        ..upgrade("other", &["c1"])
    }
    .entry(&index);
    if let Some(record) = record.into() {
        note(&mut other, "c1", record);
        write(&mut other);
    }
    if let Some(step) = step {
        index.work(&Change::Applied(work("c1", step, "other", 5)), at(0));
    }
    let cluster = one(&observed(&entry, vec![other], &mut index), "c1");
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
            *cluster.step_work(rollout::Step::Platform),
            StepWork::Rival { terminating: false }
        );
    }
}

#[test]
fn an_end_that_is_not_on_record_yet_holds_the_cluster() {
    for phase in [Phase::Complete, Phase::Failed] {
        let mut index = index(&["c1"]);
        let entry = upgrade("mine", &["c1"]).entry(&index);
        let mut other = Given {
            created: OLD,
            ..upgrade("other", &["c1"])
        }
        .entry(&index);
        note(&mut other, "c1", of(phase));
        index.work(&Change::Applied(work("c1", Step::Platform, "other", 5)), at(0));
        let cluster = one(&observed(&entry, vec![other], &mut index), "c1");
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
    let mut mine = upgrade("mine", &["c1"]).entry(&index);
    let upgraded = record(Phase::Blocked).reason(Reason::WorkRefused);
    let older = || {
        let given = Given {
            created: OLD,
            ..upgrade("other", &["c1"])
        };
        let mut older = given.entry(&crate::fixture::index(&["c1"]));
        note(&mut older, "c1", record(Phase::Blocked).reason(Reason::Conflict));
        older
    };
    note(&mut mine, "c1", upgraded.clone());
    let hold =
        |entry: &UpgradeEntry, index: &mut Index| one(&observed(entry, vec![older()], index), "c1").rival;
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
    let entry = upgrade("mine", &["c1"]).entry(&index);
    let mut other = Given {
        spec: serde_json::json!({}),
        ..upgrade("other", &["c1"])
    }
    .entry(&index);
    assert!(other.spec.is_err());
    note(&mut other, "c1", of(Phase::Initialized));
    index.work(&Change::Applied(work("c1", Step::Platform, "other", 5)), at(0));
    let cluster = one(&observed(&entry, vec![other], &mut index), "c1");
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
    let entry = upgrade("mine", &["c1", "c2"]).entry(&index);
    let mut other = Given {
        created: NEW,
        ..upgrade("other", &["c1", "c2"])
    }
    .entry(&index);
    other.begin(&Arc::from("c1"), true);
    other.begin(&Arc::from("c2"), false);
    let fleet = observed(&entry, vec![other], &mut index);
    assert_eq!(one(&fleet, "c1").rival.unwrap().hold, RivalHold::Active);
    assert_eq!(one(&fleet, "c2").rival, None);
}

#[test]
fn of_two_equally_old_upgrades_the_first_by_name_goes_first() {
    let mut index = index(&["c1"]);
    let (first, second) = (
        upgrade("a", &["c1"]).entry(&index),
        upgrade("b", &["c1"]).entry(&index),
    );
    let fleet_of = |entry: &UpgradeEntry, other: UpgradeEntry, index: &mut Index| {
        one(&observed(entry, vec![other], index), "c1")
            .rival
            .map(|rival| rival.hold)
    };
    assert_eq!(
        fleet_of(&second, upgrade("a", &["c1"]).entry(&index), &mut index),
        Some(RivalHold::Active)
    );
    assert_eq!(
        fleet_of(&first, upgrade("b", &["c1"]).entry(&index), &mut index),
        None
    );
}

#[test]
fn an_upgrade_that_is_deleted_or_invalid_reserves_nothing() {
    let mut index = index(&["c1"]);
    let entry = upgrade("mine", &["c1"]).entry(&index);
    let deleting = Given {
        created: OLD,
        deleting: true,
        ..upgrade("other", &["c1"])
    };
    let fleet = observed(&entry, vec![deleting.entry(&index)], &mut index);
    assert_eq!(one(&fleet, "c1").rival, None);
    let mut invalid = Given {
        created: OLD,
        ..upgrade("other", &["c1"])
    }
    .entry(&index);
    invalid.spec = Err(Arc::default());
    let fleet = observed(&entry, vec![invalid], &mut index);
    assert_eq!(one(&fleet, "c1").rival, None);
}

#[test]
fn works_whose_owner_does_not_exist_give_way() {
    let mut index = index(&["c1"]);
    let entry = upgrade("mine", &["c1"]).entry(&index);
    index.work(&Change::Applied(work("c1", Step::Platform, "deleted", 5)), at(0));
    let cluster = one(&observed(&entry, Vec::new(), &mut index), "c1");
    let rival = cluster.rival.unwrap();
    assert_eq!((&*rival.upgrade, rival.hold), ("(deleted)", RivalHold::Yielding));
}

#[test]
fn a_work_that_holds_outweighs_one_that_gives_way() {
    let mut index = index(&["c1"]);
    let entry = upgrade("mine", &["c1"]).entry(&index);
    let mut other = Given {
        created: NEW,
        ..upgrade("other", &["c1"])
    }
    .entry(&index);
    note(&mut other, "c1", record(Phase::Partial));
    index.work(&Change::Applied(work("c1", Step::PreAction, "deleted", 5)), at(0));
    index.work(&Change::Applied(work("c1", Step::Platform, "other", 6)), at(0));
    let cluster = one(&observed(&entry, vec![other], &mut index), "c1");
    assert_eq!(cluster.rival.unwrap().hold, RivalHold::Active);
}

#[test]
fn the_fleet_is_the_union_of_selection_and_records_by_name() {
    let mut index = index(&["a", "b", "c", "d"]);
    let mut entry = upgrade("mine", &["b", "d"]).entry(&index);
    note(&mut entry, "c", record(Phase::Partial));
    index.work(&Change::Applied(work("a", Step::Platform, "mine", 5)), at(0));
    index.work(&Change::Applied(work("b", Step::Platform, "mine", 6)), at(0));
    let Observation { fleet, unaccounted } = seen(&entry, Vec::new(), &mut index, at(0));
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
            .step_work(rollout::Step::Platform)
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
    let mut entry = upgrade("mine", &[]).entry(&index);
    note(&mut entry, "b", record(Phase::Pending));
    let observation = seen(&entry, Vec::new(), &mut index, at(0));
    record_observation(&mut entry, &observation);
    let later = at(0) + TimeDelta::seconds(5);
    let second = seen(&entry, Vec::new(), &mut index, later).fleet;
    assert_eq!(one(&second, "b").selection, Selection::Left(at(0)));
}

#[test]
fn works_where_the_upgrade_neither_selects_nor_has_a_record_are_told_and_nothing_else() {
    let mut index = index(&["a", "b"]);
    let mut entry = upgrade("mine", &["b"]).entry(&index);
    index.work(&Change::Applied(finished("a", "mine", 5)), at(0));
    let observation = seen(&entry, Vec::new(), &mut index, at(0));
    assert_eq!(names(&observation.fleet), ["b"]);
    record_observation(&mut entry, &observation);
    assert!(
        entry
            .notes
            .iter()
            .any(|note| note.contains("has a record of: 1, such as a")),
        "{:?}",
        entry.notes
    );
    let gone = finished("a", "mine", 6);
    index.work(&Change::Deleted(gone), at(0));
    let observation = seen(&entry, Vec::new(), &mut index, at(0));
    record_observation(&mut entry, &observation);
    assert!(entry.notes.is_empty(), "{:?}", entry.notes);
}

#[test]
fn an_upgrade_that_is_deleted_cleans_up_where_it_has_been_and_nowhere_else() {
    let mut index = index(&["a", "b", "c"]);
    let mut entry = upgrade("mine", &[]).entry(&index);
    note(&mut entry, "b", record(Phase::Pending));
    let observation = seen(&entry, Vec::new(), &mut index, at(0));
    record_observation(&mut entry, &observation);
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

#[test]
fn a_work_with_our_uid_and_another_owner_is_not_ours() {
    let mut index = index(&["a", "b"]);
    let entry = upgrade("mine", &["a", "b"]).entry(&index);
    let mut forged = work("a", Step::Platform, "mine", 5);
    let notes = forged.metadata.annotations.as_mut().unwrap();
    notes.insert(api::names::ANNOTATION_OWNER.to_owned(), "ns/other".to_owned());
    index.work(&Change::Applied(forged), at(0));
    index.work(&Change::Applied(work("b", Step::Platform, "mine", 6)), at(0));
    let fleet = observed(&entry, Vec::new(), &mut index);
    assert_eq!(
        *one(&fleet, "a").step_work(rollout::Step::Platform),
        StepWork::Absent
    );
    assert!(
        one(&fleet, "b")
            .step_work(rollout::Step::Platform)
            .ours()
            .is_some()
    );
}

#[test]
fn a_cluster_that_comes_back_has_not_left() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a"]).entry(&index);
    entry.left.insert(Arc::from("a"), at(0));
    let fleet = observed(&entry, Vec::new(), &mut index);
    assert_eq!(one(&fleet, "a").selection, Selection::In);
    let left = |cluster: &Cluster| matches!(cluster.selection, Selection::Left(_));
    assert!(!fleet.clusters.iter().any(left));
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
        .take(&plan, &policy, std::time::Instant::now(), |_| (true, true));
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

#[test]
fn somebody_elses_work_stands_in_the_way_until_its_next_look() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a"]).entry(&index);
    entry.block_step(&Arc::from("a"), Step::Platform, at(0), BlockerKind::Foreign);
    let fleet = observed(&entry, Vec::new(), &mut index);
    let StepWork::Foreign { retry_at } = *one(&fleet, "a").step_work(rollout::Step::Platform) else {
        panic!("{fleet:?}");
    };
    assert_eq!((retry_at - at(0)).num_seconds(), 30);
    assert_eq!(
        *one(&fleet, "a").step_work(rollout::Step::PreAction),
        StepWork::Absent
    );
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
    assert_eq!(*one(&fleet, "a").step_work(rollout::Step::PreAction), refused);
}

#[test]
fn what_is_left_of_anothers_vanished_work_is_nothing_to_us() {
    let mut index = index(&["a"]);
    let entry = upgrade("mine", &["a"]).entry(&index);
    let done = finished("a", "other", 5);
    index.work(&Change::Applied(done.clone()), at(0));
    index.work(&Change::Deleted(done), at(0));
    assert!(index.work_of("a", Step::Operators).unwrap().work.vanished);
    let cluster = one(&observed(&entry, Vec::new(), &mut index), "a");
    assert_eq!(*cluster.step_work(rollout::Step::Operators), StepWork::Absent);
    assert_eq!(cluster.rival, None);
}

#[test]
fn the_selection_is_made_again_only_when_something_moved() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a", "b"]).entry(&index);
    assert!(!refresh_selection(&mut entry, &index, false));
    index.cluster(&Change::Applied(cluster("z")));
    assert!(!refresh_selection(&mut entry, &index, false), "not concerned");
    index.cluster(&Change::Applied(cluster("b")));
    assert!(refresh_selection(&mut entry, &index, false));
    assert_eq!(entry.selected.clusters.len(), 2);
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
        let entry = upgrade("u1", &["c1"]).entry(&index);
        let fleet = observed(&entry, vec![], &mut index);
        let cluster = one(&fleet, "c1");
        assert!(
            matches!(cluster.step_work(rollout::Step::Platform), StepWork::Unreadable { what, terminating: false } if what.contains(key)),
            "{key}={value}: {:?}",
            cluster.works
        );
    }
}

/// The annotations that identify the attempt of a work.
const ALL_ANNOTATIONS: [&str; 4] = [
    api::names::ANNOTATION_REVISION,
    api::names::ANNOTATION_ATTEMPT,
    api::names::ANNOTATION_STEP_HASH,
    api::names::ANNOTATION_TARGET_VERSION,
];
