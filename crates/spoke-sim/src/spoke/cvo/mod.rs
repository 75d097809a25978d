//! The cluster-version operator of the spoke: the law of [`clusterversion`], played against real objects.
//!
//! The only writer of the ClusterVersion's status and of the `ConfigMaps` `admin-gates` and `admin-acks`. Watches and
//! answers in, one step of the law, status and effects out. What is in the status survives a restart; what the law
//! remembers beside it is lost, as it is when the real operator is replaced.

mod answers;
pub mod apply;
pub(super) mod inputs;
pub mod life;

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use clusterversion::acceptance::Payload;
use clusterversion::law::{Effect, Inputs, Memory, Outcome, Settings, step};
use clusterversion::metrics::Transitions;
use clusterversion::types::{ClusterVersion, HistoryEntry};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use self::answers::{Answers, Shelf};
use self::life::{Event, Life, Spans};
use super::clock::Clock;
use super::desk::{Desk, WriteError};
use super::fault::Faults;
use super::kinds;
use super::metrics::Exhibit;
use super::mirror::Mirror;
use super::prometheus::Prometheus;
use super::rollout::Surroundings;
use super::rollout::operators::{Statuses, Target, earlier};
use super::setup::Setup;
use super::updates::UpdateService;
use crate::dice::Dice;
use crate::fields::{self, Time};

/// A write that failed is tried again after so long.
const RETRY: Duration = Duration::from_millis(500);
/// However fast the clock runs, a look takes some time; and changes that come together are looked at together.
const BREATH: Duration = Duration::from_millis(15);
/// From a removed `admin-gates` or `admin-acks` to the round that puts it back.
const ROUND: TimeDelta = TimeDelta::minutes(2);
/// Longest lag of `observedGeneration` behind a change that asks for nothing new, seconds.
const LAG: f64 = 120.0;

/// The controller.
pub struct VersionOperator {
    /// The simulated clock.
    pub clock: Clock,
    /// What the spoke is like.
    pub setup: Arc<Setup>,
    /// Settings of the law.
    pub settings: Settings,
    /// What is wrong with the spoke.
    pub faults: watch::Receiver<Faults>,
    /// Whether nobody reaches the API server.
    pub dark: watch::Receiver<bool>,
    /// What the machines do to it.
    pub surroundings: watch::Receiver<Surroundings>,
    /// Where it tells what is applied.
    pub target: watch::Sender<Option<Target>>,
    /// What is shown as metrics.
    pub exhibit: watch::Sender<Exhibit>,
    /// The ClusterVersion.
    pub version: Mirror,
    /// `ClusterOperators`.
    pub operators: Mirror,
    /// `admin-gates`.
    pub gates: Mirror,
    /// `admin-acks`.
    pub acks: Mirror,
    /// Rung by the mirrors.
    pub bell: Arc<Notify>,
    /// Where it writes.
    pub desk: Desk,
    /// Asks for graphs.
    pub service: UpdateService,
    /// Evaluates risks.
    pub prometheus: Prometheus,
    /// The cluster's own draws.
    pub dice: Dice,
}

/// What it keeps between looks.
struct State {
    /// The object as it was written last, times simulated and finer than written.
    object: ClusterVersion,
    uid: String,
    memory: Memory,
    life: Life,
    answers: Answers,
    evictions: u64,
    /// The generation the apply loop has taken up, and when it takes up the next.
    taken_up: i64,
    due: Option<(i64, Time)>,
    /// When the next round of the apply loop puts back what was removed.
    put_back: Option<Time>,
    /// Conditions of operators that changed while it ran.
    transitions: Transitions,
}

