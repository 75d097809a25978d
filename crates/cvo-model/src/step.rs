//! One step of the operator: it takes the ClusterVersion and everything else that is known, and returns the next status and
//! the actions that the caller must carry out.
//!
//! This module defines the order of the parts and the memory between steps. Equal arguments give equal results.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use clusterversion::Era;
use clusterversion::gates::ConfigMap;
use clusterversion::types::{
    APPLIES, ClusterOperatorCondition, ClusterVersion, INVALID, Release, Risk, Status, Time,
};

use crate::acceptance::{Acceptance, AcceptanceAction, Payload, PayloadAnswer, Request};
use crate::cache::Clocks;
use crate::config_maps;
use crate::diagnostic::Diagnostic;
use crate::era::Behavior as _;
use crate::history::{self, Reconciled};
use crate::progressing::{self, ConditionSubject, Round, RoundState};
use crate::promql::{self, QueryResult};
use crate::retrieval::{DEFAULT_SERVICE, GraphQuery, GraphReply, MULTI};
use crate::schema;
use crate::sources::{self, Alert, SourcedRisk};
use crate::updates::{MAX_UPDATES, NeededInput, Updates, UpdatesContext};
use crate::upgradeable::{self, OperatorState, UpgradeableInputs};
use crate::validation::{self, FieldError};

/// Settings of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The release line whose behavior is modelled; `None`: that of the running release.
    pub era: Option<Era>,
    /// Whether the feature gate of `acceptRisks`, of alerts as risks and of `conditionalUpdateRisks` is on
    /// (`TechPreviewNoUpgrade`).
    pub accept_risks: bool,
    /// Whether the feature gate of `architecture` in the releases of the status is on.
    pub release_architecture: bool,
    /// Whether the cluster's id is put into queries, as on hosted control planes.
    pub inject_cluster_id: bool,
    /// The update service given by a flag. It takes precedence over that of the spec.
    pub update_service: Option<String>,
    /// Time between two fetches of the graph. The real operator picks 2 to 4 minutes when it starts.
    pub update_check_interval: TimeDelta,
    /// Time between two attempts to load a payload that was not accepted.
    pub retry_interval: TimeDelta,
    /// Intervals of the query cache; `None`: those of the era.
    pub clocks: Option<Clocks>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            era: None,
            accept_risks: false,
            release_architecture: false,
            inject_cluster_id: false,
            update_service: None,
            update_check_interval: TimeDelta::minutes(3),
            retry_interval: TimeDelta::minutes(3),
            clocks: None,
        }
    }
}

/// The answer of Prometheus to [`Action::Evaluate`].
#[derive(Clone, Debug, PartialEq)]
pub struct PromqlAnswer {
    /// The query that was sent.
    pub query: String,
    /// The result, or why there is none.
    pub result: Result<QueryResult, String>,
}

/// What a step needs besides the ClusterVersion. Each answer is passed in once, to the first step after it arrived.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// The payload of the running operator. If it differs from the previous step, the operator has restarted.
    pub running: &'a Payload,
    /// Admin gates of that payload.
    pub shipped_gates: &'a BTreeMap<String, String>,
    /// `ConfigMap` admin-gates.
    pub gates: &'a ConfigMap,
    /// `ConfigMap` admin-acks.
    pub acks: &'a ConfigMap,
    /// The `ClusterOperators`, or why they cannot be listed.
    pub operators: &'a Result<Vec<OperatorState>, String>,
    /// Objects of the payload that are being deleted.
    pub deletions: &'a [String],
    /// Alerts. They only matter with the feature gate.
    pub alerts: &'a [Alert],
    /// The state of the apply loop.
    pub round: &'a Round,
    /// Answer to [`Action::Fetch`].
    pub graph: Option<&'a GraphReply>,
    /// Answer to [`Action::Evaluate`].
    pub promql: Option<&'a PromqlAnswer>,
    /// Answer to [`Action::Retrieve`].
    pub payload: Option<&'a PayloadAnswer>,
}

