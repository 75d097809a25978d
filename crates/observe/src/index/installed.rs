//! Versions that clusters run although their claims do not show them yet
//! (`docs/design/rules.md#installed-versions`).

use std::sync::Arc;

use api::report::{Outcome, ReportRow, Stage};
use api::views::Report;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::is_newer;

use super::Index;

/// How old the success in a row may be. A claim follows within minutes; if it still shows the old version after this
/// time, somebody has taken the cluster back.
const MAX_CLAIM_DELAY: TimeDelta = TimeDelta::days(1);

/// A version that a cluster was known to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstalledVersion {
    version: Arc<str>,
    /// The claim at that time; `None` if the cluster was not known yet.
    claimed: Option<Arc<str>>,
    /// When the cluster was known to run it.
    at: DateTime<Utc>,
}

impl InstalledVersion {
    /// True as long as the claim may only be late: it has not changed since and is older.
    fn outdates(&self, claim: &Arc<str>) -> bool {
        let unchanged = self.claimed.as_ref().is_none_or(|claimed| claimed == claim);
        claim.is_empty() || (unchanged && is_newer(&self.version, claim))
    }
}

impl Index {
    /// The version that a cluster was last known to run, while its claim does not show it yet.
    #[must_use]
    pub fn installed(&self, cluster: &str) -> Option<&Arc<str>> {
        if self.installed.is_empty() {
            return None;
        }
        self.installed.get(cluster).map(|installed| &installed.version)
    }

    /// Remembers the versions that the rows of an upgrade's report prove: those of platform steps that succeeded.
    pub fn note_rows(&mut self, report: &Report, now: DateTime<Utc>) {
        let rows = report.rows.rows.iter();
        for row in rows.filter_map(|row| row.row.as_ref().ok()) {
            let Some(at) = upgraded_at(row).filter(|at| *at + MAX_CLAIM_DELAY > now) else {
                continue;
            };
            let known = self.installed.get(row.cluster.as_str());
            if row.to_version.is_empty() || known.is_some_and(|known| known.at > at) {
                continue;
            }
            let installed = InstalledVersion {
                version: self.pool.share(&row.to_version),
                claimed: Some(self.pool.share(&row.from_version)),
                at,
            };
            let cluster = self.clusters.get(row.cluster.as_str());
            if cluster.is_none_or(|cluster| installed.outdates(&cluster.version)) {
                let name = cluster.map_or_else(
                    || Arc::from(row.cluster.as_str()),
                    |cluster| Arc::clone(&cluster.name),
                );
                self.installed.insert(name, installed);
            }
        }
    }

    /// Remembers the version that a platform work has begun to report.
    pub(super) fn note_reported(&mut self, cluster: &Arc<str>, version: &Arc<str>, at: DateTime<Utc>) {
        let claimed = self
            .clusters
            .get(cluster)
            .map(|cluster| Arc::clone(&cluster.version));
        let installed = InstalledVersion {
            version: Arc::clone(version),
            claimed,
            at,
        };
        self.installed.insert(Arc::clone(cluster), installed);
        self.forget_shown(cluster);
    }

    /// Forgets the version of a cluster whose claim shows it or something else.
    pub(super) fn forget_shown(&mut self, cluster: &str) {
        let claim = self.clusters.get(cluster).map(|cluster| &cluster.version);
        if let (Some(claim), Some(installed)) = (claim, self.installed.get_mut(cluster)) {
            installed.claimed.get_or_insert_with(|| Arc::clone(claim));
            if !installed.outdates(claim) {
                self.installed.remove(cluster);
            }
        }
    }
}

/// When the platform step of a row succeeded.
fn upgraded_at(row: &ReportRow) -> Option<DateTime<Utc>> {
    let step = row.steps.iter().find(|step| step.name == Stage::Platform)?;
    let succeeded = step.outcome == Some(Outcome::Succeeded);
    succeeded.then(|| step.finished_at.unwrap_or(step.started_at))
}

#[cfg(test)]
mod tests;
