//! Whether a write that has waited in the queue is still asked for (`docs/design/rules.md#called-back`).

use std::sync::Arc;

use crate::apply::{Write, WriteJob};
use crate::state::context::State;

impl State {
    /// False for the creation or change of a work that was planned by another spec than the present one. It may start what its
    /// author has paused, or lead to a target that is none any more. If it is still due, it is planned again.
    #[must_use]
    pub fn is_asked_for(&self, job: &WriteJob) -> bool {
        let (cluster, planned) = match &job.write {
            Write::Create { cluster, params, .. } | Write::Update { cluster, params, .. } => {
                (cluster, &params.spec)
            }
            Write::CreateProbe { cluster, spec, .. } => (cluster, spec),
            _ => return true,
        };
        let Some(entry) = self
            .upgrades
            .get(&job.upgrade)
            .filter(|entry| !entry.is_deleting())
        else {
            return false;
        };
        if let Ok(spec) = &entry.spec {
            return Arc::ptr_eq(spec, planned);
        }
        // Nothing starts by an invalid spec, and clusters in flight continue by the last valid one.
        let is_start = entry.running.get(cluster).is_some_and(|writes| writes.starting);
        !is_start && entry.is_in_force(planned)
    }
}

#[cfg(test)]
mod tests;
