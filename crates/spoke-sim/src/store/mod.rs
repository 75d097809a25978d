//! The objects of one simulated cluster, with the semantics of an API server: resourceVersion, generation, uid, field
//! ownership, finalizers, garbage collection, content of namespaces.
//!
//! Objects are stored as JSON text, because the parsed objects of ten thousand clusters would not fit in memory. This module
//! does not know ManifestWorks and runs no controllers.

mod admission;
mod error;
mod key;
mod ownership;
mod schema;

use std::collections::BTreeMap;

use serde_json::Value;

pub use self::error::ApiError;
pub use self::key::ObjectKey;
pub use self::ownership::{FieldSet, merge};
pub use self::schema::Schema;
use crate::catalog::Text;
use crate::fields::{self, Time};
use crate::seeded_rng::SeededRng;

/// A field manager: its name in `managedFields`, and whether it uses server-side apply.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Manager {
    name: Text,
    apply: bool,
    fields: FieldSet,
}

#[derive(Clone, Debug)]
struct Stored {
    revision: u64,
    text: Box<str>,
    managers: Vec<Manager>,
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The object is gone.
    Gone,
    /// A finalizer holds it.
    Held,
}

/// The objects of one cluster.
#[derive(Clone, Debug)]
pub struct Store {
    objects: BTreeMap<ObjectKey, Stored>,
    revision: u64,
    rng: SeededRng,
}

impl Store {
    /// An empty store. The uids come from `rng`.
    #[must_use]
    pub fn new(rng: SeededRng) -> Self {
        Self {
            objects: BTreeMap::new(),
            revision: 0,
            rng,
        }
    }

    /// The number of writes. If it is unchanged, nothing in the cluster changed.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision of one object.
    #[must_use]
    pub fn revision_of(&self, key: &ObjectKey) -> Option<u64> {
        self.objects.get(key).map(|stored| stored.revision)
    }

