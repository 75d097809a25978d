//! What observation reads of an upgrade, and what it updates before: the selection.

use std::sync::Arc;
use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};
use observe::fleet::{self, Observation};
use observe::index::{Index, Uid};
use observe::input::{ClusterRow, OtherUpgrades, Standing, UpgradeInput};
use observe::selection;
use rollout::{Fleet, Record};

use crate::report::row::Row;
use crate::report::rows::Rows;
use crate::state::upgrade::{UpgradeEntry, Upgrades};

/// By how much more than the monotonic clock the wall clock advances if it was set.
const JUMP: TimeDelta = TimeDelta::seconds(1);

impl ClusterRow for Row {
    fn record(&self) -> &Arc<Record> {
        &self.record
    }

    fn written(&self) -> Option<&Arc<Record>> {
        self.written.as_ref()
    }

    fn slot_in_doubt(&self) -> bool {
        self.slot_in_doubt
    }

    fn is_canary(&self) -> bool {
        self.canary
    }
}

/// Observes an upgrade. `owned`: clusters with works that carry its UID, sorted. `allow_hub`: the hub itself may be
/// upgraded.
#[must_use]
pub fn observe(
    entry: &UpgradeEntry,
    upgrades: &Upgrades,
    index: &Index,
    owned: &[Arc<str>],
    allow_hub: bool,
    now: DateTime<Utc>,
) -> Observation {
    let others = Others {
        upgrades,
        observed: &entry.uid,
    };
    let mut observation = fleet::observe(&entry.input(), &others, index, owned, allow_hub, now);
    count_once(&mut observation.fleet, &entry.rows);
    observation
}

/// A cluster that was dropped is part of the fleet again when it is back, or as long as a start of it is on its
/// way. The slot that it holds by its row on the hub counts there, and not a second time among those of dropped
/// clusters.
fn count_once(fleet: &mut Fleet, rows: &Rows) {
    if fleet.unreleased == 0 {
        return;
    }
    for cluster in &mut fleet.clusters {
        if rows.is_unreleased(&cluster.name) {
            cluster.slot_in_doubt = true;
            fleet.unreleased -= 1;
        }
    }
}

/// All upgrades except the observed one.
struct Others<'a> {
    upgrades: &'a Upgrades,
    observed: &'a Uid,
}

impl<'a> OtherUpgrades<'a, Row> for Others<'a> {
    fn all(&self) -> impl Iterator<Item = UpgradeInput<'a, Row>> {
        let others = self.upgrades.values();
        others
            .filter(|other| other.uid != *self.observed)
            .map(UpgradeEntry::input)
    }

    fn get(&self, uid: &str) -> Option<UpgradeInput<'a, Row>> {
        let other = self.upgrades.get(uid).filter(|other| other.uid != *self.observed);
        other.map(UpgradeEntry::input)
    }
}

impl UpgradeEntry {
    /// Moves the times at which clusters have left the selection if the wall clock was set since the last pass: they have not been
    /// missing for longer because of that.
    #[expect(clippy::iter_over_hash_type, reason = "each time is moved by itself")]
    pub(crate) fn follow_clock(&mut self, now: DateTime<Utc>, at: Instant) {
        let Some((before, began)) = self.began.replace((now, at)) else {
            return;
        };
        let passed = TimeDelta::from_std(at.saturating_duration_since(began)).unwrap_or(TimeDelta::MAX);
        let jump = (now - before).checked_sub(&passed).unwrap_or_default();
        if jump.abs() >= JUMP {
            for since in self.left.values_mut() {
                *since += jump;
            }
        }
    }

    /// Lends what observation reads.
    fn input(&self) -> UpgradeInput<'_, Row> {
        UpgradeInput {
            uid: &self.uid,
            key: &self.key,
            created: self.created,
            is_deleting: self.is_deleting(),
            standing: Standing::of(self.spec.is_ok(), self.status.is_stalled()),
            in_force: self.in_force().map(|spec| &spec.fields),
            calendars: self.in_force().map(|spec| &spec.calendars),
            selected: &self.selected,
            rows: self.rows.all(),
            unreleased: match &self.archive {
                Some(archive) => archive.at_work().collect(),
                None => self.rows.unreleased(),
            },
            unremoved: self.rows.unremoved(),
            is_incomplete: self.rows.is_incomplete(),
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

    /// Updates the selection from the index. Returns true if it changed.
    pub fn refresh_selection(&mut self, index: &Index, require_bindings: bool) -> bool {
        let Some(spec) = self.in_force().cloned() else {
            return false;
        };
        if self.selected_at == index.epoch + 1 {
            return false;
        }
        self.selected_at = index.epoch + 1;
        let selected = selection::select(
            &spec.fields,
            &self.namespace,
            &index.clusters,
            &index.placements,
            require_bindings,
        );
        let changed = selected != self.selected;
        self.selected = selected;
        changed
    }
}

#[cfg(test)]
mod tests;
