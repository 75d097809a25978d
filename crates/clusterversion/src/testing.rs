//! Statuses for tests: an operator put through made-up but possible circumstances, the same for the same seed.
//!
//! Owns the circumstances. What comes out is what the law makes of them, so that a schema, a reader or a report can be
//! tried with everything that it may meet.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use serde_json::{Value, json};

use crate::acceptance::{Loaded, Payload, PayloadAnswer, PayloadFailure, Request};
use crate::failure::{ManifestProblem, OperatorProblem, TaskError};
use crate::gates::ConfigMap;
use crate::law::{Effect, Inputs, Memory, PromqlAnswer, Settings, step};
use crate::progressing::{Round, RoundState};
use crate::promql::QueryResult;
use crate::retrieval::{GraphAnswer, GraphReply};
use crate::sources::Alert;
use crate::types::{
    AcceptRisk, ClusterVersion, Condition, ConditionStatus, Conditions, Spec, Time, UPGRADEABLE, Update,
};
use crate::upgradeable::OperatorState;

/// A generator of numbers, the same on every machine (`xorshift64*`).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// A generator that gives the same numbers for the same seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16) % bound.max(1)
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let at = self.below(items.len() as u64);
        items.get(usize::try_from(at).unwrap_or(0))
    }
}

/// A cluster and what plays around it.
#[derive(Clone, Debug)]
pub struct Scenario {
    dice: Dice,
    settings: Settings,
    memory: Memory,
    now: Time,
    /// The object, with the status of the last step.
    pub object: ClusterVersion,
    running: Payload,
    round: Round,
    wanted: Vec<Effect>,
    minor: u64,
    acks: ConfigMap,
    gates: ConfigMap,
}

const NAMES: [&str; 6] = [
    "Leak",
    "SlowBoot",
    "MultiNetNoise",
    "risk-with-dashes",
    "a.b",
    "Zed_9",
];
const OPERATORS: [&str; 5] = [
    "etcd",
    "kube-apiserver",
    "network",
    "machine-config",
    "monitoring",
];

impl Scenario {
    /// A cluster of a release line. `gate`: the gate of accepted risks is open, which takes 4.22 or later.
    #[must_use]
    pub fn new(seed: u64, minor: u64, gate: bool) -> Self {
        let mut dice = Dice::new(seed);
        let running = payload(&format!("4.{minor}.{}", dice.below(4)));
        let object = ClusterVersion::new(Spec {
            cluster_id: "a93465d5-61b2-42cd-a10a-33840e6add93".to_owned(),
            channel: format!("stable-4.{minor}"),
            ..Spec::default()
        });
        let settings = Settings {
            accept_risks: gate,
            ..Settings::default()
        };
        let gate_key = format!("ack-4.{minor}-x");
        Self {
            round: Round {
                image: running.image.clone(),
                generation: 1,
                state: RoundState::Initializing,
                ..Round::default()
            },
            dice,
            settings,
            memory: Memory::default(),
            now: Time::UNIX_EPOCH + TimeDelta::days(20_000),
            object,
            running,
            wanted: Vec::new(),
            minor,
            acks: ConfigMap::Missing,
            gates: ConfigMap::of([(gate_key, "Read this.")]),
        }
    }

    /// The time of the last step.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// One more step, after something may have happened: the object then has the next status.
    pub fn step(&mut self) -> &ClusterVersion {
        let seconds = match self.dice.below(4) {
            0 => 1,
            1 => 20,
            2 => 200,
            _ => 4_000,
        };
        self.now += TimeDelta::seconds(seconds);
        self.happen();
        let wanted = std::mem::take(&mut self.wanted);
        let (graph, promql, payload) = self.answers(&wanted);
        let operators = self.operators();
        let alerts = self.alerts();
        let deletions: Vec<String> = if self.dice.once_in(9) {
            vec!["crd \"x\"".to_owned()]
        } else {
            Vec::new()
        };
        let inputs = Inputs {
            running: &self.running,
            shipped_gates: &BTreeMap::new(),
            gates: &self.gates,
            acks: &self.acks,
            operators: &operators,
            deletions: &deletions,
            alerts: &alerts,
            round: &self.round,
            graph: graph.as_ref(),
            promql: promql.as_ref(),
            payload: payload.as_ref(),
        };
        let outcome = step(self.now, &self.object, &inputs, &self.settings, &mut self.memory);
        self.object.status = outcome.status;
        for effect in outcome.effects {
            match effect {
                Effect::Begin(payload) => {
                    self.round = Round {
                        image: payload.image.clone(),
                        generation: self.object.metadata.generation,
                        state: RoundState::Updating,
                        total: 863,
                        ..Round::default()
                    };
                    self.running = payload;
                }
                Effect::CreateAcks => self.acks = ConfigMap::Found(BTreeMap::new()),
                effect => self.wanted.push(effect),
            }
        }
        &self.object
    }

