//! Tracks whether what the watches have delivered is current. No I/O, no clock.
//!
//! A view is *wanted* when a term begins, and again when a watch breaks: then every kind must be listed
//! again, by a list that started after that moment. The view is *open*, so that plans may be made and
//! executed, as soon as every kind has such a list and a watch that continues from it. If a watch breaks before
//! that, lists that were requested earlier do not count: another view is wanted instead. It closes when a watch
//! breaks or the term ends. No view waits for approvals: it is told how far they are known, and nothing starts
//! by those that are not known for this view.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rollout::KnownApprovals;
use tokio_util::sync::CancellationToken;

use crate::metrics::labels::WatchKind;
use crate::published::{Published, Subscription};

/// Object kinds whose lists must have arrived before anything is planned. Approvals are none of them: until they are listed, nothing
/// starts that needs one.
pub const KINDS: [WatchKind; 8] = [
    WatchKind::Cluster,
    WatchKind::Work,
    WatchKind::Placement,
    WatchKind::Decision,
    WatchKind::ClusterSet,
    WatchKind::Binding,
    WatchKind::Upgrade,
    WatchKind::Report,
];

/// How current each kind is, and whether plans may be made.
#[derive(Debug)]
pub struct Freshness {
    inner: Mutex<Inner>,
    /// Notifies the watches that a new view is wanted.
    wanted: Published<u64>,
    /// Notifies waiting tasks that a kind was listed.
    progress: Published<()>,
}

#[derive(Debug)]
struct Inner {
    /// Number of the wanted view.
    generation: u64,
    kinds: Vec<KindState>,
    /// This replica leads, and has a view or waits for one.
    leading: bool,
    /// Plans may be made and executed.
    open: bool,
    /// The records of this replica count, not those on the hub, because the view was open in this term.
    own: bool,
    /// Cancelled when everything that is known about the hub is discarded.
    invalidated: CancellationToken,
}

#[derive(Debug)]
struct KindState {
    of: WatchKind,
    /// The view does not open without it.
    is_awaited: bool,
    /// View for which the kind was listed and is being watched. `None` while it is not watched.
    fresh: Option<u64>,
    /// It was listed and watched at any time since everything was discarded.
    was_listed: bool,
    /// A watch has broken in an outage since the kind was listed, or since its list was requested.
    doubtful: bool,
    /// Highest resource version that was delivered, or was known when a list was requested.
    highest: u64,
}

