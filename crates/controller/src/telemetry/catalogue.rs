//! Every series the controller exposes, as data.
//!
//! Owns names, types, labels and help texts; registration and the reference documentation both read them from here.
//! Refuses values.

use super::labels::{
    ClusterPhase, EventDrop, Label, ReconcileOutcome, UpgradeState, WatchKind, WriteKind, WriteOutcome,
};

/// Type of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only grows; the exposed name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Buckets, sum and count, with the upper bounds of the buckets.
    Histogram(&'static [f64]),
    /// Always 1; the facts are in the labels. The exposed name ends in `_info`.
    Info,
}

impl Kind {
    /// The type's name in the exposition format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
            Kind::Info => "info",
        }
    }
}

/// One documented series.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Name as exposed, without the suffixes of histograms.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Labels, in the order in which they are exposed.
    pub labels: &'static [Label],
    /// What it measures, with its unit.
    pub help: &'static str,
}

impl Series {
    /// The name without the suffix that the encoder adds.
    #[must_use]
    pub fn stem(&self) -> &'static str {
        match self.kind {
            Kind::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            Kind::Info => self.name.strip_suffix("_info").unwrap_or(self.name),
            Kind::Gauge | Kind::Histogram(_) => self.name,
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
    RECONCILE = "mcu_reconcile_total", Kind::Counter, [ReconcileOutcome::LABEL],
        "Reconciles of upgrades, by outcome";
    PLAN_DURATION = "mcu_plan_duration_seconds", Kind::Histogram(&[0.0005, 0.002, 0.01, 0.05, 0.25, 1.0]), [],
        "Time to plan and check one upgrade";
    REACTION = "mcu_reaction_seconds", Kind::Histogram(&[0.05, 0.1, 0.25, 0.5, 1.0, 5.0]), [],
        "Time from seeing a cluster's terminal status to the start of the next cluster";
    CLUSTERS = "mcu_clusters", Kind::Gauge, [ClusterPhase::LABEL],
        "Selected clusters by phase, summed over all upgrades";
    UPGRADES = "mcu_upgrades", Kind::Gauge, [UpgradeState::LABEL],
        "Upgrades by state";
    SLOTS = "mcu_slots", Kind::Gauge, [],
        "Slots of maxConcurrency, summed over all upgrades that are not complete";
    SLOTS_USED = "mcu_slots_used", Kind::Gauge, [],
        "Slots of maxConcurrency that are held by a cluster, summed over all upgrades";
    ORPHANED_WORKS = "mcu_orphaned_works", Kind::Gauge, [],
        "ManifestWorks that carry the UID of an upgrade that does not exist; kubectl mcu orphans lists them";
    ORPHANS_SWEPT = "mcu_orphans_swept_total", Kind::Counter, [],
        "ManifestWorks that were deleted because their upgrade had not existed for ten minutes";
    ACTIONS = "mcu_actions_total", Kind::Counter, [WriteKind::LABEL, WriteOutcome::LABEL],
        "Writes to the hub, by kind and outcome";
    WRITE_DURATION = "mcu_write_duration_seconds", Kind::Histogram(&[0.005, 0.025, 0.1, 0.5, 2.5, 10.0]), [WriteKind::LABEL],
        "Time from sending a write to its answer";
    WRITE_LIMIT = "mcu_write_limit", Kind::Gauge, [],
        "Writes that may be under way at once: --write-concurrency, or fewer while the hub is overloaded";
    WRITE_PAUSES = "mcu_write_pauses_total", Kind::Counter, [],
        "Times that all writes paused because the hub answered 429 or 503, or not in time";
    STATUS_BYTES = "mcu_status_bytes", Kind::Histogram(&[1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 65536.0]), [],
        "Size of the written status of an upgrade as JSON, in bytes";
    EVENTS_DROPPED = "mcu_events_dropped_total", Kind::Counter, [EventDrop::LABEL],
        "Events that were not sent, by cause";
    WATCH_AGE = "mcu_watch_age_seconds", Kind::Gauge, [WatchKind::LABEL],
        "Time since the last sign of life of a watch (event, bookmark, start or renewal), read at the scrape; a healthy one is renewed at least every 45 s";
    WATCH_RESTARTS = "mcu_watch_restarts_total", Kind::Counter, [WatchKind::LABEL],
        "Watches that ended other than in order and were made anew with a fresh list; nothing is planned meanwhile";
    INDEX_OBJECTS = "mcu_index_objects", Kind::Gauge, [WatchKind::LABEL],
        "Objects in the index";
    DECODE_FAILURES = "mcu_decode_failures_total", Kind::Counter, [WatchKind::LABEL],
        "Objects of which a field could not be read; the cluster concerned counts as unknown";
    RECORDS_REFUSED = "mcu_records_refused", Kind::Gauge, [],
        "Records of clusters that the hub refuses to store, summed over all upgrades; the upgrade concerned is Stalled, reason `RecordRefused`";
    RECORDS_UNREADABLE = "mcu_records_unreadable", Kind::Gauge, [],
        "Report rows that cannot be read and are kept as they are, summed over all upgrades; their clusters are Blocked, reason `UnreadableRecord`";
    CHECK_VIOLATIONS = "mcu_check_violations_total", Kind::Counter, [],
        "Plans that the independent check refused. Any increase is a defect: page";
    CLOCK_SKEW = "mcu_clock_skew_seconds", Kind::Gauge, [],
        "How far the controller's clock is ahead of the hub's (negative: behind), as far as that is certain; beyond 30 s no deadline fires";
    LEADER = "mcu_leader", Kind::Gauge, [],
        "1 while this replica leads, else 0";
    LEASE_TRANSITIONS = "mcu_lease_transitions_total", Kind::Counter, [],
        "Times this replica acquired or lost the lease";
    POLICIES_MISSING = "mcu_admission_policies_missing", Kind::Gauge, [],
        "Admission policies of deploy/ that are missing, altered, not bound with Deny for every request, or cannot be read, when last looked at";
    BUILD = "mcu_build_info", Kind::Info, [VERSION],
        "The running version";
    PROCESS_CPU = "process_cpu_seconds_total", Kind::Counter, [],
        "User and system CPU time of the process, in seconds";
    PROCESS_RSS = "process_resident_memory_bytes", Kind::Gauge, [],
        "Resident memory of the process, in bytes";
    PROCESS_FDS = "process_open_fds", Kind::Gauge, [],
        "Open file descriptors of the process";
    PROCESS_START = "process_start_time_seconds", Kind::Gauge, [],
        "Start of the process, in seconds since the Unix epoch";
}
