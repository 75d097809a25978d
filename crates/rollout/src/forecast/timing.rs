//! How long the steps of each cluster take, by what is known: the finished clusters of the upgrade, the past updates of the cluster,
//! those of other upgrades, or usual times. Where nothing is known, nothing is guessed, unless usual times are asked for.

mod moving;
mod usual;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::forecast::durations::{draw_time, scaled, share};
use crate::forecast::range::FleetMember;
use crate::forecast::{Run, Samples, fit};
use crate::model::{Cluster, Fleet, Policy, Record, Step, StepStatus};

use self::usual::usual;

/// Fewest times from which others are predicted.
pub const MIN_SAMPLES: usize = 5;
/// The platform step of a cluster that runs the target already: its agent applies the work and reports it.
pub const NOTHING_TO_CHANGE: TimeDelta = TimeDelta::seconds(30);
/// Past updates that took longer were stuck, for example in a drain, and say nothing about the next one.
const MAX_PAST: TimeDelta = TimeDelta::hours(6);
/// Spread of times around the median of a cluster's own past updates.
const PAST_SPREAD: f64 = 0.25;
/// How wrong the times of clusters may be that have not finished, while others of the same kind have.
const EXTRAPOLATED: f64 = 0.2;
/// Draws for which the error of a basis is drawn.
const DRAWS: usize = 128;

/// What the platform step changes on a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum VersionChange {
    /// An update within a minor version, or of an unknown kind.
    #[default]
    Patch,
    /// An update to another minor version.
    Minor,
    /// Nothing, because the cluster runs the version already.
    Nothing,
}

impl VersionChange {
    /// The change from a version to another one. Either may be empty, which means unknown.
    #[must_use]
    pub fn of(from: &str, to: &str) -> VersionChange {
        fn minor(version: &str) -> Option<(&str, &str)> {
            let mut parts = version.splitn(3, '.');
            Some((parts.next()?, parts.next()?))
        }
        match (minor(from), minor(to)) {
            _ if from == to && !to.is_empty() => VersionChange::Nothing,
            (Some(from), Some(to)) if from != to => VersionChange::Minor,
            _ => VersionChange::Patch,
        }
    }
}

/// The size of a cluster, on which the time of its update depends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClusterClass {
    /// One node.
    SingleNode,
    /// Several control plane nodes.
    MultiNode,
    /// Nobody has told.
    #[default]
    Unknown,
}

impl ClusterClass {
    /// The class in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ClusterClass::SingleNode => "SingleNode",
            ClusterClass::MultiNode => "MultiNode",
            ClusterClass::Unknown => "Unknown",
        }
    }
}

/// Where times come from, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// Somebody gave them.
    Given,
    /// Finished clusters of this upgrade, of the same class.
    Upgrade,
    /// Past updates of the cluster itself.
    History,
    /// Finished clusters of other upgrades.
    Hub,
    /// Usual times of the class.
    Usual,
    /// The cluster runs the target, so there is nothing to measure.
    AtTarget,
    /// The spec: no step is left, only soak times.
    Spec,
}

impl Basis {
    /// The basis in a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Basis::Given => "Given",
            Basis::Upgrade => "Upgrade",
            Basis::History => "History",
            Basis::Hub => "Hub",
            Basis::Usual => "Usual",
            Basis::AtTarget => "AtTarget",
            Basis::Spec => "Spec",
        }
    }
}

/// A past update of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastUpdate {
    /// What it changed.
    pub change: VersionChange,
    /// How long it took.
    pub took: TimeDelta,
}

/// What is known of a cluster beside its record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Its size.
    pub class: ClusterClass,
    /// Its past updates.
    pub history: Vec<PastUpdate>,
}

/// What a time depends on. Only that of the platform step depends on the change and the class.
pub type Kind = (Step, VersionChange, ClusterClass);

/// Times from outside of the upgrade.
#[derive(Clone, Copy)]
pub struct OtherTimes<'a> {
    /// Times that somebody gave, and how many of them are measured ones.
    pub given: &'a dyn Fn(Kind) -> Option<(Samples, usize)>,
    /// Times of finished clusters of other upgrades.
    pub hub: &'a dyn Fn(Kind) -> Option<Samples>,
    /// Where nothing else is known, usual times count for every step, and not only for the platform step without worker pools.
    pub usual: bool,
}

