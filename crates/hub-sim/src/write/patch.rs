//! PATCH: merge patches, JSON patches and server-side apply.

use std::sync::Arc;

use serde_json::Value;

use super::{Writer, Written, admit, text};
use crate::error::ApiError;
use crate::fields::{FieldSet, Operation};
use crate::schema::{Cause, CauseKind, Typing};

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 7396. Strategic merge patches of built-in kinds are taken as these.
    Merge,
    /// RFC 6902.
    Json,
    /// Server-side apply.
    Apply,
}

impl Writer<'_> {
    /// PATCH.
    pub(crate) fn patch(self, patch: PatchKind, body: Value) -> Result<Written, ApiError> {
        if patch == PatchKind::Apply {
            return self.apply(body);
        }
        let Some(live) = self.live() else {
            return Err(ApiError::not_found(&self.kind, self.name));
        };
        let mut next = live.value();
        if patch == PatchKind::Merge {
            if !body.is_object() {
                return Err(ApiError::bad_request("the patch is not an object"));
            }
            merge_patch(&mut next, &body);
        } else {
            json_patch(&mut next, &body).map_err(|why| self.unprocessable(&why))?;
        }
        for field in ["name", "namespace"] {
            let (had, has) = (text_of(&live.value(), field), text_of(&next, field));
            if had != has {
                let what = if field == "name" { "name" } else { "namespace" };
                return Err(ApiError::bad_request(format!(
                    "the {what} of the object ({has}) does not match the {what} on the URL ({had})"
                )));
            }
        }
        let uid = text(&next, "/metadata/uid").to_owned();
        if uid != live.uid.as_ref() {
            return Err(self.wrong_uid(&uid, &live.uid));
        }
        let warnings = self.prepare(&mut next)?;
        self.change(&live, next, warnings)
    }

    fn wrong_uid(&self, given: &str, have: &str) -> ApiError {
        let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {have}");
        ApiError::conflict(&self.kind, self.name, &why)
    }

    fn unprocessable(&self, why: &str) -> ApiError {
        let cause = Cause::new("patch", CauseKind::Invalid, why);
        ApiError::invalid(&self.kind, self.name, &[cause])
    }

    fn apply(self, body: Value) -> Result<Written, ApiError> {
        self.check_type(&body)?;
        let given = text(&body, "/metadata/name");
        if !given.is_empty() && given != self.name {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({})",
                self.name
            )));
        }
        if body
            .pointer("/metadata/managedFields")
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty())
        {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        let typing = Typing::of(&self.kind.schema);
        let mut config = body;
        self.kind.schema.drop_nulls(&mut config);
        let warnings = self.prune_only(&mut config)?;
        // A configuration owns only what its subresource can write.
        let mine = |field: &str| !self.kind.has_status || (field == "status") == self.status;
        let mut by = self.manager(Operation::Apply);
        by.fields = FieldSet::of_fields(&config, typing, |field| {
            !matches!(field, "apiVersion" | "kind") && mine(field) && !(self.status && field == "metadata")
        });
        let Some(live) = self.live() else {
            let uid = text(&config, "/metadata/uid");
            if !uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(ApiError::conflict(&self.kind, self.name, &why));
            }
            if self.status {
                return Err(ApiError::not_found(&self.kind, self.name));
            }
            self.check_namespace(&config, self.name)?;
            admit::clear_server_fields(&mut config);
            self.kind.schema.fill_defaults(&mut config);
            let name = self.name.to_owned();
            return self.insert(config, &name, by, warnings);
        };
        self.check_uid(&config, &live)?;
        self.check_revision(&config, &live)?;
        let before = live.value();
        let applied = owned_part(&config, self.kind.has_status, self.status);
        let merged = live
            .managers
            .apply(&before, &applied, by, self.options.force, typing);
        let (mut next, managers) = merged.map_err(|conflicts| ApiError::apply_conflict(&conflicts))?;
        self.kind.schema.fill_defaults(&mut next);
        admit::keep_server_fields(&self.kind, &before, &mut next, self.status);
        self.store(&Arc::clone(&live), &before, next, managers, warnings)
    }

    /// Removes unknown fields without adding defaults: an applied configuration owns only what it says.
    fn prune_only(&self, config: &mut Value) -> Result<Vec<String>, ApiError> {
        let mut whole = config.clone();
        let warnings = self.prepare(&mut whole)?;
        self.kind.schema.prune(config);
        Ok(warnings)
    }
}

/// The part of a configuration that a write to this subresource applies.
fn owned_part(config: &Value, has_status: bool, status: bool) -> Value {
    let mut part = config.clone();
    if let Some(map) = part.as_object_mut() {
        map.remove("apiVersion");
        map.remove("kind");
        if has_status {
            map.retain(|field, _| (field == "status") == status);
        }
        if let Some(meta) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.retain(|field, _| {
                matches!(
                    field.as_str(),
                    "labels" | "annotations" | "finalizers" | "ownerReferences"
                )
            });
        }
    }
    part
}

fn text_of(object: &Value, field: &str) -> String {
    text(object, &format!("/metadata/{field}")).to_owned()
}

/// RFC 7396.
fn merge_patch(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(map) = target.as_object_mut() else { return };
    for (name, value) in patch {
        if value.is_null() {
            map.remove(name);
        } else {
            merge_patch(map.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// RFC 6902, by the crate of kube.
fn json_patch(target: &mut Value, patch: &Value) -> Result<(), String> {
    let patch: json_patch::Patch =
        serde_json::from_value(patch.clone()).map_err(|error| error.to_string())?;
    json_patch::patch(target, &patch).map_err(|error| error.to_string())
}
