//! One step of the operator: from what is asked for and what is known to the next status and to what must be done.
//!
//! Owns the order in which the parts act on one another and the memory between steps. Deterministic: equal arguments give
//! equal outcomes.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;

use crate::acceptance::{Acceptance, Asks, Payload, PayloadAnswer, Request};
use crate::cache::Clocks;
use crate::diagnostic::Diagnostic;
use crate::era::Era;
use crate::gates::{self, ConfigMap};
use crate::history::{self, Reconciled};
use crate::progressing::{self, Round, RoundState, Subject};
use crate::promql::{self, QueryResult};
use crate::retrieval::{DEFAULT_SERVICE, GraphReply, MULTI, Question};
use crate::sources::{self, Alert, Sourced};
use crate::types::{APPLIES, ClusterVersion, Condition, INVALID, Release, Risk, Status, Time};
use crate::updates::{Circumstances, MOST_UPDATES, Updates, Wanted};
use crate::upgradeable::{self, OperatorState, Surroundings};
use crate::validation::{self, FieldError};

/// How an operator is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The behaviour; `None`: that of the running release.
    pub era: Option<Era>,
    /// The gate of `acceptRisks`, of alerts as risks and of `conditionalUpdateRisks` is open (`TechPreviewNoUpgrade`).
    pub accept_risks: bool,
    /// The gate of `architecture` in releases of status is open.
    pub release_architecture: bool,
    /// Queries are given the cluster's id, as on hosted control planes.
    pub inject_cluster_id: bool,
    /// The update service by flag, before that of the spec.
    pub update_service: Option<String>,
    /// Between two fetches of the graph: 2 to 4 minutes, drawn by the operator when it starts.
    pub update_check_interval: TimeDelta,
    /// Between two attempts at a payload that was not accepted.
    pub retry_interval: TimeDelta,
    /// Clocks of the cache; `None`: those of the era.
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

/// The answer of Prometheus to [`Effect::Evaluate`].
#[derive(Clone, Debug, PartialEq)]
pub struct PromqlAnswer {
    /// The query that was asked.
    pub query: String,
    /// The result, or why there is none.
    pub result: Result<QueryResult, String>,
}

/// What a step knows besides the ClusterVersion. Answers are given once, to the step after they came.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// The payload of the operator that runs. Another one than in the step before means that the operator restarted.
    pub running: &'a Payload,
    /// Gates of that payload.
    pub shipped_gates: &'a BTreeMap<String, String>,
    /// `ConfigMap` admin-gates.
    pub gates: &'a ConfigMap,
    /// `ConfigMap` admin-acks.
    pub acks: &'a ConfigMap,
    /// The `ClusterOperators`, or why they cannot be listed.
    pub operators: &'a Result<Vec<OperatorState>, String>,
    /// Objects of the payload that are being deleted.
    pub deletions: &'a [String],
    /// Alerts; looked at only behind the gate.
    pub alerts: &'a [Alert],
    /// The apply loop.
    pub round: &'a Round,
    /// Answer to [`Effect::Fetch`].
    pub graph: Option<&'a GraphReply>,
    /// Answer to [`Effect::Evaluate`].
    pub promql: Option<&'a PromqlAnswer>,
    /// Answer to [`Effect::Retrieve`].
    pub payload: Option<&'a PayloadAnswer>,
}

/// What the caller must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// GET the graph from this URL, with `Accept: application/json`; answer in [`Inputs::graph`].
    Fetch {
        /// URL with parameters.
        url: String,
    },
    /// Ask the cluster's Prometheus, now, at most five minutes; answer in [`Inputs::promql`].
    Evaluate {
        /// `PromQL`.
        query: String,
    },
    /// Retrieve, verify and load a payload; answer in [`Inputs::payload`].
    Retrieve(Request),
    /// The payload is accepted: apply it, and let its operator run.
    Begin(Payload),
    /// Create admin-acks, empty, in the next round.
    CreateAcks,
    /// Write admin-gates, in the next round.
    RestoreGates(BTreeMap<String, String>),
}

