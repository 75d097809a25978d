//! A sequence of requests: played on a server, recorded, and compared with what another server made of it.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;
use serde_json::Value;

use crate::compare::{self, Answer};
use crate::fixed;
use crate::random::Random;
use crate::side::Side;
use crate::steps::{self, Step};
use crate::watches::Watches;

/// One of so many sequences ends with its namespace, for which the real server takes its time.
const NAMESPACE_ENDS: u64 = 250;

/// Longest time for a request with all that must follow it.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// A server and its watches.
pub struct Server {
    name: &'static str,
    client: Client,
    watches: Watches,
}

/// What a server made of a sequence.
pub struct Recording {
    answers: Vec<Answer>,
    events: Vec<(String, Vec<Value>)>,
    /// How the namespace ended.
    end: Vec<Value>,
}

impl Server {
    pub async fn new(name: &'static str, client: Client) -> Self {
        let watches = Watches::start(&client).await;
        Self {
            name,
            client,
            watches,
        }
    }

    /// Plays the sequence of a seed.
    pub async fn record(&self, seed: u64) -> Recording {
        let mut side = Side::start(self.client.clone(), seed).await;
        let mut answers = Vec::new();
        // Config maps are also touched by the garbage collector.
        let mut kinds = BTreeSet::from([5]);
        for step in story(seed) {
            kinds.insert(step.kind);
            let played = tokio::time::timeout(MAX_WAIT, side.play(&step)).await;
            answers.push(played.unwrap_or_else(|_| panic!("seed {seed}, {}: no end of {step:?}", self.name)));
        }
        let events = tokio::time::timeout(MAX_WAIT, side.events(&self.watches, &kinds)).await;
        let events = events.unwrap_or_else(|_| panic!("seed {seed}, {}: no end of events", self.name));
        let end = if seed % NAMESPACE_ENDS == 7 {
            fixed::end_of_namespace(&mut side).await
        } else {
            Vec::new()
        };
        Recording { answers, events, end }
    }
}

/// The requests of a seed. They do not depend on the answers.
fn story(seed: u64) -> Vec<Step> {
    steps::story(&mut Random::new(seed))
}

/// The first difference between what two servers made of the sequence of a seed.
pub fn difference(seed: u64, simulated: &Recording, real: &Recording) -> Option<String> {
    let steps: Vec<String> = story(seed).iter().map(|step| format!("{step:?}")).collect();
    let pairs = simulated.answers.iter().zip(&real.answers);
    for (at, (one, two)) in pairs.enumerate() {
        if let Some(difference) = compare::answers(one, two) {
            return Some(format!(
                "seed {seed}:\n  {}\n{difference}",
                steps[..=at].join("\n  ")
            ));
        }
    }
    let found = compare::events(&simulated.events, &real.events)
        .or_else(|| fixed::difference(&simulated.end, &real.end));
    found.map(|difference| format!("seed {seed}, events:\n  {}\n{difference}", steps.join("\n  ")))
}
