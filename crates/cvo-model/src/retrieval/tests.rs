use serde_json::{Value, json};

use super::*;

const CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";

fn question() -> GraphQuery {
    GraphQuery {
        service: "https://updates.example.com/graph".to_owned(),
        architecture: "amd64".to_owned(),
        current_architecture: "amd64".to_owned(),
        channel: "stable-4.14".to_owned(),
        cluster_id: "a93465d5-61b2-42cd-a10a-33840e6add93".to_owned(),
        version: "4.14.1".to_owned(),
    }
}

fn node(version: &str) -> Value {
    json!({"version": version, "payload": format!("image/{version}"), "metadata": {}})
}

fn rule(kind: &str) -> Value {
    match kind {
        "Always" => json!({"type": "Always"}),
        "PromQL" => json!({"type": "PromQL", "promql": {"promql": "up"}}),
        other => json!({"type": other}),
    }
}

fn risk(name: &str, rules: &[&str]) -> Value {
    let rules: Vec<Value> = rules.iter().map(|kind| rule(kind)).collect();
    json!({"url": "https://e", "name": name, "message": "m", "matchingRules": rules})
}

fn group(to: &[&str], risks: &[Value]) -> Value {
    let edges: Vec<Value> = to.iter().map(|to| json!({"from": "4.14.1", "to": to})).collect();
    json!({"edges": edges, "risks": risks})
}

fn answer(graph: &Value) -> Result<Retrieved, RetrievalFailure> {
    read(&question(), &GraphAnswer::ok(graph.to_string()))
}

fn versions(retrieved: &Retrieved) -> (Vec<&str>, Vec<&str>) {
    let open = retrieved.updates.iter().map(|release| release.version.as_str());
    let conditional = retrieved
        .conditional
        .iter()
        .map(|update| update.release.version.as_str());
    (open.collect(), conditional.collect())
}

#[test]
fn the_query_adds_four_parameters_to_those_there_are() {
    let url = |edit: &dyn Fn(&mut GraphQuery)| {
        let mut question = question();
        edit(&mut question);
        question.url().unwrap()
    };
    assert_eq!(
        url(&|_| ()),
        "https://updates.example.com/graph?arch=amd64&channel=stable-4.14&id=a93465d5-61b2-42cd-a10a-33840e6add93&version=4.14.1"
    );
    let with = url(&|question| {
        question.service = "https://u.example.com/graph?token=a%20b&arch=x".to_owned();
        question.architecture = MULTI.to_owned();
        question.version = "4.14.1+build".to_owned();
    });
    assert_eq!(
        with,
        "https://u.example.com/graph?arch=x&arch=multi&channel=stable-4.14&id=a93465d5-61b2-42cd-a10a-33840e6add93&token=a+b&version=4.14.1%2Bbuild"
    );
}

/// Fixes one property of a request.
type Repair = fn(&mut GraphQuery);

#[test]
fn what_is_missing_is_named_in_the_shipped_order() {
    let blank = GraphQuery::default();
    let steps: [(&str, &str, Repair); 7] = [
        (
            "NoUpstream",
            "No updateService server has been set to retrieve updates.",
            |q| q.service = "://".into(),
        ),
        (
            "InvalidURI",
            "failed to parse update service URL: parse \"://\": relative URL without a base",
            |q| q.service = "https://u".into(),
        ),
        ("InvalidID", "invalid cluster ID: invalid UUID length: 0", |q| {
            q.cluster_id = "a93465d5-61b2-42cd-a10a-33840e6add93".into();
        }),
        ("NoArchitecture", "Architecture has not been configured.", |q| {
            q.architecture = "amd64".into();
        }),
        (
            "NoCurrentVersion",
            "The cluster version does not have a semantic version assigned and cannot calculate valid upgrades.",
            |q| q.version = "nightly".into(),
        ),
        ("NoChannel", "The update channel has not been configured.", |q| {
            q.channel = "stable-4.14".into();
        }),
        (
            "InvalidCurrentVersion",
            "The current cluster version is not a valid semantic version and cannot be used to calculate upgrades.",
            |q| q.version = "4.14.1".into(),
        ),
    ];
    let mut question = blank;
    for (reason, message, repair) in steps {
        let failure = question.url().unwrap_err();
        assert_eq!((failure.reason, failure.message.as_str()), (reason, message));
        assert!(!failure.is_of_service());
        repair(&mut question);
    }
    assert!(question.url().is_ok());
}

