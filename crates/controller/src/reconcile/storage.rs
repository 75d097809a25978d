//! Notices by the response to a write that the hub's storage was replaced by an older one. No I/O.

use crate::apply::{Write, WriteJob, WriteResult};
use crate::metrics::labels::WatchKind;
use crate::state::context::{version, version_of};

/// What shows that the storage is older: the kind of an object, the version at which it was read after the hub had rejected a write,
/// and the higher one that the write named. A read without a version is not older than what was known before it.
#[must_use]
pub fn older_storage(job: &WriteJob, result: &WriteResult) -> Option<(WatchKind, u64, u64)> {
    let (kind, found, known) = match (&job.write, result) {
        (Write::Status { version: known, .. }, WriteResult::UpgradeChanged(Some(upgrade))) => {
            (WatchKind::Upgrade, version(upgrade), known.parse().ok()?)
        }
        (Write::Report { due, .. }, WriteResult::ReportChanged(Some(report))) => {
            let known = due.replaces.as_ref()?.version;
            (WatchKind::Report, version_of(&report.metadata), known)
        }
        (
            Write::Update { version: known, .. } | Write::Withdraw { version: known, .. },
            WriteResult::WorkChanged(work),
        )
        | (
            Write::Delete {
                version: Some(known), ..
            },
            WriteResult::Work(work),
        ) => (WatchKind::Work, version_of(&work.metadata), *known),
        _ => return None,
    };
    (0 < found && found < known).then_some((kind, found, known))
}

#[cfg(test)]
mod tests;
