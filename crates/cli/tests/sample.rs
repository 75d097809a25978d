//! `graph` and `updates` on the sample data, without any hub: what a user sees of every kind of edge and cluster.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod outcome;

use std::path::PathBuf;

use self::outcome::Outcome;

fn run(args: &[&str], more: &[String]) -> Outcome {
    Outcome::of(args, |command| command.args(more).env_remove("KUBECONFIG"))
}

fn sample(path: &str) -> PathBuf {
    repository::data::sample("update-graph").join(path)
}

/// Runs `graph` on the releases and the graph-data of the sample.
fn graph(args: &[&str]) -> Outcome {
    let source = ["--releases", "--graph-data"].map(str::to_owned);
    let [releases, data] = source;
    let paths = ["releases.json", "graph-data"].map(|path| sample(path).display().to_string());
    let [list, directory] = paths;
    run(&[&["graph"], args].concat(), &[releases, list, data, directory])
}

/// Runs `updates` on an object of the sample.
fn updates(object: &str, args: &[&str]) -> Outcome {
    let file = repository::data::sample("clusterversions").join(format!("{object}.yaml"));
    run(
        &[&["updates"], args].concat(),
        &["-f".to_owned(), file.display().to_string()],
    )
}

/// The lines of a table, with single spaces.
fn table(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn channels_are_listed_with_their_newest_releases() {
    let found = graph(&["channels"]);
    assert_eq!(found.code, Some(0), "{}", found.err);
    assert_eq!(
        table(&found.out),
        [
            "CHANNEL RELEASES LATEST NEWEST",
            "candidate-4.13 16 4.13.12 4.13.12",
            "fast-4.13 13 4.13.12 4.13.12",
            "stable-4.13 12 4.13.11 4.13.11",
            "candidate-4.14 22 4.14.11 4.14.11",
            "eus-4.14 9 4.14.10 4.14.10",
            "stable-4.14 16 4.14.10 4.14.10",
        ]
    );
}

#[test]
fn updates_of_a_release_are_listed_with_their_risks() {
    let found = graph(&["next", "4.13.11", "--channel", "stable-4.14"]);
    let rows = table(&found.out);
    let starts = [
        "4.14.10 Recommended",
        "4.14.9 Conditional",
        "4.14.8 Conditional",
        "4.14.7 Conditional",
    ];
    for (row, start) in rows[1..].iter().zip(starts) {
        assert!(row.starts_with(start), "{row}");
    }
    assert!(rows[4].ends_with("MonitoringLeak,SlowDrain"), "{}", rows[4]);
    assert!(
        rows.iter()
            .any(|row| row.starts_with("SlowDrain Always https://")),
        "{rows:#?}"
    );
    assert!(
        rows.iter()
            .any(|row| row.starts_with("MonitoringLeak If matched https://")),
        "{rows:#?}"
    );
}

#[test]
fn a_path_crosses_the_minor_version_and_an_obstacle_is_named_with_its_flag() {
    let found = graph(&["path", "4.13.2", "4.14", "--channel", "stable", "-o", "name"]);
    assert_eq!(
        (found.code, found.out.as_str()),
        (Some(0), "4.13.11\n4.14.10\n"),
        "{}",
        found.err
    );
    let none = graph(&["path", "4.13.2", "4.14.8", "--channel", "stable"]);
    assert_eq!(none.code, Some(1));
    assert!(
        none.out.starts_with("No path: ") && none.out.contains("\nObstacles\n"),
        "{}",
        none.out
    );
    assert!(
        none.out
            .contains("To use this path: --accept-risk GpuNodesReboot."),
        "{}",
        none.out
    );
    let accepted = graph(&[
        "path",
        "4.13.2",
        "4.14.8",
        "--channel",
        "stable",
        "--accept-risk",
        "GpuNodesReboot",
    ]);
    assert_eq!(accepted.code, Some(0), "{}", accepted.err);
}

#[test]
fn every_verdict_is_explained_by_its_file() {
    for (from, to, verdict, file) in [
        ("4.13.7", "4.13.8", "Open", None),
        ("4.13.1", "4.13.6", "Blocked", Some("blocked-edges/4.13.6.yaml")),
        (
            "4.13.7",
            "4.14.5",
            "Conditional",
            Some("blocked-edges/4.14.5-SlowDrain.yaml"),
        ),
        ("4.14.0", "4.14.3", "Removed by metadata", None),
        ("4.14.0", "4.13.12", "Not up", None),
        ("4.13.1", "4.14.1", "Not declared", None),
    ] {
        let found = graph(&["explain", from, to]);
        assert_eq!(found.code, Some(0), "{}", found.err);
        assert!(
            found.out.contains(&format!("Verdict:    {verdict}\n")),
            "{}",
            found.out
        );
        let named = file
            .is_none_or(|file| found.out.contains(file) && found.out.contains("\nRules for this update\n"));
        assert!(named, "{}", found.out);
    }
    let unknown = graph(&["explain", "4.12.99", "4.13.0"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.err.contains("4.12.99"), "{}", unknown.err);
}

#[test]
fn a_served_graph_differs_from_its_releases_by_what_it_does_not_serve() {
    let eus = sample("expected/eus-4.14.json").display().to_string();
    let stable = sample("expected/stable-4.14.json").display().to_string();
    let same = run(&["graph", "diff", &eus, &eus], &[]);
    assert_eq!(
        (same.code, same.out.as_str()),
        (Some(0), "No difference.\n"),
        "{}",
        same.err
    );
    let other = run(&["graph", "diff", &eus, &stable], &[]);
    assert!(
        other.out.starts_with("Releases: 7 added, 0 removed"),
        "{}",
        other.out
    );
    let served = run(&["graph", "explain", "4.13.8", "4.14.10", "--graph", &eus], &[]);
    assert!(
        served.err.contains("shows what became of an update, but not why"),
        "{}",
        served.err
    );
}

#[test]
fn the_updates_of_each_cluster_are_shown_with_what_blocks_them() {
    let fresh = updates("fresh", &[]);
    assert_eq!(fresh.code, Some(0), "{}", fresh.err);
    for text in [
        "Channel: <none>",
        "Upgradeable=False",
        "RetrievedUpdates=False",
        "No updates are recommended.",
    ] {
        assert!(fresh.out.contains(text), "{text}: {}", fresh.out);
    }
    let updating = updates("updating", &[]).out;
    assert!(
        updating.contains("An update to 4.14.10 is in progress since 2031-03-02T08:00:00Z"),
        "{updating}"
    );
    let failing = updates("failing", &[]).out;
    assert!(
        failing.contains("State:   Failing") && failing.contains("Failing=True"),
        "{failing}"
    );
    let completed = updates("completed", &[]).out;
    assert!(
        completed.contains(
            "4 more updates are supported but not recommended. To see why, add --include-not-recommended."
        ),
        "{completed}"
    );
    let all = updates("completed", &["--include-not-recommended"]).out;
    assert!(
        all.contains("Version: 4.14.7") && all.contains("Risks:   MonitoringLeak, SlowDrain"),
        "{all}"
    );
}

#[test]
fn a_request_is_checked_against_the_object() {
    let plain = updates("completed", &["--to", "4.14.10"]);
    assert!(
        plain.out.contains(r#""version":"4.14.10""#),
        "{}{}",
        plain.out,
        plain.err
    );
    let refused = updates("completed", &["--to", "4.14.9"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("the update to 4.14.9 was not requested:")
            && refused.err.contains("--allow-not-recommended"),
        "{}",
        refused.err
    );
}
