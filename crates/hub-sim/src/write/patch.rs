//! PATCH: merge patches, JSON patches and server-side apply.

use std::sync::Arc;

use json_patch::{AddOperation, PatchOperation};
use serde_json::{Map, Value};

use super::read::Nulls;
use super::{FieldValidation, PatchKind, Writer, Written, strategic, text};
use crate::error::ApiError;
use crate::fields::{Managers, Operation};
use crate::json::At as _;

/// The operations of a JSON patch.
const MOST_OPERATIONS: usize = 10_000;

impl Writer<'_> {
    /// PATCH.
    pub(crate) fn patch(mut self, patch: PatchKind, body: &Value) -> Result<Written, ApiError> {
        if patch == PatchKind::Apply {
            return self.apply(body);
        }
        if patch == PatchKind::Strategic && self.kind.is_custom {
            return Err(ApiError::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, \
                 application/merge-patch+json, application/apply-patch+yaml",
            ));
        }
        let Some(live) = self.live() else {
            return Err(ApiError::not_found(&self.kind, self.name));
        };
        // Managers that a patch does not name stay out of it.
        let before = live.value();
        let names_managers = patch == PatchKind::Json || body.at("/metadata/managedFields").is_some();
        let mut next = if names_managers {
            live.full_value()
        } else {
            Value::clone(&before)
        };
        match patch {
            PatchKind::Json => json_patch(&mut next, body)?,
            _ if !body.is_object() => return Err(ApiError::bad_request("Invalid JSON Patch")),
            PatchKind::Strategic => strategic::merge(&mut next, body, ""),
            _ => merge_patch(&mut next, body),
        }
        self.read_patched(&mut next, patch)?;
        let managers = self.managers_after_update(&live, &before, &mut next);
        self.check_namespace(&mut next)?;
        self.check_name(&next)?;
        self.change(&live, &before, next, managers)
    }

    fn apply(mut self, body: &Value) -> Result<Written, ApiError> {
        let live = self.live();
        if live.is_none() && !self.subresource.is_empty() {
            return Err(ApiError::not_found(&self.kind, self.name));
        }
        self.check_configuration(body)?;
        let before = live
            .as_ref()
            .map_or_else(|| Arc::new(self.kind.empty_object()), |live| live.value());
        let (next, managers) = self.applied(live.as_ref().map(|live| &live.managers), &before, body)?;
        let mut next = match next {
            Some(mut next) => {
                let given = next.get("metadata").cloned();
                self.coerce(&mut next, Nulls::Keep).map_err(ApiError::internal)?;
                self.unseen.is_untidy = self.kind.is_custom && given.as_ref() != next.get("metadata");
                next
            }
            None => Value::clone(&before),
        };
        self.check_namespace(&mut next)?;
        if let Some(first) = self.options.duplicates.first() {
            match self.options.validation {
                FieldValidation::Strict => {
                    return Err(ApiError::bad_request(format!(
                        "error strict decoding YAML: key {first:?} already set in map"
                    )));
                }
                FieldValidation::Warn => self.warnings.push(format!("key {first:?} already set in map")),
                FieldValidation::Ignore => {}
            }
        }
        let Some(live) = live else {
            let uid = text(&next, "/metadata/uid");
            if !uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(ApiError::conflict(&self.kind, self.name, &why));
            }
            self.check_name(&next)?;
            return self.insert(next, managers, false);
        };
        self.check_name(&next)?;
        self.change(&live, &before, next, managers)
    }

    /// Whether a configuration can be applied at all.
    fn check_configuration(&self, config: &Value) -> Result<(), ApiError> {
        let (version, kind) = (text(config, "/apiVersion"), text(config, "/kind"));
        if version != self.kind.api_version() || kind != self.kind.kind {
            return Err(ApiError::bad_request(format!(
                "invalid object type: {version}, Kind={kind}"
            )));
        }
        if config
            .at("/metadata/managedFields")
            .is_some_and(|list| !list.is_null())
        {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        if let Some(error) = self.kind.schema.apply_error(config) {
            let group_version = if version.contains('/') {
                version.to_owned()
            } else {
                format!("/{version}")
            };
            let (namespace, name) = (
                text(config, "/metadata/namespace"),
                text(config, "/metadata/name"),
            );
            return Err(ApiError::internal(format!(
                "failed to create typed patch object ({namespace}/{name}; {group_version}, Kind={kind}): {error}"
            )));
        }
        Ok(())
    }

    /// Applies a configuration. What an object has that no manager is known for belongs to `before-first-apply`.
    fn applied(
        &self,
        known: Option<&Managers>,
        before: &Value,
        config: &Value,
    ) -> Result<(Option<Value>, Managers), ApiError> {
        let rules = self.rules(&self.kind);
        let known = match known {
            Some(known) if !known.is_empty() => known.clone(),
            _ => {
                let mut first = self.manager(Operation::Update);
                first.name = "before-first-apply".into();
                Managers::default().after_update(&self.kind.empty_object(), before, first, rules)
            }
        };
        let by = self.manager(Operation::Apply);
        let applied = known.apply(before, config, by, self.options.force, rules);
        applied.map_err(|conflicts| ApiError::apply_conflict(&conflicts))
    }
}

/// RFC 7396. Unlike it, the server also drops the `null` fields of objects within lists.
fn merge_patch(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        drop_null_fields(target);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
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

/// Removes what is `null` in objects, but no items of lists.
fn drop_null_fields(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_null_fields);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_null_fields),
        _ => {}
    }
}

/// RFC 6902, by the crate of kube. Unlike it, the server takes the replacement of a field that is absent as an addition, and a
/// field that is absent as equal to `null`.
fn json_patch(target: &mut Value, patch: &Value) -> Result<(), ApiError> {
    let patch: json_patch::Patch =
        serde_json::from_value(patch.clone()).map_err(|error| ApiError::bad_request(error.to_string()))?;
    if patch.0.len() > MOST_OPERATIONS {
        let limit = format!(
            "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
            patch.0.len()
        );
        return Err(ApiError::too_large(&limit));
    }
    for operation in patch.0 {
        let operation = match operation {
            PatchOperation::Test(test)
                if test.value.is_null() && is_absent_field(target, test.path.as_str()) =>
            {
                continue;
            }
            PatchOperation::Replace(replace) if is_absent_field(target, replace.path.as_str()) => {
                PatchOperation::Add(AddOperation {
                    path: replace.path,
                    value: replace.value,
                })
            }
            other => other,
        };
        json_patch::patch(target, &[operation]).map_err(|_| ApiError::patch_failed())?;
    }
    Ok(())
}

/// Whether a path names a field that a map lacks. Items of lists are no fields.
fn is_absent_field(target: &Value, path: &str) -> bool {
    let above = path.rsplit_once('/').and_then(|(above, _)| target.pointer(above));
    above.is_some_and(Value::is_object) && target.pointer(path).is_none()
}
