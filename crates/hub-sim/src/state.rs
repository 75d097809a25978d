//! All objects of a hub. Every write gets the next revision, as in etcd.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use crate::fields::Managers;
use crate::kind::Kind;
use crate::object::{Key, Object};
use crate::store::{Change, ChangeKind, Collection};

/// Receives every change, in the order of revisions.
pub type Observer = Box<dyn FnMut(&Kind, &Change) + Send>;

/// The number of a kind within a hub.
pub(crate) type KindId = usize;

/// How many objects are kept as values, too.
const RECENT: usize = 4_000;

/// The objects of a hub.
pub struct State {
    collections: Vec<Collection>,
    revision: u64,
    /// The objects that name a uid as their owner.
    dependents: BTreeMap<Box<str>, BTreeSet<(KindId, Key)>>,
    /// The objects that are being deleted, by uid. They may wait for their dependents.
    deleting: BTreeMap<Box<str>, (KindId, Key)>,
    /// What the garbage collector must look at.
    unchecked: BTreeSet<(KindId, Key)>,
    uids: UidSource,
    history: usize,
    /// The objects that were written last. Their values need not be parsed.
    recent: VecDeque<Arc<Object>>,
    observers: Vec<Observer>,
    /// The kinds that were written since this was last asked.
    touched: Vec<KindId>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// All objects of a hub as they were at a revision.
#[derive(Clone, Debug)]
pub struct Snapshot {
    collections: Vec<BTreeMap<Key, Arc<Object>>>,
    revision: u64,
    dependents: BTreeMap<Box<str>, BTreeSet<(KindId, Key)>>,
    deleting: BTreeMap<Box<str>, (KindId, Key)>,
    unchecked: BTreeSet<(KindId, Key)>,
}

/// Makes uids from a seed, so that a simulation can be repeated.
#[derive(Debug)]
struct UidSource {
    seed: u64,
    count: u64,
}

impl UidSource {
    fn next(&mut self) -> u64 {
        self.count += 1;
        // SplitMix64: every count gives another number, whatever the seed.
        let mut mixed = self
            .seed
            .wrapping_add(self.count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl State {
    pub(crate) fn new(seed: u64, history: usize) -> Self {
        Self {
            collections: Vec::new(),
            revision: 0,
            dependents: BTreeMap::new(),
            deleting: BTreeMap::new(),
            unchecked: BTreeSet::new(),
            uids: UidSource { seed, count: 0 },
            history,
            recent: VecDeque::new(),
            observers: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// The revision of the last write.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Serves a kind. One that is served already is replaced, and its objects stay.
    pub(crate) fn add_kind(&mut self, kind: Arc<Kind>) {
        match self.find(&kind.group, &kind.plural) {
            Some(id) => self.collections[id].kind = kind,
            None => self.collections.push(Collection::new(kind)),
        }
    }

    pub(crate) fn observe(&mut self, observer: Observer) {
        self.observers.push(observer);
    }

    /// The kind with this group and plural.
    pub(crate) fn find(&self, group: &str, plural: &str) -> Option<KindId> {
        self.collections
            .iter()
            .position(|collection| collection.kind.plural == plural && collection.kind.group == group)
    }

    pub(crate) fn collection(&self, id: KindId) -> &Collection {
        &self.collections[id]
    }

    /// All kinds with their objects.
    #[must_use]
    pub fn collections(&self) -> &[Collection] {
        &self.collections
    }

    /// The objects of a kind, by group and plural.
    #[must_use]
    pub fn objects_of(&self, group: &str, plural: &str) -> Option<&Collection> {
        self.find(group, plural).map(|id| self.collection(id))
    }

    pub(crate) fn new_uid(&mut self) -> String {
        let (high, low) = (self.uids.next(), self.uids.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            (low >> 48) & 0x3fff | 0x8000,
            low & 0xffff_ffff_ffff
        )
    }

    /// Five characters for a generated name.
    pub(crate) fn name_suffix(&mut self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut number = self.uids.next();
        (0..5)
            .map(|_| {
                let letter = LETTERS[usize::try_from(number % LETTERS.len() as u64).unwrap_or_default()];
                number /= LETTERS.len() as u64;
                char::from(letter)
            })
            .collect()
    }

    /// Whether a namespace exists and is not being deleted: `None` if it does not exist.
    pub(crate) fn namespace_is_active(&self, name: &str) -> Option<bool> {
        let namespaces = self.objects_of("", "namespaces")?;
        namespaces.get(name).map(|namespace| !namespace.is_deleting)
    }

    /// Writes an object with the next revision.
    pub(crate) fn put(&mut self, id: KindId, key: Key, value: Value, managers: Managers) -> Arc<Object> {
        let object = Object::new(key, value, managers, self.revision + 1);
        self.put_object(id, object)
    }

    /// The same with an object that has the next revision.
    pub(crate) fn put_object(&mut self, id: KindId, object: Object) -> Arc<Object> {
        self.revision += 1;
        let object = Arc::new(object);
        let change = self.collections[id].put(Arc::clone(&object), self.history);
        self.changed(id, &change);
        object
    }

    /// Removes an object, whose last state is `value`.
    pub(crate) fn remove(&mut self, id: KindId, key: Key, value: Value, managers: Managers) -> Arc<Object> {
        self.revision += 1;
        let last = Arc::new(Object::new(key, value, managers, self.revision));
        let change = self.collections[id].remove(Arc::clone(&last), self.history);
        self.changed(id, &change);
        last
    }

    fn changed(&mut self, id: KindId, change: &Change) {
        self.recent.push_back(Arc::clone(&change.after));
        if self.recent.len() > RECENT
            && let Some(oldest) = self.recent.pop_front()
        {
            oldest.forget_value();
        }
        let entry = (id, Arc::clone(&change.after.key));
        if let Some(before) = &change.before {
            for owner in &before.owners {
                if let Some(dependents) = self.dependents.get_mut(owner) {
                    dependents.remove(&entry);
                }
                // The owner may have waited for this.
                self.unchecked.extend(self.deleting.get(owner).cloned());
            }
        }
        if change.kind == ChangeKind::Deleted {
            self.deleting.remove(&change.after.uid);
            let orphaned = self
                .dependents
                .get(&change.after.uid)
                .cloned()
                .unwrap_or_default();
            self.unchecked.extend(orphaned);
            // A namespace that only this object kept may be gone now.
            let namespace = change.after.namespace();
            if let Some(namespaces) = self.find("", "namespaces").filter(|_| !namespace.is_empty()) {
                self.unchecked.insert((namespaces, Key::from(namespace)));
            }
        } else {
            for owner in &change.after.owners {
                self.dependents
                    .entry(owner.clone())
                    .or_default()
                    .insert(entry.clone());
            }
            if change.after.is_deleting {
                self.deleting.insert(change.after.uid.clone(), entry.clone());
            }
            if change.after.is_deleting || !change.after.owners.is_empty() {
                self.unchecked.insert(entry);
            }
        }
        let kind = Arc::clone(&self.collections[id].kind);
        for observer in &mut self.observers {
            observer(&kind, change);
        }
        // What was replaced is seldom looked at again, and only its text is sent.
        if let Some(before) = &change.before {
            before.forget_value();
        }
        if !self.touched.contains(&id) {
            self.touched.push(id);
        }
    }

    /// The kinds that were written since this was last asked.
    pub(crate) fn take_touched(&mut self) -> Vec<KindId> {
        std::mem::take(&mut self.touched)
    }

    /// The objects that name a uid as an owner.
    pub(crate) fn dependents_of(&self, uid: &str) -> Vec<(KindId, Key)> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    /// The next object that the garbage collector must look at.
    pub(crate) fn next_unchecked(&mut self) -> Option<(KindId, Key)> {
        self.unchecked.pop_first()
    }

    /// Whether the garbage collector has nothing to do.
    #[must_use]
    pub fn is_collected(&self) -> bool {
        self.unchecked.is_empty()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            collections: self.collections.iter().map(Collection::copy).collect(),
            revision: self.revision,
            dependents: self.dependents.clone(),
            deleting: self.deleting.clone(),
            unchecked: self.unchecked.clone(),
        }
    }

    /// Goes back to a snapshot, its revision included. Uids that were given since are not given again.
    pub(crate) fn restore(&mut self, snapshot: Snapshot) {
        for (collection, objects) in self.collections.iter_mut().zip(snapshot.collections) {
            collection.reset(objects, snapshot.revision);
        }
        self.revision = snapshot.revision;
        self.dependents = snapshot.dependents;
        self.deleting = snapshot.deleting;
        self.unchecked = snapshot.unchecked;
    }

    /// Forgets the log up to a revision.
    pub(crate) fn compact(&mut self, revision: u64) {
        for collection in &mut self.collections {
            collection.compact(revision);
        }
    }
}
