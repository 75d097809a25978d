use std::time::Duration;

use serde_json::json;

use super::*;
use crate::cluster::Cluster;
use crate::fault::Simulator;
use crate::fields::from_unix;
use crate::platform::Pace;
use crate::platform::cvo::{Installation, key};
use crate::seeded_rng::SeededRng;

/// What a cluster at 4.16.20 that offers 4.17.9 says with these faults: versions without and with risks, the status and reason of
/// Upgradeable, and the gates.
fn said(faults: &str, acks: &Value) -> (Vec<String>, Vec<String>, (String, String), Value) {
    let installation = Installation {
        cluster_id: "94e170c1-7a3c-4ae1-a85d-8bd904ad783f".to_owned(),
        version: "4.16.20".to_owned(),
        channel: "stable-4.17".to_owned(),
        updates: vec!["4.16.9".to_owned(), "4.17.9".to_owned()],
    };
    let now = from_unix(1_800_000_000);
    let mut cluster = Cluster::new("c", Some(&installation), SeededRng::new(1), now);
    cluster.faults = Faults::parse(faults, Simulator::Agents).unwrap();
    let map = |(namespace, name)| ObjectKey::new("", "configmaps", namespace, name);
    cluster
        .edit(&map(ACKS), "oc", |live| live["data"] = acks.clone())
        .unwrap();
    cluster.advance(&Pace::scaled(1.0, Duration::from_hours(1)), now);
    let object = cluster.store.get(&key()).unwrap();
    let list = |path: [&str; 2], field: &[&str]| -> Vec<String> {
        let list = fields::list(&object, &path).iter();
        list.map(|one| fields::text(one, field).to_owned()).collect()
    };
    let conditions = fields::list(&object, &["status", "conditions"]);
    let upgradeable = conditions
        .iter()
        .find(|condition| fields::text(condition, &["type"]) == "Upgradeable");
    let told = |field: &str| upgradeable.map_or(String::new(), |one| fields::text(one, &[field]).to_owned());
    (
        list(["status", "availableUpdates"], &["version"]),
        list(["status", "conditionalUpdates"], &["release", "version"]),
        (told("status"), told("reason")),
        cluster.store.get(&map(GATES)).unwrap()["data"].clone(),
    )
}

#[test]
fn newer_versions_are_offered_before_anybody_asks_unless_a_fault_prevents_it() {
    let target = || vec!["4.17.9".to_owned()];
    for (faults, available, conditional) in [
        ("none", target(), Vec::new()),
        ("risk=Leak: It leaks.", Vec::new(), target()),
        ("unoffered", Vec::new(), Vec::new()),
        ("not-in-channel", Vec::new(), Vec::new()),
        ("update-service-outage", Vec::new(), Vec::new()),
    ] {
        let (shown, with_risks, _, _) = said(faults, &json!({}));
        assert_eq!((shown, with_risks), (available, conditional), "{faults}");
    }
}

#[test]
fn a_refusal_for_want_of_an_acknowledgment_has_a_gate_and_ends_with_its_key() {
    let faults = "refusing=AdminAckRequired: APIs are removed.";
    let key = "ack-4.16-removals-in-4.17";
    let (_, _, upgradeable, gates) = said(faults, &json!({"ack-4.15-removals-in-4.16": "true"}));
    assert_eq!(upgradeable, ("False".to_owned(), "AdminAckRequired".to_owned()));
    assert_eq!(gates, json!({ key: "APIs are removed." }));
    let (_, _, upgradeable, _) = said(faults, &json!({ key: "true" }));
    assert_eq!(upgradeable, (String::new(), String::new()));
    let (_, _, upgradeable, gates) = said("refusing", &json!({}));
    assert_eq!(upgradeable.1, "IncompatibleOperatorsInstalled");
    assert_eq!(gates, json!({}));
}