impl VersionOperator {
    /// Plays until stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut state: Option<State> = None;
        loop {
            let wait = self.look(&mut state).await;
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
                () = stop.cancelled() => return,
                () = timer => None,
                answer = next => Some(answer),
                () = self.bell.notified() => None,
                Ok(()) = self.faults.changed() => None,
                Ok(()) = self.dark.changed() => None,
                Ok(()) = self.surroundings.changed() => None,
            };
            if let (Some(answer), Some(state)) = (answer, &mut state) {
                let faults = self.faults.borrow().clone();
                let payloads = Shelf {
                    setup: &self.setup,
                    faults: &faults,
                    running: state.life.running(),
                    history: history(&state.object),
                };
                state.answers.take(answer, &payloads);
            }
            tokio::time::sleep(BREATH).await;
        }
    }

    /// One look. Returns how long to wait for the next although nothing changed.
    async fn look(&mut self, slot: &mut Option<State>) -> Option<Duration> {
        let faults = self.faults.borrow_and_update().clone();
        if *self.dark.borrow_and_update() || faults.frozen() {
            self.tell_target(slot.as_ref(), false);
            self.show(slot.as_ref(), false);
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
            *slot = Some(self.take_over(object.clone(), uid, now));
        }
        let state = slot.as_mut()?;
        // The spec is others', the status is ours.
        state.object.spec = object.spec;
        state.object.metadata = object.metadata;
        if !self.live(state, now) {
            self.show(Some(state), false);
            return state.life.wake().map(|wake| self.clock.until(wake));
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

    /// Begins from what the object says.
    fn take_over(&self, object: ClusterVersion, uid: &str, now: Time) -> State {
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
            life: Life::new(running, completed, now),
            answers: Answers::new(self.service.clone(), self.prometheus.clone(), self.clock),
            evictions: self.surroundings.borrow().evictions,
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

    /// Lets the operator start, hand over or be evicted; false while it is away.
    fn live(&mut self, state: &mut State, now: Time) -> bool {
        let evictions = self.surroundings.borrow_and_update().evictions;
        if evictions != state.evictions {
            state.evictions = evictions;
            state.life.evict(self.spans(), now);
        }
        let applied = &state.object.status.history;
        let completed = |payload: &Payload| {
            let first = applied.first();
            first.is_some_and(|entry| entry.is_completed() && entry.image == payload.image)
        };
        if state.life.advance(self.spans(), completed, now) == Event::Started {
            tracing::info!(version = %state.life.running().version, "the cluster-version operator starts");
            state.memory = Memory::default();
            state.transitions = Transitions::default();
            state.answers.forget();
        }
        self.tell_target(Some(state), state.life.is_up());
        state.life.is_up()
    }

    fn tell_target(&self, state: Option<&State>, up: bool) {
        let Some(state) = state else { return };
        let target = Some(Target {
            version: state.life.running().version.clone(),
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

    /// One step of the law.
    fn step(&mut self, state: &mut State, faults: &Faults, now: Time) -> (Outcome, Option<Time>) {
        let objects: Vec<Value> = self
            .operators
            .all()
            .iter()
            .map(|object| self.clock.to_simulated(object))
            .collect();
        let statuses = statuses(&objects);
        let broken = inputs::broken(&statuses, state.life.apply.version(), faults, now);
        let held = broken.iter().map(|broken| broken.until).min();
        let progress = state.life.apply.advance(&statuses, held, now);
        let lag = self.take_up(state, now);
        let updating = inputs::updating_for(&state.object, now);
        if self.settings.accept_risks {
            state.answers.read_alerts(now, faults.monitoring_outage(updating));
        }
        let operators = inputs::operators(&objects);
        state.transitions.look(&operators);
        let image = state.life.applied().image.clone();
        let answers = &mut state.answers;
        let (graph, promql, payload) = (
            answers.graph.take(),
            answers.promql.pop_front(),
            answers.payload.pop_front(),
        );
        let inputs = Inputs {
            running: state.life.running(),
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
            state.life.wake(),
            lag,
            state.put_back,
            more.then_some(now),
        ]
        .into_iter()
        .fold(None, earlier);
        (outcome, wake)
    }

    /// The apply loop takes up a new generation after a while. Returns when it will.
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
                    .dice
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
        outcome: Outcome,
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
        for effect in outcome.effects {
            match effect {
                Effect::Fetch { url } => {
                    let version = state.life.running().version.clone();
                    state
                        .answers
                        .fetch(url, version, faults.update_service_outage(updating));
                }
                Effect::Evaluate { query } => {
                    state.answers.evaluate(query, faults.monitoring_outage(updating));
                }
                Effect::Retrieve(target) => {
                    let takes = crate::platform::scale(
                        self.setup.durations.retrieve.to_std().unwrap_or_default(),
                        faults.slowness(),
                    );
                    tracing::info!(version = %target.version, image = %target.image, "retrieving a payload");
                    state.answers.retrieve(target.image, takes);
                }
                Effect::Begin(payload) => {
                    tracing::info!(version = %payload.version, image = %payload.image, "a release is accepted");
                    state.taken_up = state.object.metadata.generation;
                    state.life.begin(payload, self.spans(), now);
                }
                Effect::RestoreGates(_) | Effect::CreateAcks => missing.push(effect),
            }
        }
        self.put_back(state, missing, now).await?;
        self.show(Some(state), true);
        let status = serde_json::to_value(&state.object.status).unwrap_or_default();
        let status = self.clock.to_wall(&status);
        self.desk
            .put_status(&kinds::cluster_version(), seen, &status)
            .await?;
        self.retarget(state, faults, now).await
    }

    /// The next round of the apply loop puts back what was removed.
    async fn put_back(
        &mut self,
        state: &mut State,
        missing: Vec<Effect>,
        now: Time,
    ) -> Result<(), WriteError> {
        if missing.is_empty() {
            state.put_back = None;
            return Ok(());
        }
        if now < *state.put_back.get_or_insert(now + ROUND) {
            return Ok(());
        }
        for effect in missing {
            match effect {
                // Its keys are ours, whatever became of them.
                Effect::RestoreGates(keys) => {
                    let object = inputs::admin_gates(&keys);
                    self.desk.apply(&kinds::config_map(), &object).await?;
                }
                // Its keys are the admin's: what exists by now stays as it is.
                _ => {
                    self.desk
                        .create(&kinds::config_map(), &inputs::admin_acks())
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// Plays the admin who asks for another version in mid-update.
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
        // As `oc adm upgrade` does, which always sends the image.
        let image = state.answers.nodes.image_of(version).or_else(|| {
            let own = self
                .setup
                .payloads
                .iter()
                .find(|payload| payload.version == version);
            own.map(|payload| payload.image.as_str())
        });
        let update = json!({"version": version, "image": image.unwrap_or_default()});
        tracing::info!(version, "an admin asks for another version in mid-update");
        let patch = json!({"spec": {"desiredUpdate": update}});
        self.desk
            .merge(&kinds::cluster_version(), "", "version", &patch)
            .await
    }

    /// Tells the exporter.
    fn show(&self, state: Option<&State>, up: bool) {
        self.exhibit.send_modify(|exhibit| {
            exhibit.up = up;
            let Some(state) = state else { return };
            let running = state.life.running();
            exhibit.running = (running.version.clone(), running.image.clone());
            exhibit.transitions.clone_from(&state.transitions);
            exhibit.retrieved = state.memory.last_retrieval().map(|at| self.clock.wall(at));
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
