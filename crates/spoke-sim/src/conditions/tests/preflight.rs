//! What clusters are asked before an update, on recorded objects: the answers by rule are what the whole object says.

use clusterversion::preflight::pools::{paused_rule, pools_rule, read_paused, read_pools};
use clusterversion::preflight::recipe::{
    Rule, acks_rule, gates_rule, history_rule, offer_rule, read_gates, read_history, read_offer,
};
use clusterversion::preflight::{Facts, Offer};
use clusterversion::types::read_documents;
use repository::data;
use serde_json::{Value, json};

use super::{Status, verdict};

/// The answer to a rule.
fn answer(object: &Value, rule: &Rule) -> String {
    let rule = json!({
        "condition": rule.condition, "type": "CEL", "celExpressions": ["true"], "messageExpression": rule.message,
    });
    let (status, _, message) = verdict(object, rule).unwrap();
    assert_eq!(status, Status::True, "{message}");
    message
}

/// The files of a directory.
fn texts(directory: &std::path::Path) -> Vec<String> {
    let files = std::fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// Compares the answer on every listed version with the whole object. Returns how many have risks.
fn offers_are_told(texts: &[String]) -> usize {
    let mut with_risks = 0;
    let objects = texts.iter().flat_map(|text| read_documents(text).unwrap());
    for object in objects {
        let whole = serde_json::to_value(&object).unwrap();
        let status = &object.status;
        let conditional = status.conditional_updates.iter().map(|update| &update.release);
        let listed = status.available_updates.iter().chain(conditional);
        for version in listed.map(|release| release.version.as_str()).chain(["9.9.9"]) {
            let told = read_offer(&answer(&whole, &offer_rule(version))).unwrap();
            assert_eq!(told, shortened(Offer::of(&object, version)), "{version}");
            with_risks += usize::from(matches!(told, Offer::Conditional { .. }));
        }
    }
    with_risks
}

#[test]
fn the_past_by_rule_is_that_of_the_whole_object() {
    let mut directories = vec![data::sample("clusterversions")];
    directories.extend(data::directory("clusterversions"));
    let mut updates = 0;
    for text in directories.iter().flat_map(|directory| texts(directory)) {
        for object in read_documents(&text).unwrap() {
            let whole = serde_json::to_value(&object).unwrap();
            let told = read_history(&answer(&whole, &history_rule())).unwrap();
            let mut known = Facts::of(&object, None, "").history.unwrap();
            known.truncate(8);
            assert_eq!(told, known);
            updates += told.len();
        }
    }
    assert!(updates > 0);
}

/// The offer with the texts of its risks as they are told.
fn shortened(mut offer: Offer) -> Offer {
    if let Offer::Conditional { risks, .. } = &mut offer {
        for risk in risks {
            risk.message = risk.message.replace('\n', " ").chars().take(300).collect();
        }
    }
    offer
}

#[test]
fn an_offer_by_rule_is_the_offer_of_the_whole_object() {
    let samples = texts(&data::sample("clusterversions"));
    assert_eq!(offers_are_told(&samples), 4);
}

#[test]
fn an_offer_by_rule_is_the_offer_of_the_whole_real_object() {
    let Some(directory) = data::directory("clusterversions") else {
        return;
    };
    let with_risks = offers_are_told(&texts(&directory));
    assert!(with_risks > 50, "{with_risks}");
}

#[test]
fn lists_that_are_null_or_missing_offer_nothing_and_an_object_without_status_gives_no_answer() {
    let rule = offer_rule("4.20.4");
    for status in [
        json!({}),
        json!({"availableUpdates": null, "conditionalUpdates": null}),
    ] {
        assert_eq!(
            read_offer(&answer(&json!({"status": status}), &rule)),
            Ok(Offer::NotListed)
        );
    }
    let (_, _, message) = verdict(
        &json!({}),
        json!({"condition": "X", "type": "CEL", "celExpressions": ["true"], "messageExpression": rule.message}),
    )
    .unwrap();
    assert!(read_offer(&message).is_err(), "{message}");
}

#[test]
fn gates_of_the_line_before_the_target_are_told_in_order_with_their_texts() {
    let told = |gates: Value, acks: Value| {
        let gates = answer(&gates, &gates_rule("4.20.4").unwrap());
        let acks = answer(&acks, &acks_rule("4.20.4").unwrap());
        let found = read_gates(&gates, Some(&acks)).map_err(|why| format!("{why:?}"))?;
        let lines = found.iter().map(|gate| format!("{}: {}", gate.key, gate.text));
        Ok::<_, String>(lines.collect::<Vec<_>>().join("; "))
    };
    let none = json!({});
    let data = |keys: &[&str], value: &str| {
        let keys = keys.iter().map(|key| ((*key).to_owned(), json!(value)));
        json!({"data": keys.collect::<serde_json::Map<_, _>>()})
    };
    let gates = data(
        &[
            "ack-4.19-d",
            "ack-4.19-b",
            "ack-4.18-x",
            "ack-4.19-a",
            "ack-4.19-c",
        ],
        "One\nTwo",
    );
    for data in [none.clone(), json!({"data": null}), json!({"data": {}})] {
        assert_eq!(told(data, none.clone()), Ok(String::new()));
    }
    assert_eq!(
        told(gates.clone(), none.clone()).unwrap(),
        "ack-4.19-a: One Two; ack-4.19-b: One Two; ack-4.19-c: One Two; ack-4.19-d: One Two"
    );
    let acks = data(&["ack-4.19-b", "ack-4.19-d", "ack-4.8-x"], "true");
    assert_eq!(
        told(gates.clone(), acks).unwrap(),
        "ack-4.19-a: One Two; ack-4.19-c: One Two"
    );
    assert_eq!(
        told(data(&["ack-4.19-a"], "One"), data(&["ack-4.19-a"], "false")).unwrap(),
        "ack-4.19-a: One",
        "only true acknowledges"
    );
    let five = data(
        &[
            "ack-4.19-a",
            "ack-4.19-b",
            "ack-4.19-c",
            "ack-4.19-d",
            "ack-4.19-e",
        ],
        "One",
    );
    assert!(told(five, none).is_err(), "one of them is not told");
}

#[test]
fn pools_are_counted_by_what_the_machine_config_operator_says_of_them() {
    let told = |extension: Value| {
        let versions =
            json!([{"name": "operator", "version": "4.20.4"}, {"name": "operator-image", "version": "x"}]);
        let object = json!({"status": {"versions": versions, "extension": extension}});
        answer(&object, &pools_rule())
    };
    let all = told(json!({
        "master": "<unknown>", "arbiter": "<unknown>", "lastSyncError": "pool master has not progressed",
        "worker": "all 0 nodes are at latest configuration rendered-worker-1",
        "infra": "3 (ready 2) out of 9 nodes are updating to latest configuration rendered-infra-2",
        "gpu": "<unknown>",
        "zoo": "pool is degraded because nodes fail with \"1 nodes are reporting degraded status on sync\"",
        "app": "something new",
        "web": "2 (ready 2) out of 3 nodes are updating to latest configuration rendered-web-2",
    }));
    assert_eq!(
        all,
        "pools/1\nversion 4.20.4\ntold\ndegraded 1 zoo\npaused 1 gpu\nupdating 3 app web\nupdated 1 worker"
    );
    let pools = read_pools(&all).unwrap();
    assert_eq!(pools.groups.iter().map(|group| group.count).sum::<usize>(), 6);
    assert_eq!(told(json!({"master": "x"})), "pools/1\nversion 4.20.4\ntold");
    for untold in [
        json!(null),
        json!({}),
        json!({"worker": "all 2 nodes are at latest configuration x"}),
    ] {
        assert_eq!(told(untold), "pools/1\nversion 4.20.4");
    }
    assert_eq!(answer(&json!({"status": {}}), &pools_rule()), "pools/1");
}

#[test]
fn a_pool_with_nodes_tells_that_it_is_paused() {
    let told = |spec: Value, status: Value| {
        let pool = json!({"spec": spec, "status": status});
        read_paused(&answer(&pool, &paused_rule()))
    };
    let nodes = |count: i64| json!({"machineCount": count});
    assert_eq!(told(json!({"paused": true}), nodes(3)), Ok(true));
    assert_eq!(
        told(json!({"paused": true}), json!({})),
        Ok(true),
        "how many nodes it has is not known"
    );
    assert_eq!(told(json!({"paused": true}), nodes(0)), Ok(false));
    for spec in [json!({}), json!({"paused": false})] {
        assert_eq!(told(spec, nodes(3)), Ok(false));
    }
}
