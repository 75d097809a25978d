use serde_json::json;

use super::*;

fn upgrade(token: &str) -> Upgrade {
    let object = json!({
        "metadata": {"name": "u", "namespace": "n", "annotations": {ANNOTATION_RETRY_FAILED: token}},
        "spec": {},
    });
    serde_json::from_value(object).unwrap()
}

fn token(value: &str, observed: Option<&str>) -> Option<String> {
    pending_token(&upgrade(value), observed).map(|token| token.to_string())
}

#[test]
fn a_retry_is_pending_until_its_value_is_observed() {
    assert_eq!(token("t1", None).as_deref(), Some("t1"));
    assert_eq!(token("t2", Some("t1")).as_deref(), Some("t2"));
    assert_eq!(token("t1", Some("t1")), None);
    assert_eq!(token("t1", Some("t2")).as_deref(), Some("t1"), "set again");
    assert_eq!(token("", Some("t1")), None);
    assert_eq!(token("", None), None);
}

#[test]
fn a_long_retry_value_is_shortened_and_still_told_apart() {
    let long = |end: &str| format!("{}{end}", "\u{e9}".repeat(5_000));
    let (first, second) = (token(&long("a"), None).unwrap(), token(&long("b"), None).unwrap());
    assert!(first.len() <= MAX_TOKEN, "{}", first.len());
    assert_ne!(first, second);
    assert_eq!(token(&long("a"), Some(&first)), None);
}

fn spec(ids: &[&str]) -> ManagedClustersUpgradeSpec {
    let mut spec = ManagedClustersUpgradeSpec::default();
    spec.upgrade_strategy.retry = ids
        .iter()
        .map(|id| RetryRequest {
            id: (*id).to_owned(),
            clusters: vec!["c2".to_owned(), "c1".to_owned()],
            reasons: Vec::new(),
        })
        .collect();
    spec
}

fn ids(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn status(token: Option<&str>, retries: &[&str]) -> ManagedClustersUpgradeStatus {
    ManagedClustersUpgradeStatus {
        observed_retry: token.map(str::to_owned),
        retries: ids(retries),
        ..ManagedClustersUpgradeStatus::default()
    }
}

#[test]
fn retries_of_the_spec_are_carried_out_in_their_order_after_that_of_the_annotation() {
    let spec = spec(&["a", "b", "c"]);
    let next = |value: &str, observed: Option<&str>, done: &[&str]| {
        let retry = pending(&upgrade(value), &spec, Some(&status(observed, done)));
        retry.map(|retry| (retry.token.to_string(), retry.scope))
    };
    assert_eq!(next("t", None, &[]), Some(("t".to_owned(), None)));
    let (token, scope) = next("t", Some("t"), &["a"]).unwrap();
    let scope = scope.unwrap();
    assert_eq!(token, "b");
    let texts = |texts: &[Arc<str>]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&scope.clusters), ["c1", "c2"]);
    assert_eq!(texts(&scope.later), ["c"]);
    let (token, scope) = next("t", Some("t"), &["b"]).unwrap();
    assert_eq!(token, "a");
    assert_eq!(texts(&scope.unwrap().later), ["c"], "the newest may stand first");
    assert_eq!(next("t", Some("t"), &["c", "b", "a"]), None);
}

#[test]
fn what_was_carried_out_is_remembered_as_long_as_the_spec_has_it() {
    let spec = spec(&["old"]);
    let of_spec = |id: &str| PendingRetry {
        scope: Some(RetryScope::default()),
        ..PendingRetry::all(id)
    };
    let mut done = CarriedOut::of(&status(Some("t"), &["old"]));
    for number in 0..200 {
        done = done.and(&of_spec(&format!("r{number}")), &spec);
    }
    assert_eq!(done.retries.len(), MAX_REMEMBERED);
    assert_eq!(
        (done.retries[0].as_str(), done.retries[1].as_str()),
        ("old", "r137")
    );
    assert_eq!(done.and(&of_spec("r199"), &spec), done);
    assert_eq!(done.token.as_deref(), Some("t"));
    let again = done.and(&PendingRetry::all("u"), &spec);
    assert_eq!((again.token.as_deref(), again.retries), (Some("u"), done.retries));
}

#[test]
fn the_retries_of_a_restored_object_count_as_carried_out() {
    let carried_out = CarriedOut::of_restored(&upgrade("t"), &spec(&["a", "b"]));
    assert_eq!(carried_out.token.as_deref(), Some("t"));
    assert_eq!(carried_out.retries, ["a", "b"]);
}
