use clusterversion::types::{
    AVAILABLE, FAILING, PROGRESSING, RELEASE_ACCEPTED, RETRIEVED_UPDATES, Spec, UPGRADEABLE, Update,
};
use serde_json::{Value, json};

use super::*;
use crate::acceptance::{Loaded, Payload};
use crate::retrieval::GraphAnswer;

mod accepted;
mod channels;
mod properties;

fn at(seconds: i64) -> Time {
    Time::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::seconds(seconds)
}

fn payload(version: &str) -> Payload {
    Payload {
        version: version.to_owned(),
        image: format!("image/{version}@sha256:{version}"),
        architecture: "amd64".to_owned(),
        ..Payload::default()
    }
}

/// A cluster that the test controls.
struct Cluster {
    object: ClusterVersion,
    running: Payload,
    round: Round,
    gates: ConfigMap,
    acks: ConfigMap,
    operators: Result<Vec<OperatorState>, String>,
    shipped: BTreeMap<String, String>,
    settings: Settings,
    memory: Memory,
    seconds: i64,
    /// The last request to the update service.
    fetched: String,
    graph: Option<GraphReply>,
    promql: Option<PromqlAnswer>,
    payload: Option<PayloadAnswer>,
}

impl Cluster {
    fn installed(version: &str) -> Self {
        let mut cluster = Self {
            object: ClusterVersion::new(Spec {
                cluster_id: "a93465d5-61b2-42cd-a10a-33840e6add93".to_owned(),
                channel: "stable".to_owned(),
                upstream: "https://u.example.com/graph".to_owned(),
                ..Spec::default()
            }),
            running: payload(version),
            round: Round {
                image: payload(version).image,
                generation: 1,
                completed: true,
                ..Round::default()
            },
            gates: ConfigMap::of::<String, String>([]),
            acks: ConfigMap::of::<String, String>([]),
            operators: Ok(Vec::new()),
            shipped: BTreeMap::new(),
            settings: Settings::default(),
            memory: Memory::default(),
            seconds: 0,
            fetched: String::new(),
            graph: None,
            promql: None,
            payload: None,
        };
        cluster.step();
        cluster
    }

    fn step(&mut self) -> StepOutcome {
        self.seconds += 1;
        let inputs = Inputs {
            running: &self.running,
            shipped_gates: &self.shipped,
            gates: &self.gates,
            acks: &self.acks,
            operators: &self.operators,
            deletions: &[],
            alerts: &[],
            round: &self.round,
            graph: self.graph.as_ref(),
            promql: self.promql.as_ref(),
            payload: self.payload.as_ref(),
        };
        let outcome = step(
            at(self.seconds),
            &self.object,
            &inputs,
            &self.settings,
            &mut self.memory,
        );
        self.graph = None;
        self.promql = None;
        self.payload = None;
        for action in &outcome.actions {
            if let Action::Fetch { url } = action {
                self.fetched.clone_from(url);
            }
        }
        self.object.status = outcome.status.clone();
        outcome
    }

    /// Steps until nothing changes any more.
    fn settle(&mut self) -> StepOutcome {
        for _ in 0..10 {
            let before = self.object.status.clone();
            let outcome = self.step();
            if outcome.status == before {
                return outcome;
            }
        }
        panic!("the status does not come to rest");
    }

    fn ask(&mut self, update: Update) {
        self.object.spec.desired_update = Some(update);
        self.object.metadata.generation += 1;
    }

    fn offer(&mut self, versions: &[&str], conditional: &[(&str, &str)]) {
        let node = |version: &str| {
            json!({"version": version, "payload": payload(version).image,
                "metadata": {"url": format!("https://e/{version}"), "io.openshift.upgrades.graph.release.channels": "stable"}})
        };
        let running = self.running.version.clone();
        let mut nodes = vec![node(&running)];
        let mut edges = Vec::new();
        for version in versions {
            edges.push([0, nodes.len()]);
            nodes.push(node(version));
        }
        let mut groups: Vec<Value> = Vec::new();
        for (version, query) in conditional {
            nodes.push(node(version));
            groups.push(json!({"edges": [{"from": running, "to": version}], "risks": [{"url": "https://e/r", "name": "Leak",
                "message": "It leaks.", "matchingRules": [{"type": "PromQL", "promql": {"promql": query}}]}]}));
        }
        let body = json!({"nodes": nodes, "edges": edges, "conditionalEdges": groups}).to_string();
        self.answer(GraphAnswer::ok(body));
    }

