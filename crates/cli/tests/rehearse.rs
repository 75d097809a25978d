//! `rehearse` on the sample of a hub, as a user sees it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod outcome;

use std::path::PathBuf;

use serde_json::{Value, json};

use self::outcome::Outcome;

fn sample(path: &str) -> String {
    let file: PathBuf = repository::data::sample("rehearsal").join(path);
    file.display().to_string()
}

/// Runs `rehearse` on the sample of a hub.
fn rehearse(args: &[&str]) -> Outcome {
    let hub = sample("hub");
    Outcome::of(&[&["rehearse", "--from", &hub], args].concat(), |command| {
        command.env_remove("KUBECONFIG")
    })
}

fn json_of(args: &[&str]) -> Value {
    let outcome = rehearse(&[args, &["-o", "json"]].concat());
    serde_json::from_str(&outcome.out).unwrap()
}

/// Runs it where it must refuse.
fn refused(args: &[&str]) -> String {
    let outcome = rehearse(args);
    assert_eq!((outcome.code, outcome.out.as_str()), (Some(1), ""), "{outcome:?}");
    outcome.err
}

/// A manifest that selects these clusters, in a temporary file.
fn manifest(clusters: &[&str], more: &Value) -> tempfile::NamedTempFile {
    let mut spec = json!({
        "clusterSelector": {"matchExpressions": [{"key": "name", "operator": "In", "values": clusters}]},
        "clusterVersion": {"channel": "stable-4.15", "version": "4.15.3"},
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    let object = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
        "metadata": {"name": "winter", "namespace": "upgrades"}, "spec": spec,
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), object.to_string()).unwrap();
    file
}

fn path(file: &tempfile::NamedTempFile) -> &str {
    file.path().to_str().unwrap()
}

#[test]
fn an_upgrade_under_way_is_rehearsed_from_where_it_stands() {
    let outcome = rehearse(&["spring"]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(3), ""));
    insta::assert_snapshot!(outcome.out);
}

#[test]
fn the_json_form_is_stable() {
    let outcome = rehearse(&["spring", "-o", "json"]);
    assert_eq!(outcome.code, Some(3));
    insta::assert_snapshot!(outcome.out);
}

#[test]
fn a_file_is_rehearsed_as_if_it_were_applied_beside_the_other_upgrades() {
    let outcome = rehearse(&[
        "-f",
        &sample("winter.yaml"),
        "--durations",
        &sample("durations.yaml"),
    ]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(3), ""));
    insta::assert_snapshot!(outcome.out);
}

#[test]
fn an_upgrade_that_would_complete_gives_exit_code_0() {
    let file = manifest(
        &["canary-1", "canary-2", "edge-01"],
        &json!({"upgradeStrategy": {"maxConcurrency": 2}}),
    );
    let outcome = rehearse(&["-f", path(&file), "-o", "name"]);
    assert_eq!((outcome.code, outcome.err.as_str()), (Some(0), ""), "{outcome:?}");
    assert_eq!(outcome.out, "canary-1\ncanary-2\nedge-01\n");
    let shown = json_of(&["-f", path(&file)]);
    assert_eq!(
        (&shown["verdict"], &shown["stalled"]),
        (&json!("Completes"), &Value::Null)
    );
    assert_eq!(
        shown["clusters"],
        json!({"total": 3, "complete": 3, "failed": 0, "blocked": 0, "waiting": 0})
    );
    assert_eq!(shown["causes"], json!([]));
}

#[test]
fn failures_show_when_max_failures_stops_the_upgrade_and_how_often() {
    let clusters = ["canary-1", "canary-2", "edge-01", "edge-02"];
    let file = manifest(
        &clusters,
        &json!({"upgradeStrategy": {"maxConcurrency": 1, "maxFailures": 1}}),
    );
    let all = json_of(&["-f", path(&file), "--failure-rate", "100%"]);
    assert_eq!(
        (&all["verdict"], &all["stalled"]),
        (&json!("Stalls"), &json!("MaxFailuresExceeded"))
    );
    assert_eq!(all["estimate"]["stopped"], json!(100));
    assert_eq!(
        all["maxFailures"],
        json!({"limit": 1, "exceededAt": "2026-05-28T16:15:00.000Z"})
    );
    let some = json_of(&["-f", path(&file), "--failure-rate", "0.3"]);
    let stopped = some["estimate"]["stopped"].as_u64().unwrap();
    // Of four clusters more than one fails with a probability of 35 %, and then another one must still wait.
    assert!((10..45).contains(&stopped), "{stopped}");
    let outcome = rehearse(&["-f", path(&file), "--failure-rate", "1"]);
    assert_eq!(outcome.code, Some(3));
    assert!(
        outcome.out.contains("stops the upgrade in 100 of 100 draws"),
        "{}",
        outcome.out
    );
}

#[test]
fn a_failed_canary_stalls_the_rehearsal() {
    let canaries = json!({"clusterSelector": {"matchLabels": {"name": "canary-1"}}});
    let file = manifest(
        &["canary-1", "edge-01"],
        &json!({"upgradeStrategy": {"canaryClusters": canaries}}),
    );
    let shown = json_of(&["-f", path(&file), "--failure-rate", "1"]);
    assert_eq!(
        (&shown["verdict"], &shown["stalled"]),
        (&json!("Stalls"), &json!("CanaryFailed"))
    );
    assert_eq!(shown["canaries"], json!({"clusters": 1, "completeAt": null}));
    assert_eq!(shown["starts"].as_array().unwrap().len(), 1);
}

