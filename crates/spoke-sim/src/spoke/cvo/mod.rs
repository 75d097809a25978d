//! The cluster-version operator of the simulated cluster: the model of [`cvo_model`] with real objects.
//!
//! It is the only writer of the ClusterVersion's status and of the `ConfigMaps` `admin-gates` and `admin-acks`. With each event
//! it makes one step of the model, writes the status and carries out the actions. The status survives a restart. The memory of
//! the model is lost, as it is when the real operator is replaced.

mod answers;
pub mod apply;
pub mod handover;
pub(crate) mod inputs;
pub(super) mod operator_state;

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use clusterversion::types::{ClusterVersion, HistoryEntry};
use cvo_model::acceptance::Payload;
use cvo_model::metrics::Transitions;
use cvo_model::{Action, Inputs, Memory, Settings, StepOutcome, step};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use self::answers::{Answers, PayloadSource};
use self::handover::{Event, Handover, Spans};
use self::operator_state::operators;
use super::clock::Clock;
use super::informer::Informer;
use super::kinds;
use super::metrics::OperatorReport;
use super::prometheus::Prometheus;
use super::rollout::MachineEvents;
use super::rollout::operators::{Statuses, Target, earlier};
use super::setup::Setup;
use super::status_writer::{StatusWriter, WriteError};
use super::updates::UpdateService;
use crate::fault::Faults;
use crate::fields::{self, Time};
use crate::seeded_rng::SeededRng;

/// Delay before a failed write is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Minimum time between two passes, so that changes that come together are processed together.
const DEBOUNCE: Duration = Duration::from_millis(15);
/// Time after which a removed `admin-gates` or `admin-acks` is restored by the apply loop.
const ROUND: TimeDelta = TimeDelta::minutes(2);
/// Maximum lag of `observedGeneration` after a change without a new request, in seconds.
const LAG: f64 = 120.0;

/// The controller.
pub struct VersionOperator {
    /// The simulated clock.
    pub clock: Clock,
    /// How the cluster is installed and behaves.
    pub setup: Arc<Setup>,
    /// Settings of the model.
    pub settings: Settings,
    /// The faults of the cluster.
    pub faults: watch::Receiver<Faults>,
    /// Whether the API server cannot be reached.
    pub dark: watch::Receiver<bool>,
    /// Events of the machines that affect the operator.
    pub machine_events: watch::Receiver<MachineEvents>,
    /// Where it reports the version that is applied.
    pub target: watch::Sender<Option<Target>>,
    /// Where it reports what the metrics show.
    pub report: watch::Sender<OperatorReport>,
    /// The ClusterVersion.
    pub version: Informer,
    /// `ClusterOperators`.
    pub operators: Informer,
    /// `admin-gates`.
    pub gates: Informer,
    /// `admin-acks`.
    pub acks: Informer,
    /// Notified by the informers.
    pub notify: Arc<Notify>,
    /// Writes statuses and objects.
    pub writer: StatusWriter,
    /// Fetches graphs.
    pub service: UpdateService,
    /// Evaluates risks.
    pub prometheus: Prometheus,
    /// The random numbers of the cluster.
    pub rng: SeededRng,
}

/// The state between passes.
struct State {
    /// The object as last written, with simulated times that are finer than the written ones.
    object: ClusterVersion,
    uid: String,
    memory: Memory,
    handover: Handover,
    answers: Answers,
    evictions: u64,
    /// The generation that the apply loop has observed.
    taken_up: i64,
    due: Option<(i64, Time)>,
    /// When the apply loop restores what was removed.
    put_back: Option<Time>,
    /// Condition changes of operators since its start.
    transitions: Transitions,
}

