//! Whether a write that has waited in the queue is still asked for (`docs/design/rules.md#called-back`).

use std::sync::Arc;

use chrono::{DateTime, Utc};
use observe::preflight::ProbeKind;
use resolve::spec::ResolvedSpec;
use rollout::LEAVE_DEBOUNCE;

use crate::apply::{WorkParams, Write, WriteJob};
use crate::state::context::State;
use crate::state::upgrade::UpgradeEntry;

impl State {
    /// False for the creation or change of a work that was planned by another spec than the present one, while maintenance windows were
    /// open that have closed since, or before an approval has expired or was taken back. It may start what its author has paused, lead to a
    /// target that is none any more, withdraw the update of a cluster that is not left out any more, or start a cluster too late for its
    /// window. Nor for a start, if the latest plan starts nothing any more or its cluster has left. If it is still due, it is planned again.
    #[must_use]
    pub fn is_asked_for(&self, job: &WriteJob, now: DateTime<Utc>) -> bool {
        let (planned, violations) = match &job.write {
            Write::Create { params, .. } | Write::Update { params, .. } => {
                let is_late = params.until.is_some_and(|until| until <= now);
                if is_late || self.was_taken_back(params) {
                    return false;
                }
                (&params.spec, params.violations.as_ref())
            }
            Write::Withdraw { spec, violations, .. } => (spec, violations.as_ref()),
            Write::CreateProbe {
                cluster, spec, kind, ..
            } => {
                return self.is_probe_asked_for(&job.upgrade, (cluster, *kind), spec);
            }
            _ => return true,
        };
        let Some(entry) = self
            .upgrades
            .get(&job.upgrade)
            .filter(|entry| !entry.is_deleting())
        else {
            return false;
        };
        if let Write::Create { params, cluster, .. } | Write::Update { params, cluster, .. } = &job.write
            && params.starts
            && (entry.starts_stopped || has_left(entry, cluster, params.started, now))
        {
            return false;
        }
        match (&entry.spec, violations) {
            (Ok(spec), _) => Arc::ptr_eq(spec, planned),
            // Clusters in flight continue by the last valid spec, and the plan that was made after the invalid edit starts no other.
            (Err(present), Some(known)) => Arc::ptr_eq(present, known) && entry.is_in_force(planned),
            (Err(_), None) => false,
        }
    }

    /// True when an approval is gone that there was when the write was planned.
    fn was_taken_back(&self, params: &WorkParams) -> bool {
        if params.approvals.is_empty() {
            return false;
        }
        let present = self.index.approvals.of(&params.owner);
        params
            .approvals
            .iter()
            .any(|approval| !present.contains(approval))
    }

    /// A probe starts nothing, so any plan by the spec in force may ask for it. Beside an invalid spec only clusters that are under way
    /// are asked. One that has left the selection is asked only for its worker pools: any other probe may set its channel and acknowledge
    /// updates.
    fn is_probe_asked_for(
        &self,
        upgrade: &str,
        (cluster, kind): (&str, ProbeKind),
        planned: &Arc<ResolvedSpec>,
    ) -> bool {
        let entry = self.upgrades.get(upgrade).filter(|entry| !entry.is_deleting());
        entry.is_some_and(|entry| {
            let row = entry.rows.get(cluster);
            let is_under_way = row.is_some_and(|row| row.record.phase.holds_slot());
            // Before the first pass of a term, or since an edit, it is not known what is selected.
            let is_selected = entry.selected_at == 0 || entry.selected.clusters.contains_key(cluster);
            entry.is_in_force(planned)
                && (entry.spec.is_ok() || is_under_way)
                && (is_selected || kind == ProbeKind::Workers)
        })
    }
}

/// True when a cluster has been out of the selection for so long that one that has not started is dropped, which it had not when its
/// start was `planned`. What is planned after that goes on with an upgrade that is under way (`docs/design/rules.md#leavers`).
fn has_left(entry: &UpgradeEntry, cluster: &str, planned: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    let over = entry.left.get(cluster).map(|since| *since + LEAVE_DEBOUNCE);
    over.is_some_and(|over| planned < over && over <= now)
}

#[cfg(test)]
mod tests;
