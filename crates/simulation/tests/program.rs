//! The program: what it refuses, and what it prints.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

use simulation::fault::{Fault, Faults};
use simulation::options::Options;
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
