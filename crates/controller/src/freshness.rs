//! Whether what the watches told is true now. No I/O, no clock.
//!
//! A view is *wanted* at the begin of a term, and again when a watch broke: every kind must then be listed anew, by a
//! list that began after that moment. The view is *open*, so that plans may be made and carried out, from the moment when
//! every kind has such a list and a watch that goes on from it, until a watch breaks or the term ends.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::telemetry::labels::WatchKind;

/// How up to date each kind is, and what follows from it.
#[derive(Debug)]
pub struct Freshness {
    inner: Mutex<Inner>,
    /// Tells the watches that a new view is wanted.
    wanted: watch::Sender<u64>,
    /// Tells them that a kind was listed.
    progress: watch::Sender<()>,
}

#[derive(Debug)]
struct Inner {
    /// Number of the wanted view.
    generation: u64,
    kinds: Vec<Kind>,
    /// This replica leads, and waits for a view or has one.
    leading: bool,
    /// Plans may be made and carried out.
    open: bool,
    /// The records of this replica count, not those of the hub: the view was open once in this term.
    own: bool,
    /// Ends when everything that is known of the hub is given up.
    view: CancellationToken,
}

#[derive(Debug)]
struct Kind {
    of: WatchKind,
    /// View for which it was listed and is being watched; none while it is not.
    fresh: Option<u64>,
    /// Highest resource version that was told.
    highest: u64,
}

impl Freshness {
    /// Nothing is known of these kinds.
    #[must_use]
    pub fn new(kinds: &[WatchKind]) -> Freshness {
        let kind = |kind: &WatchKind| Kind {
            of: *kind,
            fresh: None,
            highest: 0,
        };
        Freshness {
            inner: Mutex::new(Inner {
                generation: 0,
                kinds: kinds.iter().map(kind).collect(),
                leading: false,
                open: false,
                own: false,
                view: CancellationToken::new(),
            }),
            wanted: watch::Sender::new(0),
            progress: watch::Sender::new(()),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the view that is wanted now, and news when it changes.
    #[must_use]
    pub fn wanted(&self) -> watch::Receiver<u64> {
        self.wanted.subscribe()
    }

    /// True while this is the number of the wanted view.
    #[must_use]
    pub fn is_wanted(&self, generation: u64) -> bool {
        self.inner().generation == generation
    }

    /// A term begins: all that is known may be older than what the last leader wrote.
    pub fn begin_term(&self) {
        let mut inner = self.inner();
        inner.leading = true;
        inner.own = false;
        self.want(&mut inner);
    }

    /// A term ends.
    pub fn end_term(&self) {
        let mut inner = self.inner();
        inner.leading = false;
        inner.own = false;
        inner.open = false;
    }

    /// Everything that is known is given up, because the hub's storage is older than it.
    pub fn start_anew(&self) {
        let mut inner = self.inner();
        inner.own = false;
        for kind in &mut inner.kinds {
            kind.highest = 0;
        }
        std::mem::take(&mut inner.view).cancel();
        self.want(&mut inner);
    }

    fn want(&self, inner: &mut Inner) {
        inner.open = false;
        inner.generation += 1;
        self.wanted.send_replace(inner.generation);
    }

    /// A kind is listed and watched, as the view of this number asked for.
    pub fn refreshed(&self, kind: WatchKind, generation: u64) {
        let mut inner = self.inner();
        if let Some(found) = inner.of(kind) {
            found.fresh = Some(generation);
        }
        drop(inner);
        self.progress.send_replace(());
    }

    /// Waits until a kind is listed and watched, as the view of this number asks for.
    pub async fn until_fresh(&self, kind: WatchKind, generation: u64) {
        let mut progress = self.progress.subscribe();
        let is_fresh = || {
            self.inner()
                .of(kind)
                .is_none_or(|found| found.fresh == Some(generation))
        };
        while !is_fresh() {
            // The sender lives as long as this.
            drop(progress.changed().await);
        }
    }

    /// The watch of a kind is not there any more, and the kind must be listed again. After an `outage` that closed the
    /// view the other watches may be dead without knowing, so that all are made anew.
    pub fn lost(&self, kind: WatchKind, outage: bool) {
        let mut inner = self.inner();
        if let Some(found) = inner.of(kind) {
            found.fresh = None;
        }
        if std::mem::take(&mut inner.open) && outage {
            self.want(&mut inner);
        }
    }

    /// True when a kind is listed and watched, be it for an earlier view.
    #[must_use]
    pub fn is_watched(&self, kind: WatchKind) -> bool {
        self.inner().of(kind).is_some_and(|found| found.fresh.is_some())
    }

    /// True when every kind is up to date for the wanted view.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.inner().is_complete()
    }

    /// Opens the view if every kind is up to date and this replica leads. True while it is open.
    pub fn open(&self) -> bool {
        let mut inner = self.inner();
        if inner.leading && inner.is_complete() {
            inner.open = true;
            inner.own = true;
        }
        inner.open
    }

    /// True while plans may be made and carried out.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.inner().open
    }