#[test]
fn a_paused_upgrade_is_rehearsed_as_if_it_were_resumed() {
    let file = manifest(&["canary-1"], &json!({"paused": true}));
    let shown = json_of(&["-f", path(&file)]);
    assert_eq!(
        (&shown["heldBy"], &shown["verdict"]),
        (&json!("Paused"), &json!("Completes"))
    );
    let text = rehearse(&["-f", path(&file)]).out;
    assert!(
        text.contains("as if the file were applied and the upgrade resumed then (now: Paused)"),
        "{text}"
    );
}

#[test]
fn an_upgrade_that_selects_nothing_says_why() {
    let file = manifest(&["nowhere"], &json!({}));
    let outcome = rehearse(&["-f", path(&file)]);
    assert_eq!(outcome.code, Some(3));
    assert!(
        outcome
            .out
            .contains("Stalls: NothingSelected. Check that the Placement has decisions"),
        "{}",
        outcome.out
    );
    let mut unbound: Value = serde_json::from_str(&std::fs::read_to_string(file.path()).unwrap()).unwrap();
    unbound["metadata"]["namespace"] = json!("elsewhere");
    std::fs::write(file.path(), unbound.to_string()).unwrap();
    let text = rehearse(&["-f", path(&file)]).out;
    assert!(
        text.contains("No ManagedClusterSet is bound to namespace elsewhere"),
        "{text}"
    );
}

#[test]
fn a_new_spec_of_an_upgrade_keeps_its_records() {
    let mut spec: Value =
        serde_json::from_str(&std::fs::read_to_string(sample("hub/managedclustersupgrades.json")).unwrap())
            .unwrap();
    let mut object = spec["items"][1].take();
    assert_eq!(object["metadata"]["name"], "spring");
    object["apiVersion"] = json!("cluster.open-cluster-management.io/v1beta1");
    object["kind"] = json!("ManagedClustersUpgrade");
    object["metadata"] = json!({"name": "spring"});
    object["spec"]["upgradeStrategy"]["maxConcurrency"] = json!(1);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), object.to_string()).unwrap();
    let shown = json_of(&["-f", path(&file), "-n", "upgrades"]);
    assert_eq!((&shown["source"], &shown["slots"]), (&json!("File"), &json!(1)));
    // Clusters that are complete or in flight do not start again.
    let starts: Vec<&str> = shown["starts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|start| start["cluster"].as_str().unwrap())
        .collect();
    assert_eq!(starts, ["edge-10", "edge-11", "edge-12", "edge-13", "edge-14"]);
}

#[test]
fn errors_name_what_is_wrong_and_what_to_do() {
    let file = manifest(&["canary-1"], &json!({"clusterVersion": {"version": "v4"}}));
    let text = refused(&["-f", path(&file)]);
    assert!(text.contains("spec.clusterVersion.version: "), "{text}");
    assert_eq!(
        refused(&["winter"]),
        "Error from server (NotFound): managedclustersupgrades.cluster.open-cluster-management.io \"winter\" not found\n"
    );
    assert!(refused(&["-f", "nowhere.yaml"]).starts_with("error: nowhere.yaml: "));
    let text = refused(&["-f", &sample("winter.yaml"), "-n", "other"]);
    assert!(
        text.contains("does not match the namespace \"other\" of -n"),
        "{text}"
    );
    let durations = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(durations.path(), "platform: {hotfix: [1h]}").unwrap();
    let text = refused(&["spring", "--durations", path(&durations)]);
    assert!(text.contains("platform.hotfix: unknown field"), "{text}");
    std::fs::write(durations.path(), "operators: [soon]").unwrap();
    let text = refused(&["spring", "--durations", path(&durations)]);
    assert!(text.contains("operators: \"soon\" is not a duration"), "{text}");
    let two = tempfile::NamedTempFile::new().unwrap();
    let one = std::fs::read_to_string(sample("winter.yaml")).unwrap();
    std::fs::write(
        two.path(),
        format!("{one}---\n{}", one.replace("winter", "summer")),
    )
    .unwrap();
    let text = refused(&["-f", path(&two)]);
    assert!(
        text.contains("there are 2 ManagedClustersUpgrades; give a file with one"),
        "{text}"
    );
}

#[test]
fn a_directory_that_was_not_saved_is_refused() {
    let empty = tempfile::tempdir().unwrap();
    let outcome = Outcome::of(
        &["rehearse", "spring", "--from", empty.path().to_str().unwrap()],
        |command| command,
    );
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.err.contains("rehearsal.json: "), "{}", outcome.err);
    assert!(
        outcome
            .err
            .contains("give a directory that kubectl mcu rehearse --save has written"),
        "{}",
        outcome.err
    );
}

#[test]
fn the_command_line_needs_a_name_or_a_file_but_not_both() {
    for args in [
        &[][..],
        &["spring", "-f", "winter.yaml"],
        &["spring", "--save", "x"],
        &["spring", "--failure-rate", "120%"],
        &["spring", "--failure-rate", "-1"],
    ] {
        assert_eq!(rehearse(args).code, Some(2), "{args:?}");
    }
}