impl OtherTimes<'_> {
    /// Nothing is known from outside.
    pub const NONE: OtherTimes<'static> = OtherTimes {
        given: &|_| None,
        hub: &|_| None,
        usual: false,
    };
}

/// The times of one kind, or of one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTiming {
    /// What they are for.
    pub kind: Kind,
    /// The times.
    pub samples: Samples,
    /// Where they come from.
    pub basis: Basis,
    /// Number of times that were measured.
    pub measured: usize,
    /// By how much all of them may be wrong together: a standard deviation, as a share.
    error: f64,
}

/// The times of every cluster of a fleet.
#[derive(Clone, Debug)]
pub struct Timings {
    all: Vec<StepTiming>,
    /// In the order of the fleet.
    clusters: Vec<ClusterTimings>,
    /// How many standard deviations all times of a step are wrong in each draw.
    deviations: [Vec<f64>; 4],
    seed: u64,
}

#[derive(Clone, Debug)]
struct ClusterTimings {
    name: Arc<str>,
    /// Index of the timing of each step that is not done; `None` if it is not requested, or nothing is known of it.
    steps: [Option<usize>; 4],
    /// How long each step has run.
    ages: [TimeDelta; 4],
    /// Steps that are requested, not done, and of which nothing is known.
    unknown: [bool; 4],
}

impl Timings {
    /// The times of a fleet. `profiles` is what else is known of its clusters, in their order.
    #[must_use]
    pub fn new(
        now: DateTime<Utc>,
        policy: &Policy,
        fleet: &Fleet,
        profiles: &[Profile],
        others: OtherTimes<'_>,
    ) -> Timings {
        let mut known = Known::of(now, policy, fleet, profiles, others);
        let clusters = fleet.clusters.iter().zip(profiles);
        let clusters = clusters.map(|(cluster, profile)| known.cluster(now, policy, cluster, profile));
        Timings {
            clusters: clusters.collect(),
            all: known.timings,
            deviations: [2, 3, 5, 7].map(|base| {
                let shares = (0..DRAWS).map(|draw| fit::quasi_random(draw, base));
                shares.map(fit::normal_quantile).collect()
            }),
            seed: 1,
        }
    }

    /// How a step goes on a cluster of the fleet in a draw.
    #[must_use]
    pub fn run_of(&self, draw: u64, member: FleetMember<'_>, step: Step) -> Run {
        self.clusters
            .get(member.index)
            .map_or(Run::AT_ONCE, |cluster| self.run(draw, cluster, step))
    }

    /// The same for a cluster of this name, without the error that all times of a basis have in common: a course for people to see.
    #[must_use]
    pub fn course(&self, draw: u64, name: &str, step: Step) -> Run {
        self.cluster(name)
            .map_or(Run::AT_ONCE, |cluster| self.run_with(draw, cluster, step, 0.0))
    }

    /// Whether the platform step of a cluster never ends in a draw, if that happens to this share (0 to 1) of the clusters.
    #[must_use]
    pub fn never_ends(&self, draw: u64, name: &str, failure_rate: f64) -> bool {
        let fails = failure_rate > 0.0 && share((self.seed, draw), name, "fails") < failure_rate;
        fails && !self.is_at_target(name)
    }

    /// True if a cluster runs the target already, so that its platform step changes nothing.
    #[must_use]
    pub fn is_at_target(&self, name: &str) -> bool {
        let timing = self
            .cluster(name)
            .and_then(|cluster| cluster.steps[Step::Platform.index()]);
        timing.is_some_and(|index| self.all[index].basis == Basis::AtTarget)
    }

    /// Number of clusters with a step that has run for longer than all its times.
    #[must_use]
    pub fn overdue(&self) -> usize {
        let is_overdue = |cluster: &&ClusterTimings| {
            let mut steps = cluster.steps.iter().zip(cluster.ages);
            steps.any(|(timing, age)| timing.is_some_and(|index| age > self.all[index].samples.quantile(1.0)))
        };
        self.clusters.iter().filter(is_overdue).count()
    }

    /// The median of a step on a cluster of this name.
    #[must_use]
    pub fn typical(&self, name: &str, step: Step) -> Run {
        let timing = self.cluster(name).and_then(|cluster| {
            let timing = &self.all[cluster.steps[step.index()]?];
            Some(timing.samples.quantile_after(0.5, cluster.ages[step.index()]))
        });
        Run {
            takes: Some(timing.unwrap_or_default()),
            fails: false,
        }
    }

