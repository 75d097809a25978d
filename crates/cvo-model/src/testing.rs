//! Generates statuses for tests: it runs an operator through invented but possible situations, equal for equal seeds.
//!
//! The statuses come from the model, so that schemas and readers can be tested with everything that may occur.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use clusterversion::gates::ConfigMap;
use clusterversion::types::{
    AcceptRisk, ClusterOperatorCondition, ClusterVersion, ConditionStatus, Conditions, Spec, Time,
    UPGRADEABLE, Update,
};
use serde_json::{Value, json};

use crate::acceptance::{Loaded, Payload, PayloadAnswer, PayloadFailure, Request};
use crate::failure::{ManifestProblem, OperatorProblem, TaskError};
use crate::progressing::{Round, RoundState};
use crate::promql::QueryResult;
use crate::retrieval::{GraphAnswer, GraphReply};
use crate::sources::Alert;
use crate::step::{Action, Inputs, Memory, PromqlAnswer, Settings, step};
use crate::upgradeable::OperatorState;

/// A random number generator that gives the same numbers on every machine (`xorshift64*`).
#[derive(Clone, Debug)]
pub struct SeededRng(u64);

impl SeededRng {
    /// A generator with this seed.
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

    /// True on average once in this many calls.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let at = self.below(items.len() as u64);
        items.get(usize::try_from(at).unwrap_or(0))
    }
}

