//! The history: merges the reconciled release into it, and prunes the least informative entries
//! (`docs/design/cvo.md#history`).

use clusterversion::types::{COMPLETED, HistoryEntry, PARTIAL, Release, Status, Time};

/// Maximum number of entries.
pub const MAX_ENTRIES: usize = 100;
/// Entries up to this index, the newest ones, are always kept.
const LAST_FINAL: usize = 4;

/// The release that is being reconciled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reconciled<'a> {
    /// The release.
    pub release: &'a Release,
    /// Whether its signature was verified, now or before.
    pub verified: bool,
    /// Whether it was fully applied.
    pub completed: bool,
    /// The risks that were accepted for it; `None` keeps those of the entry.
    pub accepted_risks: Option<&'a str>,
}

/// Whether an entry is about a release. A missing version or image is filled in from the other.
fn is_same(entry: &mut HistoryEntry, release: &Release) -> bool {
    if !release.image.is_empty() && release.image == entry.image {
        if release.version.is_empty() {
            return true;
        }
        if entry.version.is_empty() || release.version == entry.version {
            entry.version.clone_from(&release.version);
            return true;
        }
    }
    if !release.version.is_empty() && release.version == entry.version && entry.image.is_empty() {
        entry.image.clone_from(&release.image);
        return true;
    }
    false
}

/// Merges the reconciled release into the history and `desired`.
pub fn merge(now: Time, status: &mut Status, reconciled: &Reconciled<'_>) {
    let release = reconciled.release;
    status.desired = Release {
        other: std::mem::take(&mut status.desired.other),
        ..release.clone()
    };
    if release.image.is_empty() {
        // Without an image the entry would not say what to roll back to.
        return;
    }
    let entry = |state: &str, completion_time| HistoryEntry {
        state: state.to_owned(),
        started_time: Some(now),
        completion_time,
        version: release.version.clone(),
        image: release.image.clone(),
        accepted_risks: reconciled.accepted_risks.unwrap_or_default().to_owned(),
        ..HistoryEntry::default()
    };
    if status.history.is_empty() {
        status.history.push(entry(PARTIAL, None));
    }
    let same = status
        .history
        .first_mut()
        .is_some_and(|newest| is_same(newest, release));
    if !same {
        if let Some(newest) = status.history.first_mut() {
            newest.completion_time.get_or_insert(now);
        }
        let new = if reconciled.completed {
            entry(COMPLETED, Some(now))
        } else {
            entry(PARTIAL, None)
        };
        status.history.insert(0, new);
    }
    if let Some(newest) = status.history.first_mut() {
        if newest.state.is_empty() {
            PARTIAL.clone_into(&mut newest.state);
        }
        if reconciled.completed {
            COMPLETED.clone_into(&mut newest.state);
            newest.completion_time.get_or_insert(now);
        }
        if let Some(risks) = reconciled.accepted_risks {
            risks.clone_into(&mut newest.accepted_risks);
        }
        newest.verified |= reconciled.verified;
    }
    prune(&mut status.history, MAX_ENTRIES);
}

/// Removes the least informative entries until at most `most` are left.
pub fn prune(history: &mut Vec<HistoryEntry>, most: usize) {
    while history.len() > most {
        let latest_completed = history.iter().position(HistoryEntry::is_completed);
        let ranks = (0..history.len()).map(|at| (rank(history, at, latest_completed), at));
        // Ranks are never equal, because the index is part of them.
        let lowest = ranks.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, at)| at);
        match lowest {
            Some(at) => drop(history.remove(at)),
            None => return,
        }
    }
}

/// How informative an entry is. Most of all the initial entry, the newest five and the latest completed one. Then the first and
/// the last completed one of a minor version, then partial ones between minor versions. Partial ones between patch versions
/// least of all. Newer entries are worth more than older ones.
#[expect(
    clippy::cast_precision_loss,
    reason = "an index in a history of at most a few hundred"
)]
fn rank(history: &[HistoryEntry], at: usize, latest_completed: Option<usize>) -> f64 {
    let is_initial = at + 1 == history.len();
    let weight = if is_initial || at <= LAST_FINAL || Some(at) == latest_completed {
        1000.0
    } else if is_border_of_minor(history, at) {
        30.0
    } else if is_partial_between(history, at, minor) {
        20.0
    } else if is_partial_between(history, at, patch) {
        -20.0
    } else {
        0.0
    };
    weight - 1.01 * at as f64
}

fn older_completed(history: &[HistoryEntry], at: usize) -> Option<&HistoryEntry> {
    history.iter().skip(at + 1).find(|entry| entry.is_completed())
}

fn newer_completed(history: &[HistoryEntry], at: usize) -> Option<&HistoryEntry> {
    history.iter().take(at).rev().find(|entry| entry.is_completed())
}

fn minor(entry: &HistoryEntry) -> Option<&str> {
    entry.version.split('.').nth(1)
}

/// Minor and patch version together.
fn patch(entry: &HistoryEntry) -> Option<&str> {
    let (_, rest) = entry.version.split_once('.')?;
    let (minor, patch) = rest.split_once('.')?;
    let patch = patch.split('.').next()?;
    rest.get(..=minor.len() + patch.len())
}

/// Whether an entry is the first or the last completed one of its minor version.
fn is_border_of_minor(history: &[HistoryEntry], at: usize) -> bool {
    let Some(entry) = history.get(at).filter(|entry| entry.is_completed()) else {
        return false;
    };
    let differs = |other: Option<&HistoryEntry>| other.is_none_or(|other| minor(other) != minor(entry));
    differs(older_completed(history, at)) || differs(newer_completed(history, at))
}

/// Whether an entry is partial and between two completed ones that differ in a part of their version.
fn is_partial_between(history: &[HistoryEntry], at: usize, part: fn(&HistoryEntry) -> Option<&str>) -> bool {
    let partial = history.get(at).is_some_and(|entry| !entry.is_completed());
    let ends = older_completed(history, at).zip(newer_completed(history, at));
    partial && ends.is_some_and(|(older, newer)| part(older) != part(newer))
}

#[cfg(test)]
mod tests;