    fn answer(&mut self, answer: GraphAnswer) {
        let url = self.fetched.clone();
        self.graph = Some(GraphReply { url, answer });
    }

    fn said(&self, kind: &str) -> String {
        let condition = self.object.status.conditions.get(kind);
        condition.map_or_else(String::new, |c| {
            format!("{} {} {}", c.status, c.reason, c.message)
                .trim()
                .to_owned()
        })
    }

    fn kinds(&self) -> Vec<&str> {
        self.object
            .status
            .conditions
            .iter()
            .map(|condition| condition.kind.as_str())
            .collect()
    }
}

fn by_version(version: &str) -> Update {
    Update {
        version: version.to_owned(),
        ..Update::default()
    }
}

#[test]
fn an_idle_cluster_publishes_what_a_real_one_does() {
    let mut cluster = Cluster::installed("4.14.1");
    assert_eq!(
        serde_json::to_value(&cluster.object.status).unwrap()["availableUpdates"],
        Value::Null
    );
    cluster.offer(&["4.14.2", "4.14.10"], &[]);
    let outcome = cluster.settle();
    assert_eq!(outcome.actions, []);
    let status = &cluster.object.status;
    let versions: Vec<&str> = status
        .available_updates
        .iter()
        .map(|release| release.version.as_str())
        .collect();
    assert_eq!(versions, ["4.14.10", "4.14.2"]);
    assert_eq!(status.desired.url, "https://e/4.14.1");
    assert_eq!(status.desired.channels, ["stable"]);
    assert_eq!(cluster.said(RETRIEVED_UPDATES), "True");
    assert_eq!(cluster.said(AVAILABLE), "True  Done applying 4.14.1");
    assert_eq!(cluster.said(FAILING), "False");
    assert_eq!(cluster.said(PROGRESSING), "False  Cluster version is 4.14.1");
    assert_eq!(cluster.said(UPGRADEABLE), "");
    assert_eq!(status.history.len(), 1);
    assert!(status.history[0].is_completed());
    let text = serde_json::to_string(status).unwrap();
    assert!(!text.contains("force"), "{text}");
}

#[test]
fn the_service_is_asked_for_the_running_version() {
    let mut cluster = Cluster::installed("4.14.1");
    cluster.memory = Memory::default();
    let outcome = cluster.step();
    assert_eq!(
        outcome.actions,
        [Action::Fetch {
            url: "https://u.example.com/graph?arch=amd64&channel=stable&id=a93465d5-61b2-42cd-a10a-33840e6add93&version=4.14.1".to_owned()
        }]
    );
    assert_eq!(cluster.step().actions, [], "it is under way");
    assert_eq!(cluster.said(RETRIEVED_UPDATES), "False");
}

#[test]
fn an_update_goes_from_request_to_completion() {
    let mut cluster = Cluster::installed("4.14.1");
    cluster.offer(&["4.14.2"], &[]);
    cluster.settle();
    cluster.ask(by_version("4.14.2"));
    let outcome = cluster.step();
    assert!(matches!(outcome.actions.as_slice(), [Action::Retrieve(request)] if request.version == "4.14.2"));
    assert!(
        cluster
            .said(RELEASE_ACCEPTED)
            .starts_with("Unknown RetrievePayload ")
    );
    // Nothing else has changed.
    assert_eq!(cluster.object.status.desired.version, "4.14.1");
    assert_eq!(cluster.said(PROGRESSING), "False  Cluster version is 4.14.1");
    assert_eq!(cluster.object.status.observed_generation, 1);
    cluster.payload = Some(PayloadAnswer {
        image: payload("4.14.2").image,
        outcome: Ok(Loaded {
            payload: payload("4.14.2"),
            verification_error: None,
        }),
    });
    let outcome = cluster.step();
    assert_eq!(outcome.actions, [Action::Begin(payload("4.14.2"))]);
    let status = &cluster.object.status;
    assert_eq!(
        (status.desired.version.as_str(), status.desired.url.as_str()),
        ("4.14.2", "https://e/4.14.2")
    );
    assert_eq!(status.history[0].state, "Partial");
    assert!(status.history[0].verified);
    assert_eq!(status.observed_generation, 2);
    assert_eq!(cluster.said(PROGRESSING), "True  Working towards 4.14.2");
    assert_eq!(cluster.said(AVAILABLE), "True  Done applying 4.14.1");
    // The next operator starts; the same request stays valid although nothing offers 4.14.2 any more.
    cluster.running = payload("4.14.2");
    cluster.round = Round {
        image: payload("4.14.2").image,
        generation: 2,
        state: RoundState::Updating,
        done: 734,
        total: 859,
        ..Round::default()
    };
    cluster.step();
    cluster.offer(&[], &[]);
    cluster.step();
    assert_eq!(cluster.said("Invalid"), "");
    assert_eq!(cluster.object.status.history.len(), 2);
    assert_eq!(
        cluster.said(PROGRESSING),
        "True  Working towards 4.14.2: 734 of 859 done (85% complete)"
    );
    cluster.round.state = RoundState::Reconciling;
    cluster.round.completed = true;
    cluster.settle();
    let status = &cluster.object.status;
    assert!(status.history[0].is_completed());
    assert_eq!(cluster.said(AVAILABLE), "True  Done applying 4.14.2");
    assert_eq!(cluster.said(PROGRESSING), "False  Cluster version is 4.14.2");
}

