//! Random specs of upgrades: valid and invalid values of every field that our definition has a rule for.

use serde_json::{Value, json};

use crate::random::Random;

/// A spec, of which most fields are absent and most others valid.
pub fn spec(random: &mut Random) -> Value {
    let mut spec = json!({});
    if random.chance(85) {
        spec["clusterVersion"] = cluster_version(random);
    }
    if random.chance(30) {
        spec["upgradeStrategy"] = strategy(random);
    }
    if random.chance(20) {
        spec["clusterSelector"] = selector(random);
    }
    if random.chance(20) {
        spec["ocpOperators"] = operators(random);
    }
    if random.chance(15) {
        spec["placement"] = random.pick(vec![
            json!([{"name": "p"}]),
            json!([{"name": "p", "namespace": ""}, {"name": "p.q", "namespace": "n"}]),
            json!([{"name": "P"}]),
            json!([{"name": "p", "namespace": "a.b"}]),
            json!([{"namespace": "n"}]),
            json!([]),
        ]);
    }
    if random.chance(10) {
        spec["preUpgradeAction"] = action(random);
    }
    if random.chance(10) {
        spec["postUpgradeAction"] = action(random);
    }
    if random.chance(18) {
        spec["preflight"] = preflight(random);
    }
    if random.chance(15) {
        spec["maintenance"] = maintenance(random);
    }
    if random.chance(20) {
        let (name, value) = random.pick(vec![
            ("paused", json!(true)),
            ("paused", json!("yes")),
            ("color", json!("red")),
            ("clusters", json!([{"name": "c1"}])),
        ]);
        spec[name] = value;
    }
    json!({"spec": spec})
}

fn cluster_version(random: &mut Random) -> Value {
    let mut version = json!({"version": random.pick(vec!["4.15.3", "4.15.3", "4.15.3", "4.16.0-rc.1", "four", "v4.15.3", ""])});
    if random.chance(30) {
        let (name, value) = random.pick(vec![
            ("channel", json!("stable-4.15")),
            ("channel", json!("stable 4.15")),
            ("channel", json!("x".repeat(129))),
            ("image", json!("quay.io/r@sha256:0")),
            ("image", json!("é")),
            ("upstream", json!("https://example.com/graph")),
            ("upstream", json!("ftp://example.com")),
            ("upstream", json!("")),
            ("allowDowngrade", json!(true)),
        ]);
        version[name] = value;
    }
    if random.chance(15) {
        version["acceptRisks"] = risks(random);
    }
    if random.chance(10) {
        version["adminAcks"] = acknowledgments(random);
    }
    version
}

fn risks(random: &mut Random) -> Value {
    random.pick(vec![
        json!([{"name": "SlowDisk", "reason": "tried before"}]),
        json!([{"name": "SlowDisk", "reason": "one"}, {"name": "SlowNetwork", "reason": "two"}]),
        json!([{"name": "SlowDisk", "reason": "one"}, {"name": "SlowDisk", "reason": "two"}]),
        json!([{"name": "Slow Disk", "reason": "white space"}]),
        json!([{"name": "Löschen", "reason": "no ASCII"}]),
        json!([{"name": "x".repeat(257), "reason": "long"}]),
        json!([{"name": "SlowDisk", "reason": "x".repeat(1025)}]),
        json!([{"name": "", "reason": ""}]),
        json!([{"name": "SlowDisk"}]),
        json!([{"reason": "no name"}]),
        json!([]),
        json!("SlowDisk"),
        (0..65)
            .map(|number| json!({"name": format!("Risk{number}"), "reason": "many"}))
            .collect(),
    ])
}

fn acknowledgments(random: &mut Random) -> Value {
    random.pick(vec![
        json!([{"key": "ack-4.13-kube-1.27-api-removals-in-4.14", "reason": "nobody uses these"}]),
        json!([{"key": "ack-4.13-a", "reason": "one"}, {"key": "ack-4.14-a", "reason": "two"}]),
        json!([{"key": "ack-4.13-a", "reason": "one"}, {"key": "ack-4.13-a", "reason": "two"}]),
        json!([{"key": "ack-4-a", "reason": "no minor version"}]),
        json!([{"key": "ack-4.13-a b", "reason": "white space"}]),
        json!([{"key": format!("ack-4.13-{}", "x".repeat(245)), "reason": "long"}]),
        json!([{"key": "ack-4.13-a", "reason": null}]),
        json!([{"key": "ack-4.13-a", "reason": "one", "value": "true"}]),
        json!([{"key": 4.13, "reason": "a number"}]),
        json!([]),
    ])
}

