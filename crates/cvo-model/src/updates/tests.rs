use serde_json::{Value, json};

use super::*;
use crate::retrieval::GraphAnswer;

const SERVICE: &str = "https://u.example.com/graph";

fn at(seconds: i64) -> Time {
    Time::UNIX_EPOCH + TimeDelta::seconds(seconds)
}

fn question(channel: &str) -> GraphQuery {
    GraphQuery {
        service: SERVICE.to_owned(),
        architecture: "amd64".to_owned(),
        current_architecture: "amd64".to_owned(),
        channel: channel.to_owned(),
        cluster_id: "a93465d5-61b2-42cd-a10a-33840e6add93".to_owned(),
        version: "4.18.1".to_owned(),
    }
}

fn context(minor: u64, channel: &str) -> UpdatesContext<'static> {
    let era = Era::new(4, minor);
    UpdatesContext {
        question: question(channel),
        era,
        clocks: Clocks::of(era),
        interval: TimeDelta::minutes(3),
        accepted: None,
        sourced: &[],
        inject_cluster_id: false,
    }
}

/// A graph in which 4.18.1 leads to 4.18.2 openly, and to each `version: [queries]` by risks of these queries, each
/// named like its query.
fn graph(conditional: &[(&str, &[&str])]) -> GraphAnswer {
    let node = |version: &str| json!({"version": version, "payload": format!("image/{version}")});
    let mut nodes = vec![node("4.18.1"), node("4.18.2")];
    let mut groups = Vec::new();
    for (version, queries) in conditional {
        nodes.push(node(version));
        let risks: Vec<Value> = queries
            .iter()
            .map(|query| {
                json!({"url": format!("https://e/{query}"), "name": query, "message": format!("{query} breaks."),
                    "matchingRules": [{"type": "PromQL", "promql": {"promql": query}}]})
            })
            .collect();
        groups.push(json!({"edges": [{"from": "4.18.1", "to": version}], "risks": risks}));
    }
    GraphAnswer::ok(json!({"nodes": nodes, "edges": [[0, 1]], "conditionalEdges": groups}).to_string())
}

/// The answer of a service to a question.
fn reply(question: &GraphQuery, answer: GraphAnswer) -> GraphReply {
    let url = question.url().unwrap();
    GraphReply { url, answer }
}

/// Simulates operator and cluster. The first letter of a query is its answer: `y` 1, `n` 0, otherwise a failure.
struct Play {
    updates: Updates,
    seconds: i64,
    asked: Vec<String>,
}

impl Play {
    fn new() -> Self {
        Self {
            updates: Updates::default(),
            seconds: 0,
            asked: Vec::new(),
        }
    }

    /// Advances with an answer for the graph, and answers queries at once; then each second while anything is in doubt
    /// and can be settled, `most` times.
    fn run(
        &mut self,
        context: &UpdatesContext<'_>,
        answer: Option<&GraphAnswer>,
        most: usize,
    ) -> Vec<NeededInput> {
        let mut fetches = Vec::new();
        let mut told = Vec::new();
        for _ in 0..most {
            let now = at(self.seconds);
            let mut wanted = self.updates.advance(now, context, &mut told);
            while let Some(ask) = wanted.pop() {
                match ask {
                    NeededInput::Graph(ref url) => {
                        if let Some(answer) = answer {
                            let reply = GraphReply {
                                url: url.clone(),
                                answer: answer.clone(),
                            };
                            self.updates.take_graph(now, &reply, context, &mut told);
                        }
                        fetches.push(ask);
                    }
                    NeededInput::Query(query) => {
                        let exposure = match query.as_bytes().first() {
                            Some(b'y') => Ok(true),
                            Some(b'n') => Ok(false),
                            _ => Err("down".to_owned()),
                        };
                        self.updates.take_query(now, &query, exposure);
                        self.asked.push(query);
                    }
                }
                wanted.extend(self.updates.advance(now, context, &mut told));
            }
            self.seconds += 1;
        }
        fetches
    }

    fn lists(&self) -> (Vec<String>, Vec<String>) {
        let (available, conditional) = self.updates.lists().unwrap();
        let open = available.iter().map(|release| release.version.clone()).collect();
        let conditional = conditional
            .iter()
            .map(|update| {
                let condition = update.recommended().unwrap();
                format!(
                    "{} {} {}",
                    update.release.version, condition.status, condition.reason
                )
            })
            .collect();
        (open, conditional)
    }

