//! Clusters that are asked again just before they start (`docs/design/preflight.md#the-request`).
//!
//! A request by image is checked by no cluster, so the answers that it follows from must be of the moment. A cluster whose answers are
//! older keeps its place while it is asked again.

use std::sync::Arc;

use api::text::visible;
use chrono::{DateTime, TimeDelta, Utc};
use clusterversion::preflight::{Request, Verdict};
use rollout::{ASKED_AHEAD, Preflight, Reason};

use super::{Judged, Preflights, ProbeWrite, Question, unknown};
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

    /// When it was asked, or has answered. An agent may be slow to answer.
    fn asked(&self) -> Option<DateTime<Utc>> {
        self.heard.or(self.probe.created).or(self.answered)
    }

    /// True when it has told that image too long ago.
    pub(super) fn is_stale(&self, now: DateTime<Utc>) -> bool {
        let by_image = self.is_by_image();
        // Without a time nothing is known to be fresh, and asking again would not help.
        let asked = self.asked();
        // A clock that is behind does not tell how old they are.
        let is_fresh = |asked: DateTime<Utc>| asked - CLOCKS_DIFFER <= now && now < asked + FRESH_FOR;
        by_image && asked.is_some_and(|asked| !is_fresh(asked))
    }

    /// True when its probe was created since the cluster is being asked again.
    fn is_since(&self, begun: DateTime<Utc>) -> bool {
        self.probe.created.is_none_or(|at| at > begun - FRESH_FOR)
    }
}

impl Preflights {
    /// True when the image by which a cluster must be asked was told too long ago, whatever else the cluster says. One that may not be
    /// asked any more tells no other.
    #[must_use]
    pub fn has_stale_image(&self, cluster: &str, index: &Index, now: DateTime<Utc>) -> bool {
        let judged = self.verdicts.get(cluster);
        let is_stale = judged.is_some_and(|judged| judged.is_stale(now));
        is_stale && self.can_be_asked(cluster, index) && self.cannot_be_asked_again(cluster, now).is_none()
    }

    /// What is made of a cluster whose earlier probe is not removed, so that it is not asked again. Its place is not kept any longer.
    pub(super) fn cannot_be_asked_again(&self, cluster: &str, now: DateTime<Utc>) -> Option<Preflight> {
        let question = self.questions.preflight.as_ref()?;
        let begun = *self.asked_again.get(cluster)?;
        let judged = self.verdicts.get(cluster).filter(|judged| judged.is_stale(now))?;
        if now < begun + question.place_for() || judged.is_since(begun) {
            return None;
        }
        let error = self.failures.get(cluster).map_or("", |failure| &*failure.text);
        let text = format!("The cluster cannot be asked again, as its earlier ManifestWork stays: {error}");
        let message = Arc::from(visible(text.trim_end_matches(": ")));
        let reason = Reason::PreflightPending;
        let certain = self.certain(now);
        Some(unknown(reason, message, begun, question.timeout, certain))
    }

    /// When the image by which a cluster must be asked was told too long ago, if it must be asked by one.
    #[must_use]
    pub fn image_until(&self, cluster: &str) -> Option<DateTime<Utc>> {
        let judged = self.verdicts.get(cluster).filter(|judged| judged.is_by_image());
        Some(judged?.asked()? + FRESH_FOR)
    }

    /// Keeps the place of a cluster that is being asked again, until it answers or its time is over.
    pub(super) fn while_asked_again(&self, cluster: &str, now: DateTime<Utc>) -> Option<Preflight> {
        let question = self.questions.preflight.as_ref()?;
        let begun = *self.asked_again.get(cluster)?;
        let answers = self.verdicts.get(cluster).filter(|judged| {
            let counts = judged.is_answered() && judged.counts_at(question, now).is_none();
            counts && judged.is_since(begun)
        });
        let has_answered = answers.is_some();
        let waits = now < begun + question.place_for() && !has_answered;
        waits.then_some(Preflight::Stale)
    }

    /// What a cluster says, given the clock: by one that is not trusted nobody knows how old the image is by which it must be asked, so
    /// it would be asked by the version alone, and refuse that.
    pub(super) fn by_clock(&self, judged: &Judged, says: Preflight) -> Preflight {
        if self.clock_distrusted && judged.is_by_image() && says == Preflight::Ready {
            return Preflight::Stale;
        }
        says
    }

    /// When the place of a cluster is kept no longer.
    pub(super) fn next_place(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let place_for = self.questions.preflight.as_ref()?.place_for();
        let ends = self.asked_again.values().map(|begun| *begun + place_for);
        ends.filter(|end| *end > now).min()
    }

    /// When clusters may have to be asked again before their windows open, whose answers are still good now.
    pub(super) fn next_ahead(
        &self,
        opens: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) -> Option<DateTime<Utc>> {
        let at = opens? - ASKED_AHEAD;
        let is_by_image = || self.verdicts.values().any(Judged::is_by_image);
        (at > now && is_by_image()).then_some(at)
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
            let Some(judged) = judged else {
                continue;
            };
            let uid = Arc::clone(&judged.probe.uid);
            let is_unknown = matches!(judged.verdict, Verdict::Unknown(_));
            let unknown_since = is_unknown.then_some(judged.unknown_since);
            // The time of an attempt that failed goes on.
            let earlier = self.asked_again.get(name).copied();
            let begun = earlier.filter(|begun| !judged.is_since(*begun)).unwrap_or(now);
            if self.may_write(name, now) {
                self.begin(name, now);
                self.asked_again.insert(Arc::clone(name), begun);
                self.unknown_before
                    .extend(unknown_since.map(|since| (Arc::clone(name), since)));
                writes.push(ProbeWrite::Delete(Arc::clone(name), uid));
            }
        }
        writes
    }
}
