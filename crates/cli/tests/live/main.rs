//! Commands that follow an upgrade: the real program, on a pseudo-terminal or in a pipe, beside a hub that only has one upgrade and
//! its reports.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

mod hub;
mod terminal;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use self::hub::Hub;
use self::terminal::Terminal;

/// Most of one core that the program may use, in percent. Programs without optimisation need more.
const MAX_CPU: f64 = if cfg!(debug_assertions) { 30.0 } else { 5.0 };
/// For how long the use of the processor is measured.
const MEASURED: Duration = Duration::from_secs(8);

/// Follows the upgrade of a hub in a terminal.
fn follow(hub: &Hub, columns: u16, lines: u16) -> Terminal {
    let server = format!("http://{}", hub.address());
    let args = ["status", "spring", "-n", "upgrades", "-w", "--server", &server];
    Terminal::run(&args, columns, lines)
}

/// Runs the plugin with its output in a pipe.
fn piped(hub: &Hub, args: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let server = format!("http://{}", hub.address());
    let mut child = Command::new(env!("CARGO_BIN_EXE_kubectl-mcu"))
        .args(args)
        .args(["-n", "upgrades", "--server", &server])
        .env_clear()
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

fn next_line(output: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line
}

#[test]
fn without_a_terminal_there_is_a_line_per_change() {
    let hub = Hub::start(30);
    let (mut child, mut output) = piped(&hub, &["status", "spring", "-w"]);
    let first = next_line(&mut output);
    assert!(first.contains("  Upgrading  0/30 complete"), "{first}");
    hub.complete();
    let last = next_line(&mut output);
    assert!(last.contains("  Complete  "), "{last}");
    assert_eq!(next_line(&mut output), "");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn clusters_are_followed_row_by_row() {
    let hub = Hub::start(30);
    let (mut child, mut output) = piped(
        &hub,
        &["clusters", "spring", "-w", "--reason", "clusterupgradetimeout"],
    );
    // Nothing is printed before a row matches, so this cannot know when the watch has begun; either way the row comes once.
    hub.change(5, "Failed", "ClusterUpgradeTimeout", "It took too long");
    let (headers, row) = (next_line(&mut output), next_line(&mut output));
    assert!(headers.starts_with("CLUSTER"), "{headers}");
    assert!(row.starts_with("edge-00005   Failed"), "{row}");
    hub.change(6, "Partial", "Progressing", "");
    hub.change(7, "Failed", "ClusterUpgradeTimeout", "It took too long");
    let row = next_line(&mut output);
    assert!(row.starts_with("edge-00007   Failed"), "{row}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn rows_that_follow_as_yaml_are_documents() {
    let hub = Hub::start(30);
    let args = [
        "clusters",
        "spring",
        "-w",
        "-o",
        "yaml",
        "--reason",
        "clusterupgradetimeout",
    ];
    let (mut child, mut output) = piped(&hub, &args);
    for cluster in [5, 6] {
        hub.change(cluster, "Failed", "ClusterUpgradeTimeout", "It took too long");
        let mut lines = (0..200).map(|_| next_line(&mut output));
        assert_eq!(lines.next().as_deref(), Some("---\n"));
        // The last line of a list.
        assert!(lines.any(|line| line == "  resourceVersion: \"\"\n"), "{cluster}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_watch_that_is_ended_leaves_the_terminal_as_it_was() {
    let hub = Hub::start(30);
    let mut terminal = follow(&hub, 100, 40);
    terminal.wait_for("the picture", |screen| screen.contains("edge-00000"));
    terminal.terminate();
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(130), "{screen}");
    assert!(
        screen.contains("State:        Upgrading") && !screen.contains("edge-00000"),
        "the last state stays, and the picture does not: {screen}"
    );
}

#[test]
fn ctrl_z_gives_the_terminal_back_to_the_shell_until_the_program_is_continued() {
    let hub = Hub::start(30);
    let mut terminal = follow(&hub, 100, 40);
    for _ in 0..2 {
        terminal.wait_for("the picture", |screen| screen.contains("edge-00000"));
        terminal.wait_for_alternate_screen(true);
        terminal.stop();
        terminal.wait_for_alternate_screen(false);
        terminal.resume();
        terminal.wait_for_alternate_screen(true);
    }
    terminal.wait_for("the picture", |screen| screen.contains("edge-00000"));
    terminal.terminate();
    assert_eq!(terminal.end().0, Some(130));
}

#[test]
fn the_version_of_the_plugin_is_told_without_a_hub() {
    let mut version = Command::new(env!("CARGO_BIN_EXE_kubectl-mcu"));
    version
        .args(["version", "--server", "http://127.0.0.1:1"])
        .env_clear();
    let told = version.output().unwrap();
    let [out, err] = [told.stdout, told.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(told.status.code(), Some(1));
    assert_eq!(out, format!("Client: {}\n", env!("CARGO_PKG_VERSION")));
    assert!(err.contains("Unable to connect to the server"), "{err}");
}

#[test]
fn the_picture_follows_the_reports_and_the_size_of_the_terminal() {
    let hub = Hub::start(30);
    let mut terminal = follow(&hub, 100, 40);
    terminal.wait_for("the picture", |screen| {
        screen.contains("Canaries: 0 of 2 complete") && screen.contains("edge-00000")
    });
    hub.change(0, "Failed", "ClusterUpgradeTimeout", "It took too long");
    terminal.wait_for("the failed canary", |screen| {
        screen.contains("ClusterUpgradeTimeout: It took too long")
    });
    terminal.resize(40, 20);
    terminal.wait_for("the picture of a small terminal", |screen| {
        screen.contains("Canaries") && !screen.contains("It took too long")
    });
    terminal.resize(120, 60);
    terminal.wait_for("the picture of a large terminal", |screen| {
        screen.contains("It took too long")
    });
    hub.complete();
    let (code, screen) = terminal.end();
    assert_eq!(code, Some(0), "{screen}");
    assert!(
        screen.contains("State:        Complete"),
        "the last state stays: {screen}"
    );
}

#[test]
fn a_picture_does_not_warn_any_more_when_the_hub_answers_again_although_nothing_changes() {
    let hub = Hub::start(30);
    let mut terminal = follow(&hub, 100, 40);
    terminal.wait_for("the picture", |screen| screen.contains("edge-00000"));
    hub.fail(true);
    terminal.wait_for("the warning", |screen| screen.contains("Warning:"));
    hub.fail(false);
    terminal.wait_for("the picture without a warning", |screen| {
        screen.contains("edge-00000") && !screen.contains("Warning:")
    });
    terminal.terminate();
    assert_eq!(terminal.end().0, Some(130));
}

#[test]
fn a_watch_of_ten_thousand_clusters_takes_little_of_one_core() {
    let hub = Hub::start(10_000);
    let mut terminal = follow(&hub, 100, 50);
    terminal.wait_for("the picture", |screen| {
        screen.contains("Running:") && screen.contains("CAUSE")
    });
    hub.change_steadily(60);
    let (begun, before) = (Instant::now(), terminal.cpu_time());
    // The figure is the average over this time.
    let drawn = terminal.frames();
    while begun.elapsed() < MEASURED {
        std::thread::park_timeout(MEASURED.saturating_sub(begun.elapsed()));
    }
    let used = terminal.cpu_time().checked_sub(before).unwrap();
    let percent = 100.0 * used.as_secs_f64() / begun.elapsed().as_secs_f64();
    let (frames, changes) = (terminal.frames() - drawn, hub.changes());
    println!("status -w at 10,000 clusters: {percent:.1} % of one core, {changes} changes, {frames} frames");
    assert!(changes > 200, "the hub was too slow: {changes} changes");
    assert!(frames > 5, "the picture did not follow: {frames} frames");
    assert!(percent < MAX_CPU, "{percent:.1} % of one core");
}