/// What the caller must carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// GET the graph from this URL, with `Accept: application/json`; answer in [`Inputs::graph`].
    Fetch {
        /// URL with parameters.
        url: String,
    },
    /// Query the cluster's Prometheus within five minutes; answer in [`Inputs::promql`].
    Evaluate {
        /// `PromQL`.
        query: String,
    },
    /// Retrieve, verify and load a payload; answer in [`Inputs::payload`].
    Retrieve(Request),
    /// The payload is accepted: apply it, and start its operator.
    Begin(Payload),
    /// Create an empty admin-acks in the next apply round.
    CreateAcks,
    /// Write admin-gates in the next apply round.
    RestoreGates(BTreeMap<String, String>),
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOutcome {
    /// The status to write. It equals the one that was read if there is nothing to write.
    pub status: Status,
    /// What to do. Actions that are already running are not repeated.
    pub actions: Vec<Action>,
    /// When to make the next step if nothing changes earlier.
    pub wake_at: Time,
    /// Findings to log.
    pub diagnostics: Vec<Diagnostic>,
}

/// The memory of the operator. It is empty when the operator starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    running: Option<String>,
    updates: Updates,
    acceptance: Acceptance,
    upgradeable: Option<UpgradeableCheck>,
    told: BTreeSet<Diagnostic>,
}

/// The last check of Upgradeable.
#[derive(Clone, Debug, PartialEq)]
struct UpgradeableCheck {
    at: Time,
    gates: ConfigMap,
    acks: ConfigMap,
    found: Vec<ClusterOperatorCondition>,
}

impl Memory {
    /// When updates were last retrieved. See [`Updates::last_change`].
    #[must_use]
    pub fn last_retrieval(&self) -> Option<Time> {
        self.updates.last_change()
    }

    /// The release that is not accepted yet, if there is one.
    #[must_use]
    pub fn pending(&self) -> Option<&Request> {
        self.acceptance.pending()
    }
}

/// The state of a step while it runs.
struct Step<'a> {
    now: Time,
    inputs: &'a Inputs<'a>,
    settings: &'a Settings,
    era: Era,
    /// The object as it was read.
    given: &'a ClusterVersion,
    /// The object without its invalid parts. Its status becomes the next one.
    object: ClusterVersion,
    errors: Vec<FieldError>,
    actions: Vec<Action>,
    diagnostics: Vec<Diagnostic>,
    wake_at: Vec<Time>,
}

/// Makes one step.
pub fn step(
    now: Time,
    object: &ClusterVersion,
    inputs: &Inputs<'_>,
    settings: &Settings,
    memory: &mut Memory,
) -> StepOutcome {
    if memory.running.as_ref() != Some(&inputs.running.image) {
        *memory = Memory {
            running: Some(inputs.running.image.clone()),
            ..Memory::default()
        };
        memory.updates.resume(&object.status.conditional_updates);
    }
    let era = settings.era.unwrap_or_else(|| Era::of(&inputs.running.version));
    let errors = validation::validate(object, settings.accept_risks && era.knows_accept_risks());
    let mut step = Step {
        now,
        inputs,
        settings,
        era,
        given: object,
        object: validation::cleared(object, &errors),
        errors,
        actions: Vec::new(),
        diagnostics: Vec::new(),
        wake_at: Vec::new(),
    };
    let (sourced, source_errors) = step.sources();
    step.updates(memory, &sourced);
    step.upgradeable(memory, &sourced, &source_errors);
    step.acceptance(memory);
    step.release(memory);
    step.conditions(memory);
    step.config_maps(memory);
    step.outcome()
}

