use api::names::ANNOTATION_RETRY_FAILED;
use rollout::Limit;
use serde_json::{Value, json};

use super::*;

/// A spec that selects `clusters` by name and asks for a platform upgrade only.
fn simple(clusters: &[&str]) -> Value {
    json!({
        "clusterSelector": {"matchExpressions": [{"key": "name", "operator": "In", "values": clusters}]},
        "clusterVersion": {"channel": "stable-4.12", "version": "4.12.0"},
    })
}

fn view(spec: &Value, retry: &str) -> Upgrade {
    serde_json::from_value(json!({
        "metadata": {
            "name": "u1", "namespace": "ns", "uid": "u1", "generation": 1,
            "annotations": {ANNOTATION_RETRY_FAILED: retry},
        },
        "spec": spec,
    }))
    .unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "every caller makes a spec for it")]
fn made(spec: Value) -> Result<ResolvedSpec, Vec<SpecViolation>> {
    resolve_spec(&view(&spec, ""), &WorkFlags::default(), TimeDelta::seconds(30))
}

fn refused(spec: Value) -> String {
    let violations = made(spec).unwrap_err();
    violations
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

#[test]
fn defaults_hold_when_the_strategy_is_omitted() {
    let policy = made(simple(&["c1"])).unwrap().policy;
    assert_eq!(policy.max_concurrency, Limit::Count(10));
    assert_eq!(policy.cluster_timeout, TimeDelta::hours(3));
    assert_eq!(policy.timeout(Step::PreAction), TimeDelta::hours(3));
    assert_eq!(
        policy.operators_timeout,
        TimeDelta::minutes(20) + TimeDelta::seconds(90) + TimeDelta::seconds(30)
    );
    assert_eq!(policy.max_failures, None);
    assert_eq!(policy.min_success_time, None);
    assert!(!policy.canaries && policy.hold.is_none() && !policy.deleting);
    assert_eq!(&*policy.target, "4.12.0");
}

/// Approvals are bound to it, and so is the hash that `kubectl mcu plan` prints, with checkpoints or without them.
#[test]
fn the_hash_of_a_spec_covers_everything_but_a_pause_and_retries() {
    let hash = |change: fn(&mut Value)| {
        let mut spec = simple(&["c1"]);
        change(&mut spec);
        made(spec).unwrap().policy.spec_hash
    };
    let before = hash(|_| {});
    assert_eq!(before.len(), 64);
    assert_eq!(before, hash(|spec| spec["paused"] = json!(true)));
    for other in [
        hash(|spec| spec["upgradeStrategy"] = json!({"clusterUpgradeTimeout": "5h"})),
        hash(|spec| spec["preflight"] = json!({"mode": "Report"})),
    ] {
        assert_ne!(before, other);
    }
}

#[test]
fn a_downgrade_is_allowed_without_a_new_revision() {
    let made = |allowed: Value| {
        let mut spec = simple(&["c1"]);
        spec["clusterVersion"]["allowDowngrade"] = allowed;
        made(spec).unwrap()
    };
    let (without, with) = (made(json!(false)), made(json!(true)));
    assert!(!without.policy.allow_downgrade && with.policy.allow_downgrade);
    assert_eq!(without.policy.revision, with.policy.revision);
    assert_eq!(without.policy.steps, with.policy.steps);
    let text = serde_json::to_value(&without.fields).unwrap();
    assert_eq!(text["clusterVersion"].get("allowDowngrade"), None);
}

#[test]
fn the_strategy_is_broken_down() {
    let mut spec = simple(&["c1"]);
    spec["paused"] = json!(true);
    spec["upgradeStrategy"] = json!({
        "maxConcurrency": "25%", "maxFailures": 2, "minSuccessTime": "1h30m", "clusterUpgradeTimeout": "90m",
        "actionTimeout": "15m", "canaryClusters": {"clusterSelector": {"matchLabels": {"name": "c1"}}},
    });
    let policy = made(spec).unwrap().policy;
    assert_eq!(policy.max_concurrency, Limit::Percent(25));
    assert_eq!(policy.max_failures, Some(Limit::Count(2)));
    assert_eq!(policy.min_success_time, Some(TimeDelta::minutes(90)));
    assert_eq!(policy.cluster_timeout, TimeDelta::minutes(90));
    assert_eq!(policy.timeout(Step::PreAction), TimeDelta::minutes(15));
    assert_eq!(policy.timeout(Step::PostAction), TimeDelta::minutes(15));
    assert_eq!(policy.timeout(Step::Platform), TimeDelta::minutes(90));
    assert!(policy.canaries && policy.hold == Some(rollout::Hold::Paused));
}

#[test]
fn a_spec_that_is_absent_or_of_another_shape_is_refused_with_its_field() {
    assert_eq!(refused(Value::Null), "spec: must be set");
    let text = refused(json!({"clusterSelector": "all"}));
    assert!(text.starts_with("spec: cannot be read: "), "{text}");
}

#[test]
fn broken_rules_are_told_by_field() {
    let mut spec = simple(&["c1"]);
    spec["clusterVersion"]["version"] = json!("v4.12");
    spec["upgradeStrategy"] = json!({"maxConcurrency": 0, "clusterUpgradeTimeout": "2d"});
    let text = refused(spec);
    for field in [
        "clusterVersion.version",
        "maxConcurrency",
        "clusterUpgradeTimeout",
    ] {
        assert!(text.contains(field), "{field}: {text}");
    }
}

#[test]
fn only_requested_steps_have_a_hash_and_what_is_done_to_clusters_makes_the_revision() {
    let plain = made(simple(&["c1"])).unwrap().policy;
    let wanted: Vec<bool> = rollout::Step::ALL.iter().map(|step| plain.wants(*step)).collect();
    assert_eq!(wanted, [false, true, false, false]);

    let other_selection = made(simple(&["c2"])).unwrap().policy;
    assert_eq!(plain.revision, other_selection.revision);
    let mut spec = simple(&["c1"]);
    spec["clusterVersion"]["version"] = json!("4.12.1");
    assert_ne!(plain.revision, made(spec).unwrap().policy.revision);
}

#[test]
fn broken_rules_are_told_in_bounded_number_and_length() {
    let mut spec = simple(&["c1"]);
    spec["clusterVersion"]["channel"] = json!(" \u{e9}".repeat(100_000));
    spec["clusterSelector"]["matchExpressions"] = (0..1_000)
        .map(|_| json!({"key": "!", "operator": "In", "values": ["a"]}))
        .collect();
    let violations = made(spec).unwrap_err();
    assert_eq!(violations.len(), MAX_VIOLATIONS + 1);
    assert!(
        violations
            .iter()
            .all(|one| one.message.len() < MAX_VIOLATION_BYTES + 4)
    );
    assert!(
        violations[MAX_VIOLATIONS]
            .message
            .contains("more rules are violated")
    );
}

#[test]
fn how_much_of_a_window_must_remain_is_what_the_status_tells_or_the_sum_of_the_time_limits() {
    let minimum = |status: Value| {
        let mut spec = simple(&["c1"]);
        spec["maintenance"] = json!({
            "minimumRemaining": "Estimate",
            "windows": [{"name": "night", "schedule": "0 22 * * *", "duration": "6h"}],
        });
        let object = Upgrade {
            status: serde_json::from_value(status).unwrap(),
            ..view(&spec, "")
        };
        let spec = resolve_spec(&object, &WorkFlags::default(), TimeDelta::zero()).unwrap();
        spec.estimated_minimum().unwrap()
    };
    let limits = TimeDelta::hours(3);
    assert_eq!(minimum(json!({})), limits);
    let told = |text: &str| json!({"maintenance": {"waiting": 0, "minimumRemaining": text}});
    assert_eq!(minimum(told("1h40m")), TimeDelta::minutes(100));
    assert_eq!(minimum(told("soon")), limits);
}