/// What a step gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The status to write; equal to the one that was read when nothing is to be written.
    pub status: Status,
    /// What to do. What is under way already is not in it.
    pub effects: Vec<Effect>,
    /// When to step again if nothing changes before.
    pub wake_at: Time,
    /// What to log.
    pub diagnostics: Vec<Diagnostic>,
}

/// What the operator remembers. Empty when it starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    running: Option<String>,
    updates: Updates,
    acceptance: Acceptance,
    upgradeable: Option<Looked>,
    told: BTreeSet<Diagnostic>,
}

/// The last look at what makes Upgradeable False.
#[derive(Clone, Debug, PartialEq)]
struct Looked {
    at: Time,
    gates: ConfigMap,
    acks: ConfigMap,
    found: Vec<Condition>,
}

impl Memory {
    /// When updates were last retrieved; see [`Updates::last_change`].
    #[must_use]
    pub fn last_retrieval(&self) -> Option<Time> {
        self.updates.last_change()
    }

    /// The release that waits to be accepted, if there is one.
    #[must_use]
    pub fn pending(&self) -> Option<&Request> {
        self.acceptance.pending()
    }
}

/// What a step works with.
struct Step<'a> {
    now: Time,
    inputs: &'a Inputs<'a>,
    settings: &'a Settings,
    era: Era,
    /// The object as it is.
    given: &'a ClusterVersion,
    /// The object without what is invalid in it; its status becomes the next one.
    object: ClusterVersion,
    errors: Vec<FieldError>,
    effects: Vec<Effect>,
    diagnostics: Vec<Diagnostic>,
    wake_at: Vec<Time>,
}

