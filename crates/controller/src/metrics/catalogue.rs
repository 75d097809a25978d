//! Every series that the controller exposes: names, types, labels and help texts. Registration and the
//! reference documentation both use them.

use super::labels::{
    ANSWER, CONDITION, ClusterPhase, EventDrop, Finish, Label, QUANTILE, REASON, ReconcileOutcome, STEP,
    StepEnd, TARGET, UPGRADE, UPGRADE_NAMESPACE, UpgradeStateLabel, WatchKind, WriteKind, WriteOutcome,
};

/// Type of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// Only increases. The exposed name ends in `_total`.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// Buckets, sum and count, with the upper bounds of the buckets.
    Histogram(&'static [f64]),
    /// Always 1; the labels contain the values. The exposed name ends in `_info`.
    Info,
}

impl MetricKind {
    /// The type's name in the exposition format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram(_) => "histogram",
            MetricKind::Info => "info",
        }
    }
}

/// One documented series.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Exposed name without the suffixes of histograms.
    pub name: &'static str,
    /// Type.
    pub kind: MetricKind,
    /// Labels in the order in which they are exposed.
    pub labels: &'static [Label],
    /// What it measures, with its unit.
    pub help: &'static str,
}

impl Series {
    /// The name without the suffix that the encoder appends.
    #[must_use]
    pub fn stem(&self) -> &'static str {
        match self.kind {
            MetricKind::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            MetricKind::Info => self.name.strip_suffix("_info").unwrap_or(self.name),
            MetricKind::Gauge | MetricKind::Histogram(_) => self.name,
        }
    }
}

const VERSION: Label = Label {
    name: "version",
    values: &[],
};

macro_rules! series {
    ($($ident:ident = $name:literal, $kind:expr, [$($label:expr),*], $help:literal;)+) => {
        $(#[doc = $help]
        pub const $ident: Series = Series { name: $name, kind: $kind, labels: &[$($label),*], help: $help };)+

        /// Every series, in the order of the documentation.
        pub const CATALOGUE: &[Series] = &[$($ident),+];
    };
}