    /// One object, without `managedFields`.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Value> {
        self.objects.get(key).map(|stored| parse(&stored.text))
    }

    /// The keys of one resource in all namespaces.
    pub fn keys_of<'a>(&'a self, group: &'a str, resource: &'a str) -> impl Iterator<Item = &'a ObjectKey> {
        self.objects
            .keys()
            .filter(move |key| key.group == group && key.resource == resource)
    }

    /// The size of all object texts in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.objects.values().map(|stored| stored.text.len()).sum()
    }

    /// Whether a namespace exists. Those that every cluster has always exist.
    #[must_use]
    pub fn has_namespace(&self, name: &str) -> bool {
        const BORN_WITH: [&str; 4] = ["kube-", "openshift", "open-cluster-management", "default"];
        BORN_WITH.iter().any(|prefix| name.starts_with(prefix))
            || self
                .objects
                .contains_key(&ObjectKey::new("", "namespaces", "", name))
    }

    /// Creates an object (POST).
    ///
    /// # Errors
    /// It exists, its namespace does not, or it is invalid.
    pub fn create(
        &mut self,
        key: &ObjectKey,
        object: &Value,
        manager: &str,
        now: Time,
    ) -> Result<Value, ApiError> {
        let fields = FieldSet::of(object, Schema::of(object));
        self.insert(
            key,
            object,
            Manager {
                name: own(manager),
                apply: false,
                fields,
            },
            now,
        )
    }

    /// Replaces an object (PUT), except for status and metadata that the server sets. Fields with a changed value become owned by
    /// `manager`, and removed fields lose their owners.
    ///
    /// # Errors
    /// It does not exist or the new state is invalid.
    pub fn replace(&mut self, key: &ObjectKey, object: &Value, manager: &str) -> Result<Value, ApiError> {
        let Some(stored) = self.objects.get(key) else {
            return Err(ApiError::not_found(key));
        };
        let live = parse(&stored.text);
        let mut next = object.clone();
        keep_server_fields(&live, &mut next);
        admission::on_update(key, &live, &mut next)?;
        let managers = ownership_after_update(&stored.managers, &live, &next, manager);
        Ok(self.put(key, &live, next, managers))
    }

    /// Server-side apply (PATCH with `fieldManager` and `force`).
    ///
    /// # Errors
    /// Another manager owns a field with another value and `force` is off, or the result is invalid.
    pub fn apply(
        &mut self,
        key: &ObjectKey,
        config: &Value,
        manager: &str,
        force: bool,
        now: Time,
    ) -> Result<Value, ApiError> {
        let schema = Schema::of(config);
        let mut config = config.clone();
        if let Some(map) = config.as_object_mut() {
            map.remove("status");
        }
        let set = FieldSet::of(&config, schema);
        let Some(stored) = self.objects.get(key) else {
            return self.insert(
                key,
                &config,
                Manager {
                    name: own(manager),
                    apply: true,
                    fields: set,
                },
                now,
            );
        };
        let live = parse(&stored.text);
        let mut managers = stored.managers.clone();
        let changed = set.differing(&config, &live);
        let is_me = |m: &Manager| m.apply && m.name == manager;
        let conflicts: Vec<_> = managers
            .iter()
            .filter(|m| !is_me(m))
            .map(|m| (m.name.to_string(), m.apply, m.fields.intersection(&changed)))
            .filter(|(_, _, fields)| !fields.is_empty())
            .collect();
        if !conflicts.is_empty() && !force {
            return Err(ApiError::apply_conflict(
                fields::text(&live, &["apiVersion"]),
                &conflicts,
            ));
        }
        let mut next = live.clone();
        merge(&mut next, &config, schema);
        let dropped = managers
            .iter()
            .find(|m| is_me(m))
            .map(|m| m.fields.difference(&set))
            .unwrap_or_default();
        for path in dropped.iter() {
            let still_owned = set.holds(path) || managers.iter().any(|m| !is_me(m) && m.fields.holds(path));
            if !still_owned {
                let owned = |parent: &str| managers.iter().any(|m| !is_me(m) && m.fields.has(parent));
                ownership::remove(&mut next, path, |parent| set.has(parent) || owned(parent));
            }
        }
        for other in managers.iter_mut().filter(|m| !is_me(m)) {
            other.fields = other.fields.difference(&changed);
        }
        managers.retain(|m| !is_me(m) && !m.fields.is_empty());
        managers.push(Manager {
            name: own(manager),
            apply: true,
            fields: set,
        });
        admission::on_update(key, &live, &mut next)?;
        Ok(self.put(key, &live, next, managers))
    }

    /// Changes an object without changing field ownership, as controllers do with the status and the agent with owner references.
    /// Returns whether anything changed. A missing object is not created.
    pub fn amend(&mut self, key: &ObjectKey, change: impl FnOnce(&mut Value)) -> bool {
        let Some(stored) = self.objects.get(key) else {
            return false;
        };
        let live = parse(&stored.text);
        let mut next = live.clone();
        change(&mut next);
        self.set(key, &live, next)
    }

    /// The same if the object is known: it is `live`, and becomes `next`.
    pub fn set(&mut self, key: &ObjectKey, live: &Value, next: Value) -> bool {
        let Some(stored) = self.objects.get(key).filter(|_| next != *live) else {
            return false;
        };
        let managers = stored.managers.clone();
        self.put(key, live, next, managers);
        self.collect_if_released(key);
        true
    }

    /// Deletes an object with background propagation. An object with finalizers stays. Otherwise it is removed at once, together
    /// with the content of a namespace and with dependents that have no other owner.
    pub fn delete(&mut self, key: &ObjectKey, now: Time) -> Deletion {
        let Some(object) = self.get(key) else {
            return Deletion::Gone;
        };
        if fields::list(&object, &["metadata", "finalizers"]).is_empty() {
            self.collect(key);
            return Deletion::Gone;
        }
        if fields::text(&object, &["metadata", "deletionTimestamp"]).is_empty() {
            let at = fields::timestamp(now);
            self.amend(key, |object| {
                fields::object_at(object, &["metadata"]).insert("deletionTimestamp".into(), at.into());
            });
        }
        Deletion::Held
    }

    /// The managers that own fields of an object, with their fields.
    #[must_use]
    pub fn managers(&self, key: &ObjectKey) -> Vec<(String, bool, Vec<String>)> {
        let managers = self
            .objects
            .get(key)
            .map(|stored| stored.managers.as_slice())
            .unwrap_or_default();
        managers
            .iter()
            .map(|m| (m.name.to_string(), m.apply, m.fields.readable()))
            .collect()
    }

    fn insert(&mut self, key: &ObjectKey, object: &Value, by: Manager, now: Time) -> Result<Value, ApiError> {
        if self.objects.contains_key(key) {
            return Err(ApiError::already_exists(key));
        }
        if !key.namespace.is_empty() && !self.has_namespace(&key.namespace) {
            return Err(ApiError::namespace_not_found(&key.namespace));
        }
        let mut object = object.clone();
        let uid = self.rng.nth(self.revision).uuid();
        admission::on_create(key, &mut object, &uid)?;
        let meta = fields::object_at(&mut object, &["metadata"]);
        meta.remove("managedFields");
        meta.remove("deletionTimestamp");
        meta.insert("uid".into(), uid.into());
        meta.insert("creationTimestamp".into(), fields::timestamp(now).into());
        if object.get("spec").is_some() {
            fields::object_at(&mut object, &["metadata"]).insert("generation".into(), 1.into());
        }
        self.revision += 1;
        Ok(self.store(key, object, vec![by]))
    }

    /// Writes a changed object. The revision always increases, the generation only if more than metadata and status changed.
    fn put(&mut self, key: &ObjectKey, live: &Value, mut next: Value, managers: Vec<Manager>) -> Value {
        if *live == next {
            if let Some(stored) = self.objects.get_mut(key) {
                stored.managers = managers;
            }
            return next;
        }
        if let Some(generation) = fields::integer(live, &["metadata", "generation"])
            && live.get("spec") != next.get("spec")
        {
            fields::object_at(&mut next, &["metadata"]).insert("generation".into(), (generation + 1).into());
        }
        self.revision += 1;
        self.store(key, next, managers)
    }

    fn store(&mut self, key: &ObjectKey, mut object: Value, managers: Vec<Manager>) -> Value {
        let meta = fields::object_at(&mut object, &["metadata"]);
        meta.insert("resourceVersion".into(), self.revision.to_string().into());
        let text = serde_json::to_string(&object)
            .unwrap_or_default()
            .into_boxed_str();
        self.objects.insert(
            key.clone(),
            Stored {
                revision: self.revision,
                text,
                managers,
            },
        );
        object
    }

    /// Removes an object that is being deleted when its last finalizer is gone.
    fn collect_if_released(&mut self, key: &ObjectKey) {
        // Most objects are not being deleted, and need not be parsed.
        let stored = self.objects.get(key);
        let stored = stored.filter(|stored| stored.text.contains("\"deletionTimestamp\""));
        let released = stored.map(|stored| parse(&stored.text)).is_some_and(|object| {
            !fields::text(&object, &["metadata", "deletionTimestamp"]).is_empty()
                && fields::list(&object, &["metadata", "finalizers"]).is_empty()
        });
        if released {
            self.collect(key);
        }
    }

    fn collect(&mut self, key: &ObjectKey) {
        let Some(stored) = self.objects.remove(key) else {
            return;
        };
        self.revision += 1;
        let uid = fields::text(&parse(&stored.text), &["metadata", "uid"]).to_owned();
        let is_namespace = key.group.is_empty() && key.resource == "namespaces";
        let dependents: Vec<ObjectKey> = self
            .objects
            .iter()
            .filter(|(other, stored)| {
                (is_namespace && other.namespace == key.name)
                    || (stored.text.contains(&uid) && solely_owned(stored, &uid))
            })
            .map(|(other, _)| other.clone())
            .collect();
        for dependent in dependents {
            self.collect(&dependent);
        }
    }
}

