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
