//! PUT, and what every change of an existing object has in common.

use std::sync::Arc;

use serde_json::Value;

use super::{Writer, Written, admit, text};
use crate::error::ApiError;
use crate::fields::{Managers, Operation};
use crate::object::{Object, key};
use crate::schema::{Cause, CauseKind, Typing};

impl Writer<'_> {
    /// PUT.
    pub(crate) fn update(self, body: Value) -> Result<Written, ApiError> {
        self.check_type(&body)?;
        let given = text(&body, "/metadata/name");
        if given != self.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({})",
                self.name
            )));
        }
        let namespace = text(&body, "/metadata/namespace");
        if !namespace.is_empty() && namespace != self.namespace {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let Some(live) = self.live() else {
            if !self.kind.create_by_put {
                return Err(ApiError::not_found(&self.kind, self.name));
            }
            return self.create(body);
        };
        self.check_uid(&body, &live)?;
        let version = text(&body, "/metadata/resourceVersion");
        if version.is_empty() && !self.kind.unconditional_update {
            let message = "Invalid value: 0: must be specified for an update";
            let cause = Cause::new("metadata.resourceVersion", CauseKind::Invalid, message);
            return Err(ApiError::invalid(&self.kind, self.name, &[cause]));
        }
        let mut next = body;
        let warnings = self.prepare(&mut next)?;
        self.change(&live, next, warnings)
    }

    /// Stores a changed object, whose changes belong to the writer.
    pub(super) fn change(
        self,
        live: &Arc<Object>,
        mut next: Value,
        warnings: Vec<String>,
    ) -> Result<Written, ApiError> {
        self.check_revision(&next, live)?;
        let before = live.value();
        admit::keep_server_fields(&self.kind, &before, &mut next, self.status);
        let by = self.manager(Operation::Update);
        let typing = Typing::of(&self.kind.schema);
        let managers = live.managers.after_update(&before, &next, by, typing);
        self.store(live, &before, next, managers, warnings)
    }

    /// Checks and stores the new state of an object. An object that is unchanged keeps its revision; one that was only held by
    /// finalizers is removed with the last of them.
    pub(super) fn store(
        self,
        live: &Arc<Object>,
        before: &Value,
        mut next: Value,
        managers: Managers,
        warnings: Vec<String>,
    ) -> Result<Written, ApiError> {
        admit::count_generation(&self.kind, before, &mut next);
        admit::validate(&self.kind, self.name, &next, Some(before))?;
        let at = key(self.namespace, self.name);
        let object = if next == *before && managers == live.managers {
            Arc::clone(live)
        } else if self.options.dry_run {
            Arc::new(Object::new(at, next, managers, live.revision))
        } else {
            let is_released = live.is_deleting
                && next
                    .pointer("/metadata/finalizers")
                    .and_then(Value::as_array)
                    .is_none_or(Vec::is_empty)
                && !self.is_namespace_with_finalizers(&next);
            if is_released {
                self.state.remove(self.id, at, next, managers)
            } else {
                self.state.put(self.id, at, next, managers)
            }
        };
        Ok(Written {
            created: false,
            object,
            warnings,
        })
    }

    /// A namespace is also held by the finalizer in its spec.
    fn is_namespace_with_finalizers(&self, next: &Value) -> bool {
        let list = next.pointer("/spec/finalizers").and_then(Value::as_array);
        self.kind.plural == "namespaces"
            && self.kind.group.is_empty()
            && list.is_some_and(|list| !list.is_empty())
    }

    /// A body with a uid is meant for the object with this uid only.
    pub(super) fn check_uid(&self, body: &Value, live: &Object) -> Result<(), ApiError> {
        let uid = text(body, "/metadata/uid");
        if uid.is_empty() || uid == live.uid.as_ref() {
            return Ok(());
        }
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            live.uid
        );
        Err(ApiError::conflict(&self.kind, self.name, &why))
    }

    /// A body with a resourceVersion is meant for this state only.
    pub(super) fn check_revision(&self, body: &Value, live: &Object) -> Result<(), ApiError> {
        let version = text(body, "/metadata/resourceVersion");
        if version.is_empty() || version == live.revision.to_string() {
            return Ok(());
        }
        if version.parse::<u64>().is_err() {
            let message = format!(
                "Invalid value: \"{version}\": strconv.ParseUint: parsing \"{version}\": invalid syntax"
            );
            let cause = Cause::new("metadata.resourceVersion", CauseKind::Invalid, message);
            return Err(ApiError::invalid(&self.kind, self.name, &[cause]));
        }
        Err(ApiError::modified(&self.kind, self.name))
    }
}