    fn cluster(&self, name: &str) -> Option<&ClusterTimings> {
        let found = self
            .clusters
            .binary_search_by(|cluster| (*cluster.name).cmp(name));
        Some(&self.clusters[found.ok()?])
    }

    fn run(&self, draw: u64, cluster: &ClusterTimings, step: Step) -> Run {
        let deviations = &self.deviations[step.index()];
        let deviation = usize::try_from(draw).map_or(0.0, |draw| deviations[draw % DRAWS]);
        self.run_with(draw, cluster, step, deviation)
    }

    /// A step of which nothing is known takes no time; [`Timings::unknown`] names it. `deviation`: by how many standard deviations all
    /// times of the step are wrong together.
    fn run_with(&self, draw: u64, cluster: &ClusterTimings, step: Step, deviation: f64) -> Run {
        let Some(timing) = cluster.steps[step.index()].map(|index| &self.all[index]) else {
            return Run::AT_ONCE;
        };
        let age = cluster.ages[step.index()];
        let time = draw_time(&timing.samples, (self.seed, draw), &cluster.name, step, age);
        let factor = (timing.error * deviation).exp();
        Run {
            takes: Some(scaled(time, factor).max(age)),
            fails: false,
        }
    }

    /// The steps of which nothing is known, with the number of clusters that still have them before them.
    #[must_use]
    pub fn unknown(&self) -> Vec<(Step, usize)> {
        let count = |step: Step| {
            let clusters = self.clusters.iter();
            clusters.filter(|cluster| cluster.unknown[step.index()]).count()
        };
        let counts = Step::ALL.into_iter().map(|step| (step, count(step)));
        counts.filter(|(_, clusters)| *clusters > 0).collect()
    }

    /// The times that are used, with the number of clusters that still have the step before them.
    #[must_use]
    pub fn used(&self) -> Vec<(&StepTiming, usize)> {
        let mut counts = vec![0; self.all.len()];
        for index in self.clusters.iter().flat_map(|cluster| cluster.steps).flatten() {
            counts[index] += 1;
        }
        self.all
            .iter()
            .zip(counts)
            .filter(|(_, clusters)| *clusters > 0)
            .collect()
    }

    /// How long the slowest of the clusters that have not started takes in nine of ten cases, from the start of its first step to the end
    /// of its last. `None` if there is none, or of one of its steps nothing is known but what is usual. A cluster whose times are
    /// known only from what it tells of its own earlier updates is left out: it must not hold up the others.
    #[must_use]
    pub fn longest_p90(&self) -> Option<TimeDelta> {
        let waits = |cluster: &&ClusterTimings| {
            cluster.ages.iter().all(TimeDelta::is_zero) && cluster.steps.iter().any(Option::is_some)
        };
        let mut longest = None;
        for cluster in self.clusters.iter().filter(waits) {
            if cluster.unknown.contains(&true) {
                return None;
            }
            let steps = cluster.steps.iter().flatten().map(|index| &self.all[*index]);
            if steps.clone().any(|timing| timing.basis == Basis::Usual) {
                return None;
            }
            if steps.clone().any(|timing| timing.basis == Basis::History) {
                continue;
            }
            let total: TimeDelta = steps.map(|timing| timing.samples.quantile(0.9)).sum();
            longest = longest.max(Some(total));
        }
        longest
    }

    /// The basis of most of the time that is left, with the number of times that were measured for it. What is left when no step is, the
    /// spec says.
    #[must_use]
    pub fn main_basis(&self) -> (Basis, usize) {
        let mut weights: BTreeMap<Basis, (i64, usize)> = BTreeMap::new();
        for (timing, clusters) in self.used() {
            let weight = weights.entry(timing.basis).or_default();
            let minutes = timing.samples.quantile(0.5).num_minutes() + 1;
            weight.0 += minutes * i64::try_from(clusters).unwrap_or(i64::MAX / 10_000);
            weight.1 += timing.measured;
        }
        // Of equal ones the best.
        let largest = weights.into_iter().rev().max_by_key(|(_, (weight, _))| *weight);
        largest.map_or((Basis::Spec, 0), |(basis, (_, measured))| (basis, measured))
    }
}

/// True if the spec leaves the cluster out and nothing of it is under way, so that it has no step before it.
fn is_left_out(cluster: &Cluster) -> bool {
    let record = cluster.record.as_deref();
    cluster.left_out.is_some()
        && record.is_none_or(|record| record.phase.is_queued())
        && Step::ALL
            .into_iter()
            .all(|step| cluster.step_work(step).ours().is_none())
}