    /// The administrator or the world does something.
    fn happen(&mut self) {
        match self.dice.below(12) {
            0 => self.request(),
            1 => {
                self.object.spec.channel = match self.dice.below(3) {
                    0 => String::new(),
                    1 => "fast".to_owned(),
                    _ => format!("stable-4.{}", self.minor),
                };
                self.object.metadata.generation += 1;
            }
            2 => {
                self.acks = if self.dice.once_in(2) {
                    ConfigMap::Missing
                } else {
                    ConfigMap::of([(format!("ack-4.{}-x", self.minor), "true")])
                }
            }
            3 => {
                self.gates = if self.dice.once_in(3) {
                    ConfigMap::Unreadable("forbidden".to_owned())
                } else {
                    ConfigMap::of([("ack-bad", "x")])
                }
            }
            4 => self.memory = Memory::default(),
            _ => self.apply(),
        }
    }

    fn request(&mut self) {
        let available = &self.object.status.available_updates;
        let conditional = &self.object.status.conditional_updates;
        let version = self.dice.pick(available).map(|release| release.version.clone());
        let update = match self.dice.below(5) {
            0 => None,
            1 => version.map(|version| Update {
                version,
                ..Update::default()
            }),
            2 => self.dice.pick(conditional).map(|update| Update {
                version: update.release.version.clone(),
                image: update.release.image.clone(),
                ..Update::default()
            }),
            3 => Some(Update {
                version: "4.99.0".to_owned(),
                ..Update::default()
            }),
            _ => Some(Update {
                image: format!("image/4.{}.9", self.minor + 1),
                force: self.dice.once_in(2),
                ..Update::default()
            }),
        };
        self.object.spec.desired_update = update.map(|mut update| {
            if self.settings.accept_risks && self.dice.once_in(2) {
                let name = self.dice.pick(&NAMES).copied().unwrap_or_default().to_owned();
                update.accept_risks = vec![AcceptRisk {
                    name,
                    ..AcceptRisk::default()
                }];
            }
            update
        });
        self.object.metadata.generation += 1;
    }

    fn apply(&mut self) {
        let round = &mut self.round;
        round.generation = self.object.metadata.generation;
        round.total = 863;
        round.done = (round.done + 137).min(863);
        "hash".clone_into(&mut round.version_hash);
        round.errors.clear();
        for _ in 0..self.dice.below(4) {
            let error = if self.dice.once_in(4) {
                let problem = self
                    .dice
                    .pick(&ManifestProblem::ALL)
                    .copied()
                    .unwrap_or(ManifestProblem::Failed);
                TaskError::Manifest {
                    problem,
                    task: "deployment \"ns/name\" (412 of 863)".to_owned(),
                    error: "boom".to_owned(),
                }
            } else {
                let all = [
                    OperatorProblem::Degraded,
                    OperatorProblem::NotAvailable,
                    OperatorProblem::NoVersions,
                    OperatorProblem::Updating,
                ];
                let since = i64::try_from(self.dice.below(120)).unwrap_or(0);
                TaskError::Operator {
                    name: self.dice.pick(&OPERATORS).copied().unwrap_or_default().to_owned(),
                    problem: self.dice.pick(&all).copied().unwrap_or(OperatorProblem::Updating),
                    since: self.now - TimeDelta::minutes(since),
                }
            };
            round.errors.push(error);
        }
        if round.done == 863 && round.errors.is_empty() {
            round.state = RoundState::Reconciling;
            round.completed = true;
        }
    }

    fn answers(
        &mut self,
        wanted: &[Effect],
    ) -> (Option<GraphReply>, Option<PromqlAnswer>, Option<PayloadAnswer>) {
        let (mut graph, mut promql, mut payload) = (None, None, None);
        for effect in wanted {
            match effect {
                Effect::Fetch { url } => {
                    graph = Some(GraphReply {
                        url: url.clone(),
                        answer: self.graph(),
                    });
                }
                Effect::Evaluate { query } => {
                    // Most clusters are not exposed to most risks.
                    let result = match self.dice.below(10) {
                        0 => Err("connection refused".to_owned()),
                        1 => Ok(QueryResult::Vector(vec![])),
                        2 => Ok(QueryResult::Vector(vec![f64::NAN])),
                        3 => Ok(QueryResult::Other("scalar".to_owned())),
                        4..=7 => Ok(QueryResult::Vector(vec![0.0])),
                        _ => Ok(QueryResult::Vector(vec![1.0])),
                    };
                    promql = Some(PromqlAnswer {
                        query: query.clone(),
                        result,
                    });
                }
                Effect::Retrieve(request) => payload = Some(self.retrieved(request)),
                Effect::Begin(_) | Effect::CreateAcks | Effect::RestoreGates(_) => {}
            }
        }
        (graph, promql, payload)
    }

