//! What kube-controller-manager does with objects whose owners or namespaces go: garbage collection and the end of namespaces.

use std::sync::Arc;

use serde_json::Value;

use crate::json::At as _;
use crate::object::{Key, Object};
use crate::state::{KindId, State};
use crate::write::{DeleteOptions, PatchKind, Writer, write_as};

/// The field manager of the garbage collector.
const COLLECTOR: &str = "kube-controller-manager";

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

/// Deletes an object whose owners are all gone, and removes references to owners that are gone from others.
fn check_owners(state: &mut State, id: KindId, object: &Arc<Object>, now: &str) {
    let owners = owners_of(object);
    let kept: Vec<Value> = owners
        .iter()
        .filter(|owner| exists(state, owner, object.namespace()))
        .cloned()
        .collect();
    if owners.is_empty() || kept.len() == owners.len() {
        return;
    }
    if kept.is_empty() {
        delete(state, id, &object.key, now);
    } else {
        set_owners(state, id, &object.key, kept, now);
    }
}

fn owners_of(object: &Object) -> Vec<Value> {
    let value = object.value();
    let owners = value.at("/metadata/ownerReferences");
    owners.and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Whether the owner of an object in a namespace exists: in the same namespace or in none.
fn exists(state: &State, owner: &Value, namespace: &str) -> bool {
    let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let (kind, name, uid) = (text("kind"), text("name"), text("uid"));
    let near = format!("{namespace}/{name}");
    state.has_uid(group, kind, &near, uid) || state.has_uid(group, kind, name, uid)
}

/// Removes the finalizers of the garbage collector when what they wait for is done.
fn finish_deletion(state: &mut State, id: KindId, object: &Arc<Object>, now: &str) {
    let mut value = Value::clone(&object.value());
    let has = |value: &Value, name: &str| {
        let list = value.at("/metadata/finalizers").and_then(Value::as_array);
        list.is_some_and(|list| list.iter().any(|finalizer| finalizer == name))
    };
    let dependents = state.dependents_of(&object.uid);
    if has(&value, "orphan") {
        for (id, key) in dependents {
            remove_owner(state, id, &key, &object.uid, now);
        }
    } else if has(&value, "foregroundDeletion") {
        for (id, key) in &dependents {
            delete(state, *id, key, now);
        }
        if !state.dependents_of(&object.uid).is_empty() {
            return;
        }
    } else {
        return;
    }
    if let Some(list) = value
        .pointer_mut("/metadata/finalizers")
        .and_then(Value::as_array_mut)
    {
        list.retain(|finalizer| finalizer != "orphan" && finalizer != "foregroundDeletion");
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
                delete(state, other, &key, now);
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

fn delete(state: &mut State, id: KindId, key: &Key, now: &str) {
    write(state, id, key, now, |writer| {
        // Whoever else deleted it was faster.
        let _ = writer.delete(&DeleteOptions::default());
    });
}
