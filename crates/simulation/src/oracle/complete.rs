//! A row may say that a cluster is complete only if that is true by what agents report.

use std::time::Duration;

use api::names::Step;

use super::facts::{DEAF, End, Facts, Row, Running, Upgrade, Version, version};
use super::rule::Rule;

/// Whether a work of the attempt of a row holds a slot, and its agent still works on it.
fn is_at_work(work: &Running, owner: &str, cluster: &str, row: &Row) -> bool {
    work.goes_on
        && work.owner == owner
        && work.cluster == cluster
        && work.revision == row.revision
        && work.retry == row.retry
}

impl Upgrade {
    /// The ends of this upgrade's updates of a cluster that agents have reported, and the versions to which they led.
    fn updates(&self, cluster: &str) -> impl Iterator<Item = (&End, Option<Version>)> {
        let ends = self.ends.iter();
        let updates = ends.filter(move |((name, step, _), _)| name == cluster && *step == Step::Platform);
        updates.map(|(_, end)| (end, version(&end.target)))
    }

    /// Whether agents have reported the end of the steps that hold a slot, as a row says.
    pub(super) fn has_ended(&self, cluster: &str, row: &Row) -> bool {
        let wants_operators = self.generations.last().is_some_and(|spec| spec.after.operators);
        let step = if wants_operators && !row.has_left {
            Step::Operators
        } else {
            Step::Platform
        };
        self.end(cluster, step, &row.revision).is_some()
    }

    /// Whether agents have reported the end of the steps that hold a slot after one time and until another, and another version
    /// was asked for in between as well.
    pub(super) fn has_ended_and_is_asked_again(
        &self,
        cluster: &str,
        since: Duration,
        until: Duration,
    ) -> bool {
        let is_between = |at: Duration| since < at && at <= until;
        let mut edits = self.generations.iter().zip(self.generations.iter().skip(1));
        let is_asked_again =
            edits.any(|(before, now)| before.version != now.version && is_between(now.since));
        let wants_operators = self.generations.iter().any(|spec| spec.after.operators);
        let last = if wants_operators {
            Step::Operators
        } else {
            Step::Platform
        };
        let mut ends = self
            .ends
            .iter()
            .filter(|((name, step, _), _)| name == cluster && *step == last);
        is_asked_again && ends.any(|(_, end)| is_between(end.first) || is_between(end.last))
    }
}

impl Facts {
    /// Whether a work of the attempt of a row holds a slot, and its agent still works on it.
    pub(super) fn goes_on(&self, owner: &str, cluster: &str, row: &Row) -> bool {
        let mut works = self.works.values();
        works.any(|work| is_at_work(work, owner, cluster, row))
    }

    /// The same, by what whoever sent the row had to know. If the row says that the update has succeeded, agents have reported
    /// that, and they took it back so late that the sender may not have heard of it, that work does not count.
    pub(super) fn is_known_to_go_on(&self, owner: &str, cluster: &str, row: &Row) -> bool {
        let sent = self.sent();
        let platform = Step::Platform.work_name(cluster);
        let tells_end = row
            .step("Platform")
            .is_some_and(|step| step.outcome == "Succeeded");
        let mut works = self.works.values();
        works.any(|work| {
            let is_unheard = work.taken_back.is_some_and(|since| sent < since + DEAF);
            let has_seemed_over = tells_end && work.name == platform && is_unheard;
            is_at_work(work, owner, cluster, row) && !has_seemed_over
        })
    }

    /// Whether a cluster has claimed to run something older after it had ended the update that an upgrade asks for, and another
    /// upgrade has then taken it to something older. Nobody can tell such a claim from that of a cluster that somebody has taken
    /// back. A claim that is older because of the other update does not count. Neither does one that is no version: it does not
    /// say that the cluster was taken back.
    pub(super) fn was_misled(&self, owner: &str, name: &str) -> bool {
        let (Some(upgrade), Some(cluster)) = (self.upgrades.get(owner), self.clusters.get(name)) else {
            return false;
        };
        let target = upgrade.generations.last().and_then(|spec| version(&spec.version));
        let updates = upgrade.updates(name).filter(|(_, to)| *to == target);
        let (Some(target), Some(ended)) = (target, updates.map(|(end, _)| end.last).max()) else {
            return false;
        };
        let others = self.upgrades.iter().filter(|(uid, _)| uid.as_str() != owner);
        let updates = others.flat_map(|(_, other)| other.updates(name));
        let mut older = updates.filter(|(_, to)| to.is_some_and(|to| to < target));
        older.any(|(end, _)| {
            let mut claims = cluster.versions.iter();
            let is_older = |claimed: Version| claimed != Version::default() && claimed < target;
            claims.any(|(since, claimed)| ended < *since && *since < end.first && is_older(*claimed))
        })
    }

    /// The controller says that a cluster is complete.
    pub(super) fn complete(&mut self, owner: &str, name: &str, row: &Row) {
        let sent = self.sent();
        let (Some(upgrade), Some(cluster)) = (self.upgrades.get(owner), self.clusters.get(name)) else {
            return;
        };
        let claims = cluster.versions.last().map(|(_, claim)| *claim);
        let runs = cluster.done.contains_key(&row.to) || (claims.is_some() && claims >= version(&row.to));
        let specs: Vec<_> = upgrade.in_force(sent).collect();
        let wants_operators = !row.has_left && specs.iter().all(|spec| spec.after.operators);
        let wants_post_action = !row.has_left && specs.iter().all(|spec| spec.after.action);
        let soak = specs.iter().map(|spec| spec.soak).min().unwrap_or_default();
        let of_row = |step| upgrade.end(name, step, &row.revision);
        let last = if wants_operators {
            Step::Operators
        } else {
            Step::Platform
        };
        let ended = of_row(last).map(|end| end.first);
        // A cluster that left while it was queued again returns to the end of its earlier attempt, whatever was left of the soak.
        let is_soaked = row.has_left || ended.is_none_or(|ended| ended + soak <= sent + self.tolerance);
        let has_operators = !wants_operators || ended.is_some();
        let has_checked = !wants_post_action || of_row(Step::PostAction).is_some();
        self.check(Rule::Complete, runs, || {
            format!(
                "{name} is complete, and has never reported the end of its update to {}",
                row.to
            )
        });
        self.check(Rule::Complete, has_operators, || {
            format!("{name} is complete, and has never reported the end of its operators")
        });
        self.check(Rule::Complete, is_soaked, || {
            let ended = ended.unwrap_or(Duration::ZERO);
            format!("{name} is complete, and its soak of {soak:?} began at {ended:?} at the earliest")
        });
        self.check(Rule::Complete, has_checked, || {
            format!("{name} is complete, and its post-action has never succeeded")
        });
    }
}
