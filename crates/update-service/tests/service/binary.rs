//! The program itself, with the sample and the real data.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use repository::data::ServedGraph;

use crate::data::{self, DataSet};

const PROGRAM: &str = env!("CARGO_BIN_EXE_update-service");

struct Process {
    child: Child,
    base: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts `serve` and waits until it says where it listens.
fn serve(args: &[&str]) -> Process {
    let mut child = Command::new(PROGRAM)
        .args(["serve", "--listen", "127.0.0.1:0", "--log-format", "json"])
        .args(args)
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            line["address"].as_str().map(str::to_owned)
        })
        .expect("a line with the address");
    // Reads further output, so that the process does not block.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    Process {
        child,
        base: format!("http://{address}"),
    }
}

async fn ready(base: &str) {
    let started = Instant::now();
    while reqwest::get(format!("{base}/readyz"))
        .await
        .map_or(0, |answer| answer.status().as_u16())
        != 200
    {
        assert!(started.elapsed() < Duration::from_mins(1), "never ready");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

#[tokio::test]
async fn the_captured_graphs_are_served_as_they_were_captured() {
    crate::running::install_ring();
    for set in data::sets() {
        the_expected_graphs_are_served(&set, &set.lists()[..1]).await;
        if set.extra.is_some() {
            the_expected_graphs_are_served(&set, &set.lists()).await;
        }
    }
}

async fn the_expected_graphs_are_served(set: &DataSet, lists: &[PathBuf]) {
    let lists: Vec<String> = lists.iter().map(|list| list.display().to_string()).collect();
    let mut args: Vec<&str> = lists.iter().flat_map(|list| ["--releases", list]).collect();
    let graph_data = set.graph_data.display().to_string();
    args.extend(["--graph-data", &graph_data]);
    let mut process = serve(&args);
    ready(&process.base).await;
    for channel in set.expected.keys() {
        let url = format!(
            "{}/api/upgrades_info/v1/graph?channel={channel}&arch=amd64",
            process.base
        );
        let body = reqwest::get(url).await.unwrap().bytes().await.unwrap();
        let served = ServedGraph::read(&body).unwrap();
        assert!(served == set.graph(channel), "{channel} with {args:?}");
    }
    let kill = Command::new("kill")
        .arg(process.child.id().to_string())
        .status()
        .unwrap();
    assert!(kill.success());
    let started = Instant::now();
    let status = loop {
        if let Some(status) = process.child.try_wait().unwrap() {
            break status;
        }
        assert!(started.elapsed() < Duration::from_mins(1), "it does not end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(status.success(), "{status}");
}

fn lint(path: &Path, args: &[&str]) -> std::process::Output {
    Command::new(PROGRAM)
        .arg("lint")
        .arg(path)
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn graph_data_without_errors_pass_the_lint_which_names_stranded_releases() {
    for set in data::sets() {
        let releases = set.releases.display().to_string();
        let output = lint(&set.graph_data, &["--json", "--releases", &releases]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(output.status.success(), "{report:#}");
        assert_eq!(report["errors"], 0);
        let problems = report["problems"].as_array().unwrap();
        assert!(
            problems.iter().any(|problem| problem["rule"] == "stranded"),
            "{report:#}"
        );
    }
}

#[test]
fn broken_graph_data_fail_the_pipeline() {
    let directory = tempfile::tempdir().unwrap();
    data::graph_data(
        directory.path(),
        &["4.1.0"],
        &[("4.1.0.yaml", "to: 4.1.0\nfrom: '('\n")],
    );
    let output = lint(directory.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("blocked-edges/4.1.0.yaml:2"), "{text}");
    assert_eq!(lint(Path::new("/nowhere"), &[]).status.code(), Some(1));
    assert_eq!(lint(Path::new("/nowhere"), &["--what"]).status.code(), Some(2));
}

#[test]
fn the_files_of_a_build_are_the_answers_of_the_service() {
    for set in data::sets() {
        let out = tempfile::tempdir().unwrap();
        let status = Command::new(PROGRAM)
            .args(["build", "--releases"])
            .arg(&set.releases)
            .arg("--graph-data")
            .arg(&set.graph_data)
            .arg("--out")
            .arg(out.path())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        for channel in set.expected.keys() {
            let file = out.path().join(format!("graph/amd64/{channel}.json"));
            let plain = std::fs::read(&file).unwrap();
            assert!(
                ServedGraph::read(&plain).unwrap() == set.graph(channel),
                "{channel}"
            );
            assert_eq!(
                data::gunzip(std::fs::read(file.with_extension("json.gz")).unwrap()),
                plain
            );
        }
        let index: serde_json::Value =
            serde_json::from_slice(&std::fs::read(out.path().join("index.json")).unwrap()).unwrap();
        assert_eq!(index["graphs"].as_array().unwrap().len(), set.channels);
    }
}

#[test]
fn a_wrong_setting_is_named_before_anything_runs() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.toml");
    std::fs::write(&file, "[source]\nbranch = \"master\"\n").unwrap();
    for (args, hint) in [
        (vec!["serve", "--config", file.to_str().unwrap()], "branch"),
        (vec!["serve"], "--releases, --registry or --graph"),
        (vec!["serve", "--releases", "x"], "--graph-data"),
        (vec!["serve", "--graph", "x", "--log-level", "loud"], "loud"),
    ] {
        let output = Command::new(PROGRAM)
            .args(&args)
            .env_remove("RUST_LOG")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && text.contains(hint),
            "{args:?}: {text}"
        );
    }
}

/// The name of a file that clears a screen, sets a title, and turns what follows around.
const HOSTILE: &str = "\u{1b}]0;x\u{7}\u{7f}\u{9b}2J\u{202e}\u{2066}\nerror: forged";

fn steering(bytes: &[u8]) -> Option<char> {
    let text = std::str::from_utf8(bytes).unwrap();
    let is_steering = |c: &char| update_graph::text::is_steering(*c) && *c != '\n';
    text.chars().find(is_steering)
}

#[test]
fn the_name_of_a_file_steers_no_terminal_in_any_form_of_the_findings() {
    let directory = tempfile::tempdir().unwrap();
    data::graph_data(directory.path(), &["4.1.0"], &[(HOSTILE, "to: 4.1.0\n")]);
    for form in ["text", "json", "github"] {
        let output = Command::new(PROGRAM)
            .args(["lint", "--output", form])
            .arg(directory.path())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{form}");
        assert_eq!(steering(&output.stdout), None, "{form}: {:?}", output.stdout);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains("\nerror: forged"), "{form}: {text}");
        if form == "json" {
            let report: serde_json::Value = serde_json::from_str(&text).unwrap();
            let file = format!("blocked-edges/{HOSTILE}");
            let problems = report["problems"].as_array().unwrap();
            assert!(
                problems.iter().any(|problem| problem["file"] == *file),
                "the name is changed: {text}"
            );
        } else {
            assert!(
                text.contains(r"\u001b]0;x\u0007\u007f\u009b2J\u202e\u2066"),
                "{form}: {text}"
            );
        }
    }
}

#[test]
fn the_name_of_a_member_of_an_archive_steers_no_terminal_in_errors_and_log_lines() {
    let directory = tempfile::tempdir().unwrap();
    let archive = directory.path().join("graph-data.tar");
    let mut builder = tar::Builder::new(std::fs::File::create(&archive).unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    builder
        .append_link(&mut header, format!("blocked-edges/{HOSTILE}"), "target")
        .unwrap();
    builder.finish().unwrap();
    drop(builder);
    let releases = directory.path().join("releases.json");
    std::fs::write(&releases, data::list(&["4.1.0"])).unwrap();
    let text = |path: &Path| path.display().to_string();
    let (archive, releases, out) = (text(&archive), text(&releases), path(directory.path(), "out"));
    let lint = vec!["lint", &archive];
    let build = vec![
        "build",
        "--releases",
        &releases,
        "--graph-data",
        &archive,
        "--out",
        &out,
    ];
    for args in [lint, build] {
        let output = Command::new(PROGRAM).args(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert_eq!(steering(&output.stderr), None, "{args:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            text.contains(r"\u001b]0;x") && text.contains("is a link"),
            "{text}"
        );
        assert!(!text.contains("\nerror: forged"), "{text}");
    }
}
