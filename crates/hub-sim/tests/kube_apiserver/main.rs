//! The simulated hub beside a real kube-apiserver: the same random sequences of requests go to both, with open watches beside,
//! and every answer and every event must be equal.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod compare;
mod fixed;
mod limits;
mod mutant;
mod mutation;
mod objects;
mod odd;
mod random;
mod requests;
mod sequence;
mod side;
mod steps;
mod upgrades;
mod watches;

use std::time::Duration;

use futures::{StreamExt as _, stream};
use hub_sim::{Hub, Options, Service};
use kube::Client;
use serde_json::Value;
use testenv::hub::Controllers;

use crate::mutant::Mutant;
use crate::mutation::Mutation;
use crate::sequence::{Recording, Server};

/// Sequences; each is a world of its own, with its own namespace and names.
const SEQUENCES: u64 = 2_000;
/// As many of them find every fault of a hub.
const RECORDED: u64 = 1_000;
const CONCURRENCY: usize = 8;
/// Differences that are printed.
const MAX_SHOWN: usize = 12;
/// A hub with a fault may keep a client waiting for ever, which is noticed, too.
const MAX_WAIT: Duration = Duration::from_secs(5);

fn hub() -> Hub {
    let hub = Hub::new(Options {
        history: 1_000_000,
        ..Options::default()
    });
    tokio::spawn(hub.clone().keep_collecting_garbage());
    hub
}

fn client_of(hub: &Hub) -> Client {
    Client::new(Service::new(hub, "admin"), "default")
}

fn our_crds() -> Vec<Value> {
    let crds = api::schema::crds();
    crds.iter()
        .map(|crd| serde_json::to_value(crd).unwrap())
        .collect()
}

/// A real server with our definitions, and a client that repeats nothing: refusals are compared.
async fn real_server() -> (testenv::Hub, Client) {
    let controllers = Controllers::named(&["garbage-collector-controller", "namespace-controller"]);
    let builder = testenv::Hub::builder().ocm_crds().controller_manager(controllers);
    let hub = builder.start().await.unwrap();
    testenv::apply::apply_objects(hub.client(), &our_crds())
        .await
        .unwrap();
    let mut config = hub.kubeconfig().config().await.unwrap();
    config.default_retry = false;
    let client = Client::try_from(config).unwrap();
    (hub, client)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_sequences_are_answered_as_by_a_real_api_server_and_every_fault_is_noticed() {
    let (real_hub, real) = real_server().await;
    let hub = hub();
    let client = client_of(&hub);
    for client in [&client, &real] {
        fixed::wait_for_garbage_collector(client).await;
    }
    hub.compact(hub.read(hub_sim::State::revision));
    let (one, two) = (fixed::revisions(&client).await, fixed::revisions(&real).await);
    assert_eq!(fixed::difference(&one, &two), None);
    let (one, two) = (fixed::owners(&client).await, fixed::owners(&real).await);
    assert_eq!(fixed::difference(&one, &two), None);
    let (one, two) = (limits::limits(&client).await, limits::limits(&real).await);
    assert_eq!(fixed::difference(&one, &two), None);
    let (simulated, real) = (
        Server::new("simulated", client).await,
        Server::new("real", real).await,
    );
    let recorded = compare_all(&simulated, &real).await;
    drop((simulated, real));
    real_hub.stop().await.unwrap();
    let mut crds = testenv::crds::ocm_hub_crds().await.unwrap();
    crds.extend(our_crds());
    compare_pinned_definitions(&crds, &recorded).await;
    notice_faults(&crds, &recorded).await;
}

/// Plays all sequences on both servers. Returns what the real one made of the first of them.
async fn compare_all(simulated: &Server, real: &Server) -> Vec<(u64, Recording)> {
    let wanted = std::env::var("MCU_CONFORMANCE_SEED")
        .ok()
        .and_then(|seed| seed.parse::<u64>().ok());
    let seeds = wanted.map_or(0..SEQUENCES, |seed| seed..seed + 1);
    let mut played = stream::iter(seeds)
        .map(|seed| async move {
            let (one, two) = tokio::join!(simulated.record(seed), real.record(seed));
            (seed, sequence::difference(seed, &one, &two), two)
        })
        .buffer_unordered(CONCURRENCY);
    let (mut found, mut recorded) = (Vec::new(), Vec::new());
    while let Some((seed, difference, recording)) = played.next().await {
        found.extend(difference);
        if seed < RECORDED {
            recorded.push((seed, recording));
        }
        if found.len() >= MAX_SHOWN {
            break;
        }
    }
    assert!(
        found.is_empty(),
        "{} differences:\n\n{}",
        found.len(),
        found.join("\n\n")
    );
    recorded.sort_by_key(|(seed, _)| *seed);
    recorded
}

/// The definitions of OCM's kinds that are written by hand must not differ from the pinned ones, which the real server had.
async fn compare_pinned_definitions(crds: &[Value], recorded: &[(u64, Recording)]) {
    let hub = hub();
    for crd in crds {
        hub.add_crd(crd).unwrap();
    }
    let server = Server::new("pinned", client_of(&hub)).await;
    let (found, _) = first_difference(&server, recorded).await.unzip();
    assert_eq!(found, None, "with the pinned definitions");
}

/// Every fault of a hub makes a difference.
async fn notice_faults(crds: &[Value], recorded: &[(u64, Recording)]) {
    let mut missed = Vec::new();
    for mutation in mutation::ALL {
        let hub = hub();
        for crd in crds {
            hub.add_crd(&mutation.definition(crd)).unwrap();
        }
        let client = Client::new(Mutant::new(&hub, *mutation), "default");
        let server = Server::new("faulty", client).await;
        match first_difference(&server, recorded).await {
            Some((_, number)) => println!("{mutation:?}: noticed by sequence {number}"),
            None => missed.push(*mutation),
        }
    }
    assert_eq!(
        missed,
        Vec::<Mutation>::new(),
        "not noticed by {} sequences",
        recorded.len()
    );
}

/// The first difference from what the real server did, and the number of its sequence.
async fn first_difference(server: &Server, recorded: &[(u64, Recording)]) -> Option<(String, u64)> {
    let mut played = stream::iter(recorded)
        .map(|(seed, real)| async move {
            let waiting = || format!("seed {seed}: the client waits for ever");
            match tokio::time::timeout(MAX_WAIT, server.record(*seed)).await {
                Ok(simulated) => sequence::difference(*seed, &simulated, real),
                Err(_) => Some(waiting()),
            }
            .map(|difference| (difference, *seed))
        })
        .buffered(CONCURRENCY);
    while let Some(found) = played.next().await {
        if found.is_some() {
            return found;
        }
    }
    None
}
