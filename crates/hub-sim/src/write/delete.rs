//! DELETE, with finalizers and preconditions.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Writer, admit};
use crate::error::ApiError;
use crate::object::Object;

/// The body of a DELETE.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    preconditions: Preconditions,
    propagation_policy: Option<String>,
    dry_run: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// What a DELETE did.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object is gone. Its last state.
    Gone(Arc<Object>),
    /// Finalizers hold it.
    Held(Arc<Object>),
}

impl DeleteOptions {
    /// `propagationPolicy` of the query, which an old client may use instead of a body.
    pub(crate) fn with_policy(mut self, policy: Option<String>) -> Self {
        self.propagation_policy = self.propagation_policy.or(policy);
        self
    }
}

impl Writer<'_> {
    /// DELETE.
    pub(crate) fn delete(self, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        let Some(live) = self.live() else {
            return Err(ApiError::not_found(&self.kind, self.name));
        };
        self.check_preconditions(options, &live)?;
        let dry_run = self.options.dry_run || !options.dry_run.is_empty();
        let mut next = live.value();
        let finalizers = finalizers_after(&next, options.propagation_policy.as_deref());
        let is_namespace = self.kind.plural == "namespaces" && self.kind.group.is_empty();
        if finalizers.is_empty() && !is_namespace {
            if dry_run {
                return Ok(Deleted::Gone(live));
            }
            let last = self
                .state
                .remove(self.id, Arc::clone(&live.key), next, live.managers.clone());
            return Ok(Deleted::Gone(last));
        }
        if live.is_deleting || dry_run {
            return Ok(Deleted::Held(live));
        }
        if let Some(meta) = admit::metadata(&mut next) {
            if !finalizers.is_empty() {
                meta.insert("finalizers".to_owned(), finalizers.into());
            }
            meta.insert("deletionTimestamp".to_owned(), self.now.into());
            if !is_namespace {
                meta.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            }
            if let Some(generation) = meta.get("generation").and_then(Value::as_i64) {
                meta.insert("generation".to_owned(), (generation + 1).into());
            }
        }
        if is_namespace {
            next["status"] = json!({"phase": "Terminating"});
        }
        let held = self
            .state
            .put(self.id, Arc::clone(&live.key), next, live.managers.clone());
        Ok(Deleted::Held(held))
    }

    fn check_preconditions(&self, options: &DeleteOptions, live: &Object) -> Result<(), ApiError> {
        let wanted = &options.preconditions;
        if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != live.uid.as_ref()) {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                live.uid
            );
            return Err(ApiError::conflict(&self.kind, self.name, &why));
        }
        let have = live.revision.to_string();
        if let Some(version) = wanted
            .resource_version
            .as_deref()
            .filter(|version| *version != have)
        {
            let why = format!(
                "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {have}"
            );
            return Err(ApiError::conflict(&self.kind, self.name, &why));
        }
        Ok(())
    }
}

/// The finalizers of an object whose deletion is requested with this propagation policy.
fn finalizers_after(object: &Value, policy: Option<&str>) -> Vec<Value> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    let mut finalizers = list.cloned().unwrap_or_default();
    let added = match policy {
        Some("Foreground") => "foregroundDeletion",
        Some("Orphan") => "orphan",
        _ => return finalizers,
    };
    if !finalizers.iter().any(|finalizer| finalizer == added) {
        finalizers.push(added.into());
    }
    finalizers
}