fn preflight(random: &mut Random) -> Value {
    let mut preflight = json!({});
    if random.chance(80) {
        preflight["mode"] = random.pick(vec![
            json!("Report"),
            json!("Require"),
            json!("Require"),
            json!("Off"),
            json!("require"),
            json!(null),
        ]);
    }
    for _ in 0..random.between(0, 2) {
        let (name, value) = random.pick(vec![
            ("ignore", json!(["Failing", "Progressing"])),
            ("ignore", json!(["Failing", "Failing"])),
            ("ignore", json!(["Upgradeable"])),
            ("ignore", json!("Failing")),
            ("ignore", json!(vec!["Failing"; 9])),
            ("setChannel", json!(true)),
            ("setChannel", json!(false)),
            ("setChannel", json!("yes")),
            ("timeout", json!("90s")),
            ("timeout", json!("0s")),
            ("timeout", json!("10 minutes")),
            ("timeout", json!("8761h")),
            ("timeout", json!(null)),
            ("unknownRisks", json!("Accept")),
            ("unknownRisks", json!("Ignore")),
            ("unknownRisks", json!("")),
            ("retries", json!(3)),
        ]);
        preflight[name] = value;
    }
    preflight
}

fn maintenance(random: &mut Random) -> Value {
    let mut maintenance = json!({});
    if random.chance(70) {
        maintenance["windows"] = windows(random);
    }
    if random.chance(30) {
        maintenance["exclusions"] = exclusions(random);
    }
    if random.chance(30) {
        maintenance["minimumRemaining"] = random.pick(vec![
            json!("2h"),
            json!("Estimate"),
            json!("0"),
            json!("6h"),
            json!("1h30m"),
            json!("2 hours"),
            json!("8761h"),
            json!(""),
            json!(7200),
        ]);
    }
    if random.chance(30) {
        maintenance["timeZone"] = random.pick(vec![
            json!("Europe/Berlin"),
            json!("Mars/Olympus"),
            json!(""),
            json!(null),
            json!("x".repeat(65)),
        ]);
    }
    if random.chance(25) {
        maintenance["timeZoneFrom"] = random.pick(vec![
            json!({"annotation": "example.com/time-zone"}),
            json!({"claim": "tz.example.com"}),
            json!({"label": "place"}),
            json!({"annotation": "example.com/time"}),
            json!({"claim": "time"}),
            json!({"annotation": "zone", "label": "zone"}),
            json!({"annotation": "zone", "claim": "zone", "label": "zone"}),
            json!({"label": ""}),
            json!({"label": null}),
            json!({}),
        ]);
    }
    maintenance
}

fn windows(random: &mut Random) -> Value {
    let window = |name: &str, schedule: &str, duration: &str| json!({"name": name, "schedule": schedule, "duration": duration});
    let night = || window("night", "0 22 * * 1-5", "6h");
    let with = |name: &str, value: Value| {
        let mut window = night();
        window[name] = value;
        json!([window])
    };
    let selected = selector(random);
    random.pick(vec![
        json!([night()]),
        json!([night()]),
        json!([night(), window("weekend", "0  8 * * 6,0", "12h30m")]),
        json!([night(), window("night", "0 8 * * 6", "1h")]),
        json!([night(), window("short", "0 8 * * 6", "1h")]),
        json!([window("night", "0 22 * *", "6h")]),
        json!([window("night", "@daily", "6h")]),
        json!([window("night", "99 99 99 99 99", "6h")]),
        json!([window("night", "0 22 * * 1-5", "0s")]),
        json!([window("night", "0 22 * * 1-5", "a night")]),
        json!([window("", "0 22 * * 1-5", "8761h")]),
        json!([window("a night", "0 22 * * 1-5", "6h")]),
        json!([window(&"x".repeat(64), "0 22 * * 1-5", "6h")]),
        json!([{"name": "night"}]),
        with("clusterSelector", json!({"matchLabels": {"region": "eu"}})),
        with("clusterSelector", selected),
        with("color", json!("black")),
        with("duration", json!(6)),
        json!([]),
        (0..17)
            .map(|number| window(&format!("w{number}"), "0 22 * * *", "2h"))
            .collect(),
    ])
}