    fn said(&self) -> String {
        let condition = self.updates.condition().unwrap();
        format!("{} {}", condition.status, condition.reason)
            .trim()
            .to_owned()
    }
}

#[test]
fn risks_are_evaluated_one_a_second_newest_first_and_what_is_recommended_is_promoted() {
    let mut play = Play::new();
    let context = context(18, "stable");
    let graph = graph(&[
        ("4.18.3", &["n1"]),
        ("4.19.0", &["y1", "n1"]),
        ("4.18.10", &["x1"]),
    ]);
    assert_eq!(play.run(&context, Some(&graph), 1).len(), 1);
    // One query a second: the first pass knows the first of them.
    assert_eq!(play.asked, ["n1"]);
    assert_eq!(
        play.lists().1,
        [
            "4.19.0 Unknown EvaluationFailed",
            "4.18.10 Unknown EvaluationFailed",
            "4.18.3 True NotExposedToRisks"
        ]
    );
    play.run(&context, None, 5);
    assert_eq!(play.asked, ["n1", "x1", "y1"]);
    let (available, conditional) = play.lists();
    assert_eq!(available, ["4.18.3", "4.18.2"]);
    assert_eq!(
        conditional,
        [
            "4.19.0 False y1",
            "4.18.10 Unknown EvaluationFailed",
            "4.18.3 True NotExposedToRisks"
        ]
    );
    // The failure counts for an hour, then the query is sent again.
    play.seconds = 3_500;
    play.asked.clear();
    play.run(&context, None, 1);
    assert_eq!(play.asked, Vec::<String>::new());
    play.seconds = 3_602;
    play.run(&context, None, 3);
    assert!(play.asked.contains(&"x1".to_owned()), "{:?}", play.asked);
}

#[test]
fn transition_times_move_on_flips_only_and_last_through_a_restart() {
    let mut play = Play::new();
    let context = context(18, "stable");
    let graph = graph(&[("4.18.3", &["n1"])]);
    play.run(&context, Some(&graph), 1);
    let since = |play: &Play| {
        play.updates.lists().unwrap().1[0]
            .recommended()
            .unwrap()
            .last_transition_time
    };
    let first = since(&play);
    play.seconds = 1_000;
    play.run(&context, Some(&graph), 1);
    assert_eq!(since(&play), first);
    let mut restarted = Play::new();
    restarted.seconds = 2_000;
    restarted.updates.resume(play.updates.lists().unwrap().1);
    assert_eq!(restarted.updates.lists(), None);
    restarted.run(&context, Some(&graph), 1);
    assert_eq!(since(&restarted), first);
}

#[test]
fn the_service_is_asked_at_intervals_and_at_once_when_the_question_changes() {
    let mut play = Play::new();
    let stable = context(18, "stable");
    assert_eq!(play.run(&stable, Some(&graph(&[])), 1).len(), 1);
    play.seconds = 179;
    assert_eq!(play.run(&stable, None, 1), []);
    assert_eq!(play.run(&stable, Some(&graph(&[])), 1).len(), 1);
    assert_eq!(play.run(&context(18, "fast"), Some(&graph(&[])), 1).len(), 1);
    assert!(play.updates.answers(&question("fast")));
    assert!(!play.updates.answers(&question("stable")));
}

#[test]
fn an_answer_to_a_question_that_has_changed_is_thrown_away() {
    let mut updates = Updates::default();
    let mut told = Vec::new();
    assert_eq!(updates.advance(at(0), &context(18, "stable"), &mut told).len(), 1);
    let late = reply(&question("stable"), graph(&[]));
    updates.take_graph(at(1), &late, &context(18, "fast"), &mut told);
    assert_eq!(updates.lists(), None);
    assert_eq!(updates.advance(at(1), &context(18, "fast"), &mut told).len(), 1);
}