/// What the clusters of the upgrade tell, and what has been made of it.
struct Known<'a> {
    finished: BTreeMap<Kind, Vec<TimeDelta>>,
    running: BTreeMap<Kind, Vec<TimeDelta>>,
    others: OtherTimes<'a>,
    /// The platform step includes the worker pools.
    waits_for_pools: bool,
    timings: Vec<StepTiming>,
    /// The timing of a kind, or that nothing is known of it.
    by_kind: BTreeMap<Kind, Option<usize>>,
}

impl<'a> Known<'a> {
    fn of(
        now: DateTime<Utc>,
        policy: &Policy,
        fleet: &Fleet,
        profiles: &[Profile],
        others: OtherTimes<'a>,
    ) -> Known<'a> {
        let mut known = Known {
            finished: BTreeMap::new(),
            running: BTreeMap::new(),
            others,
            waits_for_pools: policy.worker_pools_timeout.is_some(),
            timings: Vec::new(),
            by_kind: BTreeMap::new(),
        };
        for (cluster, profile) in fleet.clusters.iter().zip(profiles) {
            let Some(record) = cluster.record.as_deref() else {
                continue;
            };
            for step in Step::ALL {
                let kind = kind_of(policy, cluster, profile, step);
                let Some(stage) = record.stage(step.into()).filter(|_| measures(record, kind)) else {
                    continue;
                };
                if let Some(finished) = stage.finished.filter(|_| stage.succeeded()) {
                    known
                        .finished
                        .entry(kind)
                        .or_default()
                        .push(finished - stage.started);
                } else if stage.outcome.is_none() && record.phase.is_at_work() {
                    known.running.entry(kind).or_default().push(now - stage.started);
                }
            }
        }
        known
    }

    fn cluster(
        &mut self,
        now: DateTime<Utc>,
        policy: &Policy,
        cluster: &Cluster,
        profile: &Profile,
    ) -> ClusterTimings {
        let record = cluster.record.as_deref();
        let record = record.filter(|record| record.attempt.revision == policy.revision);
        let mut timings = ClusterTimings {
            name: Arc::clone(&cluster.name),
            steps: [None; 4],
            ages: Step::ALL.map(|step| age(now, cluster, step)),
            unknown: [false; 4],
        };
        let is_over = record.is_some_and(|record| record.phase.is_terminal()) || is_left_out(cluster);
        for step in Step::ALL.into_iter().filter(|step| policy.wants(*step)) {
            let is_done = record.is_some_and(|record| record.succeeded(step.into()));
            if is_over || is_done {
                continue;
            }
            let timing = self.timing(kind_of(policy, cluster, profile, step), profile);
            timings.steps[step.index()] = timing;
            timings.unknown[step.index()] = timing.is_none();
        }
        timings
    }

    /// The index of the timing of this kind for a cluster.
    fn timing(&mut self, kind: Kind, profile: &Profile) -> Option<usize> {
        let known = self.by_kind.get(&kind).copied();
        let shared = known.unwrap_or_else(|| {
            let shared = self.shared(kind).map(|timing| self.add(timing));
            self.by_kind.insert(kind, shared);
            shared
        });
        let is_better = |index: usize| self.timings[index].basis < Basis::History;
        if shared.is_some_and(is_better) || kind.0 != Step::Platform || self.has_pools(kind) {
            return shared;
        }
        match past(kind, profile) {
            Some(timing) => Some(self.add(timing)),
            None => shared,
        }
    }

    fn add(&mut self, timing: StepTiming) -> usize {
        self.timings.push(timing);
        self.timings.len() - 1
    }

    /// True for a platform step that includes the worker pools of clusters that may have some. How long these take, only clusters of the
    /// same upgrade can tell: a history is that of the cluster-version operator alone, and other upgrades may not have waited.
    fn has_pools(&self, kind: Kind) -> bool {
        let (step, change, class) = kind;
        let may_have = step == Step::Platform && class != ClusterClass::SingleNode;
        may_have && change != VersionChange::Nothing && self.waits_for_pools
    }

    /// The best times of a kind that all its clusters share.
    fn shared(&self, kind: Kind) -> Option<StepTiming> {
        if kind.1 == VersionChange::Nothing {
            let at_once = Samples::around(NOTHING_TO_CHANGE, 0.0);
            return Some(StepTiming::new(kind, at_once, (Basis::AtTarget, 0)));
        }
        if let Some((given, measured)) = (self.others.given)(kind) {
            return Some(StepTiming::new(kind, given, (Basis::Given, measured)));
        }
        let finished = self.finished.get(&kind).map_or(&[][..], Vec::as_slice);
        if finished.len() >= MIN_SAMPLES {
            let running = self.running.get(&kind).map_or(&[][..], Vec::as_slice);
            let samples = fit::samples(finished, running)?;
            let mut timing = StepTiming::new(kind, samples, (Basis::Upgrade, finished.len()));
            timing.error += EXTRAPOLATED * extrapolated(finished, running);
            return Some(timing);
        }
        let has_pools = self.has_pools(kind);
        let hub = (self.others.hub)(kind).filter(|samples| samples.count() >= MIN_SAMPLES && !has_pools);
        if let Some(hub) = hub {
            let measured = hub.count();
            return Some(StepTiming::new(kind, hub, (Basis::Hub, measured)));
        }
        let is_told = kind.0 == Step::Platform && !has_pools;
        (is_told || self.others.usual).then(|| {
            let usual = usual(kind);
            let running = self.running.get(&kind).map_or(&[][..], Vec::as_slice);
            // Those that have finished, and the ages of those that run, correct what is usual.
            let known: Vec<TimeDelta> = usual.sorted().iter().chain(finished).copied().collect();
            let samples = fit::samples(&known, running).unwrap_or(usual);
            StepTiming::new(kind, samples, (Basis::Usual, finished.len()))
        })
    }
}

