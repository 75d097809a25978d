//! Versions that clusters run although their claims do not show them yet
//! (`docs/design/rules.md#installed-versions`).

use std::sync::Arc;

use ahash::AHashMap;
use api::names::Step;
use api::report::{Outcome, ReportRow, Stage};
use api::views::Report;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::is_newer;

use super::cluster::{ClusterView, Clusters};
use super::work::{MAX_CLOCK_DIFFERENCE, WorkView};
use super::{ClusterWorks, Index};

/// How old the success in a row may be, or feedback if there is a claim. A claim follows within minutes; if it still shows the old version after this
/// time, somebody has taken the cluster back.
const MAX_CLAIM_DELAY: TimeDelta = TimeDelta::days(1);

/// How much the clocks of hub and controller may differ. A cluster that was registered later than this after a success
/// is another one.
const MAX_CLOCK_ERROR: TimeDelta = TimeDelta::hours(1);

/// How far the watch of ManagedClusters may be behind, and the clocks of two replicas differ. Nobody takes a cluster back that fast.
const MAX_NEWS_DELAY: TimeDelta = TimeDelta::minutes(2);

/// A version that a cluster was known to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstalledVersion {
    version: Arc<str>,
    /// The claim at that time; `None` if the cluster was not known yet. Empty if it had none, or if a row does not tell from
    /// which version its update began.
    claimed: Option<Arc<str>>,
    /// ID of the cluster at that time, if known.
    id: Option<Arc<str>>,
    /// When the cluster was first known to run it: at a success, or at the beginning of reports.
    since: DateTime<Utc>,
    /// When the cluster was last known to run it: at a success, or at the beginning or the end of reports.
    at: DateTime<Utc>,
    /// The claim shows it at present, or something newer.
    shown: bool,
    /// The claim has followed since, or shows something else, or the cluster was installed anew: the entry says no
    /// more than that earlier rows prove nothing.
    over: bool,
}

impl InstalledVersion {
    /// True as long as the claim may only be late: it is older and was not even older before. A late claim shows the
    /// versions one after the other that the cluster has run.
    fn outdates(&self, claim: &Arc<str>) -> bool {
        let claimed = self.claimed.as_ref();
        let follows = claimed.is_none_or(|claimed| claimed == claim || is_newer(claim, claimed));
        claim.is_empty() || (follows && is_newer(&self.version, claim))
    }

    /// True when it is later than the success in a row, or when that row was read before and proves nothing any more. A work counts as
    /// reporting until its end became known, which may be late. So if the row shows something newer, and is later than
    /// the beginning of the reports, or earlier by no more than clocks may differ, it may tell of an update that nobody saw here.
    fn outweighs(&self, to_version: &str, succeeded: DateTime<Utc>) -> bool {
        let may_be_earlier = self.since <= succeeded + MAX_NEWS_DELAY && is_newer(to_version, &self.version);
        (self.at > succeeded && !may_be_earlier) || (self.over && self.at == succeeded)
    }

    /// True as long as the cluster's platform work is there and reports the version.
    fn is_reported(&self, cluster: &ClusterView, work: Option<&WorkView>) -> bool {
        work.is_some_and(|work| {
            work.cluster_version == self.version
                && !work.unconfirmed
                && !work.work.vanished
                && !work.is_older_than(cluster.created)
        })
    }

    /// Compares the version with what the cluster's ManagedCluster shows, as a watch told at `heard`, if it was no list. No
    /// claim ends a version that a work reports or has just reported: what the claim shows after that counts.
    fn compare(&mut self, cluster: &ClusterView, work: Option<&WorkView>, heard: Option<DateTime<Utc>>) {
        let id = cluster.id.as_ref().map(|id| &id.text);
        // Where nothing tells what it showed before, the first claim counts as late, and not as a version to which somebody
        // has taken the cluster back.
        let before = self.claimed.take().filter(|claimed| !claimed.is_empty());
        self.claimed = Some(before.unwrap_or_else(|| Arc::clone(&cluster.version)));
        if self.id.is_none() {
            self.id = id.cloned();
        }
        let another = id.is_some() && self.id.as_ref() != id
            || cluster
                .created
                .is_some_and(|created| created > self.at + MAX_CLOCK_ERROR);
        if another {
            // Rows from before tell of another cluster, also those that are later than the beginning of the reports, or little earlier.
            self.since = self.at + MAX_NEWS_DELAY;
        }
        let is_past = self.shown || !self.outdates(&cluster.version);
        let is_former = work.is_some_and(|work| work.is_older_than(cluster.created));
        let may_be_late = heard.is_some_and(|heard| heard < self.at + MAX_NEWS_DELAY) && !is_former;
        self.over |= another || (is_past && !may_be_late && !self.is_reported(cluster, work));
        self.shown = !cluster.version.is_empty() && !is_newer(&self.version, &cluster.version);
        if !self.over && !cluster.version.is_empty() {
            self.claimed = Some(Arc::clone(&cluster.version));
        }
    }
}

