//! How far what an aborted cluster was asked for is taken back (`docs/design/rules.md#aborted-clusters`).

use crate::model::{Cluster, Phase, Reason, Record, Step, Withdrawal, Work};
use crate::planner::evidence::work_with_evidence;

/// The platform work of a cluster in flight that was withdrawn before the cluster accepted it.
pub(crate) fn withdrawn<'a>(cluster: &'a Cluster, record: &Record) -> Option<&'a Work> {
    let work = work_with_evidence(cluster, record, Step::Platform);
    work.filter(|work| {
        record.phase == Phase::Initialized && work.withdrawal != Withdrawal::None && !work.is_accepted()
    })
}

/// True when nothing is left of what an aborted cluster was asked for. Its pre-action may be gone, and none is created twice in an
/// attempt. The reason of a row from before the pre-action is about something else, for example the request of an earlier attempt.
pub(crate) fn has_ended(cluster: &Cluster, record: &Record) -> bool {
    let is_over = if record.phase == Phase::PreAction {
        let told = cluster.record.as_deref();
        record.reason == Reason::Aborting && told.is_some_and(|told| told.phase == Phase::PreAction)
    } else {
        withdrawn(cluster, record).is_some_and(|work| work.withdrawal == Withdrawal::Confirmed)
    };
    is_over && !cluster.awaits_start()
}
