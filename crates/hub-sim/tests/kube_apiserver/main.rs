//! The simulated hub beside a real kube-apiserver: the same random sequences of requests go to both, with open watches beside,
//! and every answer and every event must be equal.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compare;
mod objects;
mod side;
mod steps;

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use hub_sim::{Hub, Options, Service};
use kube::Client;
use testenv::hub::Controllers;

use crate::side::Side;
use crate::steps::Random;

/// Sequences; each is a world of its own, with its own namespace and names.
const SEQUENCES: u64 = 2_000;
const CONCURRENCY: usize = 8;
/// Differences that are printed.
const MAX_SHOWN: usize = 12;

fn simulated() -> Client {
    let hub = Hub::new(Options::default());
    let client = Client::new(Service::new(&hub, "admin"), "default");
    let collector = hub.clone();
    tokio::spawn(async move {
        let mut news = collector.subscribe();
        while news.changed().await.is_ok() {
            if !collector.read(hub_sim::State::is_collected) {
                collector.collect_garbage();
            }
        }
    });
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_sequences_of_requests_are_answered_as_by_a_real_api_server() {
    let controllers = Controllers::named(&["garbage-collector-controller", "namespace-controller"]);
    let builder = testenv::Hub::builder().ocm_crds().controller_manager(controllers);
    let real = builder.start().await.unwrap();
    let crds: Vec<_> = api::schema::crds()
        .iter()
        .map(|crd| serde_json::to_value(crd).unwrap())
        .collect();
    testenv::apply::apply_objects(real.client(), &crds).await.unwrap();
    let clients = Arc::new((simulated(), real.client().clone()));
    let wanted = std::env::var("MCU_CONFORMANCE_SEED")
        .ok()
        .and_then(|seed| seed.parse::<u64>().ok());
    let seeds = wanted.map_or(0..SEQUENCES, |seed| seed..seed + 1);
    let found: Vec<String> = stream::iter(seeds)
        .map(|seed| {
            let clients = Arc::clone(&clients);
            async move { run(seed, &clients.0, &clients.1).await }
        })
        .buffer_unordered(CONCURRENCY)
        .filter_map(|difference| async { difference })
        .take(MAX_SHOWN)
        .collect()
        .await;
    assert!(
        found.is_empty(),
        "{} differences:\n\n{}",
        found.len(),
        found.join("\n\n")
    );
    real.stop().await.unwrap();
}

/// Plays a sequence on both sides. Returns the first difference.
async fn run(seed: u64, simulated: &Client, real: &Client) -> Option<String> {
    let mut random = Random::new(seed);
    let mut sim = Side::start(simulated.clone(), seed).await;
    let mut real = Side::start(real.clone(), seed).await;
    let mut story = Vec::new();
    for _ in 0..random.between(6, 18) {
        let step = steps::draw(&mut random);
        story.push(format!("{step:?}"));
        let (one, two) = (sim.play(&step).await, real.play(&step).await);
        if let Some(difference) = compare::answers(&one, &two) {
            return Some(format!("seed {seed}:\n  {}\n{difference}", story.join("\n  ")));
        }
    }
    let (one, two) = (sim.events().await, real.events().await);
    compare::events(&one, &two)
        .map(|difference| format!("seed {seed}, events:\n  {}\n{difference}", story.join("\n  ")))
}