series! {
    RECONCILE = "mcu_reconcile_total", MetricKind::Counter, [ReconcileOutcome::LABEL],
        "Passes over upgrades, by outcome";
    PLAN_DURATION = "mcu_plan_duration_seconds", MetricKind::Histogram(&[0.0005, 0.002, 0.01, 0.05, 0.25, 1.0]), [],
        "Time to plan and check one upgrade";
    REACTION = "mcu_reaction_seconds", MetricKind::Histogram(&[0.05, 0.1, 0.25, 0.5, 1.0, 5.0]), [],
        "Time from seeing a cluster's terminal status to the start of the next cluster";
    CLUSTERS = "mcu_clusters", MetricKind::Gauge, [ClusterPhase::LABEL],
        "Selected clusters by phase, summed over all upgrades";
    UPGRADES = "mcu_upgrades", MetricKind::Gauge, [UpgradeStateLabel::LABEL],
        "Upgrades by state";
    UPGRADE_INFO = "mcu_upgrade_info", MetricKind::Info, [UPGRADE_NAMESPACE, UPGRADE, UpgradeStateLabel::LABEL, TARGET],
        "State and target of an upgrade, the version or the image of status.target. Only 200 upgrades that are not complete and 50 that are have series of their own, here and in all series `mcu_upgrade_…`: first those with clusters at work, then others with clusters, then those without; namespaces take turns, each with its newest";
    UPGRADE_CLUSTERS = "mcu_upgrade_clusters", MetricKind::Gauge, [UPGRADE_NAMESPACE, UPGRADE, ClusterPhase::LABEL],
        "Clusters of an upgrade, by phase";
    UPGRADE_WAITING = "mcu_upgrade_waiting_clusters", MetricKind::Gauge, [UPGRADE_NAMESPACE, UPGRADE, REASON],
        "Clusters of an upgrade that wait or run with a reason to look at them, by reason. Reasons that no cluster has are left out";
    UPGRADE_CONDITION = "mcu_upgrade_condition", MetricKind::Gauge, [UPGRADE_NAMESPACE, UPGRADE, CONDITION],
        "1 while a condition of an upgrade is True, otherwise 0";
    UPGRADE_PROGRESS = "mcu_upgrade_last_progress_timestamp_seconds", MetricKind::Gauge, [UPGRADE_NAMESPACE, UPGRADE],
        "When a cluster of an upgrade last entered a phase after its start, or else when the upgrade was created, in seconds since the Unix epoch";
    UPGRADE_BUDGET = "mcu_upgrade_failure_budget", MetricKind::Gauge, [UPGRADE_NAMESPACE, UPGRADE],
        "Number of clusters that may fail before no other cluster of an upgrade starts (maxFailures); absent without maxFailures";
    UPGRADE_BUDGET_USED = "mcu_upgrade_failure_budget_used", MetricKind::Gauge, [UPGRADE_NAMESPACE, UPGRADE],
        "Clusters of an upgrade that count against maxFailures: failed and degraded ones that are no canaries";
    UPGRADE_END = "mcu_upgrade_estimated_end_timestamp_seconds", MetricKind::Gauge, [UPGRADE_NAMESPACE, UPGRADE, QUANTILE],
        "When the clusters of an upgrade that can move are done, as status.estimate has it, in seconds since the Unix epoch; absent while that is not known";
    UPGRADE_PREFLIGHT = "mcu_upgrade_preflight_clusters", MetricKind::Gauge, [UPGRADE_NAMESPACE, UPGRADE, ANSWER],
        "Clusters of an upgrade that have not started, by what they say to the update, as status.preflight has it; absent without spec.preflight";
    UPGRADES_OMITTED = "mcu_upgrades_omitted", MetricKind::Gauge, [],
        "Upgrades that are not complete and have no series of their own, because there are too many";
    CLUSTERS_FINISHED = "mcu_clusters_finished_total", MetricKind::Counter, [Finish::LABEL, REASON],
        "Attempts of clusters that ended, by outcome and by the reason of a failure";
    STEP_DURATION = "mcu_step_duration_seconds", MetricKind::Histogram(&[60.0, 300.0, 900.0, 1800.0, 3600.0, 5400.0, 7200.0, 10800.0, 14400.0, 21600.0, 43200.0, 86400.0]), [STEP, StepEnd::LABEL],
        "Time from the start of a cluster's step to its end";
    SLOTS = "mcu_slots", MetricKind::Gauge, [],
        "Slots of maxConcurrency, summed over all upgrades that are not complete";
    SLOTS_USED = "mcu_slots_used", MetricKind::Gauge, [],
        "Slots of maxConcurrency that are held by a cluster, summed over all upgrades";
    ORPHANED_WORKS = "mcu_orphaned_works", MetricKind::Gauge, [],
        "ManifestWorks that carry the UID of an upgrade that does not exist; kubectl mcu orphans lists them";
    ORPHANS_SWEPT = "mcu_orphans_swept_total", MetricKind::Counter, [],
        "ManifestWorks that were deleted because their upgrade had not existed for ten minutes";
    ACTIONS = "mcu_actions_total", MetricKind::Counter, [WriteKind::LABEL, WriteOutcome::LABEL],
        "Writes to the hub, by kind and outcome";
    WRITE_DURATION = "mcu_write_duration_seconds", MetricKind::Histogram(&[0.005, 0.025, 0.1, 0.5, 2.5, 10.0]), [WriteKind::LABEL],
        "Time from sending a write to its response";
    WRITE_LIMIT = "mcu_write_limit", MetricKind::Gauge, [],
        "Largest number of concurrent writes: --write-concurrency, or less while the hub is overloaded";
    WRITE_PAUSES = "mcu_write_pauses_total", MetricKind::Counter, [],
        "How often all writes paused because the hub responded with 429 or 503, or did not respond in time";
    STATUS_BYTES = "mcu_status_bytes", MetricKind::Histogram(&[1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 65536.0]), [],
        "Size of the written status of an upgrade as JSON, in bytes";
    EVENTS_DROPPED = "mcu_events_dropped_total", MetricKind::Counter, [EventDrop::LABEL],
        "Events that were not sent, by cause";
    WATCH_AGE = "mcu_watch_age_seconds", MetricKind::Gauge, [WatchKind::LABEL],
        "Time since the last sign of life of a watch (event, bookmark, start or renewal), read at the scrape; a healthy one is renewed at least every 45 s";
    WATCH_RESTARTS = "mcu_watch_restarts_total", MetricKind::Counter, [WatchKind::LABEL],
        "Watches that ended unexpectedly and were restarted with a new list; nothing is planned until the list is complete";
    INDEX_OBJECTS = "mcu_index_objects", MetricKind::Gauge, [WatchKind::LABEL],
        "Objects in the index";
    DECODE_FAILURES = "mcu_decode_failures_total", MetricKind::Counter, [WatchKind::LABEL],
        "Objects with a field that could not be read; the state of the affected cluster counts as unknown";
    RECORDS_REFUSED = "mcu_records_refused", MetricKind::Gauge, [],
        "Records of clusters that the hub rejects, summed over all upgrades; the affected upgrade is Stalled with reason `RecordRefused`";
    RECORDS_UNREADABLE = "mcu_records_unreadable", MetricKind::Gauge, [],
        "Report rows that cannot be read and are kept unchanged, summed over all upgrades; their clusters are Blocked with reason `UnreadableRecord`";
    CHECK_VIOLATIONS = "mcu_check_violations_total", MetricKind::Counter, [],
        "Plans that the independent check rejected. Any increase is a bug of the controller and should raise an alert";
    CLOCK_SKEW = "mcu_clock_skew_seconds", MetricKind::Gauge, [],
        "Smallest possible difference between the clocks of the controller and of the hub: positive when the controller's clock is ahead, negative when it is behind. Beyond 30 s, no deadline fires";
    LEADER = "mcu_leader", MetricKind::Gauge, [],
        "1 while this replica leads, otherwise 0";
    LEASE_TRANSITIONS = "mcu_lease_transitions_total", MetricKind::Counter, [],
        "Times this replica acquired or lost the lease";
    POLICIES_MISSING = "mcu_admission_policies_missing", MetricKind::Gauge, [],
        "Admission policies of deploy/ that were missing, altered, unreadable, or not bound with Deny for every request, when last checked";
    GRAPH_CHANNELS_MISSING = "mcu_update_graph_channels_missing", MetricKind::Gauge, [],
        "Channels that upgrades need of --update-graph, each with a version, and that were never read or not for an hour";
    BUILD = "mcu_build_info", MetricKind::Info, [VERSION],
        "The running version";
    PROCESS_CPU = "process_cpu_seconds_total", MetricKind::Counter, [],
        "User and system CPU time of the process, in seconds";
    PROCESS_RSS = "process_resident_memory_bytes", MetricKind::Gauge, [],
        "Resident memory of the process, in bytes";
    PROCESS_FDS = "process_open_fds", MetricKind::Gauge, [],
        "Open file descriptors of the process";
    PROCESS_START = "process_start_time_seconds", MetricKind::Gauge, [],
        "Start of the process, in seconds since the Unix epoch";
}
