//! What may happen in a random world.

use std::ops::Range;
use std::sync::Arc;

use chrono::TimeDelta;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::model::{
    Checkpoint, CheckpointPlace, Eligibility, Hold, KnownApprovals, Limit, OperationKind, Policy, Preflight,
    Reason, RetryScope, Step, WorkerPools,
};
use crate::testing::{RowChange, Scenario, Script};
use crate::tests::abort::left_out;
use crate::tests::windows;

/// What [`crate::testing::policy`] asks for.
const FIRST_TARGET: &str = "4.12.0";

pub(super) const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[derive(Clone, Debug)]
pub(super) enum Event {
    Script(usize, Step, Behaviour),
    Offline(usize, bool),
    DeleteWork(usize, Step),
    AddForeign(usize, Step),
    RemoveForeign(usize, Step),
    Refuse(usize, Step, bool),
    Spoil(usize, Step),
    Forbid(usize, Vec<OperationKind>),
    Select(usize),
    Deselect(usize),
    Canary(usize, bool),
    Lose(usize),
    Register(usize, bool),
    Block(usize),
    Unblock(usize),
    Runs(usize, &'static str),
    KnownToRun(usize, Option<&'static str>),
    Target(&'static str),
    AllowDowngrade(bool),
    RequirePreflight(bool),
    AwaitAnswers(bool),
    Preflight(usize, u8),
    StaleImage(usize),
    Answers(usize, i64),
    WaitForPools(Option<i64>),
    Pools(usize, bool),
    Window(usize, Option<u8>),
    LeaveOut(usize, Option<bool>),
    Checkpoints(Vec<CheckpointPlace>),
    Approve(Option<i64>),
    ApproveOne(usize, Option<i64>),
    Disapprove,
    DisapproveOne(usize),
    Approvals(KnownApprovals),
    Clock(bool),
    /// The clock of the controllers is ahead by so many seconds.
    Ahead(i64),
    /// The spec asks for canaries, or not.
    Canaries(bool),
    DeleteUpgrade,
    Restored(bool),
    Invalid(bool),
    Edit(u8, Vec<Step>),
    Want(Step, bool),
    Pause(bool),
    Slots(Limit),
    MaxFailures(Option<Limit>),
    Soak(Option<i64>),
    Timeout(i64),
    ActionTimeout(Option<i64>),
    Retry(u8),
    RetryOf(u8, Option<usize>, Option<Reason>),
    LoseStatus,
    /// Somebody changes a row. If the controller ends at once, the next one believes it.
    Row(usize, RowChange, bool),
    /// Somebody fixes a row that cannot be read, or deletes it.
    Mend(usize, bool),
    /// The watches tell nothing for that many seconds.
    Silence(i64),
    Crash,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Behaviour {
    Good,
    Slow,
    Silent,
    Stuck,
    Fails,
    MaybeFailed,
    FailsThenRecovers,
    Regresses,
}

pub(super) fn script(step: Step, behaviour: Behaviour) -> Script {
    match behaviour {
        Behaviour::Good => Script::succeeds(3, 9),
        Behaviour::Slow => Script::succeeds(20, 70),
        Behaviour::Silent => Script::silent(),
        Behaviour::Stuck => Script::silent().running(4),
        Behaviour::Fails if step == Step::Platform => Script::silent().other_version(2),
        Behaviour::Fails => Script::silent().failed(6),
        Behaviour::MaybeFailed if step == Step::Operators => Script::silent().maybe_failed(4),
        Behaviour::FailsThenRecovers if step != Step::Platform => {
            Script::silent().failed(6).running(10).succeeded(13)
        }
        Behaviour::Regresses if step == Step::Platform => {
            Script::succeeds(2, 6).unhealthy(15).other_version(25)
        }
        Behaviour::MaybeFailed | Behaviour::FailsThenRecovers | Behaviour::Regresses => {
            Script::succeeds(1, 2)
        }
    }
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    prop::sample::select(Step::ALL.to_vec())
}

pub(super) fn behaviour() -> impl Strategy<Value = Behaviour> {
    use Behaviour::{Fails, FailsThenRecovers, Good, MaybeFailed, Regresses, Silent, Slow, Stuck};
    prop::sample::select(vec![
        Good,
        Slow,
        Silent,
        Stuck,
        Fails,
        MaybeFailed,
        FailsThenRecovers,
        Regresses,
    ])
}

fn limit(counts: Range<u32>, percents: Range<u32>) -> impl Strategy<Value = Limit> {
    prop_oneof![counts.prop_map(Limit::Count), percents.prop_map(Limit::Percent)]
}

/// Where a checkpoint may be.
fn place() -> impl Strategy<Value = CheckpointPlace> {
    prop_oneof![
        1 => Just(CheckpointPlace::CanariesComplete),
        2 => limit(0..5, 1..100).prop_map(CheckpointPlace::Started),
    ]
}

fn checkpoints(places: &[CheckpointPlace]) -> Vec<Checkpoint> {
    let places = places.iter().enumerate();
    let named = places.map(|(number, at)| Checkpoint {
        name: Arc::from(format!("c{number}")),
        at: *at,
    });
    named.collect()
}

fn kind() -> impl Strategy<Value = OperationKind> {
    use OperationKind::{Create, Delete, MarkSoak, Update, Withdraw};
    prop::sample::select(vec![Create, Update, Withdraw, MarkSoak, Delete])
}

/// Why a cluster may have failed.
fn failure() -> impl Strategy<Value = Reason> {
    prop::sample::select(vec![
        Reason::PreActionFailed,
        Reason::ClusterUpgradeTimeout,
        Reason::OperatorsJobFailed,
        Reason::RegressedInSoak,
        Reason::PostActionTimeout,
    ])
}

/// What clusters run and are asked for.
fn of_versions() -> impl Strategy<Value = Event> {
    let cluster = 0..NAMES.len();
    let reported = prop::sample::select(vec!["", "4.11.0", "4.12.0-rc.1", "4.12.0", "4.12.1"]);
    let known = prop::option::of(prop::sample::select(vec!["4.11.0", "4.12.0", "4.12.1"]));
    let target = prop::sample::select(vec!["4.10.0", FIRST_TARGET, "4.12.1", "4.13.0"]);
    prop_oneof![
        2 => (cluster.clone(), reported).prop_map(|(c, version)| Event::Runs(c, version)),
        1 => (cluster, known).prop_map(|(c, version)| Event::KnownToRun(c, version)),
        2 => target.prop_map(Event::Target),
        1 => any::<bool>().prop_map(Event::AllowDowngrade),
    ]
}

/// What somebody does to the report.
pub(super) fn of_rows() -> impl Strategy<Value = Event> {
    let cluster = 0..NAMES.len();
    let change = prop::sample::select(vec![RowChange::Lost, RowChange::Earlier, RowChange::Unreadable]);
    prop_oneof![
        2 => (cluster.clone(), change, any::<bool>()).prop_map(|(c, change, ends)| Event::Row(c, change, ends)),
        1 => (cluster, any::<bool>()).prop_map(|(c, deletes)| Event::Mend(c, deletes)),
    ]
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let cluster = 0..NAMES.len();
    prop_oneof![
        4 => (cluster.clone(), step(), behaviour()).prop_map(|(c, s, b)| Event::Script(c, s, b)),
        2 => (cluster.clone(), any::<bool>()).prop_map(|(c, b)| Event::Offline(c, b)),
        2 => (cluster.clone(), step()).prop_map(|(c, s)| Event::DeleteWork(c, s)),
        1 => (cluster.clone(), step()).prop_map(|(c, s)| Event::AddForeign(c, s)),
        1 => (cluster.clone(), step()).prop_map(|(c, s)| Event::RemoveForeign(c, s)),
        1 => (cluster.clone(), step(), any::<bool>()).prop_map(|(c, s, b)| Event::Refuse(c, s, b)),
        1 => (cluster.clone(), step()).prop_map(|(c, s)| Event::Spoil(c, s)),
        1 => (cluster.clone(), vec(kind(), 0..3)).prop_map(|(c, kinds)| Event::Forbid(c, kinds)),
        2 => cluster.clone().prop_map(Event::Select),
        2 => cluster.clone().prop_map(Event::Deselect),
        1 => (cluster.clone(), any::<bool>()).prop_map(|(c, canary)| Event::Canary(c, canary)),
        1 => cluster.clone().prop_map(Event::Lose),
        2 => (cluster.clone(), any::<bool>()).prop_map(|(c, stay)| Event::Register(c, stay)),
        1 => cluster.clone().prop_map(Event::Block),
        1 => cluster.clone().prop_map(Event::Unblock),
        4 => of_versions(),
        1 => any::<bool>().prop_map(Event::RequirePreflight),
        1 => any::<bool>().prop_map(Event::AwaitAnswers),
        2 => (cluster.clone(), 0..6_u8).prop_map(|(c, answer)| Event::Preflight(c, answer)),
        1 => cluster.clone().prop_map(Event::StaleImage),
        2 => (cluster.clone(), 1..40_i64).prop_map(|(c, after)| Event::Answers(c, after)),
        1 => prop::option::of(5..100_i64).prop_map(Event::WaitForPools),
        2 => (cluster.clone(), any::<bool>()).prop_map(|(c, updated)| Event::Pools(c, updated)),
        2 => (cluster.clone(), prop::option::of(0..4_u8)).prop_map(|(c, window)| Event::Window(c, window)),
        2 => (0..3_u8, prop::option::of(cluster.clone()), prop::option::of(failure()))
            .prop_map(|(token, c, reason)| Event::RetryOf(token, c, reason)),
        1 => Just(Event::LoseStatus),
        3 => of_rows(),
        2 => (1..75_i64).prop_map(Event::Silence),
        3 => (cluster, prop::option::of(any::<bool>())).prop_map(|(c, how)| Event::LeaveOut(c, how)),
        1 => Just(Event::Disapprove),
        1 => (0..3_usize).prop_map(Event::DisapproveOne),
        1 => any::<bool>().prop_map(Event::Canaries),
        1 => prop::sample::select(vec![
            KnownApprovals::Current,
            KnownApprovals::Outdated,
            KnownApprovals::Missing,
        ])
        .prop_map(Event::Approvals),
        2 => any::<bool>().prop_map(Event::Clock),
        1 => any::<bool>().prop_map(Event::Restored),
        1 => any::<bool>().prop_map(Event::Invalid),
        2 => vec(place(), 0..4).prop_map(Event::Checkpoints),
        2 => prop::option::of(1..60_i64).prop_map(Event::Approve),
        2 => (0..3_usize, prop::option::of(1..60_i64)).prop_map(|(at, seconds)| Event::ApproveOne(at, seconds)),
        3 => (0..3_u8, vec(step(), 0..4)).prop_map(|(r, s)| Event::Edit(r, s)),
        1 => (step(), any::<bool>()).prop_map(|(step, wanted)| Event::Want(step, wanted)),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => limit(1..5, 1..100).prop_map(Event::Slots),
        1 => prop::option::of(limit(0..3, 0..60)).prop_map(Event::MaxFailures),
        1 => prop::option::of(1..40_i64).prop_map(Event::Soak),
        1 => (10..200_i64).prop_map(Event::Timeout),
        1 => prop::option::of(5..100_i64).prop_map(Event::ActionTimeout),
        2 => (0..3_u8).prop_map(Event::Retry),
        3 => Just(Event::Crash),
    ]
}

/// What a step is rendered from. An update to another version is another one.
fn hash(policy: &Policy, step: Step, name: &str) -> Arc<str> {
    let is_first = step != Step::Platform || *policy.target == *FIRST_TARGET;
    let target = if is_first { "" } else { &*policy.target };
    Arc::from(format!("{step:?}@{name}{target}"))
}

/// The spec asks for another version.
fn aim(policy: &mut Policy, version: &str) {
    policy.target = Arc::from(version);
    if policy.wants(Step::Platform) {
        policy.steps[Step::Platform.index()] = Some(hash(policy, Step::Platform, "r1"));
    }
    name_revision(policy, 1);
}

/// A new revision of the spec, which concerns the steps that are asked for in it and are among these.
fn revise(policy: &mut Policy, revision: u8, steps: &[Step]) {
    for step in Step::ALL {
        if steps.contains(&step) && policy.wants(step) {
            policy.steps[step.index()] = Some(hash(policy, step, &format!("r{revision}")));
        }
    }
    name_revision(policy, revision);
}

/// The spec asks for a step from now on, or does not ask for it any more. It always asks for an update or for operators.
fn want(policy: &mut Policy, step: Step, wanted: bool) {
    policy.steps[step.index()] = wanted.then(|| hash(policy, step, "added"));
    if !policy.wants(Step::Platform) && !policy.wants(Step::Operators) {
        policy.steps[Step::Platform.index()] = Some(hash(policy, Step::Platform, "added"));
    }
    name_revision(policy, 1);
}

/// The same steps with the same number are the same revision.
pub(super) fn name_revision(policy: &mut Policy, number: u8) {
    let steps: Vec<&str> = policy.steps.iter().flatten().map(|hash| &**hash).collect();
    policy.revision = Arc::from(format!("r{number}:{}", steps.join(",")));
    policy.spec_hash = Arc::clone(&policy.revision);
}

pub(super) fn pools(updated: bool) -> WorkerPools {
    if updated {
        return WorkerPools::Updated;
    }
    WorkerPools::Behind {
        reason: Reason::PoolPaused,
        message: "MachineConfigPool is paused: worker".into(),
    }
}

pub(super) fn preflight(answer: u8) -> Preflight {
    let (reason, message) = (Reason::NotOffered, Arc::from("4.12.0 is not offered"));
    match answer {
        0 => Preflight::NotAsked,
        1 => Preflight::Unknown {
            reason: Reason::PreflightPending,
            message,
        },
        2 => Preflight::Blocked { reason, message },
        3 => Preflight::Stale,
        4 => Preflight::Unknown {
            reason: Reason::PreflightUnknown,
            message,
        },
        _ => Preflight::Ready,
    }
}

/// Lets it happen. What somebody does with an upgrade concerns the one of this index.
pub(super) fn apply_event(world: &mut Scenario, upgrade: usize, event: &Event) {
    world.note(&format!("{upgrade}: {event:?}"));
    match event {
        Event::Script(c, s, b) => world.script(NAMES[*c], *s, script(*s, *b)),
        Event::Offline(c, offline) => world.offline(NAMES[*c], *offline),
        Event::DeleteWork(c, s) => world.delete_work(NAMES[*c], *s),
        Event::AddForeign(c, s) => world.add_foreign(NAMES[*c], *s),
        Event::RemoveForeign(c, s) => world.remove_foreign(NAMES[*c], *s),
        Event::Refuse(c, s, refuses) => world.refuse(NAMES[*c], *s, *refuses),
        Event::Spoil(c, s) => world.spoil(NAMES[*c], *s),
        Event::Forbid(c, kinds) => world.forbid(NAMES[*c], kinds),
        Event::Select(c) => world.select(upgrade, NAMES[*c]),
        Event::Deselect(c) => world.deselect(upgrade, NAMES[*c]),
        Event::Canary(c, canary) => world.set_canary(upgrade, NAMES[*c], *canary),
        Event::Lose(c) => world.lose(NAMES[*c]),
        Event::Register(c, works_stay) => world.register(NAMES[*c], *works_stay),
        Event::Block(c) => world.eligibility(
            NAMES[*c],
            Eligibility::Blocked {
                reason: Reason::InvalidClusterID,
                message: Arc::from("Fix the label"),
            },
        ),
        Event::Unblock(c) => world.eligibility(NAMES[*c], Eligibility::Eligible),
        Event::Runs(c, version) => world.runs(NAMES[*c], version),
        Event::KnownToRun(c, version) => world.is_known_to_run(NAMES[*c], *version),
        Event::Answers(c, after) => world.answers_after(NAMES[*c], *after),
        Event::StaleImage(c) => world.stale_image(NAMES[*c]),
        Event::Preflight(c, answer) => world.preflight(NAMES[*c], preflight(*answer)),
        Event::Pools(c, updated) => world.worker_pools(NAMES[*c], pools(*updated)),
        Event::Window(c, window) => world.calendar(NAMES[*c], window.map(windows::of_minutes)),
        Event::LeaveOut(c, how) => world.leave_out(upgrade, NAMES[*c], how.map(left_out)),
        Event::Approve(seconds) => world.approve(upgrade, *seconds),
        Event::ApproveOne(at, seconds) => world.approve_one(upgrade, *at, *seconds),
        Event::Disapprove => world.disapprove(upgrade),
        Event::DisapproveOne(at) => world.disapprove_one(upgrade, &format!("c{at}")),
        Event::Ahead(seconds) => world.set_clock(*seconds),
        Event::Retry(token) => world.retry(upgrade, &format!("retry-{token}")),
        Event::RetryOf(token, c, reason) => {
            let scope = RetryScope {
                clusters: c.map(|c| Arc::from(NAMES[c])).into_iter().collect(),
                reasons: reason
                    .map(|reason| Arc::from(reason.as_str()))
                    .into_iter()
                    .collect(),
                later: Vec::new(),
            };
            world.retry_of(upgrade, &format!("entry-{token}"), scope);
        }
        Event::LoseStatus => world.lose_status(upgrade),
        Event::Row(c, change, ends) => {
            world.change_row(upgrade, NAMES[*c], *change);
            if *ends {
                world.crash(upgrade);
            }
        }
        Event::Mend(c, deletes) => world.mend_row(upgrade, NAMES[*c], *deletes),
        Event::Silence(seconds) => world.deafen_for(*seconds),
        Event::Crash => world.crash(upgrade),
        edit => world.edit(upgrade, |policy| apply_edit(policy, edit)),
    }
}

/// What happens to the policy of an upgrade.
pub(super) fn apply_edit(policy: &mut Policy, event: &Event) {
    match event {
        Event::Target(version) => aim(policy, version),
        Event::AllowDowngrade(allowed) => policy.allow_downgrade = *allowed,
        Event::RequirePreflight(required) => policy.requires_preflight = *required,
        Event::AwaitAnswers(awaited) => policy.awaits_answers = *awaited,
        Event::WaitForPools(seconds) => policy.worker_pools_timeout = seconds.map(TimeDelta::seconds),
        Event::Checkpoints(places) => policy.checkpoints = checkpoints(places),
        Event::Approvals(known) => policy.approvals = *known,
        Event::Canaries(asked) => policy.canaries = *asked,
        Event::DeleteUpgrade => policy.deleting = true,
        Event::Clock(trusted) => policy.clock_trusted = *trusted,
        Event::Invalid(held) => policy.hold = held.then_some(Hold::InvalidSpec),
        Event::Restored(held) => policy.hold = held.then_some(Hold::Restored),
        Event::Pause(paused) => policy.hold = paused.then_some(Hold::Paused),
        Event::Edit(revision, steps) => revise(policy, *revision, steps),
        Event::Want(step, wanted) => want(policy, *step, *wanted),
        Event::Slots(limit) => policy.max_concurrency = *limit,
        Event::MaxFailures(limit) => policy.max_failures = *limit,
        Event::Soak(length) => policy.min_success_time = length.map(TimeDelta::seconds),
        Event::Timeout(seconds) => {
            policy.cluster_timeout = TimeDelta::seconds(*seconds);
            policy.operators_timeout = TimeDelta::seconds(seconds / 2 + 5);
        }
        Event::ActionTimeout(seconds) => policy.action_timeout = seconds.map(TimeDelta::seconds),
        _ => {}
    }
}
