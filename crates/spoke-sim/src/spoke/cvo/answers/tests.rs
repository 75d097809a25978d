use std::sync::Arc;

use cvo_model::acceptance::Payload;

use super::{Alert, Answer, Answers, Faults, PayloadSource, Setup};
use crate::fields::from_unix;
use crate::spoke::clock::Clock;
use crate::spoke::prometheus::Prometheus;
use crate::spoke::updates::{Nodes, UpdateService};

fn answers() -> Answers {
    // As in the program. An error only means that another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Answers::new(
        UpdateService::new().unwrap(),
        Prometheus::new(None).unwrap(),
        Clock::new(from_unix(0), 1.0),
    )
}

/// A cluster of which nothing is known.
#[derive(Default)]
struct Bare {
    setup: Arc<Setup>,
    faults: Faults,
    running: Payload,
}

impl Bare {
    fn shelf(&self) -> PayloadSource<'_> {
        PayloadSource {
            setup: &self.setup,
            faults: &self.faults,
            running: &self.running,
            history: Vec::new(),
        }
    }
}

#[tokio::test]
async fn the_answer_for_an_old_channel_is_not_handed_in_for_the_new_one() {
    let mut answers = answers();
    let bare = Bare::default();
    let shelf = bare.shelf();
    let [old, new] = ["http://u/?channel=old", "http://u/?channel=new"];
    answers.fetch(old.to_owned(), String::new(), true);
    let late = answers.next().await;
    answers.fetch(new.to_owned(), String::new(), true);
    answers.take(late, &shelf);
    assert_eq!(answers.graph, None);
    let answer = answers.next().await;
    answers.take(answer, &shelf);
    assert_eq!(answers.graph.as_ref().unwrap().url, new);
}

#[tokio::test]
async fn a_fetch_that_another_one_replaces_is_given_up() {
    let mut answers = answers();
    for channel in ["old", "new"] {
        let url = format!("http://u/?channel={channel}");
        answers.fetch(url, String::new(), true);
    }
    let Answer::Graph(reply) = answers.next().await else {
        panic!("a graph was asked for");
    };
    assert_eq!(reply.url, "http://u/?channel=new");
    assert!(answers.on_their_way.is_empty());
}

#[test]
fn alerts_stand_until_they_can_be_read_again() {
    let mut answers = answers();
    let bare = Bare::default();
    let shelf = bare.shelf();
    let left_after = |answers: &mut Answers, alerts: Result<Vec<Alert>, String>| {
        answers.take(Answer::Alerts(alerts), &shelf);
        answers.alerts.len()
    };
    let refused = || Err("connection refused".to_owned());
    assert_eq!(left_after(&mut answers, Ok(vec![Alert::default()])), 1);
    assert_eq!(left_after(&mut answers, refused()), 1);
    assert_eq!(left_after(&mut answers, Ok(Vec::new())), 0);
    assert_eq!(left_after(&mut answers, Ok(vec![Alert::default()])), 1);
    answers.forget();
    assert_eq!(
        left_after(&mut answers, refused()),
        0,
        "what was read before the restart is lost"
    );
}

#[test]
fn payloads_come_from_the_scenario_the_graph_and_the_history_and_nowhere_else() {
    let setup =
        "payloads:\n- {version: 4.16.9, image: own}\n- {version: 4.16.8, image: bare, unsigned: true}"
            .parse()
            .unwrap();
    let mut nodes = Nodes::default();
    nodes.learn(br#"{"nodes":[{"version":"4.16.3","payload":"listed"}]}"#);
    let running = Payload {
        version: "4.16.1".into(),
        image: "running".into(),
        ..Payload::default()
    };
    let shelf = PayloadSource {
        setup: &Arc::new(setup),
        faults: &"none".parse().unwrap(),
        running: &running,
        history: vec![("4.16.0".into(), "old".into())],
    };
    for (image, version) in [
        ("running", "4.16.1"),
        ("own", "4.16.9"),
        ("listed", "4.16.3"),
        ("old", "4.16.0"),
    ] {
        let loaded = shelf.load(image, &nodes).unwrap();
        assert_eq!(
            (loaded.payload.version.as_str(), loaded.verification_error),
            (version, None),
            "{image}"
        );
    }
    assert!(shelf.load("bare", &nodes).unwrap().verification_error.is_some());
    assert!(shelf.load("unknown", &nodes).is_err());
    let shelf = PayloadSource {
        faults: &"unverified=no signature".parse().unwrap(),
        ..shelf
    };
    let loaded = shelf.load("listed", &nodes).unwrap();
    assert_eq!(loaded.verification_error.as_deref(), Some("no signature"));
}