/// Makes a step.
pub fn step(
    now: Time,
    object: &ClusterVersion,
    inputs: &Inputs<'_>,
    settings: &Settings,
    memory: &mut Memory,
) -> Outcome {
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
        effects: Vec::new(),
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

    fn surroundings(&self) -> Surroundings<'_> {
        Surroundings {
            gates: self.inputs.gates,
            acks: self.inputs.acks,
            operators: self.inputs.operators,
            deletions: self.inputs.deletions,
        }
    }

    /// The risks that the cluster sees itself: of Upgradeable, with what went wrong in finding them.
    fn sources(&self) -> (Vec<Sourced>, Vec<String>) {
        if self.era.has_risk_sources() {
            let version = &self.inputs.running.version;
            upgradeable::risks(&self.object, &self.surroundings(), version, self.era)
        } else {
            (Vec::new(), Vec::new())
        }
    }

    fn question(&self) -> Question {
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
        Question {
            service: service.to_owned(),
            architecture: wanted.unwrap_or(running).clone(),
            current_architecture: running.clone(),
            channel: spec.channel.clone(),
            cluster_id: spec.cluster_id.clone(),
            version: self.inputs.running.version.clone(),
        }
    }

    fn updates(&mut self, memory: &mut Memory, of_upgradeable: &[Sourced]) {
        // Risks accepted beside a request that is invalid count: they may be what makes it valid.
        let accepted = self.gate_is_open().then(|| {
            let update = self.given.spec.desired_update.iter();
            update
                .flat_map(|update| &update.accept_risks)
                .map(|risk| risk.name.clone())
                .collect()
        });
        let sourced: Vec<Sourced> = if self.gate_is_open() {
            let mut sourced = sources::of_alerts(self.inputs.alerts, self.now);
            sourced.extend_from_slice(of_upgradeable);
            sourced
        } else {
            Vec::new()
        };
        let around = Circumstances {
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
            updates.take_query(self.now, &answer.query, promql::verdict(&answer.result));
        }
        if let Some(reply) = self.inputs.graph {
            updates.take_graph(self.now, reply, &around, &mut self.diagnostics);
        }
        let wanted = updates.advance(self.now, &around, &mut self.diagnostics);
        self.effects.extend(wanted.into_iter().map(|wanted| match wanted {
            Wanted::Graph(url) => Effect::Fetch { url },
            Wanted::Query(query) => Effect::Evaluate { query },
        }));
        self.wake_at.extend(updates.wake_at(self.now, &around));
        let question = around.question;
        self.publish(updates, &question);
    }

    /// Writes the lists, if they are those of the present channel and service.
    fn publish(&mut self, updates: &Updates, question: &Question) {
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
                by_name.into_values().take(MOST_UPDATES).cloned().collect()
            } else {
                Vec::new()
            };
            if let Some(condition) = updates.condition() {
                status.conditions.set(condition);
            }
        }
    }

    fn upgradeable(&mut self, memory: &mut Memory, risks: &[Sourced], errors: &[String]) {
        if self.era.has_risk_sources() {
            let found = upgradeable::sum(self.now, risks, errors);
            upgradeable::write(&mut self.object.status.conditions, found.into_iter().collect());
            return;
        }
        let found = upgradeable::check(self.now, &self.object, &self.surroundings(), self.era);
        let interval = upgradeable::interval(self.now, &self.object.status.conditions);
        let (gates, acks) = (self.inputs.gates, self.inputs.acks);
        let looked = memory.upgradeable.take();
        // An edit of a ConfigMap counts at once, everything else when the last look is old.
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
            None => Looked {
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
            Asks::Nothing => {}
            Asks::Retrieve(target) => self.effects.push(Effect::Retrieve(target)),
            Asks::Begin(payload) => {
                let names = self.accepted_by_name(&payload.image);
                if !names.is_empty() {
                    memory.acceptance.record_accepted(&payload.image, &names);
                }
                self.effects.push(Effect::Begin(payload));
            }
        }
        self.wake_at.extend(memory.acceptance.wake_at());
    }

    /// The risks of an update that apply and that the administrator accepts by name, for the record.
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

    /// `desired` and history: the payload that is accepted, with what the graph knows of it.
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

    /// The round, if it is about the payload that is accepted; else one that has not begun.
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
        let subject = Subject {
            version: &version,
            invalid: !self.errors.is_empty(),
            has_history: !status.history.is_empty(),
        };
        progressing::write(now, &mut status.conditions, &round, subject, self.era);
        self.wake_at.extend(progressing::wake_at(now, &round, self.era));
    }

    /// The two `ConfigMaps`, and what is odd for as long as it is.
    fn config_maps(&mut self, memory: &mut Memory) {
        if *self.inputs.acks == ConfigMap::Missing {
            self.effects.push(Effect::CreateAcks);
        }
        let restored = gates::restored(self.inputs.shipped_gates, self.inputs.gates);
        self.effects.extend(restored.map(Effect::RestoreGates));
        let mut standing = BTreeSet::new();
        if let (Some(gates), Some(acks)) = (self.inputs.gates.data(), self.inputs.acks.data()) {
            let keys = gates::unrecognized(gates, acks);
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

    fn outcome(mut self) -> Outcome {
        self.object.status.complete();
        let soonest = self.wake_at.into_iter().min();
        let wake_at = soonest.unwrap_or(self.now + TimeDelta::hours(1));
        Outcome {
            status: self.object.status,
            effects: self.effects,
            wake_at: wake_at.max(self.now + TimeDelta::milliseconds(1)),
            diagnostics: self.diagnostics,
        }
    }
}

/// Whether two looks found the same, times aside.
fn says_the_same(a: &[Condition], b: &[Condition]) -> bool {
    let said = |conditions: &[Condition]| {
        let said = conditions
            .iter()
            .map(|c| (c.kind.clone(), c.status, c.reason.clone(), c.message.clone()));
        said.collect::<Vec<_>>()
    };
    said(a) == said(b)
}

/// Whether two pull specifications name one payload, whatever the registry.
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
