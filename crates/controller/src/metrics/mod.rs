//! The values of the series in the [`catalogue`].
//!
//! Series are registered and encoded here (`OpenMetrics` 1.0 and the classic text format 0.0.4). Label sets
//! are closed, but for the names of a limited number of upgrades ([`upgrades`]). The main loop never waits for a scrape: a
//! counter is an atomic behind a read lock that no scrape holds for writing. Names of clusters are never labels; they are in
//! logs, reports and Events.

pub mod catalogue;
pub mod labels;
pub mod upgrades;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use api::report::Stage;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};
use rollout::{Reason, Record};
use telemetry::process::Process;

use self::catalogue::{MetricKind, Series};
use self::labels::{
    ActionLabels, ClusterPhase, EventDrop, Finish, FinishLabels, ReconcileOutcome, StepLabels,
    UpgradeStateLabel, Version, WatchKind, WriteKind, WriteOutcome,
};
use self::upgrades::{UpgradeSample, UpgradeSeries};
use crate::clock;
use crate::lease::Leadership;
use crate::published::Subscription;

pub use self::catalogue::CATALOGUE;

type PerKind<M> = Family<WriteKind, M, fn() -> M>;
type PerStep<M> = Family<StepLabels, M, fn() -> M>;

/// Every metric of the controller, registered once. Shared as `Arc<Metrics>`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    reconciles: Family<ReconcileOutcome, Counter>,
    plan_duration: Histogram,
    reaction: Histogram,
    clusters: Family<ClusterPhase, Gauge>,
    upgrades: Family<UpgradeStateLabel, Gauge>,
    upgrade_series: Arc<UpgradeSeries>,
    upgrades_omitted: Gauge,
    finished: Family<FinishLabels, Counter>,
    step_duration: PerStep<Histogram>,
    slots: Gauge,
    slots_used: Gauge,
    orphaned_works: Gauge,
    orphans_swept: Counter,
    actions: Family<ActionLabels, Counter>,
    write_duration: PerKind<Histogram>,
    write_limit: Gauge,
    write_pauses: Counter,
    status_bytes: Histogram,
    events_dropped: Family<EventDrop, Counter>,
    watch_ages: Arc<WatchAges>,
    watch_restarts: Family<WatchKind, Counter>,
    index_objects: Family<WatchKind, Gauge>,
    decode_failures: Family<WatchKind, Counter>,
    records_refused: Gauge,
    records_unreadable: Gauge,
    check_violations: Counter,
    clock_skew: Gauge,
    leader: Gauge,
    lease_transitions: Counter,
    policies_missing: Gauge,
    graph_channels_missing: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers every series of the catalogue. Series with closed label sets start at zero, so that their
    /// rate is known from the first scrape.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let watch_ages = Arc::new(WatchAges::default());
        let upgrade_series = Arc::new(UpgradeSeries::default());
        let metrics = Self {
            reconciles: counters(&mut registry, &catalogue::RECONCILE, ReconcileOutcome::ALL),
            plan_duration: register(&mut registry, &catalogue::PLAN_DURATION, plan_histogram()),
            reaction: register(
                &mut registry,
                &catalogue::REACTION,
                histogram(&catalogue::REACTION),
            ),
            clusters: gauges(&mut registry, &catalogue::CLUSTERS, ClusterPhase::ALL),
            upgrades: gauges(&mut registry, &catalogue::UPGRADES, UpgradeStateLabel::ALL),
            upgrade_series: Arc::clone(&upgrade_series),
            upgrades_omitted: register(&mut registry, &catalogue::UPGRADES_OMITTED, Gauge::default()),
            finished: counters(&mut registry, &catalogue::CLUSTERS_FINISHED, &[COMPLETE]),
            step_duration: step_durations(&mut registry),
            slots: register(&mut registry, &catalogue::SLOTS, Gauge::default()),
            slots_used: register(&mut registry, &catalogue::SLOTS_USED, Gauge::default()),
            orphaned_works: register(&mut registry, &catalogue::ORPHANED_WORKS, Gauge::default()),
            orphans_swept: register(&mut registry, &catalogue::ORPHANS_SWEPT, Counter::default()),
            actions: actions(&mut registry),
            write_duration: register(
                &mut registry,
                &catalogue::WRITE_DURATION,
                Family::new_with_constructor(write_histogram as fn() -> Histogram),
            ),
            write_limit: register(&mut registry, &catalogue::WRITE_LIMIT, Gauge::default()),
            write_pauses: register(&mut registry, &catalogue::WRITE_PAUSES, Counter::default()),
            status_bytes: register(
                &mut registry,
                &catalogue::STATUS_BYTES,
                histogram(&catalogue::STATUS_BYTES),
            ),
            events_dropped: counters(&mut registry, &catalogue::EVENTS_DROPPED, EventDrop::ALL),
            watch_restarts: counters(&mut registry, &catalogue::WATCH_RESTARTS, WatchKind::ALL),
            index_objects: gauges(&mut registry, &catalogue::INDEX_OBJECTS, WatchKind::ALL),
            decode_failures: counters(&mut registry, &catalogue::DECODE_FAILURES, WatchKind::ALL),
            records_refused: register(&mut registry, &catalogue::RECORDS_REFUSED, Gauge::default()),
            records_unreadable: register(&mut registry, &catalogue::RECORDS_UNREADABLE, Gauge::default()),
            check_violations: register(&mut registry, &catalogue::CHECK_VIOLATIONS, Counter::default()),
            clock_skew: register(&mut registry, &catalogue::CLOCK_SKEW, Gauge::default()),
            leader: register(&mut registry, &catalogue::LEADER, Gauge::default()),
            lease_transitions: register(&mut registry, &catalogue::LEASE_TRANSITIONS, Counter::default()),
            policies_missing: register(&mut registry, &catalogue::POLICIES_MISSING, Gauge::default()),
            graph_channels_missing: register(
                &mut registry,
                &catalogue::GRAPH_CHANNELS_MISSING,
                Gauge::default(),
            ),
            watch_ages: Arc::clone(&watch_ages),
            registry: Registry::default(),
        };
        for kind in WriteKind::ALL {
            drop(metrics.write_duration.get_or_create(kind));
        }
        let version = Info::new(Version(env!("CARGO_PKG_VERSION")));
        registry.register(catalogue::BUILD.stem(), catalogue::BUILD.help, version);
        registry.register_collector(Box::new(watch_ages));
        registry.register_collector(Box::new(upgrade_series));
        registry.register_collector(Box::new(Process));
        Self { registry, ..metrics }
    }

    /// Records the outcome of a pass over one upgrade.
    pub fn reconciled(&self, outcome: ReconcileOutcome) {
        self.reconciles.get_or_create(&outcome).inc();
    }

    /// Records how long it took to plan and check one upgrade.
    pub fn planned(&self, took: Duration) {
        self.plan_duration.observe(took.as_secs_f64());
    }

    /// Records the time from a cluster's terminal status to the start of the next cluster.
    pub fn reacted(&self, after: Duration) {
        self.reaction.observe(after.as_secs_f64());
    }

    /// Records a write and its duration. A fenced write was not sent, so it has no duration.
    pub fn wrote(&self, kind: WriteKind, outcome: WriteOutcome, took: Duration) {
        self.actions.get_or_create(&ActionLabels { kind, outcome }).inc();
        if outcome != WriteOutcome::Fenced {
            self.write_duration
                .get_or_create(&kind)
                .observe(took.as_secs_f64());
        }
    }

    /// Number of writes of this kind with this outcome.
    #[must_use]
    pub fn writes(&self, kind: WriteKind, outcome: WriteOutcome) -> u64 {
        self.actions.get_or_create(&ActionLabels { kind, outcome }).get()
    }

    /// Sets how many writes may run at a time. `paused`: all of them first wait for an overloaded hub.
    pub fn set_write_limit(&self, limit: usize, paused: bool) {
        self.write_limit.set(whole(limit));
        if paused {
            self.write_pauses.inc();
        }
    }

    /// Records the size in bytes of a status that was written.
    pub fn status_written(&self, bytes: usize) {
        self.status_bytes
            .observe(f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)));
    }

    /// Sets the number of clusters in a phase, summed over all upgrades.
    pub fn set_clusters(&self, phase: ClusterPhase, count: usize) {
        self.clusters.get_or_create(&phase).set(whole(count));
    }

    /// Sets the number of upgrades in a state.
    pub fn set_upgrades(&self, state: UpgradeStateLabel, count: usize) {
        self.upgrades.get_or_create(&state).set(whole(count));
    }

    /// Sets the series of single upgrades. `omitted`: how many open upgrades are not among them.
    pub fn set_upgrade_series(&self, samples: Vec<UpgradeSample>, omitted: usize) {
        self.upgrade_series.set(samples);
        self.upgrades_omitted.set(whole(omitted));
    }

    /// Records what ended when a cluster got a new phase: its attempt, or steps of it. `before`: its record until then.
    pub fn phase_changed(&self, before: Option<&Record>, record: &Record) {
        if let Some(outcome) = Finish::of(record.phase) {
            let reason = match outcome {
                Finish::Complete => Reason::None,
                Finish::Failed | Finish::Degraded => record.reason,
            };
            self.finished
                .get_or_create(&FinishLabels { outcome, reason })
                .inc();
        }
        for step in Stage::ALL {
            let known = before
                .and_then(|before| before.stage(step))
                .and_then(|stage| stage.finished);
            let Some(ended) = record.stage(step) else { continue };
            if let (Some(at), Some(outcome)) = (ended.finished, ended.outcome)
                && known != Some(at)
            {
                // A clock that was set back may have made the time negative, which counts as zero.
                let outcome = outcome.into();
                let took = (at - ended.started).to_std().unwrap_or_default();
                self.step_duration
                    .get_or_create(&StepLabels { step, outcome })
                    .observe(took.as_secs_f64());
            }
        }
    }

    /// Sets the number of used slots and of all slots, summed over all upgrades.
    pub fn set_slots(&self, used: usize, slots: usize) {
        self.slots_used.set(whole(used));
        self.slots.set(whole(slots));
    }

    /// Sets the number of works without an upgrade.
    pub fn set_orphans(&self, count: usize) {
        self.orphaned_works.set(whole(count));
    }

    /// Records that a work without an upgrade was deleted.
    pub fn orphan_swept(&self) {
        self.orphans_swept.inc();
    }

    /// Records that an Event was not sent.
    pub fn event_dropped(&self, cause: EventDrop) {
        self.events_dropped.get_or_create(&cause).inc();
    }

    /// Number of Events that were not sent for this reason.
    #[must_use]
    pub fn events_dropped(&self, cause: EventDrop) -> u64 {
        self.events_dropped.get_or_create(&cause).get()
    }

    /// Records a sign of life of a watch.
    pub fn watch_alive(&self, kind: WatchKind) {
        self.watch_ages.touch(kind);
    }

    /// Records that a watch ended with an error and is restarted.
    pub fn watch_restarted(&self, kind: WatchKind) {
        self.watch_restarts.get_or_create(&kind).inc();
    }

    /// Sets the number of objects of a kind in the index.
    pub fn set_indexed(&self, kind: WatchKind, count: usize) {
        self.index_objects.get_or_create(&kind).set(whole(count));
    }

    /// Records that a field of an object could not be read.
    pub fn decode_failed(&self, kind: WatchKind) {
        self.decode_failures.get_or_create(&kind).inc();
    }

    /// Number of fields of objects that could not be read, summed over all kinds.
    #[must_use]
    pub fn decode_failures(&self) -> u64 {
        let kinds = WatchKind::ALL.iter();
        kinds
            .map(|kind| self.decode_failures.get_or_create(kind).get())
            .sum()
    }

    /// Sets the number of records that the hub rejects, and of rows that cannot be read.
    pub fn set_records(&self, refused: usize, unreadable: usize) {
        self.records_refused.set(whole(refused));
        self.records_unreadable.set(whole(unreadable));
    }

    /// Sets the number of admission policies that are not known to be enforced.
    pub fn set_policies_missing(&self, count: usize) {
        self.policies_missing.set(whole(count));
    }

    /// Sets how many updates that upgrades need to know about are not told by the update graph of our own.
    pub fn set_graph_channels_missing(&self, count: usize) {
        self.graph_channels_missing.set(whole(count));
    }

    /// Records that the independent check rejected a plan.
    pub fn check_violated(&self) {
        self.check_violations.inc();
    }

    /// Number of plans that the independent check rejected.
    #[must_use]
    pub fn checks_violated(&self) -> u64 {
        self.check_violations.get()
    }

    /// Sets how far the clock is ahead of the hub's, in seconds.
    pub fn set_clock_skew(&self, seconds: i64) {
        self.clock_skew.set(seconds);
    }

    /// Updates `mcu_leader` and `mcu_lease_transitions_total` until the election ends.
    pub async fn follow_election(self: Arc<Self>, mut leadership: Subscription<Leadership>) {
        let mut led = false;
        loop {
            let leads = leadership.see().term().is_some();
            self.leader.set(i64::from(leads));
            if leads != led {
                self.lease_transitions.inc();
                led = leads;
            }
            if leadership.changed().await.is_err() {
                return;
            }
        }
    }

    /// Every series.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Encodes all series in the classic text format.
    ///
    /// # Errors
    /// Returns [`fmt::Error`] if a value cannot be encoded.
    #[cfg(test)]
    pub(crate) fn encode_classic(&self) -> Result<String, fmt::Error> {
        telemetry::exposition::classic(&self.registry)
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn register<M: Metric + Clone>(registry: &mut Registry, series: &Series, metric: M) -> M {
    registry.register(series.stem(), series.help, metric.clone());
    metric
}

fn counters<L>(registry: &mut Registry, series: &Series, all: &[L]) -> Family<L, Counter>
where
    L: Clone + Eq + std::hash::Hash + EncodeLabelSet + Send + Sync + fmt::Debug + 'static,
{
    let family = register(registry, series, Family::<L, Counter>::default());
    for label in all {
        drop(family.get_or_create(label));
    }
    family
}

fn gauges<L>(registry: &mut Registry, series: &Series, all: &[L]) -> Family<L, Gauge>
where
    L: Clone + Eq + std::hash::Hash + EncodeLabelSet + Send + Sync + fmt::Debug + 'static,
{
    let family = register(registry, series, Family::<L, Gauge>::default());
    for label in all {
        drop(family.get_or_create(label));
    }
    family
}

fn actions(registry: &mut Registry) -> Family<ActionLabels, Counter> {
    let all: Vec<ActionLabels> = WriteKind::ALL
        .iter()
        .flat_map(|kind| {
            WriteOutcome::ALL.iter().map(|outcome| ActionLabels {
                kind: *kind,
                outcome: *outcome,
            })
        })
        .collect();
    counters(registry, &catalogue::ACTIONS, &all)
}

fn histogram(series: &Series) -> Histogram {
    let bounds: &[f64] = match series.kind {
        MetricKind::Histogram(bounds) => bounds,
        MetricKind::Counter | MetricKind::Gauge | MetricKind::Info => &[],
    };
    Histogram::new(bounds.iter().copied())
}

/// The counter of complete clusters exists from the start, so that its rate is known from the first scrape.
const COMPLETE: FinishLabels = FinishLabels {
    outcome: Finish::Complete,
    reason: Reason::None,
};

/// All steps start at zero, so that a rate is known from the first scrape.
fn step_durations(registry: &mut Registry) -> PerStep<Histogram> {
    let family = Family::new_with_constructor(step_histogram as fn() -> Histogram);
    let family = register(registry, &catalogue::STEP_DURATION, family);
    for step in StepLabels::all() {
        drop(family.get_or_create(&step));
    }
    family
}

fn step_histogram() -> Histogram {
    histogram(&catalogue::STEP_DURATION)
}

fn plan_histogram() -> Histogram {
    histogram(&catalogue::PLAN_DURATION)
}

fn write_histogram() -> Histogram {
    histogram(&catalogue::WRITE_DURATION)
}

/// When each watch last showed a sign of life; 0 for a watch that never did.
#[derive(Debug)]
struct WatchAges {
    epoch: Instant,
    millis: Vec<AtomicU64>,
}

impl Default for WatchAges {
    fn default() -> Self {
        Self {
            epoch: clock::now(),
            millis: WatchKind::ALL.iter().map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl WatchAges {
    fn touch(&self, kind: WatchKind) {
        let now = u64::try_from(clock::since(self.epoch).as_millis())
            .unwrap_or(u64::MAX)
            .max(1);
        if let Some(slot) = self.millis.get(kind as usize) {
            slot.store(now, Ordering::Relaxed);
        }
    }
}

impl Collector for WatchAges {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let series = &catalogue::WATCH_AGE;
        // The registry appends a full stop to help texts, but a collector must write it itself.
        let help = format!("{}.", series.help);
        let mut metric = encoder.encode_descriptor(series.stem(), &help, None, MetricType::Gauge)?;
        for (kind, slot) in WatchKind::ALL.iter().zip(&self.millis) {
            let seen = slot.load(Ordering::Relaxed);
            if seen > 0 {
                let age = clock::since(self.epoch).saturating_sub(Duration::from_millis(seen));
                ConstGauge::new(age.as_secs_f64()).encode(metric.encode_family(kind)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
