//! The agents of a forecast: which step ends when, and what becomes of a ManifestWork.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::forecast::Run;
use crate::model::{Cluster, Operation, Policy, Step, StepStatus, StepWork, Withdrawal, Work};

/// The end of a step on a cluster.
type End = (DateTime<Utc>, Arc<str>, usize);

/// When each step of a cluster ends, and whether it fails then.
type StepEnds = [Option<(DateTime<Utc>, bool)>; 4];

/// Every step that is under way.
pub(super) struct Agents<'a> {
    run: &'a dyn Fn(&str, Step) -> Run,
    ends: BTreeSet<End>,
    by_cluster: BTreeMap<Arc<str>, StepEnds>,
}

impl<'a> Agents<'a> {
    pub(super) fn new(run: &'a dyn Fn(&str, Step) -> Run) -> Agents<'a> {
        Agents {
            run,
            ends: BTreeSet::new(),
            by_cluster: BTreeMap::new(),
        }
    }

    /// The next end of a step.
    pub(super) fn next(&self) -> Option<DateTime<Utc>> {
        self.ends.first().map(|(at, ..)| *at)
    }

    /// True when a step of the cluster will end.
    pub(super) fn is_running(&self, cluster: &str) -> bool {
        self.by_cluster.contains_key(cluster)
    }

    /// When the next step of the cluster ends.
    pub(super) fn end_of(&self, cluster: &str) -> Option<DateTime<Utc>> {
        let steps = self.by_cluster.get(cluster)?.iter().flatten();
        steps.map(|(at, _)| *at).min()
    }

    /// Takes over a step that was under way before the forecast.
    pub(super) fn adopt(&mut self, now: DateTime<Utc>, cluster: &Arc<str>, step: Step, work: &Work) {
        let done = matches!(work.status, StepStatus::Succeeded | StepStatus::Failed(_));
        if !done && !work.terminating && !work.vanished {
            self.begin(work.started, now, cluster, step);
        }
    }

    /// Begins a step at `since`. It does not end before `earliest`.
    fn begin(&mut self, since: DateTime<Utc>, earliest: DateTime<Utc>, cluster: &Arc<str>, step: Step) {
        self.cancel(cluster, step);
        let run = (self.run)(cluster, step);
        let Some(takes) = run.takes else { return };
        let at = (since + takes.max(TimeDelta::zero())).max(earliest);
        self.ends.insert((at, Arc::clone(cluster), step.index()));
        let of_cluster = self.by_cluster.entry(Arc::clone(cluster)).or_default();
        of_cluster[step.index()] = Some((at, run.fails && step != Step::Platform));
    }

    fn cancel(&mut self, cluster: &Arc<str>, step: Step) {
        let Some(of_cluster) = self.by_cluster.get_mut(cluster) else {
            return;
        };
        if let Some((at, _)) = of_cluster[step.index()].take() {
            self.ends.remove(&(at, Arc::clone(cluster), step.index()));
        }
        if of_cluster.iter().all(Option::is_none) {
            self.by_cluster.remove(cluster);
        }
    }

    /// The steps that end until `now`, in order: cluster, step, when, and whether it failed.
    pub(super) fn ended(&mut self, now: DateTime<Utc>) -> Vec<(Arc<str>, Step, DateTime<Utc>, bool)> {
        let mut ended = Vec::new();
        while let Some((at, cluster, step)) = self.ends.first().cloned() {
            if at > now {
                break;
            }
            let step = Step::ALL[step];
            let of_cluster = self.by_cluster.get(&cluster);
            let fails = of_cluster
                .and_then(|steps| steps[step.index()])
                .is_some_and(|(_, fails)| fails);
            self.cancel(&cluster, step);
            ended.push((cluster, step, at, fails));
        }
        ended
    }

    /// Carries out one operation at `at`. The step that it begins counts from there on.
    pub(super) fn carry_out(
        &mut self,
        at: DateTime<Utc>,
        policy: &Policy,
        cluster: &mut Cluster,
        operation: &Operation,
    ) {
        match operation {
            Operation::Create {
                step,
                attempt,
                started,
                ..
            } => {
                self.put(at, policy, cluster, *step, (attempt.clone(), *started));
            }
            Operation::Update { attempt, started, .. } => {
                self.put(at, policy, cluster, Step::Platform, (attempt.clone(), *started));
            }
            Operation::Withdraw { .. } => {
                self.cancel(&cluster.name, Step::Platform);
                if let StepWork::Ours(work) = &mut cluster.works[Step::Platform.index()] {
                    let work = Arc::make_mut(work);
                    work.withdrawal = Withdrawal::Confirmed;
                    work.status = StepStatus::OtherVersion;
                }
            }
            Operation::MarkSoak { step, started, .. } => {
                if let StepWork::Ours(work) = &mut cluster.works[step.index()] {
                    Arc::make_mut(work).soak_started = Some(*started);
                }
            }
            Operation::Delete { step, .. } => {
                self.cancel(&cluster.name, *step);
                cluster.works[step.index()] = StepWork::Absent;
            }
            Operation::Read { step, .. } => {
                cluster.read = Some((*step, at));
            }
        }
    }

    fn put(
        &mut self,
        at: DateTime<Utc>,
        policy: &Policy,
        cluster: &mut Cluster,
        step: Step,
        (attempt, started): (crate::model::Attempt, DateTime<Utc>),
    ) {
        let hash = policy.steps[step.index()]
            .clone()
            .unwrap_or_else(|| Arc::from(""));
        cluster.works[step.index()] = StepWork::Ours(Arc::new(Work {
            attempt,
            hash,
            started,
            soak_started: None,
            withdrawal: Withdrawal::None,
            terminating: false,
            vanished: false,
            applied: true,
            status: StepStatus::Running,
            cause: None,
            unhealthy: None,
        }));
        self.begin(at, at, &Arc::clone(&cluster.name), step);
    }
}

/// What the hub shows once a step has ended.
pub(super) fn report(cluster: &mut Cluster, step: Step, fails: bool, target: &Arc<str>) {
    if let StepWork::Ours(work) = &mut cluster.works[step.index()] {
        Arc::make_mut(work).status = if fails {
            StepStatus::Failed(Arc::from("fails in this forecast"))
        } else {
            StepStatus::Succeeded
        };
    }
    if step == Step::Platform && !fails && !target.is_empty() {
        cluster.version = Arc::clone(target);
        cluster.newest_version = Arc::clone(target);
    }
}
