//! Writes: create, update, patch and delete, with what the server adds, keeps and refuses.

mod admit;
mod delete;
mod patch;
mod update;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use self::delete::{DeleteOptions, Deleted};
pub(crate) use self::patch::PatchKind;
use crate::error::ApiError;
use crate::fields::{FieldSet, Manager, Managers, Operation};
use crate::kind::Kind;
use crate::object::{Object, key};
use crate::schema::{Cause, CauseKind, Typing};
use crate::state::{KindId, State};

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
}

/// The result of a write.
#[derive(Debug)]
pub(crate) struct Written {
    /// Whether the object was created.
    pub created: bool,
    /// The object; after a deletion, its last state.
    pub object: Arc<Object>,
    /// Unknown fields that were dropped.
    pub warnings: Vec<String>,
}

/// One write to objects of one kind.
pub(crate) struct Writer<'a> {
    pub state: &'a mut State,
    pub id: KindId,
    pub kind: Arc<Kind>,
    pub namespace: &'a str,
    pub name: &'a str,
    /// Whether the status subresource is written.
    pub status: bool,
    pub options: &'a WriteOptions,
    /// The time of the write, as in metadata.
    pub now: &'a str,
}

impl Writer<'_> {
    /// POST.
    pub(crate) fn create(self, body: Value) -> Result<Written, ApiError> {
        let mut object = body;
        self.check_type(&object)?;
        let wanted = text(&object, "/metadata/name").to_owned();
        let prefix = text(&object, "/metadata/generateName").to_owned();
        let name = match (wanted.is_empty(), prefix.is_empty()) {
            (false, _) => wanted,
            (true, false) => prefix + &self.state.name_suffix(),
            (true, true) => {
                let cause = Cause::new(
                    "metadata.name",
                    CauseKind::Required,
                    "Required value: name or generateName is required",
                );
                return Err(ApiError::invalid(&self.kind, "", &[cause]));
            }
        };
        self.check_namespace(&object, &name)?;
        let warnings = self.prepare(&mut object)?;
        admit::clear_server_fields(&mut object);
        let by = self.manager(Operation::Update);
        self.insert(object, &name, by, warnings)
    }

    /// Stores a new object, whose fields belong to `by`.
    fn insert(
        self,
        mut object: Value,
        name: &str,
        mut by: Manager,
        warnings: Vec<String>,
    ) -> Result<Written, ApiError> {
        let uid = self.state.new_uid();
        admit::complete_new(&self.kind, &mut object, self.namespace, name, &uid, self.now);
        admit::validate(&self.kind, name, &object, None)?;
        let at = key(self.namespace, name);
        if self.state.collection(self.id).get(&at).is_some() {
            return Err(ApiError::already_exists(&self.kind, name));
        }
        if by.operation == Operation::Update {
            by.fields = FieldSet::of(&object, Typing::of(&self.kind.schema));
        }
        let managers = Managers::created_by(by);
        let object = if self.options.dry_run {
            Arc::new(Object::new(at, object, managers, 0))
        } else {
            self.state.put(self.id, at, object, managers)
        };
        Ok(Written {
            created: true,
            object,
            warnings,
        })
    }

    /// The manager of this write, without fields.
    fn manager(&self, operation: Operation) -> Manager {
        Manager {
            name: self.options.manager.as_str().into(),
            operation,
            status: self.status,
            api_version: self.kind.api_version().into(),
            time: self.now.into(),
            fields: FieldSet::default(),
        }
    }

    /// The object that is written, if it exists.
    fn live(&self) -> Option<Arc<Object>> {
        let at = key(self.namespace, self.name);
        self.state.collection(self.id).get(&at).cloned()
    }

    /// Reads an object as the server does: unknown fields and meaningless nulls go, defaults come. Returns warnings.
    fn prepare(&self, object: &mut Value) -> Result<Vec<String>, ApiError> {
        let schema = &self.kind.schema;
        schema.drop_nulls(object);
        let unknown = schema.prune(object);
        let warnings: Vec<String> = unknown
            .iter()
            .map(|field| format!("unknown field \"{field}\""))
            .collect();
        match self.options.validation {
            FieldValidation::Strict if !warnings.is_empty() => {
                let Kind { version, kind, .. } = &*self.kind;
                return Err(ApiError::bad_request(format!(
                    "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {}",
                    warnings.join(", ")
                )));
            }
            FieldValidation::Ignore => {
                schema.fill_defaults(object);
                return Ok(Vec::new());
            }
            _ => {}
        }
        schema.fill_defaults(object);
        Ok(warnings)
    }

    fn check_type(&self, object: &Value) -> Result<(), ApiError> {
        let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        if !object.is_object() {
            return Err(ApiError::bad_request("the body is not an object"));
        }
        let expected = self.kind.api_version();
        if !version.is_empty() && version != expected {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({expected})"
            )));
        }
        if kind != self.kind.kind || version.is_empty() {
            let found = format!("{version}, Kind={kind}");
            return Err(ApiError::bad_request(format!(
                "{found}: the object is not a {} of {expected}",
                self.kind.kind
            )));
        }
        Ok(())
    }

    fn check_namespace(&self, object: &Value, name: &str) -> Result<(), ApiError> {
        let given = text(object, "/metadata/namespace");
        if !given.is_empty() && given != self.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if !self.kind.namespaced {
            return Ok(());
        }
        match self.state.namespace_is_active(self.namespace) {
            Some(true) => Ok(()),
            Some(false) => Err(ApiError::namespace_terminating(&self.kind, name, self.namespace)),
            None => Err(ApiError::namespace_not_found(self.namespace)),
        }
    }
}

/// The text at a JSON pointer; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