#[test]
fn a_version_that_is_not_offered_is_invalid_and_changes_nothing_else() {
    let mut cluster = Cluster::installed("4.14.1");
    cluster.offer(&["4.14.2"], &[("4.14.3", "up")]);
    cluster.settle();
    cluster.promql = Some(PromqlAnswer {
        query: "up".to_owned(),
        result: Ok(QueryResult::Vector(vec![1.0])),
    });
    cluster.settle();
    cluster.ask(by_version("4.14.3"));
    cluster.settle();
    assert_eq!(
        cluster.said(INVALID),
        "True InvalidClusterVersion The cluster version is invalid: spec.desiredUpdate.version: Invalid value: \"4.14.3\": when image is empty the update must be an available update"
    );
    assert_eq!(
        cluster.said(PROGRESSING),
        "False InvalidClusterVersion Stopped at 4.14.1: the cluster version is invalid"
    );
    assert_eq!(cluster.object.status.desired.version, "4.14.1");
    // With its image the same release is accepted, and what stood against it is recorded.
    cluster.ask(Update {
        image: payload("4.14.3").image,
        ..by_version("4.14.3")
    });
    cluster.step();
    assert_eq!(cluster.said(INVALID), "");
    cluster.payload = Some(PayloadAnswer {
        image: payload("4.14.3").image,
        outcome: Ok(Loaded {
            payload: payload("4.14.3"),
            verification_error: None,
        }),
    });
    cluster.step();
    assert_eq!(
        cluster.object.status.history[0].accepted_risks,
        "Precondition \"ClusterVersionRecommendedUpdate\" failed because of \"Leak\": Update from 4.14.1 to 4.14.3 is not recommended:\n\nIt leaks. https://e/r"
    );
}

#[test]
fn a_minor_update_waits_for_its_gate_and_proceeds_after_the_acknowledgment() {
    let key = "ack-4.14-kube-1.27-api-removals-in-4.15";
    let mut cluster = Cluster::installed("4.14.1");
    cluster.gates = ConfigMap::of([(key, "APIs go.")]);
    cluster.offer(&["4.15.0"], &[]);
    cluster.settle();
    assert_eq!(cluster.said(UPGRADEABLE), "False AdminAckRequired APIs go.");
    cluster.ask(by_version("4.15.0"));
    cluster.step();
    cluster.payload = Some(PayloadAnswer {
        image: payload("4.15.0").image,
        outcome: Ok(Loaded {
            payload: payload("4.15.0"),
            verification_error: None,
        }),
    });
    cluster.step();
    assert!(
        cluster
            .said(RELEASE_ACCEPTED)
            .ends_with("failed because of \"AdminAckRequired\": APIs go.")
    );
    assert_eq!(cluster.object.status.desired.version, "4.14.1");
    cluster.acks = ConfigMap::of([(key, "true"), ("ack-4.14-typo", "true")]);
    let outcome = cluster.step();
    assert_eq!(outcome.actions, [Action::Begin(payload("4.15.0"))]);
    assert_eq!(
        outcome.diagnostics,
        [Diagnostic::UnrecognizedAck {
            key: "ack-4.14-typo".to_owned()
        }]
    );
    assert_eq!(cluster.step().diagnostics, [], "it is told once");
    assert_eq!(cluster.object.status.desired.version, "4.15.0");
}

