//! The objects of one kind, and the log of their changes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use crate::kind::Kind;
use crate::object::{Key, Object};

/// What a write did to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was created.
    Added,
    /// It was changed.
    Modified,
    /// It was removed.
    Deleted,
}

/// One entry of the log.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision of the write.
    pub revision: u64,
    /// The object before, unless it was created.
    pub before: Option<Arc<Object>>,
    /// The object after. For a deletion, the last state with the revision of the deletion.
    pub after: Arc<Object>,
    /// What happened.
    pub kind: ChangeKind,
}

/// A revision that is no longer remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten;

/// The objects of one kind.
#[derive(Debug)]
pub struct Collection {
    /// The kind.
    pub kind: Arc<Kind>,
    objects: BTreeMap<Key, Arc<Object>>,
    log: VecDeque<Change>,
    /// Changes up to this revision are no longer in the log.
    forgotten: u64,
    /// The revision of the last change that is no longer in the log.
    dropped: u64,
}

/// A page of a list.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects.
    pub objects: Vec<Arc<Object>>,
    /// The key after which the next page begins, if there is one.
    pub next: Option<Key>,
}

impl Collection {
    pub(crate) fn new(kind: Arc<Kind>) -> Self {
        Self {
            kind,
            objects: BTreeMap::new(),
            log: VecDeque::new(),
            forgotten: 0,
            dropped: 0,
        }
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// All objects, in the order of lists.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The objects of a namespace.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<Object>> {
        let prefix = format!("{namespace}/");
        let from = Bound::Included(Arc::<str>::from(prefix.as_str()));
        self.objects
            .range::<Arc<str>, _>((from, Bound::Unbounded))
            .map(|(_, object)| object)
            .take_while(move |object| object.key.starts_with(&prefix))
    }

    /// Whether every change after this revision is remembered.
    #[must_use]
    pub fn remembers(&self, revision: u64) -> bool {
        revision >= self.forgotten
    }

    /// The state that a cache shows that is some changes of the hub behind: not older than what is remembered.
    pub(crate) fn revision_behind(&self, current: u64, behind: u64) -> u64 {
        current.saturating_sub(behind).max(self.forgotten)
    }

    /// From where a watch goes on that has waited since it had seen all changes up to a revision: it has missed nothing if only
    /// changes of other kinds are forgotten since.
    pub(crate) fn go_on_from(&self, seen: u64) -> u64 {
        if self.dropped <= seen {
            seen.max(self.forgotten)
        } else {
            seen
        }
    }

    /// An object as it was at a revision.
    ///
    /// # Errors
    /// The revision is no longer remembered.
    pub fn get_at(&self, key: &str, revision: u64) -> Result<Option<&Arc<Object>>, Forgotten> {
        let mut changes = self.changes_after(revision)?;
        let change = changes.find(|change| &*change.after.key == key);
        Ok(change.map_or_else(|| self.get(key), |change| change.before.as_ref()))
    }

    /// The changes after a revision, oldest first.
    ///
    /// # Errors
    /// Some of them are no longer remembered.
    pub fn changes_after(&self, revision: u64) -> Result<impl Iterator<Item = &Change>, Forgotten> {
        if !self.remembers(revision) {
            return Err(Forgotten);
        }
        let from = self.log.partition_point(|change| change.revision <= revision);
        Ok(self.log.range(from..))
    }

    /// A page of the objects as they were at a revision, beginning after `after`, that satisfy `matches`. `limit` 0 means all.
    ///
    /// # Errors
    /// The revision is no longer remembered.
    pub fn page(
        &self,
        revision: u64,
        namespace: &str,
        after: Option<&str>,
        limit: usize,
        matches: impl Fn(&Object) -> bool,
    ) -> Result<Page, Forgotten> {
        // What changed since, as it was.
        let mut past: BTreeMap<&str, Option<&Arc<Object>>> = BTreeMap::new();
        let changes: Vec<&Change> = self.changes_after(revision)?.collect();
        for change in changes.into_iter().rev() {
            past.insert(&change.after.key, change.before.as_ref());
        }
        let prefix = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        };
        let start = after.map_or(Bound::Included(prefix.as_str()), Bound::Excluded);
        let mut now = self.objects.range::<str, _>((start, Bound::Unbounded)).peekable();
        let mut then = past.range::<str, _>((start, Bound::Unbounded)).peekable();
        let mut page = Page::default();
        loop {
            let take_then = match (now.peek(), then.peek()) {
                (None, None) => break,
                (Some((key, _)), Some((other, _))) => ***other <= ***key,
                (None, Some(_)) => true,
                (Some(_), None) => false,
            };
            let (key, object) = if take_then {
                let Some((key, object)) = then.next() else { break };
                now.next_if(|(other, _)| other.as_ref() == *key);
                (*key, *object)
            } else {
                let Some((key, object)) = now.next() else { break };
                (key.as_ref(), Some(object))
            };
            if !key.starts_with(&prefix) {
                break;
            }
            let Some(object) = object else { continue };
            // Whether what is left would be selected is not looked at.
            if limit > 0 && page.objects.len() == limit {
                page.next = page.objects.last().map(|object| Arc::clone(&object.key));
                break;
            }
            if matches(object) {
                page.objects.push(Arc::clone(object));
            }
        }
        Ok(page)
    }

    /// Writes an object, and remembers at most `history` changes.
    pub(crate) fn put(&mut self, object: Arc<Object>, history: usize) -> Change {
        let before = self.objects.insert(Arc::clone(&object.key), Arc::clone(&object));
        let kind = if before.is_some() {
            ChangeKind::Modified
        } else {
            ChangeKind::Added
        };
        self.log(
            Change {
                revision: object.revision,
                before,
                after: object,
                kind,
            },
            history,
        )
    }

    /// Removes an object, given as its last state with the revision of the deletion.
    pub(crate) fn remove(&mut self, last: Arc<Object>, history: usize) -> Change {
        let before = self.objects.remove(&last.key);
        self.log(
            Change {
                revision: last.revision,
                before,
                after: last,
                kind: ChangeKind::Deleted,
            },
            history,
        )
    }

    fn log(&mut self, change: Change, history: usize) -> Change {
        self.log.push_back(change.clone());
        while self.log.len() > history {
            self.forget_oldest();
        }
        change
    }

    /// The objects, to be given to [`Collection::reset`] later.
    pub(crate) fn copy(&self) -> BTreeMap<Key, Arc<Object>> {
        self.objects.clone()
    }

    /// Holds these objects and no others, and forgets all changes.
    pub(crate) fn reset(&mut self, objects: BTreeMap<Key, Arc<Object>>, revision: u64) {
        self.objects = objects;
        self.log.clear();
        self.forgotten = revision;
    }

    fn forget_oldest(&mut self) {
        if let Some(change) = self.log.pop_front() {
            self.forgotten = change.revision;
            self.dropped = change.revision;
        }
    }

    /// Forgets the changes up to a revision, as a compaction does.
    pub(crate) fn compact(&mut self, revision: u64) {
        while self.log.front().is_some_and(|change| change.revision <= revision) {
            self.forget_oldest();
        }
        self.forgotten = self.forgotten.max(revision);
    }
}
