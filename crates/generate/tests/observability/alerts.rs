//! The rules of `deploy/alerts`. Whether they fire when they should is tested by promtool (`crates/spoke-sim/tests/hub_alerts.rs`).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::promql::Exported;
use crate::{files, read};

const PAGE: &str = "docs/guide/troubleshooting.md";

/// Every alert of a file.
fn alerts(file: &str) -> Vec<Value> {
    let rules: Value = serde_saphyr::from_str(&read(&format!("alerts/{file}"))).unwrap();
    let groups = rules["groups"].as_array().unwrap().iter();
    groups
        .flat_map(|group| group["rules"].as_array().unwrap().clone())
        .collect()
}

fn all() -> Vec<Value> {
    let files = files("alerts", ".rules.yaml");
    files.iter().flat_map(|file| alerts(file)).collect()
}

/// The anchors that GitHub gives to the headings of a page.
fn anchors(page: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(repository::root().join(page)).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = kept
            .chars()
            .filter(|char| char.is_alphanumeric() || "-_ ".contains(*char));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn every_alert_selects_what_is_exported() {
    let exported = Exported::all();
    for alert in all() {
        exported.check(alert["expr"].as_str().unwrap()).unwrap();
    }
}

#[test]
fn every_alert_has_a_severity_a_text_and_a_runbook_that_exists() {
    let anchors = anchors(PAGE);
    let mut names = BTreeSet::new();
    for alert in all() {
        let name = alert["alert"].as_str().unwrap();
        assert!(names.insert(name.to_owned()), "{name} exists twice");
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning", "info"].contains(&severity), "{name}");
        let text = |annotation: &str| alert["annotations"][annotation].as_str().unwrap().to_owned();
        assert!(
            text("summary").ends_with('.') && text("description").ends_with('.'),
            "{name}"
        );
        let runbook = format!("{PAGE}#{}", name.to_lowercase());
        assert_eq!(text("runbook_url"), runbook);
        assert!(
            anchors.contains(&name.to_lowercase()),
            "{PAGE} has no heading {name}"
        );
    }
}

#[test]
fn every_command_in_the_text_of_an_alert_exists() {
    let reference = std::fs::read_to_string(repository::root().join("docs/reference/cli.md")).unwrap();
    let mut found = 0;
    for alert in all() {
        let text = alert["annotations"]["description"].as_str().unwrap();
        for command in text.split('`').skip(1).step_by(2) {
            let is_heading = |line: &str| line.trim_start_matches('#').trim() == command;
            assert!(reference.lines().any(is_heading), "{}: {command}", alert["alert"]);
            found += 1;
        }
    }
    assert!(found > 0);
}

#[test]
fn no_expression_depends_on_how_the_scrape_is_configured() {
    for alert in all() {
        let expression = alert["expr"].as_str().unwrap();
        for label in ["job", "instance", "pod", "endpoint", "service"] {
            assert!(!expression.contains(&format!("{label}=")), "{expression}");
        }
    }
}
