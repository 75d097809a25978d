//! What may be known of a cluster or an upgrade all at once, in whatever state a random world is: rows, works and reports may be late,
//! lost, read anew or edited.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;

use super::events::{Event, apply_edit, event, pools, preflight, step};
use crate::model::{
    Attempt, Busy, Cluster, ClusterBackoff, Eligibility, Fleet, Outcome, PendingRetry, Phase, Policy, Reason,
    Record, Rival, RivalHold, Selection, Stage, Step, StepRecord, StepStatus, StepWork, Withdrawal, Work,
};
use crate::testing::{at, stand_in};
use crate::tests::abort::left_out;
use crate::tests::windows;

#[derive(Clone, Debug)]
pub(super) enum Fact {
    Edit(Event),
    Retry,
    Deleting,
    Unreleased(usize),
    Window(u8),
    /// Seconds since it left the selection.
    Left(i64),
    Gone,
    LeaveOut(bool),
    Canary(bool),
    Ineligible(bool),
    Rival(RivalHold),
    RivalWork(Step, bool),
    /// A work that belongs to nobody or was refused, and seconds until the next try.
    Blocker(Step, Blocker, i64),
    Unreadable(Step, bool),
    /// The cluster was registered anew.
    Former(Step),
    Vanished(Step),
    Terminating(Step),
    Status(Step, StepStatus),
    /// Another start of a work, in seconds from now.
    Started(Step, i64),
    Attempt(Step, &'static str, &'static str),
    Soaking(Step, i64),
    Withdrawn(Withdrawal),
    Row(RowFact),
    /// Somebody has edited the row, and whoever leads next believes it.
    EditedRow(EditedRow),
    SlotInDoubt,
    Busy(Busy),
    Backoff(i64, bool, bool),
    Unsettled(Step),
    Late(Step),
    AlsoLate(Step),
    Read(Step, i64),
    Version(&'static str, bool),
    Preflight(u8),
    StaleImage,
    Pools(bool),
    PoolsUnheard,
}

/// A row as some leader may have written it: somebody has brought it back, or has copied it.
#[derive(Clone, Debug)]
pub(super) struct EditedRow {
    /// False: it is of an earlier spec.
    is_current: bool,
    retry: &'static str,
    /// How many stages have begun.
    begun: usize,
    /// How the last of them ended.
    end: Option<Outcome>,
    /// Start of each stage in seconds from now.
    starts: [i64; 5],
    /// Which of the phases that agree with the stages it has.
    phase: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Blocker {
    Foreign,
    ForeignTerminating,
    Refused,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RowFact {
    /// There is none.
    Lost,
    /// What was not written is lost.
    Old,
    /// It is not written yet.
    New,
    Unreadable,
}

fn one_of<T: Clone + std::fmt::Debug + 'static>(values: &[T]) -> impl Strategy<Value = T> + use<T> {
    prop::sample::select(values.to_vec())
}

fn of_fleet() -> impl Strategy<Value = Fact> {
    prop_oneof![
        8 => event().prop_map(Fact::Edit),
        1 => Just(Fact::Retry),
        1 => Just(Fact::Deleting),
        1 => (0..3_usize).prop_map(Fact::Unreleased),
    ]
}

fn of_cluster() -> impl Strategy<Value = Fact> {
    let versions = ["4.12.0-rc.1", "4.12.1", "", "latest"];
    prop_oneof![
        1 => (0..4_u8).prop_map(Fact::Window),
        1 => (0..9_i64).prop_map(Fact::Left),
        1 => Just(Fact::Gone),
        1 => any::<bool>().prop_map(Fact::LeaveOut),
        1 => any::<bool>().prop_map(Fact::Canary),
        1 => any::<bool>().prop_map(Fact::Ineligible),
        1 => (one_of(&versions), any::<bool>()).prop_map(|(version, newest)| Fact::Version(version, newest)),
        1 => (0..6_u8).prop_map(Fact::Preflight),
        1 => Just(Fact::StaleImage),
        1 => any::<bool>().prop_map(Fact::Pools),
        1 => Just(Fact::PoolsUnheard),
    ]
}

fn edited_row() -> impl Strategy<Value = EditedRow> {
    let end = prop::option::of(one_of(&[Outcome::Succeeded, Outcome::Failed]));
    (
        prop::bool::weighted(0.8),
        one_of(&["", "retry-0", "~", "entry-1~"]),
        0..6_usize,
        end,
        prop::array::uniform5(-300..1_i64),
        0..6_usize,
    )
        .prop_map(|(is_current, retry, begun, end, starts, phase)| EditedRow {
            is_current,
            retry,
            begun,
            end,
            starts,
            phase,
        })
}

fn of_writes() -> impl Strategy<Value = Fact> {
    use RowFact::{Lost, New, Old, Unreadable};
    let until = (-5..20_i64, any::<bool>(), any::<bool>());
    prop_oneof![
        3 => one_of(&[Lost, Old, New, Unreadable]).prop_map(Fact::Row),
        2 => edited_row().prop_map(Fact::EditedRow),
        1 => Just(Fact::SlotInDoubt),
        1 => one_of(&[Busy::Starting, Busy::Other]).prop_map(Fact::Busy),
        1 => until.prop_map(|(until, create, delete)| Fact::Backoff(until, create, delete)),
        2 => step().prop_map(Fact::Unsettled),
        2 => step().prop_map(Fact::Late),
        1 => step().prop_map(Fact::AlsoLate),
        1 => (step(), 0..300_i64).prop_map(|(step, ago)| Fact::Read(step, ago)),
    ]
}

fn of_works() -> impl Strategy<Value = Fact> {
    use RivalHold::{Active, Stuck, Undeletable, Yielding};
    let blockers = [Blocker::Foreign, Blocker::ForeignTerminating, Blocker::Refused];
    let attempts = [("r1", ""), ("r2", ""), ("r1", "retry-0"), ("r1", "~")];
    prop_oneof![
        1 => one_of(&[Active, Stuck, Undeletable, Yielding]).prop_map(Fact::Rival),
        1 => (step(), any::<bool>()).prop_map(|(step, terminating)| Fact::RivalWork(step, terminating)),
        1 => (step(), one_of(&blockers), -5..20_i64)
            .prop_map(|(step, blocker, retry)| Fact::Blocker(step, blocker, retry)),
        2 => (step(), any::<bool>()).prop_map(|(step, terminating)| Fact::Unreadable(step, terminating)),
        3 => step().prop_map(Fact::Former),
        1 => step().prop_map(Fact::Vanished),
        1 => step().prop_map(Fact::Terminating),
        3 => status().prop_map(|(step, status)| Fact::Status(step, status)),
        1 => (step(), -300..300_i64).prop_map(|(step, start)| Fact::Started(step, start)),
        2 => (step(), one_of(&attempts))
            .prop_map(|(step, (revision, retry))| Fact::Attempt(step, revision, retry)),
        1 => (step(), -100..100_i64).prop_map(|(step, start)| Fact::Soaking(step, start)),
        1 => one_of(&[Withdrawal::None, Withdrawal::Sent, Withdrawal::Confirmed]).prop_map(Fact::Withdrawn),
    ]
}

pub(super) fn fact() -> impl Strategy<Value = Fact> {
    prop_oneof![
        2 => of_fleet(),
        3 => of_cluster(),
        3 => of_writes(),
        5 => of_works(),
    ]
}

/// What a step can report.
fn status() -> impl Strategy<Value = (Step, StepStatus)> {
    let failed = StepStatus::Failed(Arc::from("It failed"));
    let common = [StepStatus::NotYet, StepStatus::Running, StepStatus::Succeeded];
    let mut all: Vec<(Step, StepStatus)> = vec![
        (Step::Platform, StepStatus::OtherVersion),
        (Step::Operators, StepStatus::MaybeFailed(at(0))),
    ];
    for step in Step::ALL {
        all.extend(common.iter().map(|status| (step, status.clone())));
        if step != Step::Platform {
            all.push((step, failed.clone()));
        }
    }
    prop::sample::select(all)
}

/// Makes it so, if it can be.
pub(super) fn change(
    now: DateTime<Utc>,
    policy: &mut Policy,
    fleet: &mut Fleet,
    cluster: usize,
    fact: &Fact,
) {
    let count = fleet.clusters.len().max(1);
    let Some(cluster) = fleet.clusters.get_mut(cluster % count) else {
        return;
    };
    match fact {
        Fact::Edit(event) => apply_edit(policy, event),
        Fact::Retry => policy.retry = Some(PendingRetry::all("t9")),
        Fact::Deleting => policy.deleting = true,
        Fact::Unreleased(number) => fleet.unreleased = *number,
        Fact::Window(kind) => {
            cluster.calendar = Some(fleet.calendars.len());
            fleet.calendars.push(windows::of_minutes(*kind));
        }
        fact => {
            change_cluster(now, cluster, fact);
            change_writes(now, policy, cluster, fact);
            change_works(now, cluster, fact);
        }
    }
}

fn change_cluster(now: DateTime<Utc>, cluster: &mut Cluster, fact: &Fact) {
    match fact {
        Fact::Left(ago) => cluster.selection = Selection::Left(now - TimeDelta::seconds(*ago)),
        Fact::Gone => cluster.gone = true,
        Fact::LeaveOut(aborts) => cluster.left_out = Some(left_out(*aborts)),
        Fact::Canary(canary) => cluster.canary = *canary,
        Fact::Ineligible(for_a_while) => {
            let message = Arc::from("Not now");
            cluster.eligibility = if *for_a_while {
                let reason = Reason::ClusterUnavailable;
                Eligibility::Unavailable { reason, message }
            } else {
                let reason = Reason::NotOpenShift;
                Eligibility::Blocked { reason, message }
            };
        }
        Fact::Version(version, newest) => {
            cluster.newest_version = Arc::from(*version);
            if !newest {
                cluster.version = Arc::from(*version);
            }
        }
        Fact::Preflight(answer) => cluster.preflight = preflight(*answer),
        Fact::StaleImage => cluster.has_stale_image = true,
        Fact::Pools(updated) => cluster.worker_pools = pools(*updated),
        Fact::PoolsUnheard => cluster.pools_unheard = true,
        _ => {}
    }
}

fn change_writes(now: DateTime<Utc>, policy: &Policy, cluster: &mut Cluster, fact: &Fact) {
    let is_unreadable = cluster.record.as_deref().is_some_and(|record| record.unreadable);
    match fact {
        Fact::Row(RowFact::Lost) => (cluster.record, cluster.written) = (None, None),
        Fact::Row(RowFact::Old) => cluster.record.clone_from(&cluster.written),
        // A row that cannot be read was found on the hub, and none is sent in its place.
        Fact::Row(RowFact::New) if !is_unreadable => cluster.written = None,
        Fact::Row(RowFact::Unreadable) => {
            let Some(record) = cluster.record.as_deref() else {
                return;
            };
            let stand_in = Some(Arc::new(stand_in(record)));
            (cluster.record, cluster.written) = (stand_in.clone(), stand_in);
            cluster.slot_in_doubt = false;
        }
        Fact::EditedRow(row) => {
            let record = Some(Arc::new(record_of(now, policy, row)));
            (cluster.record, cluster.written) = (record.clone(), record);
            cluster.slot_in_doubt = false;
        }
        Fact::SlotInDoubt if !is_unreadable => cluster.slot_in_doubt = true,
        Fact::Busy(busy) => {
            cluster.busy = Some(*busy);
            if *busy == Busy::Starting {
                await_start(policy, cluster);
            }
        }
        Fact::Backoff(until, lasting, deletion_lasting) => {
            cluster.backoff = Some(ClusterBackoff {
                until: now + TimeDelta::seconds(*until),
                error: Arc::from("the hub rejected the write"),
                lasting: *lasting,
                deletion_lasting: *deletion_lasting,
            });
        }
        Fact::Unsettled(step) if cluster.late != Some(*step) => {
            cluster.unsettled = Some(*step);
            await_start_of(policy, cluster, *step);
        }
        Fact::Late(step) if cluster.unsettled != Some(*step) => {
            cluster.late = Some(*step);
            await_start_of(policy, cluster, *step);
        }
        Fact::AlsoLate(step) if cluster.is_in_doubt() => cluster.also_late[0] = Some(*step),
        Fact::Read(step, ago) => cluster.read = Some((*step, now - TimeDelta::seconds(*ago))),
        _ => {}
    }
}

/// Phases that agree with the last stage that has begun, and how that ended.
fn phases(last: Option<Stage>, end: Option<Outcome>, is_last: bool) -> Vec<(Phase, Reason)> {
    let queued = [
        (Phase::Pending, Reason::WaitingForSlot),
        (Phase::Blocked, Reason::Conflict),
        (Phase::Skipped, Reason::Skipped),
        (Phase::Aborted, Reason::Aborted),
    ];
    let Some(last) = last else { return queued.to_vec() };
    match (last, end) {
        (_, Some(Outcome::Succeeded)) if is_last => vec![(Phase::Complete, Reason::None)],
        (Stage::PreAction, Some(Outcome::Failed)) => {
            vec![(Phase::PreActionDegraded, Reason::PreActionFailed)]
        }
        (Stage::Platform, Some(Outcome::Failed)) => vec![(Phase::Failed, Reason::ClusterUpgradeTimeout)],
        (Stage::Operators, Some(Outcome::Failed)) => vec![(Phase::Failed, Reason::OperatorsJobFailed)],
        (Stage::Soak, Some(Outcome::Failed)) => vec![(Phase::Failed, Reason::RegressedInSoak)],
        (Stage::PostAction, Some(Outcome::Failed)) => vec![(Phase::Failed, Reason::PostActionFailed)],
        (Stage::PreAction, None) => vec![(Phase::PreAction, Reason::Running), queued[0]],
        (Stage::Platform, None) => vec![
            (Phase::Initialized, Reason::Running),
            (Phase::Partial, Reason::Running),
            (Phase::Workers, Reason::PoolPaused),
        ],
        (Stage::Operators, None) => vec![(Phase::Operators, Reason::Running)],
        (Stage::Soak, None) => vec![(Phase::Soaking, Reason::Running)],
        (Stage::PostAction, None) => vec![(Phase::PostAction, Reason::Running)],
        (Stage::PreAction, Some(Outcome::Succeeded)) => queued.to_vec(),
        (_, Some(Outcome::Succeeded)) => vec![queued[0], queued[1]],
    }
}

fn record_of(now: DateTime<Utc>, policy: &Policy, row: &EditedRow) -> Record {
    let is_wanted = |stage: &Stage| match stage.step() {
        Some(step) => policy.wants(step),
        None => policy.soak().is_some(),
    };
    let wanted: Vec<Stage> = Stage::ALL.into_iter().filter(is_wanted).collect();
    let begun = &wanted[..row.begun.min(wanted.len())];
    let mut stages = [None; 5];
    for stage in begun {
        let started = now + TimeDelta::seconds(row.starts[stage.index()]);
        let succeeded = Some(Outcome::Succeeded);
        let outcome = if begun.last() == Some(stage) {
            row.end
        } else {
            succeeded
        };
        stages[stage.index()] = Some(StepRecord {
            finished: outcome.map(|_| now),
            outcome,
            ..StepRecord::started(started)
        });
    }
    let phases = phases(begun.last().copied(), row.end, begun.len() == wanted.len());
    let (phase, reason) = phases[row.phase % phases.len()];
    let earlier = Arc::from("r0");
    Record {
        attempt: Attempt {
            revision: if row.is_current {
                Arc::clone(&policy.revision)
            } else {
                earlier
            },
            retry: Arc::from(row.retry),
        },
        phase,
        reason,
        other_reason: None,
        refused_step: None,
        message: Arc::from("Edited"),
        since: now,
        stages,
        from_version: Arc::from("4.11.0"),
        unreadable: false,
    }
}

fn change_works(now: DateTime<Utc>, cluster: &mut Cluster, fact: &Fact) {
    match fact {
        Fact::Rival(hold) => cluster.rival = Some(rival(*hold)),
        Fact::RivalWork(step, terminating) if *cluster.step_work(*step) == StepWork::Absent => {
            let terminating = *terminating;
            cluster.works[step.index()] = StepWork::Rival { terminating };
            cluster.rival.get_or_insert_with(|| rival(RivalHold::Yielding));
        }
        Fact::Blocker(step, blocker, retry) if *cluster.step_work(*step) == StepWork::Absent => {
            let retry_at = now + TimeDelta::seconds(*retry);
            cluster.works[step.index()] = match blocker {
                Blocker::Foreign => StepWork::Foreign { retry_at },
                Blocker::ForeignTerminating => StepWork::ForeignTerminating { retry_at },
                Blocker::Refused => StepWork::Refused {
                    retry_at,
                    message: Arc::from("it is invalid"),
                },
            };
        }
        Fact::Unreadable(step, terminating) if cluster.step_work(*step).ours().is_some() => {
            cluster.works[step.index()] = StepWork::Unreadable {
                what: Arc::from("the revision is too long"),
                terminating: *terminating,
            };
        }
        Fact::Former(step) => {
            let record = cluster.record.as_deref();
            let Some(work) = cluster.step_work(*step).ours() else {
                return;
            };
            let is_told = record.is_some_and(|record| record.unreadable || record.attempt == work.attempt);
            cluster.works[step.index()] = if is_told {
                StepWork::Unconfirmed
            } else {
                StepWork::Former(Arc::new(work.clone()))
            };
        }
        Fact::Vanished(step) => edit_work(cluster, *step, |work| {
            (work.vanished, work.status) = (true, StepStatus::Succeeded);
        }),
        Fact::Terminating(step) => edit_work(cluster, *step, |work| work.terminating = true),
        Fact::Status(step, status) => edit_work(cluster, *step, |work| {
            if work.withdrawal != Withdrawal::Confirmed {
                work.status = status.clone();
            }
        }),
        Fact::Started(step, start) => edit_work(cluster, *step, |work| {
            work.started = now + TimeDelta::seconds(*start);
        }),
        Fact::Attempt(step, revision, retry) => edit_work(cluster, *step, |work| {
            work.attempt = Attempt {
                revision: Arc::from(*revision),
                retry: Arc::from(*retry),
            };
        }),
        Fact::Soaking(step, start) if matches!(step, Step::Platform | Step::Operators) => {
            edit_work(cluster, *step, |work| {
                work.soak_started = Some(now + TimeDelta::seconds(*start));
            });
        }
        Fact::Withdrawn(withdrawal) => edit_work(cluster, Step::Platform, |work| {
            work.withdrawal = *withdrawal;
            if *withdrawal == Withdrawal::Confirmed {
                work.status = StepStatus::OtherVersion;
            }
        }),
        _ => {}
    }
}

/// Changes a work of the upgrade that is there.
fn edit_work(cluster: &mut Cluster, step: Step, edit: impl FnOnce(&mut Work)) {
    if let StepWork::Ours(work) = &mut cluster.works[step.index()]
        && !work.vanished
    {
        edit(Arc::make_mut(work));
    }
}

fn rival(hold: RivalHold) -> Rival {
    let upgrade = Arc::from("other/upgrade");
    Rival { upgrade, hold }
}

fn await_start_of(policy: &Policy, cluster: &mut Cluster, step: Step) {
    if step != Step::PostAction {
        await_start(policy, cluster);
    }
}

/// The start that is in progress or in doubt is of the attempt that is on record, or of the first one.
fn await_start(policy: &Policy, cluster: &mut Cluster) {
    let known = cluster.record.as_ref().map(|record| record.attempt.clone());
    let first = || Attempt {
        revision: Arc::clone(&policy.revision),
        retry: Arc::from(""),
    };
    cluster
        .awaited_attempt
        .get_or_insert_with(|| known.unwrap_or_else(first));
}
