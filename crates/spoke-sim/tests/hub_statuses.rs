//! The shipped schemas accept every status that the model can produce, and keep all of it.
//!
//! Operators of all release lines run through invented but possible situations. Each status goes through the status
//! subresource of a real API server and comes back equal.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use cvo_model::testing::Scenario;
use futures::{StreamExt as _, stream};
use kube::api::{Api, DynamicObject, PostParams};
use serde_json::{Value, json};
use spoke_sim::spoke::kinds;
use testenv::Hub;
use testenv::crds::{FeatureSet, openshift_crds};

/// Operators of one release line.
const SEEDS: u64 = 4;
/// Number of steps of one operator, enough for all situations to occur.
const STEPS: usize = 75;
/// The status is written once per this number of steps.
const WRITTEN: usize = 3;
const CONCURRENCY: usize = 6;

/// Runs operators of these release lines through random situations; returns which situations to be covered occurred.
async fn all_are_kept(
    features: FeatureSet,
    lines: impl Iterator<Item = u64>,
    gate: bool,
) -> BTreeSet<String> {
    let hub = Hub::builder().start().await.unwrap();
    let crds = openshift_crds(features).await.unwrap();
    testenv::apply::apply_objects(hub.client(), &crds).await.unwrap();
    let versions: Api<DynamicObject> = Api::all_with(hub.client().clone(), &kinds::cluster_version());
    let operators: Vec<(u64, u64)> = lines
        .flat_map(|line| (0..SEEDS).map(move |seed| (line, seed)))
        .collect();
    let seen = stream::iter(operators)
        .map(|(line, seed)| one_is_kept(&versions, line, seed, gate))
        .buffer_unordered(CONCURRENCY)
        .collect::<Vec<BTreeSet<String>>>()
        .await;
    hub.stop().await.unwrap();
    seen.into_iter().flatten().collect()
}

async fn one_is_kept(versions: &Api<DynamicObject>, line: u64, seed: u64, gate: bool) -> BTreeSet<String> {
    let name = format!("of-4.{line}-{seed}");
    let mut scenario = Scenario::new(seed, line, gate);
    let mut found = BTreeSet::new();
    let mut last: Option<DynamicObject> = None;
    for step in 0..STEPS {
        let object = scenario.step();
        if step % WRITTEN != 0 {
            continue;
        }
        let made = serde_json::to_value(object).unwrap();
        let what = || format!("{name}, step {step}: {made:#}");
        let mut object: DynamicObject = serde_json::from_value(made.clone()).unwrap();
        object.metadata = kube::api::ObjectMeta::default();
        object.metadata.name = Some(name.clone());
        let params = PostParams::default();
        let stored = match &last {
            None => versions.create(&params, &object).await,
            Some(last) => {
                object.metadata.resource_version = last.metadata.resource_version.clone();
                versions.replace(&name, &params, &object).await
            }
        };
        object.metadata.resource_version = stored
            .unwrap_or_else(|error| panic!("the spec is refused: {error}: {}", what()))
            .metadata
            .resource_version;
        versions
            .replace_status(&name, &params, &object)
            .await
            .unwrap_or_else(|error| panic!("the status is refused: {error}: {}", what()));
        let read = versions.get(&name).await.unwrap();
        assert_eq!(read.data["status"], made["status"], "{}", what());
        note(&made, &mut found);
        last = Some(read);
    }
    found
}

/// Which parts of a status there are, and which reasons of its conditions.
fn note(object: &Value, seen: &mut BTreeSet<String>) {
    let status = object["status"].as_object().unwrap();
    let is_filled = |value: &Value| value.as_array().is_none_or(|list| !list.is_empty()) && !value.is_null();
    let parts = status.iter().filter(|(_, value)| is_filled(value));
    seen.extend(parts.map(|(name, _)| name.clone()));
    for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
        seen.insert(format!(
            "{} {}",
            text(condition, "type"),
            text(condition, "status")
        ));
    }
    for update in object["status"]["conditionalUpdates"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let condition = &update["conditions"][0];
        seen.insert(format!(
            "{} {}",
            text(condition, "type"),
            text(condition, "status")
        ));
    }
    for entry in object["status"]["history"].as_array().into_iter().flatten() {
        seen.insert(format!("history {}", text(entry, "state")));
        if entry["acceptedRisks"] != json!(null) {
            seen.insert("history acceptedRisks".to_owned());
        }
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// What any cluster may show; without all of it the circumstances were too tame to prove anything.
const COVERED: [&str; 14] = [
    "availableUpdates",
    "conditionalUpdates",
    "Recommended True",
    "Recommended False",
    "Recommended Unknown",
    "Invalid True",
    "Upgradeable False",
    "RetrievedUpdates False",
    "ReleaseAccepted False",
    "ReleaseAccepted Unknown",
    "Failing True",
    "Progressing True",
    "history Completed",
    "history acceptedRisks",
];

fn is_covered(seen: &BTreeSet<String>, wanted: &[&str]) {
    let missing: Vec<_> = wanted.iter().filter(|part| !seen.contains(**part)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?} among {seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_schema_keeps_every_status_of_all_release_lines() {
    let seen = all_are_kept(FeatureSet::Default, 10..24, false).await;
    is_covered(&seen, &COVERED);
    assert!(!seen.contains("conditionalUpdateRisks"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_preview_schema_keeps_every_status_with_accepted_risks() {
    let seen = all_are_kept(FeatureSet::TechPreview, 22..26, true).await;
    is_covered(&seen, &COVERED);
    is_covered(&seen, &["conditionalUpdateRisks"]);
}