    fn retrieved(&mut self, request: &Request) -> PayloadAnswer {
        let version = request.image.trim_start_matches("image/");
        let outcome = match self.dice.below(6) {
            0 => Err(PayloadFailure::Retrieve("no such image".to_owned())),
            1 => Err(PayloadFailure::Load("no manifests".to_owned())),
            2 => Ok(Loaded {
                payload: payload(version),
                verification_error: Some("no signature".to_owned()),
            }),
            _ => Ok(Loaded {
                payload: payload(version),
                verification_error: None,
            }),
        };
        PayloadAnswer {
            image: request.image.clone(),
            outcome,
        }
    }

    fn graph(&mut self) -> GraphAnswer {
        match self.dice.below(8) {
            0 => return GraphAnswer::Unreachable("no such host".to_owned()),
            1 => return GraphAnswer::ok("<html>"),
            _ => {}
        }
        let node = |version: &str| {
            json!({"version": version, "payload": format!("image/{version}"), "metadata": {
                "url": "https://access.redhat.com/errata/1",
                "io.openshift.upgrades.graph.release.channels": "stable,fast,stable",
            }})
        };
        let running = self.running.version.clone();
        let mut nodes = vec![node(&running)];
        let mut edges = Vec::new();
        let mut conditional = Vec::new();
        for _ in 0..self.dice.below(7) {
            let version = format!("4.{}.{}", self.minor + self.dice.below(3), 4 + self.dice.below(9));
            if nodes.iter().any(|node| node["version"] == version) {
                continue;
            }
            if self.dice.once_in(3) {
                edges.push(json!([0, nodes.len()]));
            } else {
                let risks: Vec<Value> = (0..self.dice.below(4)).map(|_| self.risk()).collect();
                conditional.push(json!({"edges": [{"from": running, "to": version}], "risks": risks}));
            }
            nodes.push(node(&version));
        }
        GraphAnswer::ok(json!({"nodes": nodes, "edges": edges, "conditionalEdges": conditional}).to_string())
    }

    fn risk(&mut self) -> Value {
        let name = self.dice.pick(&NAMES).copied().unwrap_or_default();
        let rules = match self.dice.below(5) {
            0 => json!([{"type": "Always"}]),
            1 => json!([{"type": "CEL"}, {"type": "Always"}]),
            2 => json!([{"type": "PromQL", "promql": {"promql": ""}}]),
            _ => json!([{"type": "PromQL", "promql": {"promql": format!("up{{name={name:?}}}")}}]),
        };
        let url = if self.dice.once_in(12) {
            "no url"
        } else {
            "https://issues.redhat.com/browse/X-1"
        };
        json!({"name": name, "url": url, "message": format!("{name} may break.\n\nOr not."), "matchingRules": rules})
    }

    fn operators(&mut self) -> Result<Vec<OperatorState>, String> {
        if self.dice.once_in(12) {
            return Err("timeout".to_owned());
        }
        let count = self.dice.below(3);
        let mut operators = Vec::new();
        for name in OPERATORS.iter().take(usize::try_from(count).unwrap_or(0)) {
            let message = if self.dice.once_in(3) { "" } else { "Not now." };
            let no = ConditionStatus::False;
            operators.push(OperatorState {
                name: (*name).to_owned(),
                conditions: Conditions(vec![Condition::new(self.now, UPGRADEABLE, no, "Busy", message)]),
                version: self.running.version.clone(),
            });
        }
        Ok(operators)
    }

    fn alerts(&mut self) -> Vec<Alert> {
        if !self.dice.once_in(3) {
            return Vec::new();
        }
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        vec![Alert {
            labels: BTreeMap::from([
                label("alertname", "KubeNodeNotReady"),
                label("severity", "warning"),
            ]),
            annotations: BTreeMap::from([label("runbook_url", "see the wiki")]),
            state: "firing".to_owned(),
            active_at: Some(self.now),
        }]
    }
}

fn payload(version: &str) -> Payload {
    Payload {
        version: version.to_owned(),
        image: format!("image/{version}"),
        architecture: "amd64".to_owned(),
        ..Payload::default()
    }
}
