//! What kube-controller-manager does with objects whose owners or namespaces go: garbage collection and the end of namespaces.

use std::sync::Arc;

use serde_json::Value;

use crate::json::At as _;
use crate::object::{Key, Object, key};
use crate::state::{KindId, State};
use crate::write::{DeleteOptions, PatchKind, Writer, write_as};

/// The field manager of the garbage collector.
const COLLECTOR: &str = "kube-controller-manager";
/// The finalizers that ask the garbage collector to do something first.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Does all that is to be done, until nothing is left.
pub(crate) fn collect(state: &mut State, now: &str) {
    while let Some((id, key)) = state.next_unchecked() {
        let Some(object) = state.collection(id).get(&key).cloned() else {
            continue;
        };
        let kind = Arc::clone(&state.collection(id).kind);
        if kind.group.is_empty() && kind.plural == "namespaces" {
            if object.is_deleting {
                end_namespace(state, id, &object, now);
            }
            continue;
        }
        if object.is_deleting {
            finish_deletion(state, id, &object, now);
        } else {
            check_owners(state, id, &object, now);
        }
    }
}

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Alive,
    /// It is being deleted, and its dependents before it.
    Waiting,
    Gone,
}

/// Deletes an object whose owners are all gone or wait for its deletion, and removes references to such owners from others.
fn check_owners(state: &mut State, id: KindId, object: &Arc<Object>, now: &str) {
    let owners = owners_of(object);
    let found: Option<Vec<Owner>> = owners
        .iter()
        .map(|owner| find(state, owner, object.namespace()))
        .collect();
    // While one owner cannot be told, nothing is done.
    let Some(found) = found else { return };
    let kept: Vec<Value> = owners
        .iter()
        .zip(&found)
        .filter(|(_, found)| **found == Owner::Alive)
        .map(|(owner, _)| owner.clone())
        .collect();
    if kept.len() == owners.len() {
        return;
    }
    if !kept.is_empty() {
        set_owners(state, id, &object.key, kept, now);
        return;
    }
    // The dependents of what an owner waits for go first, too, unless one of them waits as well: that would be a circle.
    let dependents = state.dependents_of(&object.uid);
    let waits = |(id, key): &(KindId, Key)| {
        state
            .collection(*id)
            .get(key)
            .is_some_and(|found| is_waiting(found))
    };
    let is_foreground =
        found.contains(&Owner::Waiting) && !dependents.is_empty() && !dependents.iter().any(waits);
    delete(state, id, &object.key, is_foreground.then_some("Foreground"), now);
}

fn owners_of(object: &Object) -> Vec<Value> {
    let value = object.value();
    let owners = value.at("/metadata/ownerReferences");
    owners.and_then(Value::as_array).cloned().unwrap_or_default()
}

/// What is known of an owner of an object in a namespace. `None` if its kind is not served, or if it is in a namespace and the
/// object is in none.
fn find(state: &State, owner: &Value, namespace: &str) -> Option<Owner> {
    let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let mut collections = state.collections().iter();
    let collection = collections
        .find(|collection| collection.kind.group == group && collection.kind.kind == text("kind"))?;
    let namespace = match (collection.kind.namespaced, namespace) {
        (true, "") => return None,
        (true, namespace) => namespace,
        (false, _) => "",
    };
    let found = collection.get(&key(namespace, text("name")));
    Some(match found.filter(|found| found.uid.as_ref() == text("uid")) {
        None => Owner::Gone,
        Some(found) if is_waiting(found) => Owner::Waiting,
        Some(_) => Owner::Alive,
    })
}

/// Whether an object is being deleted and waits for its dependents.
fn is_waiting(object: &Object) -> bool {
    object.is_deleting && has_finalizer(&object.value(), FOREGROUND)
}

fn has_finalizer(value: &Value, name: &str) -> bool {
    let list = value.at("/metadata/finalizers").and_then(Value::as_array);
    list.is_some_and(|list| list.iter().any(|finalizer| finalizer == name))
}