#[test]
fn an_answer_to_an_earlier_question_leaves_the_later_one_to_its_own() {
    let fast = context(18, "fast");
    let elsewhere = GraphQuery {
        service: "https://v.example.com/graph".to_owned(),
        ..question("fast")
    };
    let other_architecture = GraphQuery {
        architecture: "arm64".to_owned(),
        ..question("fast")
    };
    for earlier in [question("stable"), elsewhere, other_architecture] {
        let mut updates = Updates::default();
        let mut told = Vec::new();
        let before = UpdatesContext {
            question: earlier.clone(),
            ..context(18, "")
        };
        assert_eq!(updates.advance(at(0), &before, &mut told).len(), 1);
        assert_eq!(updates.advance(at(1), &fast, &mut told).len(), 1);
        updates.take_graph(at(2), &reply(&earlier, graph(&[])), &fast, &mut told);
        assert_eq!(
            updates.advance(at(2), &fast, &mut told),
            [],
            "it is under way still"
        );
        assert_eq!(updates.condition(), None);
        updates.take_graph(at(3), &reply(&fast.question, graph(&[])), &fast, &mut told);
        updates.advance(at(3), &fast, &mut told);
        assert!(updates.answers(&fast.question), "{earlier:?}");
    }
}

#[test]
fn a_failing_service_leaves_the_lists_for_a_day_from_4_18_on_and_none_before() {
    let down = GraphAnswer::Unreachable("down".to_owned());
    for (minor, kept) in [(18, true), (17, false)] {
        let mut play = Play::new();
        let context = context(minor, "stable");
        play.run(&context, Some(&graph(&[])), 1);
        play.seconds = 200;
        play.run(&context, Some(&down), 1);
        assert_eq!(play.said(), "False RemoteFailed");
        assert_eq!(play.lists().0.len(), usize::from(kept), "4.{minor}");
        play.seconds = 24 * 3_600 - 100;
        play.run(&context, Some(&down), 1);
        assert_eq!(play.lists().0.len(), usize::from(kept), "4.{minor}");
        play.seconds = 24 * 3_600 + 100;
        play.run(&context, Some(&down), 1);
        assert_eq!(play.lists().0.len(), 0, "4.{minor}");
    }
}

#[test]
fn other_failures_clear_the_lists_at_once() {
    for (channel, body, reason) in [
        ("", None, "NoChannel"),
        ("stable", Some(json!({"nodes": []})), "VersionNotFound"),
    ] {
        let mut play = Play::new();
        play.run(&context(18, "stable"), Some(&graph(&[("4.18.3", &["n1"])])), 1);
        play.seconds = 200;
        let answer = body.map(|body| GraphAnswer::ok(body.to_string()));
        play.run(&context(18, channel), answer.as_ref(), 1);
        assert_eq!(play.said(), format!("False {reason}"));
        assert_eq!(play.lists(), (vec![], vec![]));
    }
}

#[test]
fn accepted_risks_are_taken_up_at_once_and_what_applies_is_told() {
    let mut play = Play::new();
    let mut context = context(22, "stable");
    context.accepted = Some(BTreeSet::new());
    let graph = graph(&[("4.18.3", &["y1"])]);
    play.run(&context, Some(&graph), 1);
    assert_eq!(play.lists().1, ["4.18.3 False y1"]);
    context.accepted = Some(BTreeSet::from(["y1".to_owned()]));
    play.run(&context, None, 1);
    assert_eq!(
        play.lists(),
        (
            vec!["4.18.3".into(), "4.18.2".into()],
            vec!["4.18.3 True AllExposedRisksAccepted".into()]
        )
    );
    let (_, conditional) = play.updates.lists().unwrap();
    assert_eq!(conditional[0].risk_names, ["y1"]);
    let applies = conditional[0].risks[0].conditions.get(APPLIES).unwrap();
    assert_eq!(
        (applies.status, applies.reason.as_str()),
        (ConditionStatus::True, "Match")
    );
}

fn an_alert() -> SourcedRisk {
    SourcedRisk {
        risk: sources::certain("MyAlert", "It fires.", "https://e/a"),
        gated_only: false,
    }
}

fn with_risks_of_its_own(sourced: &[SourcedRisk]) -> UpdatesContext<'_> {
    UpdatesContext {
        accepted: Some(BTreeSet::new()),
        sourced,
        ..context(22, "stable")
    }
}

