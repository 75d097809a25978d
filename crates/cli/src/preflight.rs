//! What clusters say to an update before they start, in groups: once per cause, and not once per cluster.
//!
//! The answers are those of the probes. Where they cannot be read, the rows of the reports tell the first cause of each cluster.

mod advice;
mod causes;
mod reported;
mod texts;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use api::preflight::PreflightSummary;
use api::report::{Phase, ReportRow};
use api::views::ManifestWork;
use clusterversion::preflight::{Facts, PlannedUpdate, PreflightReason, judge};
use observe::feedback::probe;
use rollout::Reason;
use serde::Serialize;

pub use self::causes::shortened;
use self::causes::{Cause, MAX_NAME, UNKNOWN_FOR_LONG, of_row, of_verdict};
pub use self::reported::{Consent, names, reported, reported_by_rows};
pub use self::texts::ShownText;
use self::texts::Texts;
use crate::remedy::Names;
use crate::table::one_line;

/// Groups that are kept, the largest first. A healthy fleet has a handful.
const MAX_GROUPS: usize = 200;

/// The reason of clusters whose answers the controller does not count yet, for example because it has just set the channel.
const PENDING: &str = Reason::PreflightPending.as_str();

/// The answers of clusters, by name.
pub type Answers = BTreeMap<String, Facts>;

/// Reads the probes of an upgrade. A probe lies in the namespace of its cluster. One that is being deleted asks what does not count any
/// more.
#[must_use]
pub fn answers(probes: &[ManifestWork]) -> Answers {
    let of = |work: &ManifestWork| Some((work.metadata.namespace.clone()?, probe::read(work)));
    let kept = probes
        .iter()
        .filter(|work| work.metadata.deletion_timestamp.is_none());
    kept.filter_map(of).collect()
}

/// Clusters that do not start for the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Blocked, or Unknown.
    pub verdict: &'static str,
    /// The reason.
    pub reason: String,
    /// The risk, the gate or the pool; empty for other causes.
    pub name: String,
    /// Number of clusters.
    pub clusters: usize,
    /// The first of those by name that say `message`.
    pub example: String,
    /// What most of them say.
    pub message: String,
    /// Number of clusters that say something else.
    pub differing: usize,
    /// What to do.
    pub remedy: String,
}

/// Clusters that have not answered, by the reason of their rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unanswered {
    /// The reason of their rows; empty if these have none.
    pub reason: String,
    /// Number of clusters.
    pub clusters: usize,
}

/// What the clusters of an upgrade that have not started say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// Namespace of the upgrade.
    pub namespace: String,
    /// Name of the upgrade.
    pub upgrade: String,
    /// How many of them would take the update.
    pub ready: i64,
    /// How many would not.
    pub blocked: i64,
    /// Of how many that is not known.
    pub unknown: i64,
    /// How many cannot be asked.
    pub unsupported: i64,
    /// Clusters that have not answered at all; the largest group first. Empty if the answers cannot be read.
    pub unanswered: Vec<Unanswered>,
    /// The causes; the largest group first.
    pub groups: Vec<Group>,
    /// Number of further groups, which are left out.
    pub left_out: usize,
}

impl Overview {
    /// Number of clusters that have not answered.
    #[must_use]
    pub fn unanswered_clusters(&self) -> usize {
        self.unanswered.iter().map(|group| group.clusters).sum()
    }
}

/// Groups the clusters of an upgrade. `update` is what the spec asks. Without the answers, only the rows count.
#[must_use]
pub fn overview(
    (namespace, name): (&str, &str),
    rows: &[ReportRow],
    (answers, update): (Option<&Answers>, &PlannedUpdate),
    summary: Option<PreflightSummary>,
) -> Overview {
    let mut found: BTreeMap<(String, String), (Cause, Texts)> = BTreeMap::new();
    let mut silent: BTreeMap<&str, usize> = BTreeMap::new();
    let waits = |row: &&ReportRow| matches!(row.phase, Phase::Pending | Phase::Blocked);
    for row in rows.iter().filter(waits) {
        let facts = answers.and_then(|answers| answers.get(&row.cluster));
        let causes = facts.map(|facts| of_verdict(judge(facts, update)));
        let causes = causes.filter(|causes| {
            !knows_channel(row, causes) && !knows_request(row, causes) && row.reason != PENDING
        });
        let mut causes = causes.unwrap_or_else(|| of_row(row));
        // What has been unknown for too long blocks.
        for cause in &mut causes {
            if row.reason == UNKNOWN_FOR_LONG && cause.reason == PENDING {
                UNKNOWN_FOR_LONG.clone_into(&mut cause.reason);
            }
            cause.blocks |= row.phase == Phase::Blocked && row.reason == cause.reason;
        }
        if causes.is_empty() && answers.is_some() && facts.is_none() {
            *silent.entry(&row.reason).or_default() += 1;
        }
        let mut own: BTreeMap<(String, String), Cause> = BTreeMap::new();
        for cause in causes {
            // A cluster that names a risk twice counts once.
            own.entry((cause.reason.clone(), cause.name.clone()))
                .or_insert(cause);
        }
        for (key, cause) in own {
            let message = cause.message.clone();
            let (_, texts) = found.entry(key).or_insert_with(|| (cause, Texts::default()));
            texts.add(&row.cluster, message);
        }
    }
    let groups = found.into_values();
    let groups = groups.filter_map(|(cause, texts)| group((namespace, name), &cause, texts));
    let mut groups: Vec<Group> = groups.collect();
    groups.sort_by(|a, b| (b.clusters, &a.reason, &a.name).cmp(&(a.clusters, &b.reason, &b.name)));
    let left_out = groups.len().saturating_sub(MAX_GROUPS);
    groups.truncate(MAX_GROUPS);
    let silent = silent.into_iter().map(|(reason, clusters)| Unanswered {
        reason: one_line(reason),
        clusters,
    });
    let mut unanswered: Vec<Unanswered> = silent.collect();
    unanswered.sort_by_key(|group| Reverse(group.clusters));
    let summary = summary.unwrap_or_default();
    Overview {
        namespace: namespace.to_owned(),
        upgrade: name.to_owned(),
        ready: summary.ready,
        blocked: summary.blocked,
        unknown: summary.unknown,
        unsupported: summary.unsupported,
        unanswered,
        groups,
        left_out,
    }
}

/// True when the controller has judged a cluster of another channel by its update graph, which the plugin cannot see.
fn knows_channel(row: &ReportRow, causes: &[Cause]) -> bool {
    let differs = PreflightReason::ChannelDiffers.to_string();
    row.reason != differs && causes.iter().any(|cause| cause.reason == differs)
}

/// True when the controller blocks a cluster because of what its present request accepts, which its answer does not tell.
fn knows_request(row: &ReportRow, causes: &[Cause]) -> bool {
    row.reason == Reason::RiskNotAccepted.as_str() && causes.is_empty()
}

fn group((namespace, name): (&str, &str), cause: &Cause, texts: Texts) -> Option<Group> {
    let texts = texts.by_frequency();
    let clusters = texts.iter().map(|text| text.clusters).sum();
    let most = texts.into_iter().next()?;
    let names = Names {
        namespace,
        name,
        cluster: &most.example,
    };
    Some(Group {
        verdict: if cause.blocks { "Blocked" } else { "Unknown" },
        remedy: advice::what_to_do(cause, names),
        reason: cause.reason.clone(),
        name: shortened(&one_line(&cause.name), MAX_NAME),
        clusters,
        differing: clusters - most.clusters,
        example: most.example,
        message: most.text,
    })
}

#[cfg(test)]
mod tests;
