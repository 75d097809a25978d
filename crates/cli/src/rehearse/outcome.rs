//! The outcome of a rehearsal. Its JSON form is stable: every key is always present, and unknown values are null or empty.

use api::report::Phase;
use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

/// The outcome of a rehearsal.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rehearsal {
    /// Namespace of the upgrade.
    pub namespace: String,
    /// Name of the upgrade.
    pub upgrade: String,
    /// The requested version; empty if only an image or only operators are requested.
    pub target: String,
    /// Where the spec comes from.
    pub source: Source,
    /// When the hub was read. The rehearsal begins then.
    #[serde(serialize_with = "time")]
    pub begin: DateTime<Utc>,
    /// What holds the upgrade now: Paused or Restored. The rehearsal begins as if it were resumed.
    pub held_by: Option<String>,
    /// How the rehearsal ends.
    pub verdict: Verdict,
    /// The reason of the condition Stalled at the end.
    pub stalled: Option<String>,
    /// When the last cluster moved in the rehearsal that the timeline shows.
    #[serde(serialize_with = "time")]
    pub end: DateTime<Utc>,
    /// The range of ends; `None` if no cluster moves.
    pub estimate: Option<Estimate>,
    /// Number of slots of maxConcurrency.
    pub slots: usize,
    /// Largest number of slots that are held at one time.
    pub peak: usize,
    /// The canaries, if any are requested.
    pub canaries: Option<Canaries>,
    /// The limit of failures, if there is one.
    pub max_failures: Option<MaxFailures>,
    /// Clusters by their phase at the end.
    pub clusters: ClusterCounts,
    /// One row per hour.
    pub timeline: Vec<Timeline>,
    /// The clusters in the order of their starts.
    pub starts: Vec<Start>,
    /// Groups of clusters that are not complete at the end; the largest first.
    pub causes: Vec<Cause>,
    /// How long the steps take.
    pub durations: Vec<UsedTime>,
    /// What the reader should know about this rehearsal.
    pub notes: Vec<String>,
    /// What a rehearsal does not model.
    pub not_modelled: [&'static str; 7],
}

/// Where a spec comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Source {
    /// A file: an upgrade that is not applied yet, or a new spec of one that is.
    File,
    /// The hub.
    Hub,
}

/// How a rehearsal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// Every cluster is complete.
    Completes,
    /// No cluster moves until somebody acts.
    Stalls,
    /// Clusters wait for something that the rehearsal does not model, such as another upgrade.
    Waits,
}

/// When the rollout ends.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// In half of the draws it ends until then.
    #[serde(serialize_with = "time")]
    pub p50: DateTime<Utc>,
    /// In 80 of 100 draws.
    #[serde(serialize_with = "time")]
    pub p80: DateTime<Utc>,
    /// In 95 of 100 draws.
    #[serde(serialize_with = "time")]
    pub p95: DateTime<Utc>,
    /// Number of draws.
    pub draws: usize,
    /// Draws in which a failed canary keeps clusters from starting.
    pub stopped_by_canary: usize,
    /// Draws in which maxFailures keeps clusters from starting.
    pub stopped_by_max_failures: usize,
    /// In half of the draws that maxFailures stops, more clusters have failed than it allows by this time.
    #[serde(serialize_with = "optional_time")]
    pub max_failures_exceeded_p50: Option<DateTime<Utc>>,
}

/// The canaries.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Canaries {
    /// Number of canaries.
    pub clusters: usize,
    /// When all of them are complete and the others may start; `None` if they do not all complete.
    #[serde(serialize_with = "optional_time")]
    pub complete_at: Option<DateTime<Utc>>,
}

/// The limit of failures.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MaxFailures {
    /// Number of failed clusters that is tolerated.
    pub limit: usize,
    /// When more have failed.
    #[serde(serialize_with = "optional_time")]
    pub exceeded_at: Option<DateTime<Utc>>,
}

/// Clusters by their phase at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCounts {
    /// All clusters.
    pub total: usize,
    /// Complete ones.
    pub complete: usize,
    /// Failed ones, and those whose pre-action is degraded.
    pub failed: usize,
    /// Blocked ones.
    pub blocked: usize,
    /// Those that the spec skips or aborts.
    pub left_out: usize,
    /// All others.
    pub waiting: usize,
}

/// One hour of a rehearsal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// Begin of the hour.
    #[serde(serialize_with = "time")]
    pub from: DateTime<Utc>,
    /// Clusters that start.
    pub started: usize,
    /// Clusters that become complete.
    pub completed: usize,
    /// Clusters that fail.
    pub failed: usize,
    /// Clusters that hold a slot at the end of the hour, as `status.inFlight` counts them.
    pub in_flight: usize,
    /// Clusters that have released their slot and soak or run their post-action at the end of the hour.
    pub soaking: usize,
}

/// The start of a cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Start {
    /// Name of the cluster.
    pub cluster: String,
    /// True for a canary.
    pub canary: bool,
    /// When it takes a slot.
    #[serde(serialize_with = "time")]
    pub started_at: DateTime<Utc>,
    /// When it changes its phase for the last time.
    #[serde(serialize_with = "optional_time")]
    pub ended_at: Option<DateTime<Utc>>,
    /// Its phase at the end.
    pub phase: Phase,
}

/// Clusters that are not complete for the same reason.
#[derive(Clone, Debug, Serialize)]
pub struct Cause {
    /// Their phase at the end.
    pub phase: Phase,
    /// Their reason at the end.
    pub reason: String,
    /// Number of clusters.
    pub clusters: usize,
    /// One of them.
    pub example: String,
    /// The message of that one.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

/// How long a step takes.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsedTime {
    /// The step.
    pub step: &'static str,
    /// For the platform: Patch or Minor, or None if the clusters run the target already.
    pub update: Option<&'static str>,
    /// Size of the clusters, for the platform.
    pub class: Option<&'static str>,
    /// Half of the clusters take at most this long.
    pub p50_seconds: i64,
    /// 90 of 100 clusters take at most this long.
    pub p90_seconds: i64,
    /// 95 of 100 clusters take at most this long.
    pub p95_seconds: i64,
    /// Number of clusters that have the step before them.
    pub clusters: usize,
    /// Where the times come from.
    pub basis: &'static str,
    /// Number of times that were measured.
    pub samples: usize,
}

pub(super) fn time<S: Serializer>(time: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&api::time::to_rfc3339(*time))
}

#[expect(clippy::ref_option, reason = "serde passes a reference")]
pub(super) fn optional_time<S: Serializer>(
    at: &Option<DateTime<Utc>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => time(at, serializer),
        None => serializer.serialize_none(),
    }
}
