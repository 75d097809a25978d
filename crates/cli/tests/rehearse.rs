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
        json!({"total": 3, "complete": 3, "failed": 0, "blocked": 0, "leftOut": 0, "waiting": 0})
    );
    assert_eq!(shown["causes"], json!([]));
}

#[test]
fn a_rehearsal_and_a_plan_give_the_same_end_if_nothing_was_measured() {
    let file = manifest(
        &["canary-1", "canary-2", "edge-01"],
        &json!({"upgradeStrategy": {"maxConcurrency": 3}}),
    );
    let hub = sample("hub");
    let of = |command: &str| -> Value {
        let args = [command, "--from", &hub, "-f", path(&file), "-o", "json"];
        serde_json::from_str(&Outcome::of(&args, |command| command).out).unwrap()
    };
    let (rehearsed, planned) = (of("rehearse"), of("plan"));
    assert_eq!(rehearsed["durations"], planned["times"]);
    assert_eq!(planned["eta"]["basis"], "Usual");
    assert_eq!(rehearsed["estimate"]["p50"], planned["eta"]["p50"]);
    let times = [
        &rehearsed["estimate"]["p80"],
        &planned["eta"]["p90"],
        &rehearsed["estimate"]["p95"],
    ];
    let times = times.map(|time| time.as_str().unwrap());
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn bindings_in_the_file_count_as_if_they_were_applied_with_the_upgrade() {
    let upgrade = manifest(&["canary-1", "edge-01"], &json!({}));
    let upgrade = std::fs::read_to_string(upgrade.path()).unwrap();
    let upgrade = upgrade.replace("\"namespace\":\"upgrades\"", "\"namespace\":\"fresh\"");
    let binding = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
        "metadata": {"name": "fleet", "namespace": "fresh"}, "spec": {"clusterSet": "fleet"},
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    for (text, code, names) in [
        (upgrade.clone(), Some(3), ""),
        (format!("{binding}\n{upgrade}\n"), Some(0), "canary-1\nedge-01\n"),
    ] {
        std::fs::write(file.path(), text).unwrap();
        let outcome = rehearse(&["-f", path(&file), "-o", "name"]);
        assert_eq!((outcome.code, outcome.out.as_str()), (code, names), "{outcome:?}");
    }
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
    assert_eq!(all["estimate"]["stoppedByMaxFailures"], json!(100));
    assert_eq!(all["estimate"]["stoppedByCanary"], json!(0));
    assert_eq!(
        all["estimate"]["maxFailuresExceededP50"],
        json!("2026-05-28T16:15:00.000Z")
    );
    assert_eq!(
        all["maxFailures"],
        json!({"limit": 1, "exceededAt": "2026-05-28T16:15:00.000Z"})
    );
    let some = json_of(&["-f", path(&file), "--failure-rate", "0.3"]);
    let stopped = some["estimate"]["stoppedByMaxFailures"].as_u64().unwrap();
    // Of four clusters more than one fails with a probability of 35 %, and then another one must still wait.
    assert!((10..45).contains(&stopped), "{stopped}");
    let outcome = rehearse(&["-f", path(&file), "--failure-rate", "1"]);
    assert_eq!(outcome.code, Some(3));
    assert!(
        outcome.out.contains(
            "maxFailures: 1, exceeded at 2026-05-28T16:15:00Z (after 6h); stops the upgrade in 100 of 100 draws, in half of them by 2026-05-28T16:15:00Z (after 6h)\n"
        ),
        "{}",
        outcome.out
    );
}

#[test]
fn a_failed_canary_stalls_the_rehearsal() {
    let canaries = json!({"clusterSelector": {"matchLabels": {"name": "canary-1"}}});
    let file = manifest(
        &["canary-1", "edge-01"],
        &json!({"upgradeStrategy": {"canaryClusters": canaries, "maxFailures": 1}}),
    );
    let shown = json_of(&["-f", path(&file), "--failure-rate", "1"]);
    assert_eq!(
        (&shown["verdict"], &shown["stalled"]),
        (&json!("Stalls"), &json!("CanaryFailed"))
    );
    assert_eq!(shown["canaries"], json!({"clusters": 1, "completeAt": null}));
    assert_eq!(shown["starts"].as_array().unwrap().len(), 1);
    assert_eq!(
        (
            &shown["estimate"]["stoppedByCanary"],
            &shown["estimate"]["stoppedByMaxFailures"]
        ),
        (&json!(100), &json!(0))
    );
    assert_eq!(shown["estimate"]["maxFailuresExceededP50"], Value::Null);
    let text = rehearse(&["-f", path(&file), "--failure-rate", "1"]).out;
    assert!(
        text.contains("never all complete, so no other cluster starts; a failed canary stops the upgrade in 100 of 100 draws\n"),
        "{text}"
    );
    assert!(
        text.contains("maxFailures: 1, not exceeded in this rehearsal\n"),
        "{text}"
    );
}

/// Copies the sample and changes the objects of one of its lists.
fn changed(list: &str, change: &dyn Fn(&mut Value)) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(sample("hub")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), directory.path().join(entry.file_name())).unwrap();
    }
    let file = directory.path().join(list);
    let mut value: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    value["items"].as_array_mut().unwrap().iter_mut().for_each(change);
    std::fs::write(file, value.to_string()).unwrap();
    directory
}

