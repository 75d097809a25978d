//! Findings as text, JSON and YAML.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::lint::{Finding, Place, Report, Severity};
use crate::table::lines;

/// One line per finding: `FILE:DOC (namespace/name): field: message`.
#[must_use]
pub fn text(report: &Report) -> String {
    report.findings.iter().map(line).collect()
}

fn line(finding: &Finding) -> String {
    let mut line = at(&finding.place);
    if finding.severity == Severity::Warning {
        line.push_str(": warning");
    }
    if !finding.field.is_empty() {
        let _ = write!(line, ": {}", finding.field);
    }
    let _ = writeln!(line, ": {}", finding.message);
    line
}

fn at(place: &Place) -> String {
    let object = match (place.namespace.as_str(), place.name.as_str()) {
        ("", "") => String::new(),
        ("", name) => format!(" ({name})"),
        (namespace, "") => format!(" ({namespace}/<no name>)"),
        (namespace, name) => format!(" ({namespace}/{name})"),
    };
    format!("{}:{}{object}", place.file, place.document)
}

/// The skipped objects, then a summary.
#[must_use]
pub fn notes(report: &Report) -> String {
    let skipped = report.skipped.iter();
    let mut text =
        lines(skipped.map(|(place, kind)| format!("{}: skipped, {kind} is not checked", at(place))));
    let errors = report
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    let (checked, noun) = (
        report.checked.len(),
        if errors == 1 { "violation" } else { "violations" },
    );
    if report.is_empty() {
        text.push_str("no object found; check that this is the right file\n");
    } else if checked == 0 {
        text.push_str("no ManagedClustersUpgrade found\n");
    } else {
        let _ = writeln!(text, "{checked} checked, {errors} {noun}");
    }
    text
}

/// One line per checked object without errors, such as `upgrade.yaml:1 (upgrades/spring)`.
#[must_use]
pub fn names(report: &Report) -> String {
    let broken = |place: &Place| {
        report
            .findings
            .iter()
            .any(|finding| finding.severity == Severity::Error && finding.place == *place)
    };
    lines(report.checked.iter().filter(|place| !broken(place)).map(at))
}

/// A structure for machines: `{checked: [place], skipped: [place + kind], findings: [place + severity, field, message]}`.
#[must_use]
pub fn value(report: &Report) -> Value {
    let skipped: Vec<Value> = report
        .skipped
        .iter()
        .map(|(place, kind)| {
            json!({"file": place.file, "document": place.document, "namespace": place.namespace, "name": place.name, "kind": kind})
        })
        .collect();
    json!({"checked": report.checked, "skipped": skipped, "findings": report.findings})
}
