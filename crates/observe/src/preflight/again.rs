//! Clusters that are asked again just before they start (`docs/design/preflight.md#the-request`).
//!
//! A request by image is checked by no cluster, so the answers that it follows from must be of the moment. A cluster whose answers are
//! older keeps its place while it is asked again.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use clusterversion::preflight::Request;
use rollout::Preflight;

use super::{Judged, Preflights, ProbeWrite, Question};
use crate::index::Index;

/// How long answers are good for a request by image.
const FRESH_FOR: TimeDelta = TimeDelta::minutes(5);
/// How long a cluster keeps its place at most while it is asked again, however long preflight.timeout is.
const PLACE_FOR: TimeDelta = TimeDelta::minutes(10);
/// Clocks that differ by no more than this are trusted.
const CLOCKS_DIFFER: TimeDelta = TimeDelta::seconds(30);

impl Question {
    /// How long a cluster keeps its place while it is asked again.
    fn place_for(&self) -> TimeDelta {
        self.timeout.min(PLACE_FOR)
    }
}

impl Judged {
    /// True when the cluster must be asked by the image that it has told.
    pub(super) const fn is_by_image(&self) -> bool {
        matches!(self.request, Request::ByImage(_))
    }

    /// True when it has told that image too long ago.
    pub(super) fn is_stale(&self, now: DateTime<Utc>) -> bool {
        let by_image = self.is_by_image();
        // An agent may be slow to answer. Without a time nothing is known to be fresh, and asking again would not help.
        let asked = self.heard.or(self.probe.created).or(self.answered);
        // A clock that is behind does not tell how old they are.
        let is_fresh = |asked: DateTime<Utc>| asked - CLOCKS_DIFFER <= now && now < asked + FRESH_FOR;
        by_image && asked.is_some_and(|asked| !is_fresh(asked))
    }
}

impl Preflights {
    /// True when the image by which a cluster must be asked was told too long ago, whatever else the cluster says.
    #[must_use]
    pub fn has_stale_image(&self, cluster: &str, now: DateTime<Utc>) -> bool {
        let judged = self.verdicts.get(cluster);
        judged.is_some_and(|judged| judged.is_stale(now))
    }

    /// Keeps the place of a cluster that is being asked again, until it answers or its time is over.
    pub(super) fn while_asked_again(&self, cluster: &str, now: DateTime<Utc>) -> Option<Preflight> {
        let question = self.questions.preflight.as_ref()?;
        let begun = *self.asked_again.get(cluster)?;
        let answers = self.verdicts.get(cluster).filter(|judged| {
            let counts = judged.is_answered() && judged.counts_at(question, now).is_none();
            counts && judged.probe.created.is_none_or(|at| at > begun - FRESH_FOR)
        });
        let has_answered = answers.is_some();
        let waits = now < begun + question.place_for() && !has_answered;
        waits.then_some(Preflight::Stale)
    }

    /// When the place of a cluster is kept no longer.
    pub(super) fn next_place(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let place_for = self.questions.preflight.as_ref()?.place_for();
        let ends = self.asked_again.values().map(|begun| *begun + place_for);
        ends.filter(|end| *end > now).min()
    }

    /// Deletes the probes of these clusters, so that each is asked again. One that may not be asked any more keeps its probe.
    pub(super) fn ask_again(
        &mut self,
        clusters: &[Arc<str>],
        index: &Index,
        now: DateTime<Utc>,
    ) -> Vec<ProbeWrite> {
        let mut writes = Vec::new();
        for name in clusters {
            let judged = self.verdicts.get(name).filter(|judged| judged.is_stale(now));
            let judged = judged.filter(|_| self.can_be_asked(name, index));
            let Some(uid) = judged.map(|judged| Arc::clone(&judged.probe.uid)) else {
                continue;
            };
            if self.may_write(name, now) {
                self.begin(name, now);
                self.asked_again.insert(Arc::clone(name), now);
                writes.push(ProbeWrite::Delete(Arc::clone(name), uid));
            }
        }
        writes
    }
}
