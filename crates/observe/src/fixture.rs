//! An upgrade as the controller would lend it, for unit tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use api::ManagedClustersUpgradeSpec;
use api::names::Step;
use chrono::{DateTime, Utc};
use rollout::Record;
use rollout::testing::at;
use serde_json::json;

use crate::fleet::{self, Observation};
use crate::index::{Index, Uid};
use crate::input::{ClusterRow, OtherUpgrades, Standing, UpgradeInput};
use crate::maintenance::KnownCalendars;
use crate::preflight::Preflights;
use crate::selection::{self, Selected};
use crate::writes::{Backoff, BlockerKind, LastReading, RunningWrites, StepBlocker, Unsettled};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

pub(crate) const OLD: &str = "2026-05-28T09:00:00Z";
pub(crate) const NEW: &str = "2026-05-28T11:00:00Z";

/// What a test wants to know of a row.
#[derive(Debug)]
pub(crate) struct TestRow {
    record: Arc<Record>,
    written: Option<Arc<Record>>,
    pub(crate) canary: bool,
}

impl ClusterRow for TestRow {
    fn record(&self) -> &Arc<Record> {
        &self.record
    }

    fn written(&self) -> Option<&Arc<Record>> {
        self.written.as_ref()
    }

    fn slot_in_doubt(&self) -> bool {
        false
    }

    fn is_canary(&self) -> bool {
        self.canary
    }
}

/// An upgrade in namespace `ns`. It was created between [`OLD`] and [`NEW`].
#[derive(Debug)]
pub(crate) struct TestUpgrade {
    pub(crate) uid: Uid,
    key: Arc<str>,
    created: DateTime<Utc>,
    pub(crate) is_deleting: bool,
    pub(crate) standing: Standing,
    pub(crate) in_force: Option<ManagedClustersUpgradeSpec>,
    pub(crate) calendars: KnownCalendars,
    selected: Selected,
    pub(crate) rows: BTreeMap<Arc<str>, TestRow>,
    pub(crate) unreleased: Vec<Arc<str>>,
    pub(crate) unremoved: Vec<Arc<str>>,
    pub(crate) is_incomplete: bool,
    pub(crate) left: AHashMap<Arc<str>, DateTime<Utc>>,
    pub(crate) former: AHashSet<Arc<str>>,
    pub(crate) running: AHashMap<Arc<str>, RunningWrites>,
    pub(crate) backoff: AHashMap<Arc<str>, Backoff>,
    pub(crate) unsettled: AHashMap<Arc<str>, Vec<Unsettled>>,
    pub(crate) readings: AHashMap<Arc<str>, LastReading>,
    pub(crate) blockers: AHashMap<(Arc<str>, Step), StepBlocker>,
    pub(crate) missing: AHashMap<Arc<str>, DateTime<Utc>>,
    pub(crate) preflights: Preflights,
}

/// An upgrade that selects these clusters by name and asks for a platform upgrade only.
pub(crate) fn upgrade(uid: &str, clusters: &[&str], index: &Index) -> TestUpgrade {
    let spec: ManagedClustersUpgradeSpec = serde_json::from_value(json!({
        "clusterSelector": {"matchExpressions": [{"key": "name", "operator": "In", "values": clusters}]},
        "clusterVersion": {"channel": "stable-4.12", "version": "4.12.0"},
    }))
    .unwrap();
    TestUpgrade {
        uid: Arc::from(uid),
        key: Arc::from(format!("ns/{uid}")),
        created: "2026-05-28T10:00:00Z".parse().unwrap(),
        is_deleting: false,
        standing: Standing::Moving,
        selected: selection::select(&spec, "ns", &index.clusters, &index.placements, false),
        in_force: Some(spec),
        calendars: KnownCalendars::default(),
        rows: BTreeMap::new(),
        unreleased: Vec::new(),
        unremoved: Vec::new(),
        is_incomplete: false,
        left: AHashMap::new(),
        former: AHashSet::new(),
        running: AHashMap::new(),
        backoff: AHashMap::new(),
        unsettled: AHashMap::new(),
        readings: AHashMap::new(),
        blockers: AHashMap::new(),
        missing: AHashMap::new(),
        preflights: Preflights::default(),
    }
}

impl TestUpgrade {
    pub(crate) fn created(mut self, at: &str) -> TestUpgrade {
        self.created = at.parse().unwrap();
        self
    }

    /// Adds the record of a cluster, which is not written yet, or changes it.
    pub(crate) fn note(&mut self, cluster: &str, record: impl Into<Record>) {
        let row = TestRow {
            record: Arc::new(record.into()),
            written: self.rows.get(cluster).and_then(|row| row.written.clone()),
            canary: false,
        };
        self.rows.insert(Arc::from(cluster), row);
    }

    /// Marks all records as written on the hub.
    pub(crate) fn write(&mut self) {
        for row in self.rows.values_mut() {
            row.written = Some(Arc::clone(&row.record));
        }
    }

    /// Blocks a step for 30 s.
    pub(crate) fn block(&mut self, cluster: &str, step: Step, kind: BlockerKind) {
        let blocker = StepBlocker {
            kind,
            retry_at: at(30),
            checks: 1,
        };
        self.blockers.insert((Arc::from(cluster), step), blocker);
    }

    pub(crate) fn input(&self) -> UpgradeInput<'_, TestRow> {
        UpgradeInput {
            uid: &self.uid,
            key: &self.key,
            created: self.created,
            is_deleting: self.is_deleting,
            standing: self.standing,
            in_force: self.in_force.as_ref(),
            calendars: Some(&self.calendars),
            selected: &self.selected,
            rows: &self.rows,
            unreleased: self.unreleased.iter().collect(),
            unremoved: self.unremoved.iter().collect(),
            is_incomplete: self.is_incomplete,
            left: &self.left,
            former: &self.former,
            running: &self.running,
            backoff: &self.backoff,
            unsettled: &self.unsettled,
            readings: &self.readings,
            blockers: &self.blockers,
            missing: &self.missing,
            preflights: &self.preflights,
        }
    }

    /// What this upgrade observes. The hub itself is not upgraded.
    pub(crate) fn observe(
        &self,
        others: &[TestUpgrade],
        index: &mut Index,
        now: DateTime<Utc>,
    ) -> Observation {
        let owned = index.clusters_of(&self.uid);
        fleet::observe(&self.input(), &others, index, &owned, false, now)
    }
}

impl<'a> OtherUpgrades<'a, TestRow> for &'a [TestUpgrade] {
    fn all(&self) -> impl Iterator<Item = UpgradeInput<'a, TestRow>> {
        self.iter().map(TestUpgrade::input)
    }

    fn get(&self, uid: &str) -> Option<UpgradeInput<'a, TestRow>> {
        self.iter()
            .find(|other| *other.uid == *uid)
            .map(TestUpgrade::input)
    }
}

/// Runs a property `cases` times by default, or `PROPTEST_CASES` times where that is set.
pub fn holds<S: Strategy>(
    cases: u32,
    strategy: &S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    // The value that proptest reports when the variable is not set.
    const UNSET: u32 = 256;
    let asked = Config::default().cases;
    let mut runner = TestRunner::new(Config {
        cases: if asked == UNSET { cases } else { asked },
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    });
    if let Err(error) = runner.run(strategy, property) {
        panic!("{error}");
    }
}