#[test]
fn failures_of_the_service_have_their_reason_and_text() {
    let response = |status, text: &str, body: &str| GraphAnswer::Response {
        status,
        status_text: text.to_owned(),
        body: body.into(),
    };
    for (answer, reason, message) in [
        (
            GraphAnswer::Unreachable("dial tcp: lookup u: no such host".to_owned()),
            "RemoteFailed",
            "Unable to retrieve available updates: dial tcp: lookup u: no such host",
        ),
        (
            response(500, "500 Internal Server Error", ""),
            "ResponseFailed",
            "Unable to retrieve available updates: unexpected HTTP status: 500 Internal Server Error",
        ),
        (
            GraphAnswer::Broken("unexpected EOF".to_owned()),
            "ResponseFailed",
            "Unable to retrieve available updates: unexpected EOF",
        ),
        (
            GraphAnswer::ok(json!({"nodes": [node("4.14.2")], "edges": []}).to_string()),
            "VersionNotFound",
            "Unable to retrieve available updates: currently reconciling cluster version 4.14.1 not found in the \"stable-4.14\" channel",
        ),
        (
            GraphAnswer::ok(
                json!({"nodes": [node("4.14.1")], "edges": [], "conditionalEdges": [group(&["4.14.9"], &[risk("R", &["Always"])])]})
                    .to_string(),
            ),
            "ResponseInvalid",
            "Unable to retrieve available updates: no node for conditional update 4.14.9",
        ),
    ] {
        let failure = read(&question(), &answer).unwrap_err();
        assert_eq!((failure.reason, failure.message.as_str()), (reason, message));
    }
    for body in [
        "<html>".to_owned(),
        json!({"nodes": [node("v4.14.1")]}).to_string(),
        json!({"nodes": [node("4-14-1+0.1")]}).to_string(),
        json!({"nodes": [node("4.14.1")], "edges": [[0, 0, 0]]}).to_string(),
        json!({"nodes": [node("4.14.1")], "edges": [[0, 7]]}).to_string(),
    ] {
        let failure = read(&question(), &GraphAnswer::ok(body.clone())).unwrap_err();
        assert_eq!(failure.reason, "ResponseInvalid", "{body}");
    }
}

#[test]
fn only_direct_edges_count_and_builds_are_ignored_for_the_running_version() {
    let graph = json!({
        "nodes": [node("4.14.3"), node("4.14.1+amd64"), node("4.14.2"), node("4.14.1")],
        "edges": [[1, 0], [1, 2], [0, 2], [3, 0]],
    });
    let retrieved = answer(&graph).unwrap();
    assert_eq!(retrieved.current.version, "4.14.1+amd64");
    assert_eq!(versions(&retrieved), (vec!["4.14.3", "4.14.2"], vec![]));
}

#[test]
fn metadata_give_url_architecture_and_sorted_channels_and_a_bad_one_costs_the_fetch() {
    let with = |metadata: Value| {
        let mut target = node("4.14.2");
        target["metadata"] = metadata;
        answer(&json!({"nodes": [node("4.14.1"), target], "edges": [[0, 1]]}))
    };
    let good = with(json!({
        "url": "https://access.redhat.com/errata/1",
        CHANNELS: "stable-4.14,candidate-4.14",
        "release.openshift.io/architecture": "multi",
        "anything": [1],
    }));
    let release = &good.unwrap().updates[0];
    assert_eq!(release.channels, ["candidate-4.14", "stable-4.14"]);
    assert_eq!(
        (release.architecture.as_str(), release.url.as_str()),
        ("Multi", "https://access.redhat.com/errata/1")
    );
    for (bad, why) in [
        (json!({"url": 1}), "URL is not a string: 1"),
        (
            json!({CHANNELS: ""}),
            "io.openshift.upgrades.graph.release.channels is an empty string",
        ),
        (
            json!({CHANNELS: "a,,b"}),
            "io.openshift.upgrades.graph.release.channels entry 1 is an empty string: \"a,,b\"",
        ),
        (
            json!({"release.openshift.io/architecture": "arm64"}),
            "unrecognized release.openshift.io/architecture value \"arm64\"",
        ),
    ] {
        let failure = with(bad).unwrap_err();
        assert_eq!(failure.reason, "ResponseInvalid");
        assert_eq!(
            failure.message,
            format!("Unable to retrieve available updates: invalid recommended update node: {why}")
        );
    }
}

#[test]
fn a_migration_to_all_architectures_offers_the_same_version_only() {
    let graph = json!({"nodes": [node("4.14.1"), node("4.14.2")], "edges": [[0, 1]]});
    let migrating = GraphQuery {
        architecture: MULTI.to_owned(),
        ..question()
    };
    let retrieved = read(&migrating, &GraphAnswer::ok(graph.to_string())).unwrap();
    assert_eq!(versions(&retrieved), (vec!["4.14.1"], vec![]));
}

