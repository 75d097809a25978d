//! Writes: create, update, patch and delete, with what the server adds, keeps and refuses, in the order of the server.

mod admit;
mod built_in;
mod create;
mod delete;
mod metadata;
mod patch;
mod read;
mod strategic;
mod update;
mod validate;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use self::delete::{DeleteOptions, Deleted, dry_run_cause};
pub(crate) use self::metadata::{label_value_problem, qualified_name_problem};
use crate::error::ApiError;
use crate::fields::{FieldSet, Manager, Managers, Operation, Rules};
use crate::json::At as _;
use crate::kind::Kind;
use crate::object::{Key, Object, Unseen, key};
use crate::schema::Typing;
use crate::state::{KindId, State};

/// The bytes of an object that etcd stores, without `managedFields`: the server leaves them out if it is too large with them.
const MOST_IN_ETCD: usize = 1024 * 1024 * 3 / 2;
/// The bytes of an object that the server sends to etcd.
const MOST_TO_ETCD: usize = 2 * 1024 * 1024;

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 7396.
    Merge,
    /// The same with directives, for kinds of Kubernetes only.
    Strategic,
    /// RFC 6902.
    Json,
    /// Server-side apply.
    Apply,
}

/// How unknown fields are treated (`fieldValidation`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped with a warning.
    #[default]
    Warn,
    /// They are refused.
    Strict,
}

/// Options that all writes have.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteOptions {
    /// The field manager.
    pub manager: String,
    /// Nothing is stored.
    pub dry_run: bool,
    /// What happens to unknown fields.
    pub validation: FieldValidation,
    /// An apply takes fields from other managers.
    pub force: bool,
    /// The paths of fields that the body has twice.
    pub duplicates: Vec<String>,
}

/// The result of a write.
#[derive(Debug)]
pub(crate) struct Written {
    /// Whether the object was created.
    pub created: bool,
    /// The object; after a deletion, its last state.
    pub object: Arc<Object>,
}

/// One write to objects of one kind.
pub(crate) struct Writer<'a> {
    pub state: &'a mut State,
    pub id: KindId,
    pub kind: Arc<Kind>,
    pub namespace: &'a str,
    pub name: &'a str,
    /// The subresource that is written; empty for the object itself.
    pub subresource: &'a str,
    pub options: &'a WriteOptions,
    /// The time of the write, as in metadata.
    pub now: &'a str,
    /// Where warnings go: about unknown fields that were dropped, and finalizers with unusual names.
    pub warnings: &'a mut Vec<String>,
    /// How the object will be stored otherwise than it is seen.
    pub unseen: Unseen,
}

/// Lets a controller of the hub itself write an object, or its subresource.
pub(crate) fn write_as(
    state: &mut State,
    manager: &str,
    (id, at, subresource): (KindId, &Key, &str),
    now: &str,
    act: impl FnOnce(Writer<'_>),
) {
    let (namespace, name) = at.split_once('/').unwrap_or(("", at));
    let options = WriteOptions {
        manager: manager.to_owned(),
        ..WriteOptions::default()
    };
    act(Writer {
        kind: Arc::clone(&state.collection(id).kind),
        state,
        id,
        namespace,
        name,
        subresource,
        options: &options,
        now,
        warnings: &mut Vec::new(),
        unseen: Unseen::default(),
    });
}

impl Writer<'_> {
    /// The manager of this write, without fields.
    fn manager(&self, operation: Operation) -> Manager {
        Manager {
            name: self.options.manager.as_str().into(),
            operation,
            subresource: self.subresource.into(),
            api_version: self.kind.api_version().into(),
            time: Some(self.now.into()),
            fields: FieldSet::default(),
        }
    }

    /// How the managers of this kind change.
    fn rules<'k>(&self, kind: &'k Kind) -> Rules<'k> {
        let ignored = match (kind.has_status, self.subresource) {
            (_, "status") => Some("spec"),
            (true, "") => Some("status"),
            _ => None,
        };
        Rules {
            typing: Typing::of(&kind.schema),
            ignored,
        }
    }

    /// The object that is written, if it exists.
    fn live(&self) -> Option<Arc<Object>> {
        let at = key(self.namespace, self.name);
        self.state.collection(self.id).get(&at).cloned()
    }

    /// Stores an object.
    fn put(self, at: Key, value: Value, managers: Managers) -> Result<Arc<Object>, ApiError> {
        let mut object = Object::new(at, value, managers, self.state.revision() + 1);
        object.unseen = self.unseen;
        match object.text().len() {
            size if size > MOST_TO_ETCD => Err(ApiError::internal(format!(
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({size} vs. {MOST_TO_ETCD})"
            ))),
            size if size > MOST_IN_ETCD => Err(ApiError::internal("etcdserver: request is too large")),
            _ => Ok(self.state.put_object(self.id, object)),
        }
    }

    fn is_status(&self) -> bool {
        self.subresource == "status"
    }
}

/// The text at a JSON pointer; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.at(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A uid that was given for an object with another one.
fn wrong_uid(kind: &Kind, key: &Key, given: &str, have: &str, dry_run: bool) -> ApiError {
    let name = key.rsplit('/').next().unwrap_or_default();
    // The server shows where the object is in its store: kinds of its own without their group.
    let group = if kind.is_custom {
        format!("{}/", kind.group)
    } else {
        String::new()
    };
    // A write that is only tried does not reach the store, which has a prefix.
    let prefix = if dry_run { "" } else { "/registry" };
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {prefix}/{group}{}/{key}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {given}, UID in object meta: {have}",
        kind.plural
    );
    ApiError::conflict(kind, name, &why)
}