    /// True when the records of this replica count, not those of the hub.
    #[must_use]
    pub fn owns_records(&self) -> bool {
        self.inner().own
    }

    /// Ends when everything that is known is given up.
    #[must_use]
    pub fn view(&self) -> CancellationToken {
        self.inner().view.clone()
    }

    /// Notes the resource version of an object or bookmark that was told for the view of this number.
    pub fn saw(&self, kind: WatchKind, generation: u64, version: u64) {
        let mut inner = self.inner();
        if inner.generation == generation
            && let Some(found) = inner.of(kind)
        {
            found.highest = found.highest.max(version);
        }
    }

    /// The higher version that was told before, if a list of this version goes back behind it. A consistent list never
    /// does, unless the storage of the hub was replaced by an older one.
    #[must_use]
    pub fn went_back(&self, kind: WatchKind, version: u64) -> Option<u64> {
        let highest = self.inner().of(kind)?.highest;
        (version < highest).then_some(highest)
    }
}

impl Inner {
    fn of(&mut self, kind: WatchKind) -> Option<&mut Kind> {
        self.kinds.iter_mut().find(|known| known.of == kind)
    }

    fn is_complete(&self) -> bool {
        let wanted = Some(self.generation);
        self.kinds.iter().all(|kind| kind.fresh == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use WatchKind::{Cluster, Work};

    fn leading() -> Freshness {
        let freshness = Freshness::new(&[Cluster, Work]);
        freshness.begin_term();
        freshness
    }

    fn refresh(freshness: &Freshness) {
        let generation = *freshness.wanted().borrow();
        freshness.refreshed(Cluster, generation);
        freshness.refreshed(Work, generation);
    }

    #[test]
    fn a_view_opens_when_every_kind_was_listed_since_the_term_began() {
        let freshness = Freshness::new(&[Cluster, Work]);
        refresh(&freshness);
        assert!(freshness.is_complete() && !freshness.open(), "a follower's");
        freshness.begin_term();
        assert!(!freshness.open(), "those lists may be older than the term");
        freshness.refreshed(Cluster, 1);
        freshness.refreshed(Work, 0);
        assert!(!freshness.open(), "a list of an earlier view arrived late");
        freshness.refreshed(Work, 1);
        assert!(!freshness.is_open(), "not before it is asked for");
        assert!(freshness.open() && freshness.owns_records());
        freshness.end_term();
        assert!(!freshness.is_open() && !freshness.owns_records());
    }

    #[test]
    fn an_outage_closes_the_view_and_makes_every_watch_anew_once() {
        let freshness = leading();
        refresh(&freshness);
        assert!(freshness.open());
        freshness.lost(Work, true);
        assert!(!freshness.is_open() && freshness.owns_records());
        assert!(freshness.is_wanted(2));
        freshness.lost(Cluster, true);
        assert!(freshness.is_wanted(2), "they are being made anew already");
        freshness.refreshed(Work, 2);
        assert!(!freshness.open());
        freshness.refreshed(Cluster, 2);
        assert!(freshness.open());
    }

    #[test]
    fn a_watch_that_has_expired_is_made_anew_alone() {
        let freshness = leading();
        refresh(&freshness);
        assert!(freshness.open());
        freshness.lost(Work, false);
        assert!(!freshness.is_open() && freshness.is_wanted(1));
        freshness.refreshed(Work, 1);
        assert!(freshness.open());
    }

    #[test]
    fn versions_that_go_back_are_told_once_and_old_news_do_not_count() {
        let freshness = leading();
        freshness.saw(Work, 1, 100);
        assert_eq!(freshness.went_back(Work, 100), None);
        assert_eq!(freshness.went_back(Work, 99), Some(100));
        assert_eq!(freshness.went_back(Cluster, 1), None);
        let view = freshness.view();
        freshness.start_anew();
        assert!(view.is_cancelled() && !freshness.view().is_cancelled());
        freshness.saw(Work, 1, 100);
        assert_eq!(freshness.went_back(Work, 99), None);
    }
}
