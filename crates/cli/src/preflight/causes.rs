//! The causes for which one cluster does not start, each with its part of the text, and how much of it is shown.
//!
//! A cluster writes its answers itself, so it may name thousands of risks and write texts of a megabyte. What is kept of one cluster
//! is limited, and the work for it grows with the length of its answer only.

use std::collections::{BTreeMap, BTreeSet};

use api::report::{Phase, ReportRow};
use clusterversion::preflight::{PreflightFinding, PreflightReason, Verdict};

use crate::table::one_line;

/// The reason of a cluster of which too little has been known for longer than `preflight.timeout`.
pub const UNKNOWN_FOR_LONG: &str = "PreflightUnknown";
/// Names of risks, gates and pools that are kept of one cluster.
pub const MAX_NAMES: usize = 64;
/// Longest name that is kept, in bytes. The spec takes no longer one.
pub const MAX_NAME: usize = 256;
/// Longest text that is kept, in bytes.
pub const MAX_TEXT: usize = 4000;
/// What stands between the findings of a message.
const SEPARATOR: &str = "; ";

/// One cause of one cluster.
#[derive(Debug)]
pub struct Cause {
    pub reason: String,
    pub blocks: bool,
    /// The risk, the gate or the pool, as the cluster writes it; empty for other causes.
    pub name: String,
    /// What the cluster says, on one line and cut.
    pub message: String,
}

/// The causes of a verdict.
pub fn of_verdict(verdict: Verdict) -> Vec<Cause> {
    let (Verdict::Blocked(findings) | Verdict::Unknown(findings)) = verdict else {
        return Vec::new();
    };
    let mut causes = Vec::new();
    let mut room = MAX_NAMES;
    for finding in findings {
        let found = of_finding(&finding, room);
        room -= found.iter().filter(|cause| !cause.name.is_empty()).count();
        causes.extend(found);
    }
    causes
}

/// The cause of a row, if it is one of the preflight.
pub fn of_row(row: &ReportRow) -> Vec<Cause> {
    let reasons = PreflightReason::ALL.map(|reason| (reason.to_string(), reason.is_blocking()));
    let mut all = reasons.into_iter().chain([(UNKNOWN_FOR_LONG.to_owned(), true)]);
    let known = all.find(|(reason, _)| *reason == row.reason);
    let cause = known.map(|(reason, blocks)| Cause {
        reason,
        // What has been unknown for longer than preflight.timeout blocks as well.
        blocks: blocks || row.phase == Phase::Blocked,
        name: name_of_row(row).to_owned(),
        message: shown(&row.message),
    });
    cause.into_iter().collect()
}

/// The risk, the gate or the pool that a row names first; empty if it names none.
fn name_of_row(row: &ReportRow) -> &str {
    const NAMED: [PreflightReason; 5] = [
        PreflightReason::AdminAckRequired,
        PreflightReason::RiskNotAccepted,
        PreflightReason::RiskUnknown,
        PreflightReason::PoolPaused,
        PreflightReason::PoolDegraded,
    ];
    let names = NAMED.iter().any(|reason| reason.to_string() == row.reason);
    let name = names.then(|| rollout::causes::name(&row.reason, &row.message));
    name.flatten().unwrap_or_default()
}

/// A text of a cluster on one line, cut at [`MAX_TEXT`].
pub fn shown(text: &str) -> String {
    // Nothing behind this is shown, however many spaces are left out.
    shortened(&one_line(beginning(text, 2 * MAX_TEXT)), MAX_TEXT)
}

/// The beginning of a text, with an ellipsis if something is left out.
#[must_use]
pub fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}\u{2026}", beginning(text, most))
}

fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or_default()]
}

/// One cause for each name of a finding, for at most `room` names, and one for all others.
fn of_finding(finding: &PreflightFinding, room: usize) -> Vec<Cause> {
    let cause = |name: &str, message: &str| Cause {
        reason: finding.reason.to_string(),
        blocks: finding.reason.is_blocking(),
        name: shortened(name, MAX_NAME),
        message: shown(message),
    };
    if finding.names.is_empty() {
        return vec![cause("", &finding.message)];
    }
    let texts = texts(finding);
    let kept = finding.names.iter().take(room);
    let mut causes: Vec<Cause> = kept
        .map(|name| {
            cause(
                name,
                texts.get(name.as_str()).unwrap_or(&finding.message.as_str()),
            )
        })
        .collect();
    let left_out = finding.names.len() - causes.len();
    if left_out > 0 {
        causes.push(cause(
            "",
            &format!("The cluster names {left_out} more, which are not shown"),
        ));
    }
    causes
}

/// The part of a message that belongs to each name: from `NAME: ` at the beginning or behind a separator to the next part.
///
/// For example, `Leak: It leaks; BigLeak: It leaks a lot` has two parts, and none of them begins within `BigLeak`. A sentence may come
/// first: `The cluster evaluates … sets: Leak: It leaks`.
fn texts(finding: &PreflightFinding) -> BTreeMap<&str, &str> {
    let message = finding.message.as_str();
    let names: BTreeSet<&str> = finding.names.iter().map(String::as_str).collect();
    let name_at = |at: usize| {
        // Without this limit, each of many separators would be followed by a search of the whole rest.
        let name = beginning(&message[at..], MAX_NAME + 2).split_once(": ");
        names.get(name?.0).map(|name| (*name, at))
    };
    let separators = message.match_indices(SEPARATOR);
    let mut found: Vec<(&str, usize)> = separators
        .filter_map(|(at, separator)| name_at(at + separator.len()))
        .collect();
    let behind_sentence = || {
        let at = message.find(": ")? + 2;
        name_at(at).filter(|_| found.first().is_none_or(|(_, first)| at < *first))
    };
    if let Some(first) = name_at(0).or_else(behind_sentence) {
        found.insert(0, first);
    }
    let ends = found.iter().skip(1).map(|(_, at)| at - SEPARATOR.len());
    let ends: Vec<usize> = ends.chain([message.len()]).collect();
    let mut texts = BTreeMap::new();
    for ((name, at), end) in found.into_iter().zip(ends) {
        texts.entry(name).or_insert(&message[at..end]);
    }
    texts
}

#[cfg(test)]
mod tests;