/// A cluster and what happens around it.
#[derive(Clone, Debug)]
pub struct Scenario {
    rng: SeededRng,
    settings: Settings,
    memory: Memory,
    now: Time,
    /// The object, with the status of the last step.
    pub object: ClusterVersion,
    running: Payload,
    round: Round,
    wanted: Vec<Action>,
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
    /// A cluster of the release line 4.`minor`. `gate`: the feature gate of accepted risks is on, which needs 4.22 or later.
    #[must_use]
    pub fn new(seed: u64, minor: u64, gate: bool) -> Self {
        let mut rng = SeededRng::new(seed);
        let running = payload(&format!("4.{minor}.{}", rng.below(4)));
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
            rng,
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

    /// Makes one step after a random event. The object then has the next status.
    pub fn step(&mut self) -> &ClusterVersion {
        let seconds = match self.rng.below(4) {
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
        let deletions: Vec<String> = if self.rng.once_in(9) {
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
        for action in outcome.actions {
            match action {
                Action::Begin(payload) => {
                    self.round = Round {
                        image: payload.image.clone(),
                        generation: self.object.metadata.generation,
                        state: RoundState::Updating,
                        total: 863,
                        ..Round::default()
                    };
                    self.running = payload;
                }
                Action::CreateAcks => self.acks = ConfigMap::Found(BTreeMap::new()),
                action => self.wanted.push(action),
            }
        }
        &self.object
    }

    /// A random event.
    fn happen(&mut self) {
        match self.rng.below(12) {
            0 => self.request(),
            1 => {
                self.object.spec.channel = match self.rng.below(3) {
                    0 => String::new(),
                    1 => "fast".to_owned(),
                    _ => format!("stable-4.{}", self.minor),
                };
                self.object.metadata.generation += 1;
            }
            2 => {
                self.acks = if self.rng.once_in(2) {
                    ConfigMap::Missing
                } else {
                    ConfigMap::of([(format!("ack-4.{}-x", self.minor), "true")])
                }
            }
            3 => {
                self.gates = if self.rng.once_in(3) {
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
        let version = self.rng.pick(available).map(|release| release.version.clone());
        let update = match self.rng.below(5) {
            0 => None,
            1 => version.map(|version| Update {
                version,
                ..Update::default()
            }),
            2 => self.rng.pick(conditional).map(|update| Update {
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
                force: self.rng.once_in(2),
                ..Update::default()
            }),
        };
        self.object.spec.desired_update = update.map(|mut update| {
            if self.settings.accept_risks && self.rng.once_in(2) {
                let name = self.rng.pick(&NAMES).copied().unwrap_or_default().to_owned();
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
        for _ in 0..self.rng.below(4) {
            let error = if self.rng.once_in(4) {
                let problem = self
                    .rng
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
                let since = i64::try_from(self.rng.below(120)).unwrap_or(0);
                TaskError::Operator {
                    name: self.rng.pick(&OPERATORS).copied().unwrap_or_default().to_owned(),
                    problem: self.rng.pick(&all).copied().unwrap_or(OperatorProblem::Updating),
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
        wanted: &[Action],
    ) -> (Option<GraphReply>, Option<PromqlAnswer>, Option<PayloadAnswer>) {
        let (mut graph, mut promql, mut payload) = (None, None, None);
        for action in wanted {
            match action {
                Action::Fetch { url } => {
                    graph = Some(GraphReply {
                        url: url.clone(),
                        answer: self.graph(),
                    });
                }
                Action::Evaluate { query } => {
                    // Most clusters are not exposed to most risks.
                    let result = match self.rng.below(10) {
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
                Action::Retrieve(request) => payload = Some(self.retrieved(request)),
                Action::Begin(_) | Action::CreateAcks | Action::RestoreGates(_) => {}
            }
        }
        (graph, promql, payload)
    }

    fn retrieved(&mut self, request: &Request) -> PayloadAnswer {
        let version = request.image.trim_start_matches("image/");
        let outcome = match self.rng.below(6) {
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
        match self.rng.below(8) {
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
        for _ in 0..self.rng.below(7) {
            let version = format!("4.{}.{}", self.minor + self.rng.below(3), 4 + self.rng.below(9));
            if nodes.iter().any(|node| node["version"] == version) {
                continue;
            }
            if self.rng.once_in(3) {
                edges.push(json!([0, nodes.len()]));
            } else {
                let risks: Vec<Value> = (0..self.rng.below(4)).map(|_| self.risk()).collect();
                conditional.push(json!({"edges": [{"from": running, "to": version}], "risks": risks}));
            }
            nodes.push(node(&version));
        }
        GraphAnswer::ok(json!({"nodes": nodes, "edges": edges, "conditionalEdges": conditional}).to_string())
    }

    fn risk(&mut self) -> Value {
        let name = self.rng.pick(&NAMES).copied().unwrap_or_default();
        let rules = match self.rng.below(5) {
            0 => json!([{"type": "Always"}]),
            1 => json!([{"type": "CEL"}, {"type": "Always"}]),
            2 => json!([{"type": "PromQL", "promql": {"promql": ""}}]),
            _ => json!([{"type": "PromQL", "promql": {"promql": format!("up{{name={name:?}}}")}}]),
        };
        let url = if self.rng.once_in(12) {
            "no url"
        } else {
            "https://issues.redhat.com/browse/X-1"
        };
        json!({"name": name, "url": url, "message": format!("{name} may break.\n\nOr not."), "matchingRules": rules})
    }

    fn operators(&mut self) -> Result<Vec<OperatorState>, String> {
        if self.rng.once_in(12) {
            return Err("timeout".to_owned());
        }
        let count = self.rng.below(3);
        let mut operators = Vec::new();
        for name in OPERATORS.iter().take(usize::try_from(count).unwrap_or(0)) {
            let message = if self.rng.once_in(3) { "" } else { "Not now." };
            let no = ConditionStatus::False;
            operators.push(OperatorState {
                name: (*name).to_owned(),
                conditions: Conditions(vec![ClusterOperatorCondition::new(
                    self.now,
                    UPGRADEABLE,
                    no,
                    "Busy",
                    message,
                )]),
                version: self.running.version.clone(),
            });
        }
        Ok(operators)
    }

    fn alerts(&mut self) -> Vec<Alert> {
        if !self.rng.once_in(3) {
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

pub(crate) fn payload(version: &str) -> Payload {
    Payload {
        version: version.to_owned(),
        image: format!("image/{version}"),
        architecture: "amd64".to_owned(),
        ..Payload::default()
    }
}
