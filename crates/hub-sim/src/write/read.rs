//! Reading an object as the server does: its type and place are checked, unknown fields and meaningless nulls go, defaults come.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::validate::type_causes;
use super::{FieldValidation, PatchKind, Writer, text};
use crate::error::ApiError;
use crate::schema::{Path, Schema};

/// What becomes of a `null` in a declared field that may not be null and has no default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nulls {
    /// It goes, since the object is read.
    Drop,
    /// It stays in an object of a custom kind, which the server does not read again after it has applied a configuration.
    Keep,
}

impl Writer<'_> {
    /// Reads the body of a POST or PUT.
    pub(super) fn read(&mut self, object: &mut Value) -> Result<(), ApiError> {
        self.check_type(object)?;
        let kind = Arc::clone(&self.kind);
        let refused = |why: &str| {
            let (kind, version) = (&kind.kind, &kind.version);
            ApiError::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
            ))
        };
        let unknown = self.coerce(object, Nulls::Drop).map_err(|why| refused(&why))?;
        self.judge(unknown).map_err(|why| refused(&why))?;
        self.drop_equal_owners(object, "");
        Ok(())
    }

    /// Reads an object that a patch made.
    pub(super) fn read_patched(&mut self, object: &mut Value, patch: PatchKind) -> Result<(), ApiError> {
        // Only refusals show what was patched.
        let patched = (self.options.validation == FieldValidation::Strict).then(|| object.to_string());
        let unknown = self
            .check_patched_type(object, patch)
            .and_then(|()| self.coerce(object, Nulls::Drop));
        let unknown = unknown.map_err(|why| ApiError::invalid_patch(&object.to_string(), &why))?;
        if self.kind.is_custom && text(object, "/apiVersion").is_empty() {
            return Err(ApiError::without_version());
        }
        self.judge(unknown)
            .map_err(|why| ApiError::invalid_patch(&patched.unwrap_or_default(), &why))?;
        self.drop_equal_owners(object, " after mutating admission happens");
        Ok(())
    }

    /// Removes owners that are there twice, with a warning.
    fn drop_equal_owners(&mut self, object: &mut Value, when: &str) {
        let owners = object.pointer_mut("/metadata/ownerReferences");
        let Some(owners) = owners.and_then(Value::as_array_mut) else {
            return;
        };
        let (mut kept, mut uids): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
        for owner in std::mem::take(owners) {
            if kept.contains(&owner) {
                uids.push(text(&owner, "/uid").to_owned());
            } else {
                kept.push(owner);
            }
        }
        *owners = kept;
        if !uids.is_empty() {
            self.warnings.push(format!(
                ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may \
                 reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
                uids.join(", ")
            ));
        }
    }

    /// Refuses unknown fields and fields that are there twice, or warns of them.
    fn judge(&mut self, unknown: Vec<String>) -> Result<(), String> {
        let twice = self.options.duplicates.iter();
        let twice = twice.map(|path| format!("duplicate field \"{path}\""));
        let found: Vec<String> = twice.chain(unknown).collect();
        match self.options.validation {
            FieldValidation::Strict if !found.is_empty() => {
                Err(format!("strict decoding error: {}", found.join(", ")))
            }
            FieldValidation::Ignore => Ok(()),
            _ => {
                self.warnings.extend(found);
                Ok(())
            }
        }
    }

    /// Removes what the schema does not know, meaningless `null`s and empty metadata, and adds defaults. Returns what was unknown.
    ///
    /// # Errors
    /// Metadata, or a field of a built-in kind, has another type.
    pub(super) fn coerce(&self, object: &mut Value, nulls: Nulls) -> Result<Vec<String>, String> {
        let schema = &self.kind.schema;
        if let Some(error) = self.type_error(object) {
            return Err(error);
        }
        let unknown = schema.prune(object);
        if nulls == Nulls::Drop || !self.kind.is_custom {
            schema.drop_nulls(object);
        }
        schema.tidy_metadata(object);
        if !self.kind.is_custom {
            Schema::drop_empty(object, &self.kind.always);
            if self.kind.kind == "Secret" {
                encode_string_data(object);
            }
        }
        schema.fill_defaults(object);
        if self.kind.is_namespace() {
            label_with_name(object);
            let is_empty = |list: &Value| list.as_array().is_some_and(Vec::is_empty);
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                spec.retain(|name, value| !(name == "finalizers" && is_empty(value)));
            }
        }
        Ok(unknown
            .iter()
            .map(|field| format!("unknown field \"{field}\""))
            .collect())
    }

    /// Why metadata, or another field of a built-in kind, cannot be read. The server names the struct and the path of the field; for
    /// other kinds it reads metadata by themselves.
    fn type_error(&self, object: &Value) -> Option<String> {
        let fields = object.as_object().into_iter().flatten();
        let mut found = fields.filter_map(|(name, value)| {
            if self.kind.is_custom && name != "metadata" {
                return None;
            }
            let schema = self.kind.schema.field(name)?;
            // Nearly all objects are right, and need no path.
            schema.type_error(value, &Path::Root)?;
            let path = match (name.as_str(), self.kind.is_custom) {
                ("metadata", true) => Cow::from("ObjectMeta"),
                ("metadata", false) => "ObjectMeta.metadata".into(),
                ("spec", false) => format!("{}Spec.spec", self.kind.kind).into(),
                (name, _) => format!("{}.{name}", self.kind.kind).into(),
            };
            schema.type_error(value, &Path::Field(&Path::Root, &path))
        });
        found.next()
    }

    /// The kind of a body must be the one of the path.
    pub(super) fn check_type(&self, object: &Value) -> Result<(), ApiError> {
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
        if self.kind.is_custom && !kind.is_empty() && !version.is_empty() && kind != self.kind.kind {
            let name = text(object, "/metadata/name");
            let causes = type_causes(&self.kind, object);
            return Err(ApiError::invalid_type(version, kind, name, &causes));
        }
        if (!kind.is_empty() && kind != self.kind.kind)
            || (self.kind.is_custom && (kind.is_empty() || version.is_empty()))
        {
            let found = format!("{version}, Kind={kind}");
            return Err(ApiError::bad_request(format!(
                "{found}: the object is not a {} of {expected}",
                self.kind.kind
            )));
        }
        Ok(())
    }

    /// Whether the server can decode what a patch made. Of custom resources, it reads the type later. A strategic merge patch does not
    /// reach the type.
    fn check_patched_type(&self, object: &Value, patch: PatchKind) -> Result<(), String> {
        if !object.is_object() {
            return Err(format!("the patch makes no {}", self.kind.kind));
        }
        let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        if self.kind.is_custom && kind.is_empty() {
            return Err(format!("Object 'Kind' is missing in '{object}'"));
        }
        let is_read = !self.kind.is_custom && patch != PatchKind::Strategic;
        let is_other = |given: &str, wanted: &str| !given.is_empty() && given != wanted;
        if is_read && (is_other(version, &self.kind.api_version()) || is_other(kind, &self.kind.kind)) {
            return Err(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
            ));
        }
        Ok(())
    }

    /// The namespace of a body must be the one of the path. It is filled in if it is absent.
    pub(super) fn check_namespace(&self, object: &mut Value) -> Result<(), ApiError> {
        let given = text(object, "/metadata/namespace").to_owned();
        let wanted = if self.kind.namespaced { self.namespace } else { "" };
        if given.is_empty() && !wanted.is_empty() {
            if let Some(meta) = metadata(object) {
                meta.insert("namespace".to_owned(), wanted.into());
            }
        } else if wanted.is_empty() {
            if let Some(meta) = metadata(object) {
                meta.remove("namespace");
            }
        } else if given != wanted {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }

    /// The name of a body must be the one of the path.
    pub(super) fn check_name(&self, object: &Value) -> Result<(), ApiError> {
        let given = text(object, "/metadata/name");
        if given.is_empty() {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({} based on URL) was undeterminable: name must be provided",
                self.name
            )));
        }
        if given == self.name {
            return Ok(());
        }
        Err(ApiError::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({})",
            self.name
        )))
    }
}

/// The texts of a secret are stored like its other data.
fn encode_string_data(secret: &mut Value) {
    let texts = secret
        .as_object_mut()
        .and_then(|secret| secret.remove("stringData"));
    for (name, text) in texts.as_ref().and_then(Value::as_object).into_iter().flatten() {
        secret["data"][name] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
    }
}

/// Every namespace has a label with its name.
pub(super) fn label_with_name(object: &mut Value) {
    let name = text(object, "/metadata/name").to_owned();
    if let Some(meta) = metadata(object).filter(|_| !name.is_empty()) {
        let labels = meta.entry("labels").or_insert_with(|| json!({}));
        labels["kubernetes.io/metadata.name"] = name.into();
    }
}

/// The metadata of an object, which becomes a map if it is none.
pub(super) fn metadata(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let object = object.as_object_mut()?;
    let meta = object.entry("metadata").or_insert_with(|| json!({}));
    if !meta.is_object() {
        *meta = json!({});
    }
    meta.as_object_mut()
}