/// Handles that a work is gone, however that became known. It may have reported the version of its cluster until now.
pub(super) fn note_end(
    installed: &mut AHashMap<Arc<str>, InstalledVersion>,
    clusters: &Clusters,
    namespace: &str,
    work: &WorkView,
    now: DateTime<Utc>,
) {
    let known = clusters.get(namespace).zip(installed.get_mut(namespace));
    if let Some((cluster, installed)) = known.filter(|_| work.step == Step::Platform)
        && installed.is_reported(cluster, Some(work))
    {
        installed.at = installed.at.max(now);
    }
}

impl Index {
    /// The version that a cluster was last known to run, while its claim does not show it yet. `certain`: a time that has certainly been
    /// reached.
    #[must_use]
    pub fn installed(&self, cluster: &str, certain: DateTime<Utc>) -> Option<&Arc<str>> {
        // A cluster that comes back may be another one.
        if self.installed.is_empty() || self.deleted.contains(cluster) {
            return None;
        }
        let claims = self
            .clusters
            .get(cluster)
            .is_some_and(|view| !view.version.is_empty());
        let counts = |installed: &&InstalledVersion| {
            !(installed.over || installed.shown || claims && installed.at + MAX_CLAIM_DELAY <= certain)
        };
        let known = self.installed.get(cluster).filter(counts);
        known.map(|installed| &installed.version)
    }

    /// Remembers the versions that the rows of an upgrade's report prove: those of platform steps that succeeded. `certain`: a time
    /// that has certainly been reached.
    pub fn note_rows(&mut self, report: &Report, certain: DateTime<Utc>) {
        let rows = report.rows.rows.iter();
        for row in rows.filter_map(|row| row.row.as_ref().ok()) {
            let Some(at) = upgraded_at(row).filter(|at| *at + MAX_CLAIM_DELAY > certain) else {
                continue;
            };
            let known = self.installed.get(row.cluster.as_str());
            if row.to_version.is_empty() || known.is_some_and(|known| known.outweighs(&row.to_version, at)) {
                continue;
            }
            let over = known.is_some_and(|known| known.over && *known.version == *row.to_version);
            let installed = InstalledVersion {
                version: self.pool.share(&row.to_version),
                claimed: Some(self.pool.share(&row.from_version)),
                id: None,
                since: at,
                at,
                shown: false,
                over,
            };
            let cluster = self.clusters.get(row.cluster.as_str());
            let name = cluster.map_or_else(
                || Arc::from(row.cluster.as_str()),
                |cluster| Arc::clone(&cluster.name),
            );
            let known = self
                .installed
                .get(&name)
                .is_some_and(|known| !(known.over || known.shown));
            let installed = self.compared(&name, installed, Some(certain));
            // What proves nothing does not replace what does.
            if !(installed.over && known) {
                self.installed.insert(name, installed);
            }
        }
    }

    /// Remembers the version that a platform work has begun to report.
    pub(super) fn note_reported(&mut self, cluster: &Arc<str>, version: &Arc<str>, at: DateTime<Utc>) {
        let known = self.clusters.get(cluster);
        let installed = InstalledVersion {
            version: Arc::clone(version),
            claimed: known.map(|cluster| Arc::clone(&cluster.version)),
            id: None,
            since: at,
            at,
            shown: false,
            over: false,
        };
        let installed = self.compared(cluster, installed, None);
        self.installed.insert(Arc::clone(cluster), installed);
    }

    fn compared(
        &self,
        name: &str,
        mut installed: InstalledVersion,
        heard: Option<DateTime<Utc>>,
    ) -> InstalledVersion {
        if let Some(cluster) = self.clusters.get(name) {
            installed.compare(cluster, platform_work(self.works.get(name)), heard);
        }
        installed
    }

    /// Handles that a cluster was deleted and registered anew. What was known of it before it was registered anew is of its earlier life.
    /// The watch of ManagedClusters may be behind, so something newer may be known already, by a clock that may be behind the hub's.
    /// What is kept from just before does no harm: no cluster is installed anew so fast.
    pub(super) fn forget_installed_before(&mut self, cluster: &str, registered: Option<DateTime<Utc>>) {
        let is_earlier = |known: &InstalledVersion| {
            registered.is_none_or(|registered| known.at + MAX_CLOCK_DIFFERENCE < registered)
        };
        if self.installed.get(cluster).is_some_and(is_earlier) {
            self.installed.remove(cluster);
        }
    }

    /// Compares what is remembered of a cluster with its ManagedCluster, which has changed.
    pub(super) fn compare_installed(&mut self, cluster: &str, heard: Option<DateTime<Utc>>) {
        if let (Some(view), Some(installed)) = (self.clusters.get(cluster), self.installed.get_mut(cluster)) {
            installed.compare(view, platform_work(self.works.get(cluster)), heard);
        }
    }
}

fn platform_work(works: Option<&ClusterWorks>) -> Option<&WorkView> {
    works?[Step::Platform.index()].as_deref()
}

/// When the platform step of a row succeeded.
fn upgraded_at(row: &ReportRow) -> Option<DateTime<Utc>> {
    let step = row.steps.iter().find(|step| step.name == Stage::Platform)?;
    let succeeded = step.outcome == Some(Outcome::Succeeded);
    succeeded.then(|| step.finished_at.unwrap_or(step.started_at))
}

#[cfg(test)]
mod tests;
