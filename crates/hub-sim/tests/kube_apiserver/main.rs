//! The simulated hub beside a real kube-apiserver: the same random sequences of requests go to both, with open watches beside,
//! and every answer and every event must be equal.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compare;
mod fixed;
mod objects;
mod odd;
mod random;
mod requests;
mod sequence;
mod side;
mod steps;
mod upgrades;
mod watches;

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use hub_sim::{Hub, Options, Service};
use kube::Client;
use testenv::hub::Controllers;

use crate::sequence::Server;

/// Sequences; each is a world of its own, with its own namespace and names.
const SEQUENCES: u64 = 2_000;
const CONCURRENCY: usize = 8;
/// Differences that are printed.
const MAX_SHOWN: usize = 80;

fn simulated() -> (Hub, Client) {
    let hub = Hub::new(Options {
        history: 1_000_000,
        ..Options::default()
    });
    let client = Client::new(Service::new(&hub, "admin"), "default");
    tokio::spawn(hub.clone().keep_collecting_garbage());
    (hub, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_sequences_of_requests_are_answered_as_by_a_real_api_server() {
    let controllers = Controllers::named(&["garbage-collector-controller", "namespace-controller"]);
    let builder = testenv::Hub::builder().ocm_crds().controller_manager(controllers);
    let real_hub = builder.start().await.unwrap();
    let crds: Vec<_> = api::schema::crds()
        .iter()
        .map(|crd| serde_json::to_value(crd).unwrap())
        .collect();
    testenv::apply::apply_objects(real_hub.client(), &crds)
        .await
        .unwrap();
    let mut config = real_hub.kubeconfig().config().await.unwrap();
    // Refusals are compared, not repeated.
    config.default_retry = false;
    let real = Client::try_from(config).unwrap();
    let (hub, client) = simulated();
    for client in [&client, &real] {
        fixed::wait_for_garbage_collector(client).await;
    }
    hub.compact(hub.read(hub_sim::State::revision));
    let (one, two) = (fixed::revisions(&client).await, fixed::revisions(&real).await);
    assert_eq!(fixed::difference(&one, &two), None);
    let servers = Arc::new((Server::new(client).await, Server::new(real).await));
    let wanted = std::env::var("MCU_CONFORMANCE_SEED")
        .ok()
        .and_then(|seed| seed.parse::<u64>().ok());
    let seeds = wanted.map_or(0..SEQUENCES, |seed| seed..seed + 1);
    let found: Vec<String> = stream::iter(seeds)
        .map(|seed| {
            let servers = Arc::clone(&servers);
            async move {
                let (one, two) = tokio::join!(servers.0.record(seed), servers.1.record(seed));
                sequence::difference(seed, &one, &two)
            }
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
    drop(servers);
    real_hub.stop().await.unwrap();
}
