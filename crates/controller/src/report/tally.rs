//! Counts of an upgrade's rows, for the metrics. They are computed once per pass over the upgrade.

use chrono::{DateTime, Utc};
use rollout::{Phase, Reason};

use super::rows::Rows;

/// Number of values of [`Reason`].
const REASONS: usize = Reason::Other as usize + 1;

/// What the rows of an upgrade add up to.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Clusters, by the position of their phase in [`Phase::ALL`].
    pub phases: [usize; Phase::ALL.len()],
    /// Clusters that wait or make no progress, by reason.
    waiting: [u32; REASONS],
    /// Rows that cannot be read.
    pub unreadable: usize,
    /// Clusters that count against maxFailures: failed and degraded ones that are no canaries.
    pub failures: usize,
    /// When a cluster entered its phase last, among those that have started. `None` if none has.
    pub last_progress: Option<DateTime<Utc>>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            phases: [0; Phase::ALL.len()],
            waiting: [0; REASONS],
            unreadable: 0,
            failures: 0,
            last_progress: None,
        }
    }
}

impl Tally {
    /// Counts the rows.
    #[must_use]
    pub fn of(rows: &Rows) -> Self {
        let mut tally = Self::default();
        for row in rows.all().values() {
            let record = &row.record;
            tally.phases[record.phase as usize] += 1;
            tally.unreadable += usize::from(record.unreadable);
            let has_failed = record.phase.has_failed();
            tally.failures += usize::from(has_failed && !row.canary);
            if !has_failed && record.phase != Phase::Complete {
                tally.waiting[record.reason as usize] += 1;
            }
            if !record.phase.is_queued() {
                tally.last_progress = tally.last_progress.max(Some(record.since));
            }
        }
        tally
    }

    /// The reasons that some clusters have, and how many. Reasons of clusters that run as they should are left out.
    pub fn waiting(&self) -> impl Iterator<Item = (Reason, u32)> + '_ {
        let all = Reason::ALL.iter().map(|(reason, _)| *reason);
        all.chain([Reason::Other])
            .filter(|reason| {
                !matches!(
                    reason,
                    Reason::None
                        | Reason::Running
                        | Reason::Progressing
                        | Reason::JobRunning
                        | Reason::Soaking
                )
            })
            .map(|reason| (reason, self.waiting[reason as usize]))
            .filter(|(_, clusters)| *clusters > 0)
    }
}

#[cfg(test)]
mod tests;