#[test]
fn targets_that_cannot_be_offered_are_dropped_and_told() {
    let always = || risk("R", &["Always"]);
    let nodes: Vec<Value> = (1..9).map(|z| node(&format!("4.14.{z}"))).collect();
    let graph = json!({
        "nodes": nodes,
        "edges": [[0, 1], [0, 2], [0, 5]],
        "conditionalEdges": [
            group(&["4.14.2", "4.14.4"], &[always()]),
            group(&["4.14.4"], &[risk("S", &["Always"])]),
            group(&["4.14.5"], &[always(), risk("CEL", &["CEL"])]),
            group(&["4.14.6"], &[risk("CEL", &["CEL"])]),
            group(&["4.14.7"], &[risk("Mixed", &["CEL", "PromQL"])]),
            group(&["4.14.8"], &[always(), always()]),
            {"edges": [{"from": "4.14.1", "to": "4.14.3"}], "risks": []},
            {"edges": [{"from": "4.14.1+amd64", "to": "4.14.9"}], "risks": [always()]},
        ],
    });
    let retrieved = answer(&graph).unwrap();
    // 4.14.6 goes with its conditional edge although an unconditional one exists: the client takes that out first.
    assert_eq!(versions(&retrieved), (vec![], vec!["4.14.2", "4.14.7"]));
    assert_eq!(retrieved.conditional[1].risks[0].matching_rules.len(), 1);
    let told: Vec<String> = retrieved.diagnostics.iter().map(ToString::to_string).collect();
    let expected = [
        "Update to 4.14.2 listed as both a conditional and unconditional update; preferring the conditional update.",
        "Update to 4.14.3 listed as both a conditional and unconditional update; preferring the conditional update.",
        "Update to 4.14.6 listed as both a conditional and unconditional update; preferring the conditional update.",
        "Conditional update to 4.14.5, risk \"CEL\", has empty pruned matchingRules; dropping this target to avoid rejections when pushing to the Kubernetes API server. Pruning results: skipping unrecognized cluster condition type \"CEL\"",
        "Conditional update to 4.14.6, risk \"CEL\", has empty pruned matchingRules; dropping this target to avoid rejections when pushing to the Kubernetes API server. Pruning results: skipping unrecognized cluster condition type \"CEL\"",
        "Conditional update to 4.14.7, risk \"Mixed\", has pruned matchingRules (although other valid, recognized matchingRules were given, and are sufficient to keep the conditional update): skipping unrecognized cluster condition type \"CEL\"",
        "Upstream declares 2 conditional updates to 4.14.4; dropping them all.",
        "Conditional update to 4.14.8 has several risks named \"R\"; dropping this target.",
        "Conditional update to 4.14.3 has no risks; dropping this target.",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_rule_that_lacks_a_field_costs_its_target_and_not_the_graph() {
    let with = |rule: Value| {
        let bad = json!({"url": "https://e", "name": "R", "message": "m", "matchingRules": [rule]});
        let graph = json!({
            "nodes": [node("4.14.1"), node("4.14.2"), node("4.14.3")],
            "edges": [[0, 1]],
            "conditionalEdges": [
                group(&["4.14.3"], std::slice::from_ref(&bad)),
                {"edges": [{"from": "4.13.0", "to": "4.14.1"}], "risks": [bad]},
            ],
        });
        answer(&graph).unwrap()
    };
    for (rule, why) in [
        (
            json!({"type": "PromQL", "promql": {}}),
            "the 'promql.promql' property must be a non-empty string for 'type: PromQL'",
        ),
        (
            json!({"type": "PromQL", "promql": {"promql": null}}),
            "the 'promql.promql' property must be a non-empty string for 'type: PromQL'",
        ),
        (
            json!({"type": "PromQL", "promql": null}),
            "the 'promql' property must be set for 'type: PromQL'",
        ),
        (
            json!({"promql": {"promql": "up"}}),
            "skipping unrecognized cluster condition type \"\"",
        ),
        (json!({}), "skipping unrecognized cluster condition type \"\""),
    ] {
        let retrieved = with(rule.clone());
        assert_eq!(versions(&retrieved), (vec!["4.14.2"], vec![]), "{rule}");
        let told: Vec<String> = retrieved.diagnostics.iter().map(ToString::to_string).collect();
        assert!(told[0].ends_with(why), "{rule}: {told:?}");
    }
}

#[test]
fn nulls_are_read_as_blanks() {
    let mut bare = node("4.14.2");
    bare["metadata"] = Value::Null;
    bare["payload"] = Value::Null;
    let always = json!({"url": "https://e", "name": "R", "message": "m",
        "matchingRules": [{"type": "Always", "promql": null}]});
    let graph = json!({
        "nodes": [node("4.14.1"), bare, node("4.14.3"), node("4.14.4")],
        "edges": [[0, 1]],
        "conditionalEdges": [
            {"edges": null, "risks": null},
            {"edges": [{"from": "4.14.1", "to": "4.14.3"}], "risks": [always]},
            {"edges": [{"from": "4.14.1", "to": "4.14.4"}], "risks": [{"name": "S", "matchingRules": null}]},
            {"edges": [{"from": null, "to": null}]},
        ],
    });
    let retrieved = answer(&graph).unwrap();
    assert_eq!(versions(&retrieved), (vec!["4.14.2"], vec!["4.14.3"]));
    let empty = json!({"nodes": [node("4.14.1")], "edges": null, "conditionalEdges": null});
    assert_eq!(versions(&answer(&empty).unwrap()), (vec![], vec![]));
    let none = answer(&json!({"nodes": null, "edges": null}));
    assert_eq!(none.unwrap_err().reason, "VersionNotFound");
}