impl Step<'_> {
    fn gate_is_open(&self) -> bool {
        self.settings.accept_risks && self.era.knows_accept_risks()
    }

    fn upgradeable_inputs(&self) -> UpgradeableInputs<'_> {
        UpgradeableInputs {
            gates: self.inputs.gates,
            acks: self.inputs.acks,
            operators: self.inputs.operators,
            deletions: self.inputs.deletions,
        }
    }

    /// The risks that the cluster itself finds for Upgradeable, and the errors that occurred.
    fn sources(&self) -> (Vec<SourcedRisk>, Vec<String>) {
        if self.era.has_risk_sources() {
            let version = &self.inputs.running.version;
            upgradeable::risks(&self.object, &self.upgradeable_inputs(), version, self.era)
        } else {
            (Vec::new(), Vec::new())
        }
    }

    fn question(&self) -> GraphQuery {
        let spec = &self.object.spec;
        let running = &self.inputs.running.architecture;
        let wanted = spec
            .desired_update
            .as_ref()
            .map(|update| &update.architecture)
            .filter(|architecture| !architecture.is_empty());
        let service = match &self.settings.update_service {
            Some(flag) if !flag.is_empty() => flag,
            _ if !spec.upstream.is_empty() => &spec.upstream,
            _ => DEFAULT_SERVICE,
        };
        GraphQuery {
            service: service.to_owned(),
            architecture: wanted.unwrap_or(running).clone(),
            current_architecture: running.clone(),
            channel: spec.channel.clone(),
            cluster_id: spec.cluster_id.clone(),
            version: self.inputs.running.version.clone(),
        }
    }

    fn updates(&mut self, memory: &mut Memory, of_upgradeable: &[SourcedRisk]) {
        // Accepted risks count even if the request is invalid, because they may make it valid.
        let accepted = self.gate_is_open().then(|| {
            let update = self.given.spec.desired_update.iter();
            update
                .flat_map(|update| &update.accept_risks)
                .map(|risk| risk.name.clone())
                .collect()
        });
        let sourced: Vec<SourcedRisk> = if self.gate_is_open() {
            let mut sourced = sources::of_alerts(self.inputs.alerts, self.now);
            sourced.extend_from_slice(of_upgradeable);
            sourced
        } else {
            Vec::new()
        };
        let context = UpdatesContext {
            question: self.question(),
            era: self.era,
            clocks: self.settings.clocks.unwrap_or(Clocks::of(self.era)),
            interval: self.settings.update_check_interval,
            accepted,
            sourced: &sourced,
            inject_cluster_id: self.settings.inject_cluster_id,
        };
        let updates = &mut memory.updates;
        if let Some(answer) = self.inputs.promql {
            updates.take_query(self.now, &answer.query, promql::exposure(&answer.result));
        }
        if let Some(reply) = self.inputs.graph {
            updates.take_graph(self.now, reply, &context, &mut self.diagnostics);
        }
        let wanted = updates.advance(self.now, &context, &mut self.diagnostics);
        self.actions.extend(wanted.into_iter().map(|wanted| match wanted {
            NeededInput::Graph(url) => Action::Fetch { url },
            NeededInput::Query(query) => Action::Evaluate { query },
        }));
        self.wake_at.extend(updates.wake_at(self.now, &context));
        let question = context.question;
        self.publish(updates, &question);
    }

    /// Writes the lists of updates if they belong to the current channel and service.
    fn publish(&mut self, updates: &Updates, question: &GraphQuery) {
        let gate_is_open = self.gate_is_open();
        let status = &mut self.object.status;
        if let Some((available, conditional)) = updates.lists().filter(|_| updates.answers(question)) {
            status.available_updates = available.to_vec();
            status.conditional_updates = conditional.to_vec();
            if !self.settings.release_architecture {
                let conditional = status
                    .conditional_updates
                    .iter_mut()
                    .map(|update| &mut update.release);
                for release in status.available_updates.iter_mut().chain(conditional) {
                    release.architecture.clear();
                }
            }
            let risks = status.conditional_updates.iter().flat_map(|update| &update.risks);
            let by_name: BTreeMap<&str, &Risk> = risks.map(|risk| (risk.name.as_str(), risk)).collect();
            status.conditional_update_risks = if gate_is_open {
                by_name.into_values().take(MAX_UPDATES).cloned().collect()
            } else {
                Vec::new()
            };
            if let Some(condition) = updates.condition() {
                status.conditions.set(condition);
            }
        }
    }

    fn upgradeable(&mut self, memory: &mut Memory, risks: &[SourcedRisk], errors: &[String]) {
        if self.era.has_risk_sources() {
            let found = upgradeable::sum(self.now, risks, errors);
            upgradeable::write(&mut self.object.status.conditions, found.into_iter().collect());
            return;
        }
        let found = upgradeable::check(self.now, &self.object, &self.upgradeable_inputs(), self.era);
        let interval = upgradeable::interval(self.now, &self.object.status.conditions);
        let (gates, acks) = (self.inputs.gates, self.inputs.acks);
        let looked = memory.upgradeable.take();
        // A changed ConfigMap counts at once, everything else only when the last check is old.
        let kept = looked.filter(|looked| {
            self.now < looked.at + interval && looked.gates == *gates && looked.acks == *acks
        });
        let looked = match kept {
            Some(kept) => {
                if !says_the_same(&kept.found, &found) {
                    self.wake_at.push(kept.at + interval);
                }
                kept
            }
            None => UpgradeableCheck {
                at: self.now,
                gates: gates.clone(),
                acks: acks.clone(),
                found,
            },
        };
        upgradeable::write(&mut self.object.status.conditions, looked.found.clone());
        memory.upgradeable = Some(looked);
    }

    fn acceptance(&mut self, memory: &mut Memory) {
        let retry = self.settings.retry_interval;
        let (running, answer) = (self.inputs.running, self.inputs.payload);
        let asks = memory
            .acceptance
            .advance(self.now, &self.object, running, answer, retry, self.era);
        match asks {
            AcceptanceAction::Nothing => {}
            AcceptanceAction::Retrieve(target) => self.actions.push(Action::Retrieve(target)),
            AcceptanceAction::Begin(payload) => {
                let names = self.accepted_by_name(&payload.image);
                if !names.is_empty() {
                    memory.acceptance.record_accepted(&payload.image, &names);
                }
                self.actions.push(Action::Begin(payload));
            }
        }
        self.wake_at.extend(memory.acceptance.wake_at());
    }

    /// The risks of an update that apply and that the administrator accepts by name. They are recorded in the history.
    fn accepted_by_name(&self, image: &str) -> Vec<&str> {
        let updates = &self.object.status.conditional_updates;
        let update = updates.iter().find(|update| update.release.image == image);
        let (Some(request), Some(update)) = (&self.object.spec.desired_update, update) else {
            return Vec::new();
        };
        if !self.gate_is_open() {
            return Vec::new();
        }
        update
            .risks
            .iter()
            .filter(|risk| risk.conditions.is_true(APPLIES))
            .map(|risk| risk.name.as_str())
            .filter(|name| request.accept_risks.iter().any(|accepted| accepted.name == *name))
            .collect()
    }

    /// Writes `desired` and the history from the accepted payload and its metadata in the graph.
    fn release(&mut self, memory: &Memory) {
        let Some(accepted) = memory.acceptance.accepted() else {
            return;
        };
        let mut release = accepted.payload.release();
        let known = memory.updates.current().into_iter();
        let listed = memory.updates.lists().map_or(&[][..], |(available, _)| available);
        if let Some(graph) = known
            .chain(listed)
            .find(|other| same_digest(&other.image, &release.image))
        {
            if release.version.is_empty() {
                release.version.clone_from(&graph.version);
            }
            if release.url.is_empty() {
                release.url.clone_from(&graph.url);
            }
            if release.architecture.is_empty() {
                release.architecture.clone_from(&graph.architecture);
            }
            if accepted.payload.channels.is_none() {
                release.channels.clone_from(&graph.channels);
            }
        }
        if !self.settings.release_architecture {
            release.architecture.clear();
        }
        let reconciled = Reconciled {
            release: &release,
            verified: accepted.verified,
            completed: self.round(memory).completed,
            accepted_risks: accepted.risks.as_deref(),
        };
        history::merge(self.now, &mut self.object.status, &reconciled);
    }

    /// The state of the apply loop if it is about the accepted payload, or else that of a round that has not started.
    fn round(&self, memory: &Memory) -> Round {
        let accepted = memory.acceptance.accepted();
        if accepted.is_none_or(|accepted| accepted.payload.image == self.inputs.round.image) {
            return self.inputs.round.clone();
        }
        Round {
            generation: self.object.metadata.generation,
            state: RoundState::Updating,
            ..Round::default()
        }
    }

    fn conditions(&mut self, memory: &Memory) {
        let round = self.round(memory);
        let now = self.now;
        let status = &mut self.object.status;
        if round.generation > 0 {
            status.observed_generation = round.generation;
        }
        if !round.version_hash.is_empty() {
            status.version_hash.clone_from(&round.version_hash);
        }
        match validation::condition(now, &self.errors) {
            Some(invalid) => status.conditions.set(invalid),
            None => status.conditions.remove(INVALID),
        }
        progressing::write_capabilities(now, &mut status.conditions);
        if let Some(accepted) = memory.acceptance.condition(now) {
            status.conditions.set(accepted);
        }
        let version = if status.desired.version.is_empty() {
            status.desired.image.clone()
        } else {
            status.desired.version.clone()
        };
        let subject = ConditionSubject {
            version: &version,
            invalid: !self.errors.is_empty(),
            has_history: !status.history.is_empty(),
        };
        progressing::write(now, &mut status.conditions, &round, subject, self.era);
        self.wake_at.extend(progressing::wake_at(now, &round, self.era));
    }

    /// Handles the two `ConfigMaps`, and reports each lasting oddity once.
    fn config_maps(&mut self, memory: &mut Memory) {
        if *self.inputs.acks == ConfigMap::Missing {
            self.actions.push(Action::CreateAcks);
        }
        let restored = config_maps::restored(self.inputs.shipped_gates, self.inputs.gates);
        self.actions.extend(restored.map(Action::RestoreGates));
        let mut standing = BTreeSet::new();
        if let (Some(gates), Some(acks)) = (self.inputs.gates.data(), self.inputs.acks.data()) {
            let keys = config_maps::unrecognized(gates, acks);
            standing.extend(keys.map(|key| Diagnostic::UnrecognizedAck { key: key.to_owned() }));
        }
        let desired = &self.object.status.desired;
        let graph = memory.updates.current();
        standing.extend(graph.filter(|graph| is_mismatch(graph, desired)).map(|graph| {
            Diagnostic::MetadataMismatch {
                version: graph.version.clone(),
                image: graph.image.clone(),
            }
        }));
        self.diagnostics
            .extend(standing.difference(&memory.told).cloned());
        memory.told = standing;
    }

    fn outcome(mut self) -> StepOutcome {
        schema::complete(&mut self.object.status);
        let soonest = self.wake_at.into_iter().min();
        let wake_at = soonest.unwrap_or(self.now + TimeDelta::hours(1));
        StepOutcome {
            status: self.object.status,
            actions: self.actions,
            wake_at: wake_at.max(self.now + TimeDelta::milliseconds(1)),
            diagnostics: self.diagnostics,
        }
    }
}

/// Whether two checks found the same, apart from times.
fn says_the_same(a: &[ClusterOperatorCondition], b: &[ClusterOperatorCondition]) -> bool {
    let said = |conditions: &[ClusterOperatorCondition]| {
        let said = conditions
            .iter()
            .map(|c| (c.kind.clone(), c.status, c.reason.clone(), c.message.clone()));
        said.collect::<Vec<_>>()
    };
    said(a) == said(b)
}

/// Whether two pull specifications name the same payload, in whatever registry.
fn same_digest(a: &str, b: &str) -> bool {
    let digest = |image: &str| image.split_once('@').map(|(_, digest)| digest.to_owned());
    a == b && !a.is_empty() || digest(a).is_some_and(|digest_a| digest(b) == Some(digest_a))
}

fn is_mismatch(graph: &Release, desired: &Release) -> bool {
    !graph.version.is_empty()
        && graph.version == desired.version
        && !same_digest(&graph.image, &desired.image)
        && graph.architecture != MULTI
}

#[cfg(test)]
mod tests;
