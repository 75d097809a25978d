//! How much memory upgrades need, whatever their authors write. Each case is measured in a separate process
//! in which nothing else happens.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use api::views::Upgrade;
use controller::health::Readiness;
use controller::lease;
use controller::metrics::Metrics;
use controller::state::context::Context;
use controller::state::settings::Settings;
use resolve::works::WorkFlags;
use serde_json::{Value, json};

/// Environment variable with the path of the spec, for the process that measures.
const SPEC: &str = "MCU_MEMORY_TEST_SPEC";
/// Number of upgrades that warm up the allocator, and of those that are measured.
const WARM: usize = 8;
const MEASURED: usize = 16;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

fn context() -> Context {
    let settings = Settings {
        works: WorkFlags::default(),
        operators_grace: chrono::TimeDelta::zero(),
        require_bindings: true,
        allow_hub: false,
        agents_can_read: true,
        preflight_rate: 50,
        graphs: controller::graphs::Graphs::default(),
        namespaces: Vec::new(),
    };
    Context::new(
        settings,
        lease::Handle::always().fence(),
        Arc::new(Metrics::new()),
        &Readiness::new(),
        &controller::sources::Sources::system(),
    )
}

/// Adds an upgrade to a context like a watch.
fn add_upgrade(context: &Context, number: usize, spec: &str) {
    let meta = format!(
        r#"{{"name":"u{number}","namespace":"ns","uid":"u{number}","resourceVersion":"1","generation":1,
            "creationTimestamp":"2026-05-28T10:00:00Z","managedFields":[{{"fieldsV1":{spec}}}]}}"#
    );
    let text = format!(r#"{{"metadata":{meta},"spec":{spec}}}"#);
    let upgrade: Upgrade = serde_json::from_str(&text).unwrap();
    context.with(|state| state.apply_upgrade(upgrade));
}

/// A value from the kernel's status of this process, in bytes.
fn resident(key: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    let number = line.trim_start_matches(':').trim().trim_end_matches(" kB");
    number.parse::<usize>().unwrap() * KIB
}

/// Not a test, but the process that measures.
#[test]
#[ignore = "run by the other test of this file"]
fn measure() {
    let spec = std::fs::read_to_string(std::env::var(SPEC).unwrap()).unwrap();
    let context = context();
    let before = resident("VmRSS");
    (0..WARM).for_each(|number| add_upgrade(&context, number, &spec));
    let (warm, peak) = (resident("VmRSS"), resident("VmHWM"));
    (WARM..WARM + MEASURED).for_each(|number| add_upgrade(&context, number, &spec));
    let kept = resident("VmRSS").saturating_sub(warm) / MEASURED;
    let valid = context.with(|state| state.upgrades.values().all(|entry| entry.spec.is_ok()));
    assert_eq!(context.with(|state| state.upgrades.len()), WARM + MEASURED);
    println!("\nMEASURED {kept} {} {valid}", peak - before);
}

/// How much memory one upgrade with this spec needs permanently, how much eight of them need at the same
/// time, and whether the spec is valid.
fn cost(directory: &Path, spec: &Value) -> (usize, usize, bool) {
    let file = directory.join("spec.json");
    std::fs::write(&file, spec.to_string()).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "measure",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(SPEC, &file)
        // Memory that the allocator keeps for later is not part of the cost of an upgrade.
        .env("MALLOC_MMAP_THRESHOLD_", "65536")
        .env("MALLOC_TRIM_THRESHOLD_", "65536")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("MEASURED "));
    let words: Vec<&str> = line.unwrap_or_else(|| panic!("{text}")).split(' ').collect();
    (
        words[0].parse().unwrap(),
        words[1].parse().unwrap(),
        words[2] == "true",
    )
}

fn with_action(manifest_work: &Value) -> Value {
    json!({
        "clusterSelector": {}, "clusterVersion": {"version": "4.16.1"},
        "preUpgradeAction": {"manifestWork": manifest_work},
        "postUpgradeAction": {"manifestWork": manifest_work},
    })
}

fn with_data(data: &Value) -> Value {
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    with_action(&json!({"workload": {"manifests": [manifest]}}))
}

fn with_rest(rest: &Value) -> Value {
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    with_action(&json!({"workload": {"manifests": [manifest]}, "later": rest}))
}

#[test]
fn what_an_upgrade_costs_is_bounded_whatever_its_author_writes() {
    let zeros = |count: usize| json!(vec![0; count]);
    let objects = |count: usize| json!(vec![json!({"": 0}); count]);
    let expression = json!({"key": "!", "operator": "In", "values": ["!"]});
    let names: Vec<String> = (0..10_000)
        .map(|number| format!("cluster-{number:05}.example.com"))
        .collect();
    let mut largest = with_data(&json!("x".repeat(499 * KIB)));
    largest["clusterSelector"] =
        json!({"matchExpressions": [{"key": "name", "operator": "In", "values": names}]});
    let refused = 64 * KIB;
    let cases = [
        (
            "1.4 MB of zeros beside the manifests",
            with_rest(&zeros(350_000)),
            refused,
        ),
        (
            "1.4 MB of zeros in the manifests",
            with_data(&zeros(350_000)),
            refused,
        ),
        ("too many objects", with_rest(&objects(25_000)), refused),
        (
            "many violated rules",
            json!({"clusterSelector": {"matchExpressions": vec![expression; 9_000]}}),
            refused,
        ),
        (
            "a long channel",
            json!({"clusterVersion": {"channel": " x".repeat(600_000)}}),
            refused,
        ),
        ("the largest that is valid", largest, 3 * MIB),
        ("nearly too many objects", with_rest(&objects(12_400)), 3 * MIB),
        ("nearly too many values", with_rest(&zeros(24_900)), 3 * MIB),
    ];
    let directory = tempfile::tempdir().unwrap();
    for (what, spec, bound) in cases {
        let (kept, peak, valid) = cost(directory.path(), &spec);
        println!("{what}: {} KiB kept, {} KiB needed", kept / KIB, peak / KIB);
        assert_eq!(valid, bound > refused, "{what}");
        assert!(kept < bound, "{what}: {kept}");
        assert!(peak < 64 * MIB + WARM * bound, "{what}: {peak}");
    }
}