fn solely_owned(stored: &Stored, uid: &str) -> bool {
    let object = parse(&stored.text);
    let owners = fields::list(&object, &["metadata", "ownerReferences"]);
    !owners.is_empty() && owners.iter().all(|owner| fields::text(owner, &["uid"]) == uid)
}

fn own(manager: &str) -> Text {
    Text::Owned(manager.to_owned())
}

/// Parses a text of the store, which is always valid because the store wrote it.
fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

/// A PUT cannot change the status, nor metadata that the server sets.
fn keep_server_fields(live: &Value, next: &mut Value) {
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "generation",
        "resourceVersion",
    ] {
        let meta = fields::object_at(next, &["metadata"]);
        match fields::get(live, &["metadata", field]) {
            Some(value) => meta.insert(field.to_owned(), value.clone()),
            None => meta.remove(field),
        };
    }
    let map = fields::object_at(next, &[]);
    map.remove("status");
    if let Some(status) = live.get("status") {
        map.insert("status".into(), status.clone());
    }
}

fn ownership_after_update(managers: &[Manager], live: &Value, next: &Value, manager: &str) -> Vec<Manager> {
    let (before, after) = (
        FieldSet::of(live, Schema::of(live)),
        FieldSet::of(next, Schema::of(next)),
    );
    let changed = after.differing(next, live);
    let touched = changed.union(&before.difference(&after));
    let mut managers: Vec<Manager> = managers
        .iter()
        .map(|m| Manager {
            fields: m.fields.difference(&touched),
            ..m.clone()
        })
        .collect();
    match managers.iter_mut().find(|m| !m.apply && m.name == manager) {
        Some(me) => me.fields = me.fields.union(&changed),
        None => managers.push(Manager {
            name: own(manager),
            apply: false,
            fields: changed,
        }),
    }
    managers.retain(|m| !m.fields.is_empty());
    managers
}

#[cfg(test)]
mod tests;