#[test]
fn the_clusters_own_risks_make_an_open_update_conditional() {
    let mut play = Play::new();
    let sourced = [an_alert()];
    let context = with_risks_of_its_own(&sourced);
    play.run(&context, Some(&graph(&[])), 1);
    assert_eq!(play.lists(), (vec![], vec!["4.18.2 False MyAlert".into()]));
    let quiet = UpdatesContext {
        sourced: &[],
        ..context
    };
    play.run(&quiet, None, 1);
    assert_eq!(play.lists(), (vec!["4.18.2".into()], vec![]));
}

#[test]
fn a_target_that_has_too_many_risks_with_the_clusters_own_is_dropped_and_told() {
    let sourced = [an_alert()];
    let context = with_risks_of_its_own(&sourced);
    for (of_the_graph, offered) in [(199, &["4.18.3", "4.18.2"][..]), (200, &["4.18.2"])] {
        let names: Vec<String> = (0..of_the_graph).map(|n| format!("n{n}")).collect();
        let queries: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut body: Value = match graph(&[("4.18.3", &queries)]) {
            GraphAnswer::Response { body, .. } => serde_json::from_slice(&body).unwrap(),
            other => panic!("{other:?}"),
        };
        for risk in body["conditionalEdges"][0]["risks"].as_array_mut().unwrap() {
            risk["matchingRules"] = json!([{"type": "Always"}]);
        }
        let mut updates = Updates::default();
        let mut told = Vec::new();
        updates.advance(at(0), &context, &mut told);
        let answer = reply(&context.question, GraphAnswer::ok(body.to_string()));
        updates.take_graph(at(0), &answer, &context, &mut told);
        updates.advance(at(0), &context, &mut told);
        let (available, conditional) = updates.lists().unwrap();
        let versions: Vec<&str> = conditional
            .iter()
            .map(|update| update.release.version.as_str())
            .collect();
        assert_eq!((available.len(), versions.as_slice()), (0, offered));
        assert!(conditional.iter().all(|update| update.risks.len() <= 200));
        let texts: Vec<String> = told.iter().map(ToString::to_string).collect();
        let expected = (of_the_graph == 200).then(|| {
            "Conditional update to 4.18.3 has more than 200 risks; dropping this target.".to_owned()
        });
        assert_eq!(texts, Vec::from_iter(expected));
    }
}

#[test]
fn a_target_whose_risk_is_no_reason_is_refused_where_the_name_is_the_reason() {
    let odd = graph(&[("4.18.3", &["n-1"])]);
    for (minor, offered) in [(15, 0), (16, 1)] {
        let mut play = Play::new();
        play.run(&context(minor, "stable"), Some(&odd), 1);
        assert_eq!(play.lists().1.len(), offered);
    }
}

#[test]
fn a_hosted_cluster_puts_its_id_into_queries() {
    let mut play = Play::new();
    let context = UpdatesContext {
        inject_cluster_id: true,
        ..context(18, "stable")
    };
    let odd = r#"n{_id=""}"#;
    let mut body: Value = match graph(&[("4.18.3", &["n"])]) {
        GraphAnswer::Response { body, .. } => serde_json::from_slice(&body).unwrap(),
        other => panic!("{other:?}"),
    };
    body["conditionalEdges"][0]["risks"][0]["matchingRules"][0]["promql"]["promql"] = json!(odd);
    play.run(&context, Some(&GraphAnswer::ok(body.to_string())), 1);
    assert_eq!(play.asked, [r#"n{_id="a93465d5-61b2-42cd-a10a-33840e6add93"}"#]);
}

#[test]
fn the_next_wake_is_the_next_fetch_or_the_end_of_a_throttle() {
    let mut play = Play::new();
    let context = context(18, "stable");
    play.run(&context, Some(&graph(&[("4.18.3", &["n1", "n2"])])), 1);
    assert_eq!(play.updates.wake_at(at(0), &context), Some(at(1)));
    play.run(&context, None, 2);
    assert_eq!(play.lists().1, ["4.18.3 True NotExposedToRisks"]);
    assert_eq!(play.updates.wake_at(at(2), &context), Some(at(180)));
}

#[test]
fn statuses_round_trip() {
    let mut play = Play::new();
    play.run(&context(18, "stable"), Some(&graph(&[("4.18.3", &["y1"])])), 1);
    let update = &play.updates.lists().unwrap().1[0];
    let written = serde_json::to_value(update).unwrap();
    assert_eq!(
        serde_json::from_value::<ConditionalUpdate>(written).unwrap(),
        *update
    );
}
