//! The program: what it refuses, and what it prints.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use simulation::fault::{Fault, Faults};
use simulation::options::{CONTROLLED, Options};
use simulation::oracle::Rule;
use simulation::run::run;
use simulation::trace::Trace;

fn simulation(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulation"));
    command.args(arguments);
    command
}

fn output(arguments: &[&str]) -> (Output, String) {
    let output = simulation(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (output, text)
}

#[test]
fn what_would_run_nothing_or_be_ignored_is_refused() {
    let refused: [&[&str]; 11] = [
        &["--seeds", "0"],
        &["--minutes", "0"],
        &["--jobs", "0"],
        &["--trace"],
        &["--hashes", "--seed", "1"],
        &["--seed", "1", "--seeds", "2"],
        &["--seed", "1", "--from", "2"],
        &["--seed", "1", "--story", "x.json"],
        &["--story", "x.json", "--minutes", "2"],
        &["--story", "x.json", "--stories", "."],
        &["--seeds", "1", "--minutes", "1"],
    ];
    for arguments in refused {
        assert_eq!(output(arguments).0.status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn help_lists_all_faults_and_rules_with_what_they_mean() {
    let text = output(&["--help"]).1;
    let faults = Fault::ALL.iter().map(|fault| (fault.as_str(), fault.meaning()));
    let rules = Rule::ALL.iter().map(|rule| (rule.as_str(), rule.meaning()));
    for (name, meaning) in faults.chain(rules) {
        assert!(!meaning.is_empty(), "{name}");
        assert!(text.contains(&format!("  {name:<16} {meaning}\n")), "{name}");
    }
}

/// A page of the docs.
fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_page_on_reliability_counts_every_fault_and_every_rule() {
    let text = page("reliability.md");
    let is_row = |line: &&str| line.starts_with("| faults: ") || line.starts_with("| rules tried");
    let cells = text
        .lines()
        .filter(is_row)
        .filter_map(|line| line.split('|').nth(2));
    let counts = cells.flat_map(|cell| cell.split(", "));
    let counted: BTreeSet<&str> = counts
        .filter_map(|count| {
            let (name, count) = count.trim().split_once(' ')?;
            let is_number = count.replace(',', "").parse::<u64>().is_ok_and(|count| count > 0);
            is_number.then_some(name)
        })
        .collect();
    let faults = Fault::ALL.iter().map(|fault| fault.as_str());
    let rules = Rule::ALL.iter().map(|rule| rule.as_str());
    assert_eq!(counted, faults.chain(rules).collect());
}

#[test]
fn the_pages_name_every_rule_and_say_how_many_faults_and_rules_there_are() {
    let design = page("design/simulation.md");
    for rule in Rule::ALL {
        let name = format!("`{}`", rule.as_str());
        assert!(design.contains(&name), "docs/design/simulation.md lacks {name}");
    }
    let (faults, rules) = (Fault::ALL.len(), Rule::ALL.len());
    let reliability = page("reliability.md")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    for text in [
        format!("against {faults} kinds of faults"),
        format!("judges each run by {rules} rules"),
    ] {
        assert!(reliability.contains(&text), "docs/reliability.md lacks {text:?}");
    }
}

#[test]
fn fresh_seeds_are_of_all_kinds_and_are_played_again_from_the_seeds_that_are_printed() {
    let text = output(&["--fresh", "--seeds", "4", "--hashes"]).1;
    let heads = text.lines().next().unwrap();
    let heads = heads.strip_prefix("seeds from ").unwrap();
    let (heads, _) = heads.split_once(" on in turn, ").unwrap();
    let heads: Vec<&str> = heads.split(", ").collect();
    let kinds: Vec<u64> = heads
        .iter()
        .map(|head| head.parse::<u64>().unwrap() / CONTROLLED)
        .collect();
    assert_eq!(kinds, [0, 1, 2, 3], "{text}");
    let of_seed = |text: &str, seed: &str| {
        let name = format!("seed {seed} trace ");
        let mut lines = text.lines().map(ToOwned::to_owned);
        lines.find(|line| line.starts_with(&name)).unwrap()
    };
    for head in heads {
        let again = output(&["--from", head, "--seeds", "1", "--hashes"]).1;
        assert_eq!(of_seed(&text, head), of_seed(&again, head));
    }
}

#[test]
fn a_story_that_shows_nothing_any_more_is_told_and_a_world_that_cannot_be_is_refused() {
    let play = |options: &str| {
        let story = format!(
            r#"{{"about": "", "rule": "preflight", "options": {options},
                "faults": [{{"fault": "lost", "name": "nobody", "count": 1}}]}}"#
        );
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-story.json");
        std::fs::write(&path, story).unwrap();
        output(&["--story", path.to_str().unwrap()])
    };
    let (ended, text) = play("{}");
    assert_eq!(ended.status.code(), Some(1), "{text}");
    for lack in ["lost of nobody #1", "rule preflight"] {
        assert!(
            text.contains(&format!("the story shows nothing any more: {lack}")),
            "{text}"
        );
    }
    let (ended, _) = play(r#"{"replicas": 0}"#);
    let error = String::from_utf8(ended.stderr).unwrap();
    assert!(error.contains("options needs replicas"), "{error}");
}

#[test]
fn an_error_is_a_line_without_a_backtrace() {
    let mut command = simulation(&["--story", "nowhere.json"]);
    let ended = command.env("RUST_BACKTRACE", "1").output().unwrap();
    let error = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{error}");
    assert!(error.starts_with("error: cannot read nowhere.json: "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn a_story_is_shown_with_what_it_is_about_its_rule_and_its_faults() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/stories/start-without-an-answer.json"
    );
    let (output, text) = output(&["--story", path]);
    assert!(output.status.success());
    let story = simulation::story::Story::read(path.as_ref()).unwrap();
    assert!(text.starts_with(&story.about));
    assert!(text.contains(&format!("rule {}\n", story.rule.as_str())));
    for fault in &story.faults {
        let line = format!("  {} of {} #{}\n", fault.fault.as_str(), fault.name, fault.count);
        assert!(text.contains(&line), "{line}");
    }
    assert!(text.contains("no rule violated"));
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_program_quietly() {
    let mut child = simulation(&["--seed", "1", "--trace"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert!(first.starts_with("seed 1:"));
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_directory_for_stories_is_made_before_anything_runs() {
    let directory = std::env::temp_dir().join(format!("simulation-{}", std::process::id()));
    let inner = directory.join("stories");
    let path = inner.to_str().unwrap();
    assert!(output(&["--seeds", "1", "--stories", path]).0.status.success());
    assert!(inner.is_dir());
    std::fs::remove_dir_all(directory).unwrap();
    let taken = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    assert!(!output(&["--seed", "1", "--stories", taken]).0.status.success());
}

#[test]
fn a_run_that_panics_violates_a_rule_and_ends_nothing_else() {
    // In no time at all there is no moment at which the second upgrade could come.
    let options = Options {
        chaos_seconds: 0,
        ..Options::default()
    };
    let outcome = run(&options, &Faults::Only(BTreeSet::default()), Trace::default()).unwrap();
    assert_eq!(outcome.violations.len(), 1);
    assert_eq!(outcome.violations[0].rule, Rule::Ended);
    let what = &outcome.violations[0].what;
    assert!(what.starts_with("the run panicked: "), "{what}");
}