fn exclusions(random: &mut Random) -> Value {
    let time = |start: &str, end: &str| json!([{"name": "freeze", "start": start, "end": end}]);
    random.pick(vec![
        time("2026-12-18T00:00", "2027-01-07T00:00"),
        time("2026-12-18T00:00:00Z", "2027-01-07T00:00:00+01:00"),
        // No rule of the definition says that it ends after it begins.
        time("2027-01-07T00:00", "2026-12-18T00:00"),
        time("2026-12-18", "2027-01-07"),
        time("2026-12-18 00:00", "2027-01-07 00:00"),
        time("2026-12-18T00:00:00.000000000000Z", "2027-01-07T00:00"),
        json!([{"name": "freeze", "start": "2026-12-18T00:00"}]),
        json!([{"name": "", "start": "2026-12-18T00:00", "end": "2027-01-07T00:00"}]),
        json!([{"name": "freeze", "start": 2026, "end": 2027}]),
        json!([]),
        json!(null),
    ])
}

fn strategy(random: &mut Random) -> Value {
    let mut strategy = json!({});
    if random.chance(30) {
        let (name, value) = by_name(random);
        strategy[name] = value;
    }
    for _ in 0..random.between(1, 2) {
        let (name, value) = random.pick(vec![
            ("maxConcurrency", json!(5)),
            ("maxConcurrency", json!("25%")),
            ("maxConcurrency", json!(0)),
            ("maxConcurrency", json!("101%")),
            ("maxConcurrency", json!(true)),
            ("maxConcurrency", json!(1_000_001)),
            ("maxConcurrency", json!("x".repeat(65))),
            ("maxFailures", json!(0)),
            ("maxFailures", json!("5%")),
            ("maxFailures", json!(-1)),
            ("actionTimeout", json!("15m")),
            ("actionTimeout", json!("0s")),
            ("actionTimeout", json!(null)),
            ("clusterUpgradeTimeout", json!("1h30m")),
            ("clusterUpgradeTimeout", json!("2d")),
            ("clusterUpgradeTimeout", json!("0s")),
            ("clusterUpgradeTimeout", json!("8761h")),
            ("operatorsUpgradeTimeout", json!("999ms")),
            ("operatorsUpgradeTimeout", json!(20)),
            ("minSuccessTime", json!("0")),
            ("minSuccessTime", json!("10m")),
            ("minSuccessTime", json!("10")),
            ("workerPools", json!("Wait")),
            ("workerPools", json!("Ignore")),
            ("workerPools", json!("wait")),
            ("workerPools", json!(true)),
            ("workerPoolsTimeout", json!("8h")),
            ("workerPoolsTimeout", json!("0s")),
            ("workerPoolsTimeout", json!("8 hours")),
            (
                "canaryClusters",
                json!({"clusterSelector": {"matchLabels": {"canary": "true"}}}),
            ),
            ("canaryClusters", json!({})),
        ]);
        strategy[name] = value;
    }
    strategy
}

