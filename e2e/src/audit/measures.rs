//! What the requests of a run say: pure functions over the audit log.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::Request;
use crate::testbed::{AGENTS_USER, CONTROLLER_USER};

const WORKS: &str = "manifestworks";
const WORK_STATUS: &str = "manifestworks/status";
const LEASES: &str = "leases";

/// How often the controller sent one kind of request with one result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Verb, as the API server names it.
    pub verb: String,
    /// Resource, with its subresource.
    pub resource: String,
    /// HTTP status.
    pub code: u16,
    /// How often.
    pub times: usize,
}

fn by_controller(requests: &[Request]) -> impl Iterator<Item = &Request> {
    requests
        .iter()
        .filter(|request| request.user == CONTROLLER_USER && request.verb != "watch")
}

/// The controller's requests by verb, resource and code, watches aside.
#[must_use]
pub fn counts(requests: &[Request]) -> Vec<Count> {
    let mut counted: BTreeMap<(&str, &str, u16), usize> = BTreeMap::new();
    for request in by_controller(requests) {
        *counted
            .entry((&request.verb, &request.resource, request.code))
            .or_default() += 1;
    }
    counted
        .into_iter()
        .map(|((verb, resource, code), count)| Count {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            code,
            times: count,
        })
        .collect()
}

/// The controller's requests that were answered 404 or 409, except the first read of the Lease.
#[must_use]
pub fn wasted(requests: &[Request]) -> usize {
    let refused = |request: &&Request| matches!(request.code, 404 | 409);
    let first_look =
        |request: &&Request| request.resource == LEASES && request.verb == "get" && request.code == 404;
    let all = by_controller(requests).filter(refused).count();
    let excused = by_controller(requests)
        .filter(refused)
        .filter(first_look)
        .count()
        .min(1);
    all - excused
}

/// The controller's requests but watches and those for the Lease.
#[must_use]
pub fn beyond_lease(requests: &[Request]) -> usize {
    by_controller(requests)
        .filter(|request| request.resource != LEASES)
        .count()
}

/// Creations of ManifestWorks that a user was granted, in the order in which they were answered.
#[must_use]
pub fn creations<'a>(requests: &'a [Request], user: &str) -> Vec<&'a Request> {
    let mut found: Vec<&Request> = requests
        .iter()
        .filter(|request| {
            request.user == user
                && request.verb == "create"
                && request.resource == WORKS
                && request.code == 201
                && !is_probe(request)
        })
        .collect();
    found.sort_by_key(|request| request.answered);
    found
}

/// True for a request about a probe, which asks a cluster and is no step of its upgrade.
fn is_probe(request: &Request) -> bool {
    request.name == api::names::probe_name(&request.namespace)
}

/// Creations per second, from the arrival of the first to the answer of the last.
#[must_use]
pub fn create_rate(creations: &[&Request]) -> f64 {
    let first = creations.iter().map(|request| request.received).min();
    let last = creations.iter().map(|request| request.answered).max();
    match (first, last) {
        (Some(first), Some(last)) if last > first => float(creations.len()) / seconds(first, last),
        _ => 0.0,
    }
}

/// From each terminal status to the creation that fills the slot it freed, sorted.
///
/// A work's terminal status is the agent's last status write before the controller deletes the work. With
/// `slots` slots, the first `slots` creations take them, and the k-th terminal status is answered by creation `slots` + k:
/// both sorted by the time of the API server's answer.
#[must_use]
pub fn reactions(requests: &[Request], slots: usize) -> Vec<Duration> {
    let mut deleted: HashMap<(&str, &str), DateTime<Utc>> = HashMap::new();
    let is_end =
        |request: &&Request| request.verb == "delete" && request.resource == WORKS && !is_probe(request);
    for request in by_controller(requests).filter(is_end) {
        deleted
            .entry((&request.namespace, &request.name))
            .or_insert(request.received);
    }
    let mut terminal: HashMap<(&str, &str), DateTime<Utc>> = HashMap::new();
    for request in requests.iter().filter(|request| {
        request.user == AGENTS_USER && request.resource == WORK_STATUS && request.code == 200
    }) {
        let key = (request.namespace.as_str(), request.name.as_str());
        if deleted.get(&key).is_some_and(|end| request.received < *end) {
            let latest = terminal.entry(key).or_insert(request.answered);
            *latest = (*latest).max(request.answered);
        }
    }
    let mut freed: Vec<DateTime<Utc>> = terminal.into_values().collect();
    freed.sort_unstable();
    let creations = creations(requests, CONTROLLER_USER);
    let mut found: Vec<Duration> = freed
        .iter()
        .zip(creations.iter().skip(slots))
        // The watch may deliver a change before its own request is answered.
        .map(|(freed, creation)| (creation.answered - *freed).to_std().unwrap_or_default())
        .collect();
    found.sort_unstable();
    found
}

/// A percentile of sorted values by nearest rank; zero if there are none.
#[must_use]
pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// A number of things as a number to calculate with; beyond four thousand million it stays there.
#[must_use]
pub fn float(count: usize) -> f64 {
    u32::try_from(count).unwrap_or(u32::MAX).into()
}

fn seconds(from: DateTime<Utc>, to: DateTime<Utc>) -> f64 {
    (to - from).to_std().unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests;