impl Freshness {
    /// No kind is listed yet. The view waits for these kinds.
    #[must_use]
    pub fn new(kinds: &[WatchKind]) -> Freshness {
        let kind = |kind: &WatchKind, is_awaited: bool| KindState {
            of: *kind,
            is_awaited,
            fresh: None,
            was_listed: false,
            doubtful: false,
            highest: 0,
        };
        let awaited = kinds.iter().map(|awaited| kind(awaited, true));
        Freshness {
            inner: Mutex::new(Inner {
                generation: 0,
                kinds: awaited.chain([kind(&WatchKind::Approval, false)]).collect(),
                leading: false,
                open: false,
                own: false,
                invalidated: CancellationToken::new(),
            }),
            wanted: Published::new(0),
            progress: Published::new(()),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A subscription to the number of the wanted view.
    #[must_use]
    pub fn wanted(&self) -> Subscription<u64> {
        self.wanted.subscribe()
    }

    /// True while the view with this number is wanted.
    #[must_use]
    pub fn is_wanted(&self, generation: u64) -> bool {
        self.inner().generation == generation
    }

    /// Starts a term: everything known may be older than what the last leader wrote.
    pub fn begin_term(&self) {
        let mut inner = self.inner();
        inner.leading = true;
        inner.own = false;
        self.want(&mut inner);
    }

    /// Ends a term.
    pub fn end_term(&self) {
        let mut inner = self.inner();
        inner.leading = false;
        inner.own = false;
        inner.open = false;
    }

    /// Discards everything that is known, because the hub's storage is older.
    pub fn discard_all(&self) {
        let mut inner = self.inner();
        inner.own = false;
        for kind in &mut inner.kinds {
            kind.highest = 0;
            kind.was_listed = false;
        }
        std::mem::take(&mut inner.invalidated).cancel();
        self.want(&mut inner);
    }

    fn want(&self, inner: &mut Inner) {
        inner.open = false;
        inner.generation += 1;
        self.wanted.replace(inner.generation);
    }

    /// Records that a list of a kind is requested. What has broken before that does not concern it.
    pub fn requested(&self, kind: WatchKind) {
        let mut inner = self.inner();
        if let Some(found) = inner.of(kind) {
            found.doubtful = false;
        }
    }

    /// Records that a kind is listed and watched for the view with this number.
    pub fn refreshed(&self, kind: WatchKind, generation: u64) {
        let mut inner = self.inner();
        if let Some(found) = inner.of(kind) {
            found.fresh = Some(generation);
            found.was_listed = true;
        }
        drop(inner);
        self.progress.replace(());
    }

    /// True when a kind is listed and watched for the view with this number, or nobody has to list it.
    #[must_use]
    pub fn is_fresh(&self, kind: WatchKind, generation: u64) -> bool {
        let mut inner = self.inner();
        inner.of(kind).is_none_or(|found| found.fresh == Some(generation))
    }

    /// How far the approvals are known for the wanted view.
    #[must_use]
    pub fn approvals(&self) -> KnownApprovals {
        let mut inner = self.inner();
        let wanted = Some(inner.generation);
        match inner.of(WatchKind::Approval) {
            Some(found) if found.fresh == wanted => KnownApprovals::Current,
            Some(found) if found.was_listed => KnownApprovals::Outdated,
            _ => KnownApprovals::Missing,
        }
    }

    /// Waits until a kind is listed and watched for the view with this number.
    pub async fn until_fresh(&self, kind: WatchKind, generation: u64) {
        let mut progress = self.progress.subscribe();
        while !self.is_fresh(kind, generation) {
            // It is published as long as `self` lives.
            drop(progress.changed().await);
        }
    }

    /// Records that the watch of a kind has ended, or could not start, so the kind must be listed again. After an `outage` the other
    /// watches may be broken without knowing it. So all are restarted: at once if that closed the view, otherwise instead of opening
    /// it, so that a watch that breaks again and again neither interrupts the lists of the other kinds nor has them requested without
    /// a pause. A kind that nobody waits for closes nothing.
    pub fn lost(&self, kind: WatchKind, outage: bool) {
        let mut inner = self.inner();
        let generation = inner.generation;
        let Some(found) = inner.of(kind) else { return };
        let was_watched = found.fresh.take() == Some(generation);
        if !found.is_awaited {
            // Its next list is requested after all that has broken until now.
            found.doubtful = false;
            return;
        }
        let was_open = std::mem::take(&mut inner.open);
        if !outage {
            return;
        }
        if was_open {
            self.want(&mut inner);
        } else if was_watched {
            // A list that nobody waits for, and that is still to come, must not put the view off.
            for known in &mut inner.kinds {
                known.doubtful |= known.is_awaited || known.fresh == Some(generation);
            }
        }
    }

    /// True when a kind is listed and watched, even for an earlier view.
    #[must_use]
    pub fn is_watched(&self, kind: WatchKind) -> bool {
        self.inner().of(kind).is_some_and(|found| found.fresh.is_some())
    }

    /// True when every kind that the view waits for is current for it.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.inner().is_complete()
    }

    /// Opens the view if every kind that it waits for is current and this replica leads, or wants another one if a watch has broken
    /// since a list of this one was requested. Returns true while it is open.
    pub fn open(&self) -> bool {
        let mut inner = self.inner();
        if inner.leading && inner.is_complete() {
            if inner.kinds.iter().any(|kind| kind.doubtful) {
                self.want(&mut inner);
            } else {
                inner.open = true;
                inner.own = true;
            }
        }
        inner.open
    }

    /// True while plans may be made and executed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.inner().open
    }

    /// True when the records of this replica count, not those on the hub.
    #[must_use]
    pub fn owns_records(&self) -> bool {
        self.inner().own
    }

    /// A token that is cancelled when everything that is known is discarded.
    #[must_use]
    pub fn invalidated(&self) -> CancellationToken {
        self.inner().invalidated.clone()
    }

    /// Records the resource version of an object or bookmark that was delivered for the view with this number, or that is known
    /// before a list is requested for it.
    pub fn saw(&self, kind: WatchKind, generation: u64, version: u64) {
        let mut inner = self.inner();
        if inner.generation == generation
            && let Some(found) = inner.of(kind)
        {
            found.highest = found.highest.max(version);
        }
    }

    /// The highest version that was known before, if it is higher than the version of this list. That
    /// happens only if the hub's storage was replaced by an older one, because versions of consistent lists
    /// never decrease.
    #[must_use]
    pub fn newer_than(&self, kind: WatchKind, version: u64) -> Option<u64> {
        let highest = self.inner().of(kind)?.highest;
        (version < highest).then_some(highest)
    }
}

impl Inner {
    fn of(&mut self, kind: WatchKind) -> Option<&mut KindState> {
        self.kinds.iter_mut().find(|known| known.of == kind)
    }

    fn is_complete(&self) -> bool {
        let wanted = Some(self.generation);
        let mut awaited = self.kinds.iter().filter(|kind| kind.is_awaited);
        awaited.all(|kind| kind.fresh == wanted)
    }
}

#[cfg(test)]
mod tests;
