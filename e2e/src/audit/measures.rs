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
        })
        .collect();
    found.sort_by_key(|request| request.answered);
    found
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
    for request in
        by_controller(requests).filter(|request| request.verb == "delete" && request.resource == WORKS)
    {
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
mod tests {
    use super::*;
    use chrono::TimeDelta;

    fn at(millis: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::milliseconds(millis)
    }

    fn request(user: &str, verb: &str, resource: &str, name: &str, code: u16, millis: i64) -> Request {
        Request {
            user: user.to_owned(),
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            namespace: name.to_owned(),
            name: name.to_owned(),
            code,
            received: at(millis),
            answered: at(millis + 1),
        }
    }

    fn ours(verb: &str, resource: &str, name: &str, code: u16, millis: i64) -> Request {
        request(CONTROLLER_USER, verb, resource, name, code, millis)
    }

    #[test]
    fn requests_are_counted_by_verb_resource_and_code_without_watches_and_others() {
        let requests = [
            ours("create", WORKS, "a", 201, 0),
            ours("create", WORKS, "b", 201, 0),
            ours("watch", WORKS, "", 200, 0),
            request(AGENTS_USER, "patch", WORK_STATUS, "a", 200, 0),
        ];
        let counted = counts(&requests);
        assert_eq!(counted.len(), 1);
        assert_eq!((counted[0].times, counted[0].code), (2, 201));
    }

    #[test]
    fn only_the_first_look_at_the_lease_may_find_nothing() {
        let look = ours("get", LEASES, "l", 404, 0);
        assert_eq!(wasted(std::slice::from_ref(&look)), 0);
        assert_eq!(wasted(&[look.clone(), look.clone()]), 1);
        assert_eq!(
            wasted(&[
                look,
                ours("delete", WORKS, "a", 404, 1),
                ours("create", WORKS, "a", 409, 2)
            ]),
            2
        );
    }

    #[test]
    fn the_rate_spans_from_the_first_arrival_to_the_last_answer() {
        let requests: Vec<Request> = (0..10)
            .map(|n| ours("create", WORKS, "x", 201, n * 111))
            .chain([ours("create", WORKS, "x", 409, 5000)])
            .collect();
        let rate = create_rate(&creations(&requests, CONTROLLER_USER));
        assert!((rate - 10.0).abs() < 0.01, "{rate}");
        assert!(create_rate(&[]).abs() < f64::EPSILON);
    }

    #[test]
    fn a_reaction_is_from_the_last_status_before_the_deletion_to_the_creation_that_fills_the_slot() {
        let status = |name: &str, millis| request(AGENTS_USER, "patch", WORK_STATUS, name, 200, millis);
        let requests = [
            // A slots of two, filled.
            ours("create", WORKS, "a", 201, 0),
            ours("create", WORKS, "b", 201, 1),
            status("a", 500),
            status("a", 1000),
            status("b", 1200),
            ours("create", WORKS, "c", 201, 1040),
            ours("delete", WORKS, "a", 200, 1100),
            ours("delete", WORKS, "b", 200, 1300),
            // After the deletion: not the terminal one.
            status("a", 1400),
            ours("create", WORKS, "d", 201, 1210),
            // Never deleted: not terminal.
            status("c", 1500),
        ];
        assert_eq!(
            reactions(&requests, 2),
            [Duration::from_millis(10), Duration::from_millis(40)]
        );
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let values: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&values, 50), Duration::from_millis(100));
        assert_eq!(percentile(&values, 99), Duration::from_millis(198));
        assert_eq!(percentile(&values[..1], 99), Duration::from_millis(1));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }
}