/// Removes the finalizers of the garbage collector when what they wait for is done.
fn finish_deletion(state: &mut State, id: KindId, object: &Arc<Object>, now: &str) {
    let mut value = Value::clone(&object.value());
    // Most objects wait for somebody else. They are looked at again whenever a dependent changes, so these are not counted for them.
    if has_finalizer(&value, ORPHAN) {
        for (id, key) in state.dependents_of(&object.uid) {
            remove_owner(state, id, &key, &object.uid, now);
        }
    } else if has_finalizer(&value, FOREGROUND) {
        for (id, key) in &state.dependents_of(&object.uid) {
            let dependent = state.collection(*id).get(key).cloned();
            if let Some(dependent) = dependent.filter(|dependent| !dependent.is_deleting) {
                check_owners(state, *id, &dependent, now);
            }
        }
        let left = state.dependents_of(&object.uid);
        if left.iter().any(|(id, key)| blocks(state, *id, key, &object.uid)) {
            return;
        }
    } else {
        return;
    }
    if let Some(list) = value
        .pointer_mut("/metadata/finalizers")
        .and_then(Value::as_array_mut)
    {
        list.retain(|finalizer| finalizer != ORPHAN && finalizer != FOREGROUND);
        let is_free = list.is_empty();
        if is_free {
            // The last state that was stored.
            state.remove(
                id,
                Arc::clone(&object.key),
                Value::clone(&object.value()),
                object.managers.clone(),
            );
        } else {
            state.put(id, Arc::clone(&object.key), value, object.managers.clone());
        }
    }
}

/// Whether an owner that is being deleted must wait for this dependent.
fn blocks(state: &State, id: KindId, key: &Key, uid: &str) -> bool {
    let Some(object) = state.collection(id).get(key) else {
        return false;
    };
    owners_of(object)
        .iter()
        .any(|owner| owner["uid"] == uid && owner["blockOwnerDeletion"] == true)
}

fn remove_owner(state: &mut State, id: KindId, key: &Key, uid: &str, now: &str) {
    let Some(object) = state.collection(id).get(key).cloned() else {
        return;
    };
    let mut owners = owners_of(&object);
    owners.retain(|owner| owner.get("uid").and_then(Value::as_str) != Some(uid));
    set_owners(state, id, key, owners, now);
}

/// Sets the owners by a patch, as the garbage collector does, so that managers lose those that are gone.
fn set_owners(state: &mut State, id: KindId, key: &Key, owners: Vec<Value>, now: &str) {
    let owners = if owners.is_empty() {
        Value::Null
    } else {
        owners.into()
    };
    let patch = serde_json::json!({"metadata": {"ownerReferences": owners}});
    write(state, id, key, now, |writer| {
        // Whoever deleted it was faster.
        let _ = writer.patch(PatchKind::Merge, &patch);
    });
}

/// Lets the garbage collector write an object.
fn write(state: &mut State, id: KindId, key: &Key, now: &str, act: impl FnOnce(Writer<'_>)) {
    write_as(state, COLLECTOR, (id, key, ""), now, act);
}

/// Deletes the content of a namespace, and the namespace when it is empty.
fn end_namespace(state: &mut State, id: KindId, namespace: &Arc<Object>, now: &str) {
    let name = namespace.name();
    for other in 0..state.collections().len() {
        if state.collection(other).kind.namespaced {
            let keys: Vec<Key> = state
                .collection(other)
                .in_namespace(name)
                .map(|object| Arc::clone(&object.key))
                .collect();
            for key in keys {
                delete(state, other, &key, None, now);
            }
        }
    }
    let is_empty = state
        .collections()
        .iter()
        .filter(|collection| collection.kind.namespaced)
        .all(|collection| collection.in_namespace(name).next().is_none());
    if is_empty {
        let mut value = Value::clone(&namespace.value());
        value["spec"] = serde_json::json!({});
        if namespace.is_held {
            state.put(id, Arc::clone(&namespace.key), value, namespace.managers.clone());
        } else {
            state.remove(id, Arc::clone(&namespace.key), value, namespace.managers.clone());
        }
    }
}

fn delete(state: &mut State, id: KindId, key: &Key, policy: Option<&str>, now: &str) {
    let options = DeleteOptions::default().with_policy(policy.map(str::to_owned));
    write(state, id, key, now, |writer| {
        // Whoever else deleted it was faster.
        let _ = writer.delete(&options);
    });
}
