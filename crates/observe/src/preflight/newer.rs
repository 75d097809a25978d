//! Clusters that have told a newer version than the target, where the probe sets the channel (`docs/design/preflight.md#the-probe`).
//!
//! Nobody would set the channel of such a cluster back, so its probe goes, and what it has told stays.

use std::mem;
use std::sync::Arc;

use ahash::AHashMap;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::is_newer;

use super::judged::Judged;
use super::names::KnownNames;
use super::{Preflights, Question};
use crate::index::Index;

/// The clusters, each with the version that the hub knew of it when it told its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Newer(AHashMap<Arc<str>, Arc<str>>);

impl Newer {
    pub(super) fn contains(&self, cluster: &str) -> bool {
        self.0.contains_key(cluster)
    }

    /// Notes what a cluster has told.
    pub(super) fn note(&mut self, cluster: &Arc<str>, told: &Judged, question: &Question, index: &Index) {
        if question.spares(told) {
            self.0.insert(Arc::clone(cluster), known_version(cluster, index));
        } else {
            self.0.remove(cluster);
        }
    }

    /// Forgets clusters that are not in the fleet.
    pub(super) fn keep(&mut self, is_in_fleet: impl Fn(&Arc<str>) -> bool) {
        self.0.retain(|cluster, _| is_in_fleet(cluster));
    }
}

fn known_version(cluster: &str, index: &Index) -> Arc<str> {
    let view = index.clusters.get(cluster);
    view.map(|view| Arc::clone(&view.last_version))
        .unwrap_or_default()
}

impl Question {
    /// True when the probe sets the channel of the cluster.
    pub(super) fn sets_channel(&self) -> bool {
        self.counts_after > TimeDelta::zero()
    }

    /// True when two questions differ by no more than what an update graph of our own has told.
    fn asks_the_same(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.update.by_graph.clone_from(&self.update.by_graph);
        *self == other
    }

    /// True when the probe must not set the channel of a cluster that has told this: it runs a newer version than the target, and is not
    /// started for that.
    pub(super) fn spares(&self, told: &Judged) -> bool {
        let current = told.probe.facts.current.as_deref().unwrap_or_default();
        self.sets_channel() && !self.update.allow_downgrade && is_newer(current, &self.update.version)
    }
}

impl Preflights {
    /// The version that a cluster has told, if it is newer than the target. The hub may not know it.
    #[must_use]
    pub fn newer_version(&self, cluster: &str) -> Option<Arc<str>> {
        let question = self.questions.preflight.as_ref()?;
        let told = self.verdicts.get(cluster)?.probe.facts.current.as_deref().ok()?;
        is_newer(told, &question.update.version).then(|| Arc::from(told))
    }

    /// Forgets the answers to another question than this one. Clusters whose channel this one must not set either are judged anew by what
    /// they have told, because they are not asked. If no more has changed than what an update graph of our own tells, nothing is forgotten.
    pub(super) fn forget_answers(&mut self, question: Option<&Question>, now: DateTime<Utc>) {
        let mut before = mem::take(&mut self.verdicts);
        let earlier = self.questions.preflight.as_deref().zip(question);
        let same = earlier.filter(|(earlier, question)| earlier.asks_the_same(question));
        if let Some((_, question)) = same {
            let judge = |(cluster, told): (Arc<str>, Judged)| {
                let judged = Judged::new(&told.probe, question, Some(&told), (now, now, now));
                (cluster, judged)
            };
            self.verdicts = before.into_iter().map(judge).collect();
            return;
        }
        self.names = KnownNames::default();
        self.unknown_before.clear();
        // Nobody keeps a place for what was asked before.
        self.asked_again.clear();
        let verdicts = &mut self.verdicts;
        self.newer.0.retain(|cluster, _| {
            let told = before.remove(cluster);
            let spared = told
                .zip(question)
                .filter(|(told, question)| question.spares(told));
            let Some((told, question)) = spared else {
                return false;
            };
            let judged = Judged::new(&told.probe, question, None, (now, told.unknown_since, now));
            verdicts.insert(Arc::clone(cluster), judged);
            true
        });
    }

    /// Forgets what clusters have told that were registered anew, or of which the hub has learned another version since their probe went.
    pub(super) fn forget_newer(&mut self, index: &Index) {
        let verdicts = &self.verdicts;
        self.newer.0.retain(|cluster, known| {
            let told = verdicts.get(cluster).map(|told| &told.probe);
            let told = told.filter(|told| !index.is_former_probe(cluster, told));
            told.is_some_and(|told| {
                let still_says_so = index.probe(cluster).is_some_and(|probe| Arc::ptr_eq(probe, told));
                still_says_so || known_version(cluster, index) == *known
            })
        });
    }
}