impl StepTiming {
    fn new(kind: Kind, samples: Samples, (basis, measured): (Basis, usize)) -> StepTiming {
        #[expect(clippy::cast_precision_loss, reason = "there are not 2^52 samples")]
        let error = match basis {
            Basis::Given | Basis::AtTarget | Basis::Spec => 0.0,
            Basis::Upgrade => samples.relative_deviation() / (measured.max(1) as f64).sqrt(),
            Basis::Hub => 0.1,
            Basis::History => 0.15,
            Basis::Usual => 0.25,
        };
        StepTiming {
            kind,
            samples,
            basis,
            measured,
            error,
        }
    }
}

/// The share of the clusters that have not finished although they have run for longer than the fastest one.
fn extrapolated(finished: &[TimeDelta], running: &[TimeDelta]) -> f64 {
    let fastest = finished.iter().min();
    let slow = running
        .iter()
        .filter(|age| fastest.is_some_and(|fastest| *age > fastest))
        .count();
    #[expect(clippy::cast_precision_loss, reason = "there are not 2^52 clusters")]
    let share = slow as f64 / (slow + finished.len()).max(1) as f64;
    share
}

/// The times that the cluster itself needed for updates of this kind.
fn past(kind: Kind, profile: &Profile) -> Option<StepTiming> {
    let updates = profile.history.iter();
    let alike = updates.filter(|update| update.change == kind.1 && update.took <= MAX_PAST);
    let measured = Samples::new(alike.map(|update| update.took))?;
    let samples = Samples::around(measured.quantile(0.5), PAST_SPREAD);
    Some(StepTiming::new(kind, samples, (Basis::History, measured.count())))
}

/// True when the times of a record say something about steps of this kind. The controller notes no version that is the target
/// already, so a cluster without one may have changed nothing.
fn measures(record: &Record, kind: Kind) -> bool {
    kind.0 != Step::Platform || (!record.from_version.is_empty() && kind.1 != VersionChange::Nothing)
}

fn kind_of(policy: &Policy, cluster: &Cluster, profile: &Profile, step: Step) -> Kind {
    if step != Step::Platform {
        return (step, VersionChange::Patch, ClusterClass::Unknown);
    }
    let record = cluster.record.as_deref();
    let noted = record
        .map(|record| &record.from_version)
        .filter(|from| !from.is_empty());
    let from = noted.unwrap_or(&cluster.version);
    (step, VersionChange::of(from, &policy.target), profile.class)
}

fn age(now: DateTime<Utc>, cluster: &Cluster, step: Step) -> TimeDelta {
    let work = cluster
        .step_work(step)
        .ours()
        .filter(|work| !matches!(work.status, StepStatus::Succeeded | StepStatus::Failed(_)));
    work.map_or(TimeDelta::zero(), |work| {
        (now - work.started).max(TimeDelta::zero())
    })
}

#[cfg(test)]
mod tests;
