use rollout::testing::{at, first_attempt, record};
use rollout::{Cluster, Fleet, Record, StepWork};

use super::*;
use crate::fixture::{NEW, OLD, TestUpgrade, upgrade};
use crate::index::{Change, Index};
use crate::record::unreadable_record;
use crate::testing::{finished, index, work};
use crate::writes::{Backoff, Forbidden, RunningWrites};

fn observed(entry: &TestUpgrade, others: &[TestUpgrade], index: &mut Index) -> Fleet {
    entry.observe(others, index, at(0)).fleet
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
    let entry = upgrade("mine", &["c1"], &index);
    let mut other = upgrade("other", &["c1"], &index).created(other_created);
    if let Some(record) = record.into() {
        other.note("c1", record);
        other.write();
    }
    if let Some(step) = step {
        index.work(&Change::Applied(work("c1", step, "other", 5)), at(0));
    }
    let cluster = one(&observed(&entry, &[other], &mut index), "c1");
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
    assert_eq!(rival(OLD, of(Phase::Skipped), None).0, None);
    assert_eq!(rival(OLD, of(Phase::Aborted), None).0, None);
    for phase in [Phase::Complete, Phase::Failed, Phase::Skipped, Phase::Aborted] {
        let (hold, cluster) = rival(OLD, of(phase), Some(Step::Platform));
        assert_eq!(hold, Some(RivalHold::Yielding), "with kept works");
        assert_eq!(
            *cluster.step_work(Step::Platform),
            StepWork::Rival { terminating: false }
        );
    }
}

#[test]
fn an_end_that_is_not_on_record_yet_holds_the_cluster() {
    for phase in [Phase::Complete, Phase::Failed] {
        let mut index = index(&["c1"]);
        let entry = upgrade("mine", &["c1"], &index);
        let mut other = upgrade("other", &["c1"], &index).created(OLD);
        other.note("c1", of(phase));
        index.work(&Change::Applied(work("c1", Step::Platform, "other", 5)), at(0));
        let cluster = one(&observed(&entry, &[other], &mut index), "c1");
        assert_eq!(cluster.rival.unwrap().hold, RivalHold::Active);
    }
}

#[test]
fn an_end_that_is_not_on_record_yet_holds_a_cluster_whose_works_are_gone() {
    for phase in [Phase::Complete, Phase::Failed] {
        for created in [OLD, NEW] {
            let mut index = index(&["c1"]);
            let entry = upgrade("mine", &["c1"], &index);
            let mut other = upgrade("other", &["c1"], &index).created(created);
            other.note("c1", of(Phase::Initialized));
            other.write();
            other.note("c1", of(phase));
            let hold = |other: &TestUpgrade, index: &mut Index| {
                one(&observed(&entry, std::slice::from_ref(other), index), "c1")
                    .rival
                    .map(|rival| rival.hold)
            };
            assert_eq!(hold(&other, &mut index), Some(RivalHold::Active));
            other.write();
            assert_eq!(hold(&other, &mut index), None);
        }
    }
}

#[test]
fn a_cluster_that_was_dropped_in_flight_is_held_until_its_row_is_gone_from_the_hub() {
    let mut index = index(&["c1"]);
    let entry = upgrade("mine", &["c1"], &index);
    for created in [OLD, NEW] {
        let mut other = upgrade("other", &["c2"], &index).created(created);
        let mut hold = |other: &TestUpgrade| {
            let cluster = one(&observed(&entry, std::slice::from_ref(other), &mut index), "c1");
            cluster.rival.map(|rival| rival.hold)
        };
        other.unreleased.push(Arc::from("c1"));
        assert_eq!(
            hold(&other),
            Some(RivalHold::Active),
            "its next leader would go on"
        );
        other.is_deleting = true;
        assert_eq!(hold(&other), None, "its next leader would only delete");
        other.is_deleting = false;
        other.unreleased.clear();
        assert_eq!(hold(&other), None, "the row is gone");
    }
}