#[test]
fn removed_config_maps_are_put_back() {
    let mut cluster = Cluster::installed("4.14.1");
    cluster.shipped = BTreeMap::from([("ack-4.14-a".to_owned(), "A.".to_owned())]);
    cluster.gates = ConfigMap::Missing;
    cluster.acks = ConfigMap::Missing;
    let outcome = cluster.step();
    assert!(outcome.actions.contains(&Action::CreateAcks));
    assert!(
        outcome
            .actions
            .contains(&Action::RestoreGates(cluster.shipped.clone()))
    );
    assert_eq!(
        cluster.said(UPGRADEABLE),
        "False UnableToAccessAdminGatesConfigMap admin-gates configmap not found."
    );
}

#[test]
fn upgradeable_is_looked_at_every_two_minutes_but_for_config_maps() {
    let mut cluster = Cluster::installed("4.14.1");
    let no = clusterversion::types::ConditionStatus::False;
    let busy = OperatorState {
        name: "olm".to_owned(),
        conditions: clusterversion::types::Conditions(vec![ClusterOperatorCondition::new(
            at(0),
            UPGRADEABLE,
            no,
            "Busy",
            "M",
        )]),
        version: String::new(),
    };
    cluster.operators = Ok(vec![busy]);
    let outcome = cluster.step();
    assert_eq!(cluster.said(UPGRADEABLE), "");
    assert_eq!(outcome.wake_at, at(1) + TimeDelta::minutes(2));
    cluster.seconds += 120;
    cluster.step();
    assert!(cluster.said(UPGRADEABLE).starts_with("False Busy "));
}

#[test]
fn a_risk_is_asked_of_prometheus_and_accepted_by_name_behind_the_gate() {
    let mut cluster = Cluster::installed("4.22.1");
    cluster.settings.accept_risks = true;
    cluster.offer(&[], &[("4.22.2", "up")]);
    let outcome = cluster.step();
    assert_eq!(
        outcome.actions,
        [Action::Evaluate {
            query: "up".to_owned()
        }]
    );
    cluster.promql = Some(PromqlAnswer {
        query: "up".to_owned(),
        result: Ok(QueryResult::Vector(vec![1.0])),
    });
    cluster.settle();
    let status = &cluster.object.status;
    assert_eq!(status.available_updates, []);
    assert_eq!(status.conditional_update_risks[0].name, "Leak");
    assert!(status.conditional_update_risks[0].conditions.is_true(APPLIES));
    assert_eq!(
        status.conditional_updates[0].recommended().unwrap().reason,
        "Leak"
    );
    cluster.ask(Update {
        accept_risks: vec![clusterversion::types::AcceptRisk {
            name: "Leak".to_owned(),
            ..Default::default()
        }],
        ..Update::default()
    });
    cluster.settle();
    let status = &cluster.object.status;
    assert_eq!(
        status.conditional_updates[0].recommended().unwrap().reason,
        "AllExposedRisksAccepted"
    );
    assert_eq!(status.available_updates.len(), 1);
    if let Some(update) = &mut cluster.object.spec.desired_update {
        "4.22.2".clone_into(&mut update.version);
    }
    cluster.step();
    cluster.payload = Some(PayloadAnswer {
        image: payload("4.22.2").image,
        outcome: Ok(Loaded {
            payload: payload("4.22.2"),
            verification_error: None,
        }),
    });
    cluster.step();
    assert_eq!(
        cluster.object.status.history[0].accepted_risks,
        "The target release image/4.22.2@sha256:4.22.2 is exposed to the risks [Leak] which were all explicitly accepted by the cluster administrator."
    );
}

#[test]
fn conditions_come_in_the_order_of_the_real_operator() {
    let mut cluster = Cluster::installed("4.14.1");
    cluster.offer(&[], &[]);
    cluster.settle();
    assert_eq!(
        cluster.kinds(),
        [
            "ImplicitlyEnabledCapabilities",
            "ReleaseAccepted",
            "Available",
            "Failing",
            "Progressing",
            "RetrievedUpdates"
        ]
    );
}

#[test]
fn a_graph_that_knows_the_running_version_by_another_image_gives_it_no_metadata() {
    let mut cluster = Cluster::installed("4.14.1");
    cluster.running.image = "registry.ci/4.14.1@sha256:other".to_owned();
    cluster.round.image.clone_from(&cluster.running.image);
    cluster.step();
    cluster.offer(&[], &[]);
    let outcome = cluster.step();
    assert_eq!(cluster.object.status.desired.url, "");
    assert!(matches!(
        outcome.diagnostics.as_slice(),
        [Diagnostic::MetadataMismatch { .. }]
    ));
}
