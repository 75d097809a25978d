//! POST, and the creation of objects by PUT and server-side apply.

use std::sync::Arc;

use serde_json::Value;

use super::read::metadata;
use super::{Writer, Written, admit, text, validate};
use crate::error::ApiError;
use crate::fields::{Managers, Operation};
use crate::object::{Object, key};

/// Attempts to find a generated name that is free.
const MAX_NAME_ATTEMPTS: usize = 8;

impl Writer<'_> {
    /// POST.
    pub(crate) fn create(mut self, body: Value) -> Result<Written, ApiError> {
        let mut object = body;
        self.read(&mut object)?;
        if let Some(meta) = metadata(&mut object) {
            for field in [
                "uid",
                "creationTimestamp",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "selfLink",
            ] {
                meta.remove(field);
            }
        }
        self.check_namespace(&mut object)?;
        let managers = self.managers_of_new(&mut object);
        self.insert(object, managers, true)
    }

    /// The managers of an object that is created by anything but an apply.
    pub(super) fn managers_of_new(&self, object: &mut Value) -> Managers {
        let given = take_managed_fields(object);
        let known = match given {
            Some(entries) if !is_reset(&entries) => Managers::from_json(&entries).unwrap_or_default(),
            _ => Managers::default(),
        };
        let empty = self.kind.empty_object();
        known.after_update(
            &empty,
            object,
            self.manager(Operation::Update),
            self.rules(&self.kind),
        )
    }

    /// Stores a new object.
    pub(super) fn insert(
        mut self,
        mut object: Value,
        managers: Managers,
        by_post: bool,
    ) -> Result<Written, ApiError> {
        let name = text(&object, "/metadata/name").to_owned();
        self.check_namespace_is_active(&name)?;
        let name = self.name_of_new(&mut object, name);
        let uid = self.state.new_uid();
        admit::complete_new(&self.kind, &mut object, &uid, self.now);
        validate::new_object(&self.kind, &name, &object)?;
        self.warnings
            .extend(validate::finalizer_warnings(&self.kind, &object, None));
        let revision = metadata(&mut object).and_then(|meta| meta.remove("resourceVersion"));
        if by_post
            && revision
                .as_ref()
                .is_some_and(|revision| !matches!(revision.as_str(), Some("" | "0")))
        {
            return Err(ApiError::internal(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let at = key(self.namespace, &name);
        if let Some(have) = self.state.collection(self.id).get(&at) {
            return Err(ApiError::already_exists(&self.kind, &name, have.is_deleting));
        }
        // A real server encodes and decodes what it stores or would store, which adds the default of the status.
        let has_status = object.get("status").is_some();
        self.kind.schema.fill_defaults(&mut object);
        self.unseen.lacks_status = !has_status && object.get("status").is_some();
        let object = if self.options.dry_run {
            // Nothing is stored, so nothing replaces the revision that was sent.
            let sent = revision.as_ref().and_then(Value::as_str);
            let revision = sent.and_then(|text| text.parse().ok()).unwrap_or(0);
            Arc::new(Object::new(at, object, managers, revision))
        } else {
            self.put(at, object, managers)?
        };
        Ok(Written {
            created: true,
            object,
        })
    }

    /// The name of a new object, which is generated if only its beginning is given.
    fn name_of_new(&mut self, object: &mut Value, given: String) -> String {
        let prefix = text(object, "/metadata/generateName").to_owned();
        if !given.is_empty() || prefix.is_empty() {
            return given;
        }
        // The server cuts the beginning of names that would become too long.
        let prefix: String = prefix.chars().take(58).collect();
        let mut name = String::new();
        for _ in 0..MAX_NAME_ATTEMPTS {
            name = format!("{prefix}{}", self.state.name_suffix());
            if self
                .state
                .collection(self.id)
                .get(&key(self.namespace, &name))
                .is_none()
            {
                break;
            }
        }
        if let Some(meta) = metadata(object) {
            meta.insert("name".to_owned(), name.as_str().into());
        }
        name
    }

    /// Nothing can be created in a namespace that does not exist or is being deleted.
    fn check_namespace_is_active(&self, name: &str) -> Result<(), ApiError> {
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

/// Removes the managers that a client sent.
pub(super) fn take_managed_fields(object: &mut Value) -> Option<Vec<Value>> {
    match metadata(object)?.remove("managedFields")? {
        Value::Array(entries) => Some(entries),
        _ => None,
    }
}

/// Whether the managers that a client sent ask to forget all managers: none, or one empty one.
pub(super) fn is_reset(entries: &[Value]) -> bool {
    match entries {
        [] => true,
        [only] => only.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}
