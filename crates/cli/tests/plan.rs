//! `plan` on the sample of a hub, as a user sees it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod outcome;

use serde_json::{Value, json};

use self::outcome::Outcome;

fn sample(path: &str) -> String {
    repository::data::sample("rehearsal")
        .join(path)
        .display()
        .to_string()
}

/// Runs `plan` on the sample of a hub.
fn plan(args: &[&str]) -> Outcome {
    let hub = sample("hub");
    Outcome::of(&[&["plan", "--from", &hub], args].concat(), |command| {
        command.env_remove("KUBECONFIG")
    })
}

#[test]
fn the_plan_of_an_upgrade_under_way_groups_what_blocks_it() {
    let outcome = plan(&["spring"]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(3), ""), "{outcome:?}");
    let hash = plan_hash(&["spring"]);
    // It covers every field of the spec, so it is another one with each field that is added.
    insta::assert_snapshot!(outcome.out.replace(&hash, "(hash)"));
}

fn plan_hash(args: &[&str]) -> String {
    let outcome = plan(&[args, &["-o", "json"]].concat());
    let planned: Value = serde_json::from_str(&outcome.out).unwrap();
    planned["planHash"].as_str().unwrap().to_owned()
}

#[test]
fn the_plan_hash_has_the_form_that_approvals_name_and_covers_the_whole_spec() {
    let of = |preflight: Value| {
        let file = winter(&preflight);
        plan_hash(&["-f", file.path().to_str().unwrap()])
    };
    let hash = of(json!({"mode": "Off"}));
    let lengths: Vec<usize> = hash.split('-').map(str::len).collect();
    assert_eq!(lengths, [4, 4, 4, 32]);
    assert_eq!(hash, of(json!({"mode": "Off"})));
    // What clusters are asked is no part of the revision, and of the plan it is.
    let other = of(json!({"mode": "Report"}));
    assert_ne!(hash, other);
    assert_eq!(hash[4..14], other[4..14], "the same clusters and canaries");
}

#[test]
fn the_plan_of_a_file_has_an_end_if_the_times_are_given() {
    let file = sample("winter.yaml");
    let given = sample("durations.yaml");
    let of = |args: &[&str]| -> Value {
        let outcome = plan(&[&["-f", &file, "-o", "json"], args].concat());
        assert_eq!((outcome.code, outcome.err.as_str()), (Some(3), ""), "{outcome:?}");
        serde_json::from_str(&outcome.out).unwrap()
    };
    let with_times = of(&["--durations", &given]);
    assert_eq!(with_times["unknown"], json!([]));
    assert_eq!(with_times["eta"]["basis"], "Given");
    assert!(with_times["eta"]["p50"].as_str() <= with_times["eta"]["p90"].as_str());
    let without = of(&[]);
    assert_eq!(without["planHash"], with_times["planHash"]);
}

/// An upgrade of two clusters with this preflight.
fn winter(preflight: &Value) -> tempfile::NamedTempFile {
    let object = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
        "metadata": {"name": "winter", "namespace": "upgrades"}, "spec": {
            "clusterSelector": {"matchExpressions": [{"key": "name", "operator": "In", "values": ["canary-1", "edge-01"]}]},
            "clusterVersion": {"channel": "stable-4.15", "version": "4.15.3"},
            "paused": true,
            "preflight": preflight,
        },
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), object.to_string()).unwrap();
    file
}

#[test]
fn a_plan_that_would_finish_gives_exit_code_0_and_writes_nothing() {
    let file = winter(&json!({"mode": "Off"}));
    let outcome = plan(&["-f", file.path().to_str().unwrap()]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""), "{outcome:?}");
    assert!(
        outcome.out.contains("Would finish: every cluster") && outcome.out.contains("now: Paused"),
        "{}",
        outcome.out
    );
    assert!(outcome.out.contains("Not modelled:"), "{}", outcome.out);
}

#[test]
fn a_plan_says_how_many_clusters_have_not_been_asked_and_that_it_assumes_their_answer() {
    let file = winter(&json!({"mode": "Require"}));
    let outcome = plan(&["-f", file.path().to_str().unwrap()]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""), "{outcome:?}");
    for part in [
        "Would finish, if 2 clusters that have not answered yet take the update",
        "2 clusters have not been asked yet: the plan assumes that they take the update",
        "Unless the controller runs with --agents-support-read-only",
    ] {
        assert!(outcome.out.contains(part), "{part}: {}", outcome.out);
    }
}

#[test]
fn a_plan_needs_a_name_or_a_file() {
    assert_eq!(plan(&[]).code, Some(2));
    assert_eq!(plan(&["nobody"]).code, Some(1));
}