fn rehearse_from(directory: &tempfile::TempDir, args: &[&str]) -> Outcome {
    let from = ["rehearse", "--from", directory.path().to_str().unwrap()];
    Outcome::of(&[&from[..], args].concat(), |command| command)
}

#[test]
fn clusters_that_run_the_target_already_take_seconds() {
    let hub = changed("managedclusters.json", &|cluster| {
        if cluster["metadata"]["name"] == "edge-01" {
            return;
        }
        for claim in cluster["status"]["clusterClaims"].as_array_mut().unwrap() {
            if claim["name"] == "version.openshift.io" {
                claim["value"] = json!("4.15.3");
            }
        }
    });
    let file = manifest(
        &["canary-1", "canary-2", "edge-01"],
        &json!({"upgradeStrategy": {"maxConcurrency": 1}}),
    );
    let there = rehearse_from(&hub, &["-f", path(&file), "-o", "json", "--failure-rate", "0"]);
    let there: Value = serde_json::from_str(&there.out).unwrap();
    let starts: Vec<(&Value, &Value)> = there["starts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|start| (&start["cluster"], &start["startedAt"]))
        .collect();
    assert_eq!(
        starts,
        [
            (&json!("canary-1"), &json!("2026-05-28T10:15:00.000Z")),
            (&json!("canary-2"), &json!("2026-05-28T10:15:30.000Z")),
            (&json!("edge-01"), &json!("2026-05-28T10:16:00.000Z")),
        ]
    );
    assert_eq!(
        there["notes"],
        json!(["2 clusters that start already run the target; the platform step takes 30s there"])
    );
    // An update that does not take place cannot fail.
    let failing = rehearse_from(&hub, &["-f", path(&file), "-o", "json", "--failure-rate", "1"]);
    let failing: Value = serde_json::from_str(&failing.out).unwrap();
    assert_eq!(
        (&failing["clusters"]["complete"], &failing["clusters"]["failed"]),
        (&json!(2), &json!(1))
    );
}

#[test]
fn the_timeline_counts_slots_as_in_flight_and_soaking_clusters_by_themselves() {
    let file = manifest(
        &["canary-1", "canary-2", "edge-01"],
        &json!({"upgradeStrategy": {"maxConcurrency": 1, "minSuccessTime": "5h"}}),
    );
    let shown = json_of(&["-f", path(&file)]);
    let rows = shown["timeline"].as_array().unwrap();
    let of = |key: &str| -> Vec<u64> { rows.iter().map(|row| row[key].as_u64().unwrap()).collect() };
    assert!(
        of("inFlight").iter().all(|held| *held <= 1),
        "{:?}",
        of("inFlight")
    );
    assert!(of("soaking").contains(&3), "{:?}", of("soaking"));
    assert_eq!(
        (of("inFlight").last(), of("soaking").last()),
        (Some(&0), Some(&0))
    );
    let text = rehearse(&["-f", path(&file)]).out;
    assert!(text.contains("FAILED   IN FLIGHT   SOAKING"), "{text}");
    // The three ends are within minutes of each other, and more than eight hours away.
    let ends: std::collections::BTreeSet<&str> = text
        .lines()
        .filter(|line| line.starts_with("End p"))
        .filter_map(|line| line.split("(after ").nth(1))
        .collect();
    assert_eq!(ends.len(), 3, "{text}");
}

#[test]
fn the_timeline_leaves_out_hours_in_which_nothing_changes() {
    let nightly = json!({
        "timeZone": "UTC",
        "windows": [{"name": "night", "schedule": "0 22 * * *", "duration": "2h"}],
    });
    let file = manifest(
        &["canary-1", "canary-2"],
        &json!({"upgradeStrategy": {"maxConcurrency": 1}, "maintenance": nightly}),
    );
    let times = sample("durations.yaml");
    let shown = json_of(&["-f", path(&file), "--durations", &times]);
    let hours = shown["timeline"].as_array().unwrap().len();
    let text = rehearse(&["-f", path(&file), "--durations", &times]).out;
    let timeline = text.split("Timeline:\n").nth(1).unwrap();
    let lines: Vec<&str> = timeline.lines().take_while(|line| !line.is_empty()).collect();
    // The first line names the columns, and the last one says how many hours are left out.
    let left_out = format!(
        "  Left out: {} rows in which nothing changes",
        hours - (lines.len() - 2)
    );
    assert_eq!(lines.last(), Some(&&*left_out), "{text}");
    assert!(lines.len() < hours / 2, "{text}");
    // From 10:15 on nothing moves before the window opens.
    assert!(lines[1].starts_with("  2026-05-28T21:15:00Z   11h"), "{text}");
    let nobody = manifest(&["nowhere"], &json!({}));
    let text = rehearse(&["-f", path(&nobody)]).out;
    assert!(text.contains("Timeline:\n  No cluster moves.\n"), "{text}");
}

#[test]
fn names_and_messages_of_a_directory_cannot_control_the_terminal() {
    let evil = "edge-01\u{1b}[2J\u{202e}\nResult: Completes";
    let hub = changed("managedclusters.json", &|cluster| {
        if cluster["metadata"]["name"] == "edge-01" {
            cluster["metadata"]["name"] = json!(evil);
        }
        if let Some(conditions) = cluster["status"]["conditions"].as_array_mut() {
            for condition in conditions {
                condition["message"] = json!(evil);
            }
        }
    });
    let file = manifest(&["canary-1", "edge-01", "edge-05"], &json!({}));
    for output in [
        &[][..],
        &["-o", "wide"],
        &["-o", "json"],
        &["-o", "yaml"],
        &["-o", "name"],
    ] {
        let outcome = rehearse_from(&hub, &[&["-f", path(&file)], output].concat());
        for text in [&outcome.out, &outcome.err] {
            assert!(
                !text.contains(['\u{1b}', '\u{202e}', '\u{9b}']),
                "{output:?}: {text}"
            );
            assert!(
                !text.lines().any(|line| line.starts_with("Result: Completes")),
                "{output:?}: {text}"
            );
        }
    }
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
    let canaries = json!({"canaryClusters": {"clusterSelector": {"matchLabels": {"name": "nowhere"}}}});
    let file = manifest(&["nowhere"], &json!({"upgradeStrategy": canaries}));
    let outcome = rehearse(&["-f", path(&file)]);
    assert_eq!(outcome.code, Some(3));
    assert!(
        outcome
            .out
            .contains("Stalls: NothingSelected. Check that the Placement has decisions"),
        "{}",
        outcome.out
    );
    assert!(!outcome.out.contains("Canaries:"), "{}", outcome.out);
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
        format!(
            "error: {} has no upgrade upgrades/winter; check the name and the namespace (-n), or give its manifest with -f\n",
            sample("hub")
        )
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
    let text = refused(&["spring", "-A"]);
    assert!(
        text.contains("so -A cannot be used; give its namespace with -n"),
        "{text}"
    );
    #[cfg(unix)]
    for args in [&["spring", "--durations", "/dev/zero"], &["-f", "/dev/zero"][..]] {
        let text = refused(args);
        assert_eq!(text, "error: /dev/zero: the file is larger than 16 MiB\n");
    }
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
    let text = rehearse(&[]).err;
    assert!(text.contains("<NAME|--filename <FILE>>"), "{text}");
}