/// Clusters that are left out or tried again, and checkpoints.
fn by_name(random: &mut Random) -> (&'static str, Value) {
    let left_out = |entries: Value| [("skip", entries.clone()), ("abort", entries)];
    let mut choices = vec![
        ("retry", json!([{"id": "2026-11-22-a"}])),
        (
            "retry",
            json!([{"id": "a", "clusters": ["c1", "c2"], "reasons": ["JobFailed"]}, {"id": "b"}]),
        ),
        ("retry", json!([{"id": "a"}, {"id": "a"}])),
        ("retry", json!([{"id": "-a-"}])),
        ("retry", json!([{"id": ""}])),
        ("retry", json!([{"id": "a", "clusters": ["C 1"]}])),
        (
            "retry",
            json!([{"id": "a", "clusters": ["c1", "c1"], "reasons": ["Job failed"]}]),
        ),
        ("retry", json!([{"clusters": ["c1"]}])),
        (
            "approvals",
            json!([{"name": "after-canaries", "when": "CanariesComplete"}]),
        ),
        (
            "approvals",
            json!([{"name": "half", "when": "50%"}, {"name": "start", "when": 0}]),
        ),
        (
            "approvals",
            json!([{"name": "half", "when": "50%"}, {"name": "half", "when": 7}]),
        ),
        ("approvals", json!([{"name": "Half", "when": "101%"}])),
        ("approvals", json!([{"name": "half", "when": -1}])),
        ("approvals", json!([{"name": "half", "when": true}])),
        ("approvals", json!([{"name": "half"}])),
    ];
    choices.extend(left_out(json!([{"cluster": "c1", "reason": "Wrong site"}])));
    choices.extend(left_out(json!([{"cluster": "c1", "reason": "a", "acknowledgeCanary": true}, {"cluster": "c2", "reason": "b"}])));
    choices.extend(left_out(
        json!([{"cluster": "c1", "reason": "a"}, {"cluster": "c1", "reason": "b"}]),
    ));
    choices.extend(left_out(json!([{"cluster": "C1", "reason": ""}])));
    choices.extend(left_out(json!([{"cluster": "c1", "reason": "x".repeat(201)}])));
    choices.extend(left_out(json!([{"cluster": "c1"}])));
    random.pick(choices)
}

fn selector(random: &mut Random) -> Value {
    random.pick(vec![
        json!({"matchLabels": {"a": "b"}}),
        json!({"matchLabels": {"a": 1}}),
        json!({"clusterSets": ["one", "two"]}),
        json!({"clusterSets": ["one", "one"]}),
        json!({"clusterSets": ["One"]}),
        json!({"clusterSets": [""]}),
        json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "example.com/a", "operator": "Exists"}]}),
        json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
        json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
        json!({"matchExpressions": [{"key": "a b", "operator": "Near"}]}),
        json!({"matchExpressions": [{"operator": "Exists"}]}),
    ])
}

fn operators(random: &mut Random) -> Value {
    random.pick(vec![
        json!({"approveAllUpgrades": true, "exclude": [{"name": "a", "namespace": "b"}]}),
        json!({"include": [{"name": "a", "namespace": "b"}, {"name": "a", "namespace": "c"}]}),
        json!({"include": [{"name": "a", "namespace": "b"}, {"name": "a", "namespace": "b"}]}),
        json!({"include": [{"name": "A", "namespace": "b.c"}]}),
        json!({"include": [{"name": "a"}]}),
        json!({"include": []}),
        json!({"approveAllUpgrades": "no"}),
    ])
}

fn action(random: &mut Random) -> Value {
    let manifest = |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}});
    random.pick(vec![
        json!({"manifestWork": {"workload": {"manifests": [manifest(json!({"name": "a"}))]}, "executor": {"any": 1}}}),
        json!({"manifestWork": {"workload": {"manifests": [manifest(json!({"generateName": "a"}))]}}}),
        json!({"manifestWork": {"workload": {"manifests": [manifest(json!({}))]}}}),
        json!({"manifestWork": {"workload": {"manifests": []}}}),
        json!({"manifestWork": {"workload": {"manifests": [{"metadata": {"name": "a"}}]}}}),
        json!({"manifestWork": {}}),
    ])
}

/// A status as the controller applies it, and others.
pub fn status(random: &mut Random) -> Value {
    random.pick(vec![
        json!({"state": "InProgress", "observedGeneration": 1, "inFlight": 1}),
        json!({"observedGeneration": 2}),
        json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}], "progress": "1/2"}),
        json!({"conditions": [{"type": "Ready", "status": "False", "reason": "Done", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}, {"type": "Stalled", "status": "False", "reason": "No", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
        json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": "today"}]}),
        json!({"state": "not a state", "nonsense": true}),
        json!({"inFlight": "two"}),
    ])
}
