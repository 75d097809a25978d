//! DELETE, with finalizers and preconditions.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Writer;
use super::read::metadata;
use crate::error::ApiError;
use crate::json::At as _;
use crate::object::Object;
use crate::schema::{Cause, CauseKind};

/// The namespaces that cannot be deleted.
const NEEDED: [&str; 3] = ["default", "kube-system", "kube-public"];

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
    /// The same with this propagation policy, unless they have one.
    pub(crate) fn with_policy(mut self, policy: Option<String>) -> Self {
        self.propagation_policy = self.propagation_policy.or(policy);
        self
    }

    /// The same with this list of dry runs.
    pub(crate) fn with_dry_run(self, dry_run: Vec<String>) -> Self {
        Self { dry_run, ..self }
    }

    /// The options, if they are valid.
    pub(crate) fn checked(self) -> Result<Self, ApiError> {
        let policy = self.propagation_policy.as_deref();
        let mut causes = Vec::new();
        if let Some(other) = policy.filter(|policy| !["Background", "Foreground", "Orphan"].contains(policy))
        {
            let why = format!(
                "Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
            );
            causes.push(Cause::new("propagationPolicy", CauseKind::NotSupported, why));
        }
        causes.extend(dry_run_cause(&self.dry_run));
        if causes.is_empty() {
            Ok(self)
        } else {
            Err(ApiError::invalid_options("DeleteOptions", &causes))
        }
    }
}

/// Why a list of dry runs is refused. There is only `All`.
pub(crate) fn dry_run_cause(dry_run: &[String]) -> Option<Cause> {
    let is_known = dry_run.iter().all(|value| value == "All");
    (!is_known).then(|| {
        let why = format!("Unsupported value: {}: supported values: \"All\"", json!(dry_run));
        Cause::new("dryRun", CauseKind::NotSupported, why)
    })
}

impl Writer<'_> {
    /// DELETE.
    pub(crate) fn delete(self, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        if self.kind.is_namespace() && NEEDED.contains(&self.name) {
            return Err(ApiError::namespace_is_needed(&self.kind, self.name));
        }
        let Some(live) = self.live() else {
            return Err(ApiError::not_found(&self.kind, self.name));
        };
        self.check_preconditions(options, &live)?;
        let dry_run = !options.dry_run.is_empty();
        if self.kind.is_namespace() {
            return Ok(self.delete_namespace(&live, dry_run));
        }
        let mut next = Value::clone(&live.value());
        let finalizers = finalizers_after(&next, options.propagation_policy.as_deref());
        if finalizers.is_empty() {
            if dry_run {
                return Ok(Deleted::Gone(live));
            }
            let last = self
                .state
                .remove(self.id, Arc::clone(&live.key), next, live.managers.clone());
            return Ok(Deleted::Gone(last));
        }
        if let Some(meta) = metadata(&mut next) {
            meta.insert("finalizers".to_owned(), finalizers.into());
            if !live.is_deleting {
                meta.insert("deletionTimestamp".to_owned(), self.now.into());
                if let Some(generation) = meta.get("generation").and_then(Value::as_i64) {
                    meta.insert("generation".to_owned(), (generation + 1).into());
                }
            }
            meta.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
        }
        Ok(Deleted::Held(self.store_held(&live, next, dry_run)))
    }

    /// A namespace is held until its content is gone.
    fn delete_namespace(self, live: &Arc<Object>, dry_run: bool) -> Deleted {
        if live.is_deleting {
            return Deleted::Held(Arc::clone(live));
        }
        let mut next = Value::clone(&live.value());
        if let Some(meta) = metadata(&mut next) {
            meta.insert("deletionTimestamp".to_owned(), self.now.into());
        }
        next["status"] = json!({"phase": "Terminating"});
        Deleted::Held(self.store_held(live, next, dry_run))
    }

    fn store_held(self, live: &Arc<Object>, next: Value, dry_run: bool) -> Arc<Object> {
        if next == *live.value() {
            Arc::clone(live)
        } else if dry_run {
            Arc::new(Object::new(
                Arc::clone(&live.key),
                next,
                live.managers.clone(),
                live.revision,
            ))
        } else {
            self.state
                .put(self.id, Arc::clone(&live.key), next, live.managers.clone())
        }
    }

    fn check_preconditions(&self, options: &DeleteOptions, live: &Object) -> Result<(), ApiError> {
        let wanted = &options.preconditions;
        if let Some(uid) = wanted.uid.as_deref().filter(|uid| *uid != live.uid.as_ref()) {
            let why = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted \
                 and then recreated",
                live.uid
            );
            return Err(ApiError::deletion_conflict(&self.kind, self.name, &why));
        }
        let have = live.revision.to_string();
        if let Some(version) = wanted
            .resource_version
            .as_deref()
            .filter(|version| *version != have)
        {
            let why = format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({have}). The \
                 object might have been modified"
            );
            return Err(ApiError::deletion_conflict(&self.kind, self.name, &why));
        }
        Ok(())
    }
}

/// The finalizers of an object whose deletion is requested with this propagation policy.
fn finalizers_after(object: &Value, policy: Option<&str>) -> Vec<Value> {
    const OURS: [&str; 2] = ["orphan", "foregroundDeletion"];
    let list = object.at("/metadata/finalizers").and_then(Value::as_array);
    let mut finalizers = list.cloned().unwrap_or_default();
    let wanted = match policy {
        Some("Foreground") => Some("foregroundDeletion"),
        Some("Orphan") => Some("orphan"),
        Some(_) => None,
        // Without a policy, a finalizer decides.
        None => OURS
            .into_iter()
            .find(|ours| finalizers.iter().any(|finalizer| finalizer == ours)),
    };
    let ours = finalizers
        .iter()
        .filter(|finalizer| OURS.iter().any(|ours| *finalizer == ours))
        .count();
    let is_right = wanted.map_or(ours == 0, |wanted| {
        ours == 1 && finalizers.iter().any(|finalizer| finalizer == wanted)
    });
    if !is_right {
        finalizers.retain(|finalizer| !OURS.iter().any(|ours| finalizer == ours));
        finalizers.extend(wanted.map(Value::from));
    }
    finalizers
}