#[test]
fn an_older_upgrade_that_waits_for_a_human_is_stuck() {
    for reason in [
        Reason::Paused,
        Reason::CanaryFailed,
        Reason::MaxFailuresExceeded,
        Reason::WaitingForApproval,
    ] {
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

/// What its cluster waits for in that upgrade, such as the canaries, waits for a human.
#[test]
fn an_upgrade_that_is_stalled_is_stuck_where_it_waits_and_nowhere_else() {
    let waiting = || Record::from(record(Phase::Pending).reason(Reason::WaitingForCanaries));
    let queued_again = || Record::from(record(Phase::Pending).retry("t"));
    let (platform, action) = (Some(Step::Platform), Some(Step::PreAction));
    for (created, record, step, is_stalled, expected) in [
        (OLD, waiting(), None, false, Some(RivalHold::Active)),
        (OLD, waiting(), None, true, Some(RivalHold::Stuck)),
        (OLD, of(Phase::Partial), None, true, Some(RivalHold::Active)),
        (OLD, of(Phase::Complete), None, true, None),
        (NEW, waiting(), None, true, None),
        (NEW, queued_again(), platform, false, Some(RivalHold::Active)),
        (NEW, queued_again(), platform, true, Some(RivalHold::Stuck)),
        (NEW, queued_again(), action, true, Some(RivalHold::Yielding)),
    ] {
        let mut index = index(&["c1"]);
        let entry = upgrade("mine", &["c1"], &index);
        let mut other = upgrade("other", &["c1"], &index).created(created);
        let case = format!("{created} {record:?} {step:?} {is_stalled}");
        other.note("c1", record);
        other.write();
        other.standing = if is_stalled {
            Standing::Stalled
        } else {
            Standing::Moving
        };
        if let Some(step) = step {
            index.work(&Change::Applied(work("c1", step, "other", 5)), at(0));
        }
        let cluster = one(&observed(&entry, &[other], &mut index), "c1");
        assert_eq!(cluster.rival.map(|rival| rival.hold), expected, "{case}");
    }
}

#[test]
fn an_upgrade_whose_work_the_hub_refuses_is_stuck_and_ends_what_it_began_before_an_older_one_begins() {
    let refused = |phase| Record::from(record(phase).reason(Reason::WorkRefused));
    for phase in [Phase::Blocked, Phase::PostAction] {
        let hold = rival(NEW, refused(phase), Some(Step::Platform)).0;
        assert_eq!(hold, Some(RivalHold::Stuck), "{phase:?}");
    }
    let mut index = index(&["c1"]);
    let mut mine = upgrade("mine", &["c1"], &index);
    let upgraded = record(Phase::Blocked).reason(Reason::WorkRefused);
    let older = || {
        let mut older = upgrade("other", &["c1"], &crate::testing::index(&["c1"])).created(OLD);
        older.note("c1", record(Phase::Blocked).reason(Reason::Conflict));
        older
    };
    mine.note("c1", upgraded.clone());
    let hold = |entry: &TestUpgrade, index: &mut Index| one(&observed(entry, &[older()], index), "c1").rival;
    assert_eq!(
        hold(&mine, &mut index).map(|rival| rival.hold),
        Some(RivalHold::Active)
    );
    mine.note("c1", upgraded.succeeded(Stage::Platform, 0));
    assert_eq!(hold(&mine, &mut index), None);
}

#[test]
fn an_upgrade_whose_writes_the_hub_keeps_forbidding_is_stuck() {
    let forbidden = |seconds| Backoff {
        until: at(seconds + 60),
        failures: 7,
        text: Arc::from("forbidden"),
        uncertain: false,
        start_forbidden: Some(Forbidden {
            first: at(0),
            last: at(seconds),
        }),
        deletion_forbidden: None,
    };
    let hold = |created, phase, seconds, starting| {
        let mut index = index(&["c1"]);
        let entry = upgrade("mine", &["c1"], &index);
        let mut other = upgrade("other", &["c1"], &index).created(created);
        other.note("c1", of(phase));
        other.write();
        other.backoff.insert(Arc::from("c1"), forbidden(seconds));
        if starting {
            let writes = RunningWrites {
                count: 1,
                starting: starting.then(first_attempt),
            };
            other.running.insert(Arc::from("c1"), writes);
        }
        let cluster = one(&observed(&entry, &[other], &mut index), "c1");
        cluster.rival.map(|rival| rival.hold)
    };
    for (seconds, expected) in [(59, RivalHold::Active), (60, RivalHold::Stuck)] {
        assert_eq!(hold(OLD, Phase::Pending, seconds, false), Some(expected));
        assert_eq!(hold(OLD, Phase::Pending, seconds, true), Some(expected));
        assert_eq!(hold(NEW, Phase::Initialized, seconds, false), Some(expected));
    }
    assert_eq!(hold(OLD, Phase::Complete, 60, false), None, "it needs nothing");
}

/// Only a human can permit the deletion. Who waits for the cluster must not say that it goes on by itself.
#[test]
fn an_upgrade_that_is_deleted_and_whose_deletions_the_hub_keeps_forbidding_is_stuck() {
    let forbidden = |seconds| Backoff {
        until: at(seconds + 60),
        failures: 7,
        text: Arc::from("forbidden"),
        uncertain: false,
        start_forbidden: None,
        deletion_forbidden: Some(Forbidden {
            first: at(0),
            last: at(seconds),
        }),
    };
    let hold = |created, phase: Option<Phase>, is_deleting, seconds| {
        let mut index = index(&["c1"]);
        let entry = upgrade("mine", &["c1"], &index);
        let mut other = upgrade("other", &["c1"], &index).created(created);
        if let Some(phase) = phase {
            other.note("c1", of(phase));
            other.write();
        }
        other.is_deleting = is_deleting;
        other.backoff.insert(Arc::from("c1"), forbidden(seconds));
        index.work(&Change::Applied(work("c1", Step::Platform, "other", 5)), at(0));
        let cluster = one(&observed(&entry, &[other], &mut index), "c1");
        cluster.rival.map(|rival| rival.hold)
    };
    let (active, stuck) = (Some(RivalHold::Active), Some(RivalHold::Stuck));
    let undeletable = Some(RivalHold::Undeletable);
    for created in [OLD, NEW] {
        for phase in [None, Some(Phase::Initialized), Some(Phase::Partial)] {
            assert_eq!(hold(created, phase, true, 59), active, "{created} {phase:?}");
            assert_eq!(hold(created, phase, true, 60), undeletable, "{created} {phase:?}");
            let kept = hold(created, phase, false, 60);
            assert_eq!(kept, active, "{created} {phase:?}: it goes on without");
        }
        let degraded = Some(Phase::PreActionDegraded);
        assert_eq!(hold(created, degraded, true, 59), stuck);
        assert_eq!(hold(created, degraded, true, 60), undeletable);
        let complete = hold(created, Some(Phase::Complete), true, 60);
        assert_eq!(complete, Some(RivalHold::Yielding), "its work may be taken over");
    }
}

/// Records of a cluster on which an upgrade is not at work. They are of a retry, and works are of the attempt before.
fn idle_records() -> [Record; 3] {
    let retried = |phase| record(phase).retry("t");
    [
        retried(Phase::Pending).into(),
        retried(Phase::Blocked).reason(Reason::Conflict).into(),
        retried(Phase::Pending).succeeded(Stage::Platform, 0).into(),
    ]
}

#[test]
fn of_two_upgrades_that_are_not_at_work_on_a_cluster_exactly_one_goes_first() {
    let owners = ["", "old", "new"];
    for old_record in idle_records() {
        for new_record in idle_records() {
            for (action, platform) in owners
                .iter()
                .flat_map(|action| owners.map(|platform| (*action, platform)))
            {
                let mut index = index(&["c1"]);
                for (step, owner, version) in [(Step::PreAction, action, 5), (Step::Platform, platform, 6)] {
                    if !owner.is_empty() {
                        index.work(&Change::Applied(work("c1", step, owner, version)), at(0));
                    }
                }
                let upgrade_of = |uid, created: &str, record: &Record| {
                    let mut made = upgrade(uid, &["c1"], &crate::testing::index(&["c1"])).created(created);
                    made.note("c1", record.clone());
                    made.write();
                    made
                };
                let old = || upgrade_of("old", OLD, &old_record);
                let new = || upgrade_of("new", NEW, &new_record);
                let hold = |entry: &TestUpgrade, other: TestUpgrade, index: &mut Index| {
                    one(&observed(entry, &[other], index), "c1")
                        .rival
                        .map(|rival| rival.hold)
                };
                let holds = [hold(&old(), new(), &mut index), hold(&new(), old(), &mut index)];
                let first = holds
                    .iter()
                    .filter(|hold| matches!(hold, None | Some(RivalHold::Yielding)));
                let case = format!(
                    "{old_record:?}\n{new_record:?}\naction {action:?} platform {platform:?}: {holds:?}"
                );
                assert_eq!(first.count(), 1, "{case}");
            }
        }
    }
}

#[test]
fn the_upgrade_whose_platform_work_is_there_goes_first_once_it_is_retried() {
    let retried = || Record::from(record(Phase::Pending).retry("t"));
    let (hold, _) = rival(NEW, retried(), Some(Step::Platform));
    assert_eq!(
        hold,
        Some(RivalHold::Active),
        "the newer one asked for its version before"
    );
    let (hold, _) = rival(NEW, retried(), Some(Step::PreAction));
    assert_eq!(hold, Some(RivalHold::Yielding), "it has changed nothing yet");
}

#[test]
fn an_upgrade_whose_spec_became_invalid_is_stuck_where_it_is_at_work() {
    let mut index = index(&["c1"]);
    let entry = upgrade("mine", &["c1"], &index);
    let mut other = upgrade("other", &["c1"], &index);
    other.standing = Standing::Invalid;
    other.in_force = None;
    other.note("c1", of(Phase::Initialized));
    index.work(&Change::Applied(work("c1", Step::Platform, "other", 5)), at(0));
    let cluster = one(&observed(&entry, &[other], &mut index), "c1");
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

/// A leader of the release that wrote the row may go on.
#[test]
fn an_upgrade_whose_row_cannot_be_read_holds_its_cluster_whatever_its_age() {
    let unreadable = || unreadable_record("phase \"Advancing\" is unknown", None, &[]);
    for created in [OLD, NEW] {
        for step in [None, Some(Step::Platform)] {
            let hold = rival(created, unreadable(), step).0;
            assert_eq!(hold, Some(RivalHold::Stuck), "{created} {step:?}");
        }
        let mut index = index(&["c1"]);
        let entry = upgrade("mine", &["c1"], &index);
        let mut other = upgrade("other", &["c1"], &index).created(created);
        other.note("c1", unreadable());
        other.is_deleting = true;
        let cluster = one(&observed(&entry, &[other], &mut index), "c1");
        assert_eq!(cluster.rival, None, "its next leader would only delete");
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
    let entry = upgrade("mine", &["c1", "c2"], &index);
    let mut other = upgrade("other", &["c1", "c2"], &index).created(NEW);
    for (cluster, starting) in [("c1", true), ("c2", false)] {
        let writes = RunningWrites {
            count: 1,
            starting: starting.then(first_attempt),
        };
        other.running.insert(Arc::from(cluster), writes);
    }
    let fleet = observed(&entry, &[other], &mut index);
    assert_eq!(one(&fleet, "c1").rival.unwrap().hold, RivalHold::Active);
    assert_eq!(one(&fleet, "c2").rival, None);
}

#[test]
fn a_newer_upgrade_whose_first_work_has_just_been_created_holds_the_cluster() {
    let queued = || {
        [
            record(Phase::Pending),
            record(Phase::Blocked).reason(Reason::Conflict),
        ]
    };
    for step in [Step::PreAction, Step::Operators] {
        for planned in queued() {
            let hold = rival(NEW, Record::from(planned), Some(step)).0;
            assert_eq!(hold, Some(RivalHold::Active), "{step:?}: no plan knows of it yet");
        }
        for planned in queued() {
            let ended = planned.succeeded(step.into(), 0);
            let hold = rival(NEW, Record::from(ended), Some(step)).0;
            assert_eq!(
                hold,
                Some(RivalHold::Yielding),
                "{step:?}: it was known, and is over"
            );
        }
    }
}

#[test]
fn of_two_equally_old_upgrades_the_first_by_name_goes_first() {
    let mut index = index(&["c1"]);
    let (first, second) = (upgrade("a", &["c1"], &index), upgrade("b", &["c1"], &index));
    let fleet_of = |entry: &TestUpgrade, other: TestUpgrade, index: &mut Index| {
        one(&observed(entry, &[other], index), "c1")
            .rival
            .map(|rival| rival.hold)
    };
    assert_eq!(
        fleet_of(&second, upgrade("a", &["c1"], &index), &mut index),
        Some(RivalHold::Active)
    );
    assert_eq!(fleet_of(&first, upgrade("b", &["c1"], &index), &mut index), None);
}

#[test]
fn an_upgrade_that_is_deleted_or_invalid_reserves_nothing() {
    let mut index = index(&["c1"]);
    let entry = upgrade("mine", &["c1"], &index);
    let mut deleting = upgrade("other", &["c1"], &index).created(OLD);
    deleting.is_deleting = true;
    let fleet = observed(&entry, &[deleting], &mut index);
    assert_eq!(one(&fleet, "c1").rival, None);
    let mut invalid = upgrade("other", &["c1"], &index).created(OLD);
    invalid.standing = Standing::Invalid;
    let fleet = observed(&entry, &[invalid], &mut index);
    assert_eq!(one(&fleet, "c1").rival, None);
}

#[test]
fn works_whose_owner_does_not_exist_give_way() {
    let mut index = index(&["c1"]);
    let entry = upgrade("mine", &["c1"], &index);
    index.work(&Change::Applied(work("c1", Step::Platform, "deleted", 5)), at(0));
    let cluster = one(&observed(&entry, &[], &mut index), "c1");
    let rival = cluster.rival.unwrap();
    assert_eq!((&*rival.upgrade, rival.hold), ("(deleted)", RivalHold::Yielding));
}

#[test]
fn a_work_that_holds_outweighs_one_that_gives_way() {
    let mut index = index(&["c1"]);
    let entry = upgrade("mine", &["c1"], &index);
    let mut other = upgrade("other", &["c1"], &index).created(NEW);
    other.note("c1", record(Phase::Partial));
    index.work(&Change::Applied(work("c1", Step::PreAction, "deleted", 5)), at(0));
    index.work(&Change::Applied(work("c1", Step::Platform, "other", 6)), at(0));
    let cluster = one(&observed(&entry, &[other], &mut index), "c1");
    assert_eq!(cluster.rival.unwrap().hold, RivalHold::Active);
}

#[test]
fn what_is_left_of_anothers_vanished_work_is_nothing_to_us() {
    let mut index = index(&["a"]);
    let entry = upgrade("mine", &["a"], &index);
    let done = finished("a", "other", 5);
    index.work(&Change::Applied(done.clone()), at(0));
    index.work(&Change::Deleted(done), at(0));
    assert!(index.work_of("a", Step::Operators).unwrap().work.vanished);
    let cluster = one(&observed(&entry, &[], &mut index), "a");
    assert_eq!(*cluster.step_work(Step::Operators), StepWork::Absent);
    assert_eq!(cluster.rival, None);
}
