//! When clusters may start, what they answer when they are asked, and whether it counts.

use chrono::TimeDelta;

use super::{FleetBuilder, PolicyBuilder, RecordBuilder, at};
use crate::maintenance::Calendar;
use crate::model::{LeftOut, Preflight, Reason, WorkerPools};

impl PolicyBuilder {
    /// Only clusters that would take the update are started.
    pub fn requires_preflight(mut self) -> Self {
        self.0.requires_preflight = true;
        self
    }

    /// A cluster starts only when it has answered, whatever it says.
    pub fn awaits_answers(mut self) -> Self {
        self.0.awaits_answers = true;
        self
    }

    /// The platform step includes the worker pools, for at most this many seconds.
    pub fn worker_pools(mut self, seconds: i64) -> Self {
        self.0.worker_pools_timeout = Some(TimeDelta::seconds(seconds));
        self
    }
}

impl FleetBuilder {
    /// The cluster may start only when this calendar is open.
    pub fn calendar(mut self, calendar: Calendar) -> Self {
        let position = self.calendars.len();
        self.calendars.push(calendar);
        self.last(|cluster| cluster.calendar = Some(position))
    }

    /// The spec skips the cluster for this reason.
    pub fn skipped(self, reason: &str) -> Self {
        self.left_out(reason, false)
    }

    /// The spec aborts the cluster for this reason.
    pub fn aborted(self, reason: &str) -> Self {
        self.left_out(reason, true)
    }

    fn left_out(self, reason: &str, aborts: bool) -> Self {
        let reason = reason.into();
        self.last(|cluster| cluster.left_out = Some(LeftOut { reason, aborts }))
    }

    /// The cluster must be asked by an image that it told long ago.
    pub fn stale_image(self) -> Self {
        self.last(|cluster| cluster.has_stale_image = true)
    }

    /// What the cluster says to the update.
    pub fn preflight(self, preflight: Preflight) -> Self {
        self.last(|cluster| cluster.preflight = preflight)
    }

    /// All worker pools of the cluster are updated.
    pub fn pools_updated(self) -> Self {
        self.last(|cluster| cluster.worker_pools = WorkerPools::Updated)
    }

    /// A term has begun, or the clocks agree again, and nobody has heard of the worker pools since.
    pub fn pools_unheard(self) -> Self {
        self.last(|cluster| cluster.pools_unheard = true)
    }

    /// The worker pools of the cluster are not all updated.
    pub fn pools_behind(self, reason: Reason, message: &str) -> Self {
        self.last(|cluster| {
            cluster.worker_pools = WorkerPools::Behind {
                reason,
                message: message.into(),
            };
        })
    }
}

impl RecordBuilder {
    /// The phase has lasted since this time (seconds).
    pub fn since(mut self, seconds: i64) -> Self {
        self.0.since = at(seconds);
        self
    }
}