impl VersionOperator {
    /// Runs until it is stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut state: Option<State> = None;
        loop {
            let wait = self.reconcile(&mut state).await;
            let timer = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            let next = async {
                match &mut state {
                    Some(state) => state.answers.next().await,
                    None => std::future::pending().await,
                }
            };
            let answer = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                answer = next => Some(answer),
                () = timer => None,
                () = self.notify.notified() => None,
                Ok(()) = self.faults.changed() => None,
                Ok(()) = self.dark.changed() => None,
                Ok(()) = self.machine_events.changed() => None,
            };
            if let (Some(answer), Some(state)) = (answer, &mut state) {
                let faults = self.faults.borrow().clone();
                let payloads = PayloadSource {
                    setup: &self.setup,
                    faults: &faults,
                    running: state.handover.running(),
                    history: history(&state.object),
                };
                state.answers.take(answer, &payloads);
            }
            tokio::time::sleep(DEBOUNCE).await;
        }
    }

    /// Makes one pass. Returns how long to wait for the next one if nothing changes.
    async fn reconcile(&mut self, slot: &mut Option<State>) -> Option<Duration> {
        let faults = self.faults.borrow_and_update().clone();
        if *self.dark.borrow_and_update() || faults.frozen() {
            self.report_target(slot.as_ref(), false);
            self.report_metrics(slot.as_ref(), false);
            return None;
        }
        let now = self.clock.now();
        let seen = self.version.get(None, "version")?;
        let simulated = self.clock.to_simulated(&seen);
        let object: ClusterVersion = match serde_json::from_value(simulated) {
            Ok(object) => object,
            Err(error) => {
                tracing::error!(%error, "the ClusterVersion cannot be read");
                return None;
            }
        };
        let uid = fields::text(&seen, &["metadata", "uid"]);
        if slot.as_ref().is_none_or(|state| state.uid != uid) {
            *slot = Some(self.new_state(object.clone(), uid, now));
        }
        let state = slot.as_mut()?;
        // Others write the spec, only this controller writes the status.
        state.object.spec = object.spec;
        state.object.metadata = object.metadata;
        if !self.advance_operator(state, now) {
            self.report_metrics(Some(state), false);
            return state.handover.wake().map(|wake| self.clock.until(wake));
        }
        let (outcome, wake) = self.step(state, &faults, now);
        let wake = earlier(Some(outcome.wake_at), wake);
        match self.carry_out(state, outcome, &faults, &seen, now).await {
            Ok(()) => wake.map(|wake| self.clock.until(wake)),
            Err(error) => {
                tracing::debug!(%error, "the cluster-version operator could not write");
                Some(RETRY)
            }
        }
    }

    /// Creates the state from the object.
    fn new_state(&self, object: ClusterVersion, uid: &str, now: Time) -> State {
        let desired = &object.status.desired;
        let first = object.status.history.first();
        let running = Payload {
            version: desired.version.clone(),
            image: desired.image.clone(),
            architecture: self.setup.architecture.clone(),
            url: desired.url.clone(),
            ..Payload::default()
        };
        let completed = first.is_none_or(HistoryEntry::is_completed);
        tracing::info!(version = %running.version, completed, "the cluster-version operator runs");
        State {
            uid: uid.to_owned(),
            memory: Memory::default(),
            handover: Handover::new(running, completed, now),
            answers: Answers::new(self.service.clone(), self.prometheus.clone(), self.clock),
            evictions: self.machine_events.borrow().evictions,
            taken_up: object.status.observed_generation,
            due: None,
            put_back: None,
            transitions: Transitions::default(),
            object,
        }
    }

    fn spans(&self) -> Spans {
        Spans {
            handover: self.setup.durations.handover,
            restart: self.setup.durations.restart,
        }
    }

    /// Lets the operator start, hand over or be evicted. Returns false while it is away.
    fn advance_operator(&mut self, state: &mut State, now: Time) -> bool {
        let evictions = self.machine_events.borrow_and_update().evictions;
        if evictions != state.evictions {
            state.evictions = evictions;
            state.handover.evict(self.spans(), now);
        }
        let applied = &state.object.status.history;
        let completed = |payload: &Payload| {
            let first = applied.first();
            first.is_some_and(|entry| entry.is_completed() && entry.image == payload.image)
        };
        if state.handover.advance(self.spans(), completed, now) == Event::Started {
            tracing::info!(version = %state.handover.running().version, "the cluster-version operator starts");
            state.memory = Memory::default();
            state.transitions = Transitions::default();
            state.answers.forget();
        }
        self.report_target(Some(state), state.handover.is_up());
        state.handover.is_up()
    }

    fn report_target(&self, state: Option<&State>, up: bool) {
        let Some(state) = state else { return };
        let target = Some(Target {
            version: state.handover.running().version.clone(),
            up,
        });
        self.target.send_if_modified(|told| {
            let changed = *told != target;
            if changed {
                told.clone_from(&target);
            }
            changed
        });
    }

    /// Makes one step of the model.
    fn step(&mut self, state: &mut State, faults: &Faults, now: Time) -> (StepOutcome, Option<Time>) {
        let objects: Vec<Value> = self
            .operators
            .all()
            .iter()
            .map(|object| self.clock.to_simulated(object))
            .collect();
        let statuses = statuses(&objects);
        let broken = inputs::broken(&statuses, state.handover.apply.version(), faults, now);
        let held = broken.iter().map(|broken| broken.until).min();
        let progress = state.handover.apply.advance(&statuses, held, now);
        let lag = self.take_up(state, now);
        let updating = inputs::updating_for(&state.object, now);
        if self.settings.accept_risks {
            state.answers.read_alerts(now, faults.monitoring_outage(updating));
        }
        let operators = operators(&objects);
        state.transitions.observe(&operators);
        let image = state.handover.applied().image.clone();
        let answers = &mut state.answers;
        let (graph, promql, payload) = (
            answers.graph.take(),
            answers.promql.pop_front(),
            answers.payload.pop_front(),
        );
        let inputs = Inputs {
            running: state.handover.running(),
            shipped_gates: &self.setup.admin_gates,
            gates: &inputs::config_map(&self.gates, "openshift-config-managed", "admin-gates"),
            acks: &inputs::config_map(&self.acks, "openshift-config", "admin-acks"),
            operators: &Ok(operators),
            deletions: &faults.deleting(),
            alerts: &answers.alerts,
            round: &inputs::round(state.taken_up, &image, &progress, &broken),
            graph: graph.as_ref(),
            promql: promql.as_ref(),
            payload: payload.as_ref(),
        };
        let outcome = step(now, &state.object, &inputs, &self.settings, &mut state.memory);
        let more = !state.answers.promql.is_empty() || !state.answers.payload.is_empty();
        let wake = [
            progress.wake,
            state.handover.wake(),
            lag,
            state.put_back,
            more.then_some(now),
        ]
        .into_iter()
        .fold(None, earlier);
        (outcome, wake)
    }

    /// Lets the apply loop observe a new generation after some time. Returns when it will.
    fn take_up(&self, state: &mut State, now: Time) -> Option<Time> {
        let generation = state.object.metadata.generation;
        if state.taken_up == generation {
            state.due = None;
            return None;
        }
        let due = match state.due {
            Some((of, due)) if of == generation => due,
            _ => {
                let draw = self
                    .rng
                    .of("lag")
                    .nth(generation.unsigned_abs())
                    .between(5.0, LAG);
                let due = now + crate::platform::scale(Duration::from_secs_f64(draw), 1.0);
                state.due = Some((generation, due));
                due
            }
        };
        if due > now {
            return Some(due);
        }
        state.taken_up = generation;
        None
    }

    async fn carry_out(
        &mut self,
        state: &mut State,
        outcome: StepOutcome,
        faults: &Faults,
        seen: &Value,
        now: Time,
    ) -> Result<(), WriteError> {
        for diagnostic in &outcome.diagnostics {
            tracing::warn!("{diagnostic}");
        }
        state.object.status = outcome.status;
        let updating = inputs::updating_for(&state.object, now);
        let mut missing = Vec::new();
        for action in outcome.actions {
            match action {
                Action::Fetch { url } => {
                    let version = state.handover.running().version.clone();
                    state
                        .answers
                        .fetch(url, version, faults.update_service_outage(updating));
                }
                Action::Evaluate { query } => {
                    state.answers.evaluate(query, faults.monitoring_outage(updating));
                }
                Action::Retrieve(target) => {
                    let takes = crate::platform::scale(
                        self.setup.durations.retrieve.to_std().unwrap_or_default(),
                        faults.slowness(),
                    );
                    tracing::info!(version = %target.version, image = %target.image, "retrieving a payload");
                    state.answers.retrieve(target.image, takes);
                }
                Action::Begin(payload) => {
                    tracing::info!(version = %payload.version, image = %payload.image, "a release is accepted");
                    state.taken_up = state.object.metadata.generation;
                    state.handover.begin(payload, self.spans(), now);
                }
                Action::RestoreGates(_) | Action::CreateAcks => missing.push(action),
            }
        }
        self.put_back(state, missing, now).await?;
        self.report_metrics(Some(state), true);
        let status = serde_json::to_value(&state.object.status).unwrap_or_default();
        let status = self.clock.to_wall(&status);
        self.writer
            .put_status(&kinds::cluster_version(), seen, &status)
            .await?;
        self.retarget(state, faults, now).await
    }

    /// Restores removed `ConfigMaps` in the next round of the apply loop.
    async fn put_back(
        &mut self,
        state: &mut State,
        missing: Vec<Action>,
        now: Time,
    ) -> Result<(), WriteError> {
        if missing.is_empty() {
            state.put_back = None;
            return Ok(());
        }
        if now < *state.put_back.get_or_insert(now + ROUND) {
            return Ok(());
        }
        for action in missing {
            match action {
                // The operator owns the keys, so that changed ones are restored too.
                Action::RestoreGates(keys) => {
                    let object = inputs::admin_gates(&keys);
                    self.writer.apply(&kinds::config_map(), &object).await?;
                }
                // The administrator owns the keys, so that an existing object stays as it is.
                _ => {
                    self.writer
                        .create(&kinds::config_map(), &inputs::admin_acks())
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// Simulates the administrator who requests another version in mid-update.
    async fn retarget(&mut self, state: &State, faults: &Faults, now: Time) -> Result<(), WriteError> {
        let Some((version, after)) = faults.retarget() else {
            return Ok(());
        };
        let asked = state
            .object
            .spec
            .desired_update
            .as_ref()
            .is_some_and(|update| update.version == version);
        let late = inputs::updating_for(&state.object, now).is_some_and(|since| since >= after);
        if asked || !late || state.object.status.desired.version == version {
            return Ok(());
        }
        // `oc adm upgrade` always sends the image too.
        let image = state.answers.nodes.image_of(version).or_else(|| {
            let own = self
                .setup
                .payloads
                .iter()
                .find(|payload| payload.version == version);
            own.map(|payload| payload.image.as_str())
        });
        let update = json!({"version": version, "image": image.unwrap_or_default()});
        tracing::info!(version, "an administrator requests another version in mid-update");
        let patch = json!({"spec": {"desiredUpdate": update}});
        self.writer
            .merge(&kinds::cluster_version(), "", "version", &patch)
            .await
    }

    /// Reports to the metrics.
    fn report_metrics(&self, state: Option<&State>, up: bool) {
        self.report.send_modify(|report| {
            report.up = up;
            let Some(state) = state else { return };
            let running = state.handover.running();
            report.running = (running.version.clone(), running.image.clone());
            report.transitions.clone_from(&state.transitions);
            report.retrieved = state.memory.last_retrieval().map(|at| self.clock.wall(at));
        });
    }
}

/// Statuses by name.
fn statuses(objects: &[Value]) -> Statuses {
    objects
        .iter()
        .map(|object| {
            (
                fields::text(object, &["metadata", "name"]).to_owned(),
                object["status"].clone(),
            )
        })
        .collect()
}

fn history(object: &ClusterVersion) -> Vec<(String, String)> {
    let entries = object.status.history.iter();
    entries
        .map(|entry| (entry.version.clone(), entry.image.clone()))
        .collect()
}
