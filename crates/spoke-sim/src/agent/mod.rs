//! The work agent as a pure function: from a work, a cluster and a time to the status of the work.
//!
//! This module defines the order of the steps (apply, untracked objects, availability, feedback, condition rules) and their
//! conditions. The connection to the hub is in [`crate::hub`].

mod apply;
mod delete;
mod work;

use serde_json::Value;

pub use self::delete::finalize;
pub use self::work::Work;
use crate::cluster::Cluster;
use crate::conditions;
use crate::fault::Lie;
use crate::feedback::{self, RawJson};
use crate::fields::Time;
use crate::platform::cvo;
use crate::store::{ApiError, ObjectKey};
use crate::work::Config;
use crate::work::status::{self, Condition, ManifestStatus, ResourceMeta, Status, WorkStatus};

/// Settings of the agent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Feature gate `RawFeedbackJsonString`.
    pub raw_json: Option<RawJson>,
    /// Whether objects currently cannot be read.
    pub reads_fail: bool,
}

/// The result of an apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Whether the status changed.
    pub changed: bool,
    /// Whether something failed that should be tried again.
    pub retry: bool,
}

/// One complete pass of the agent over a work: it applies the work and then reports on it. The controllers of the cluster act
/// between two passes.
pub fn reconcile(
    work: Work<'_>,
    cluster: &mut Cluster,
    status: &mut WorkStatus,
    settings: Settings,
    now: Time,
) -> Applied {
    let mut applied = apply(work, cluster, status, now);
    applied.changed |= observe(work, cluster, status, settings, now);
    applied
}

/// Applies every manifest and deletes what the work no longer contains. A work that is Complete is not touched.
pub fn apply(work: Work<'_>, cluster: &mut Cluster, status: &mut WorkStatus, now: Time) -> Applied {
    if status::is_true(&status.conditions, "Complete") {
        return Applied::default();
    }
    let results = apply::manifests(work, cluster, &status.resource_status.manifests, now);
    delete::untracked(work.name, cluster, &results, now);
    let retry = results
        .iter()
        .any(|result| result.error.as_ref().is_some_and(is_worth_retrying));
    let failed = results.iter().any(|result| result.error.is_some());
    let is_empty = results.is_empty();
    let before = status.resource_status.manifests.len();
    let mut changed = false;
    let mut old = std::mem::take(&mut status.resource_status.manifests);
    for result in results {
        let (meta, error) = (result.meta, result.error);
        let at = old.iter().position(|m| m.resource_meta == meta);
        let at = at.or_else(|| old.iter().position(|m| m.resource_meta.same_resource(&meta)));
        let mut manifest = match at {
            Some(at) => std::mem::take(&mut old[at]),
            None => ManifestStatus::default(),
        };
        changed |= at.is_none() || manifest.resource_meta != meta;
        manifest.resource_meta = meta;
        changed |= set_applied(&mut manifest.conditions, error.as_ref(), work.generation, now);
        status.resource_status.manifests.push(manifest);
    }
    changed |= before != status.resource_status.manifests.len();
    if !is_empty {
        let condition = if failed {
            (
                Status::False,
                "AppliedManifestWorkFailed",
                "Failed to apply manifest work",
            )
        } else {
            (
                Status::True,
                "AppliedManifestWorkComplete",
                "Apply manifest work complete",
            )
        };
        let (applied, reason, message) = condition;
        let condition = Condition::new("Applied", applied, reason, message, work.generation, now);
        changed |= status::set(&mut status.conditions, condition);
    }
    Applied { changed, retry }
}

/// True when another try may succeed. An apply conflict lasts until the other manager releases the field.
fn is_worth_retrying(error: &ApiError) -> bool {
    !matches!(error, ApiError::ApplyConflict(_))
}

/// Replaces a condition of an earlier generation, including its transition time.
fn set_applied(
    conditions: &mut Vec<Condition>,
    error: Option<&ApiError>,
    generation: i64,
    now: Time,
) -> bool {
    let condition = match error {
        None => Condition::new(
            "Applied",
            Status::True,
            "AppliedManifestComplete",
            "Apply manifest complete",
            generation,
            now,
        ),
        Some(error) => {
            let message = format!("Failed to apply manifest: {error}");
            Condition::new(
                "Applied",
                Status::False,
                "AppliedManifestFailed",
                message,
                generation,
                now,
            )
        }
    };
    conditions.retain(|c| c.kind != "Applied" || c.observed_generation == generation);
    status::set(conditions, condition)
}

/// Reads every applied object and writes availability, feedback and rule conditions. Returns whether the
/// status changed. Waits for the Applied condition, as the agent does.
pub fn observe(
    work: Work<'_>,
    cluster: &Cluster,
    status: &mut WorkStatus,
    settings: Settings,
    now: Time,
) -> bool {
    if !status.conditions.iter().any(|c| c.kind == "Applied") {
        return false;
    }
    let mut changed = false;
    for manifest in &mut status.resource_status.manifests {
        changed |= observe_manifest(work, cluster, manifest, settings, now);
    }
    for condition in conditions::aggregate(work.generation, &status.resource_status.manifests, now) {
        changed |= status::set(&mut status.conditions, condition);
    }
    conditions::prune(&mut status.conditions, work.generation) || changed
}

fn observe_manifest(
    work: Work<'_>,
    cluster: &Cluster,
    manifest: &mut ManifestStatus,
    settings: Settings,
    now: Time,
) -> bool {
    let (availability, key) = availability(cluster, &manifest.resource_meta, settings, now);
    let mut changed = status::set(&mut manifest.conditions, availability);
    // An object that cannot be read keeps its old values.
    let Some(key) = key else {
        return changed;
    };
    let config = work.spec.configs.of(&key);
    let object = if config.feedback.is_empty() && config.conditions.is_empty() {
        Value::Null
    } else {
        told(cluster, &key)
    };
    changed |= set_feedback(manifest, &object, config, settings, now);
    conditions::evaluate(
        &mut manifest.conditions,
        &object,
        config.conditions,
        work.generation,
        now,
    ) || changed
}

/// The Available condition of a manifest, and the key of its object if it can be read.
fn availability(
    cluster: &Cluster,
    meta: &ResourceMeta,
    settings: Settings,
    now: Time,
) -> (Condition, Option<ObjectKey>) {
    let available = |status, reason: &'static str, message: String| {
        Condition::new("Available", status, reason, message, 0, now)
    };
    if meta.resource.is_empty() || meta.version.is_empty() || meta.name.is_empty() {
        let message = "Resource meta is incomplete".to_owned();
        return (
            available(Status::Unknown, "IncompleteResourceMeta", message),
            None,
        );
    }
    let key = ObjectKey::new(
        meta.group.clone(),
        meta.resource.clone(),
        &meta.namespace,
        &meta.name,
    );
    let failure = if settings.reads_fail {
        Some("Get \"https://172.30.0.1:443\": context deadline exceeded".to_owned())
    } else if cluster.forbids(&key) {
        Some(ApiError::forbidden("get", &key).to_string())
    } else {
        None
    };
    if let Some(failure) = failure {
        let message = format!("Failed to fetch resource: {failure}");
        return (
            available(Status::Unknown, "FetchingResourceFailed", message),
            None,
        );
    }
    if cluster.store.revision_of(&key).is_none() {
        return (
            available(
                Status::False,
                "ResourceNotAvailable",
                "Resource is not available".to_owned(),
            ),
            None,
        );
    }
    let condition = Condition::new(
        "Available",
        Status::True,
        "ResourceAvailable",
        "Resource is available",
        0,
        now,
    );
    (condition, Some(key))
}

/// An object as this cluster reports it, which may be wrong by a fault.
fn told(cluster: &Cluster, key: &ObjectKey) -> Value {
    let object = cluster.store.get(key).unwrap_or_default();
    let lie: Option<Lie> = cluster.faults.lie().filter(|_| *key == cvo::key());
    lie.map_or(object.clone(), |how| cvo::lie(&object, how))
}

fn set_feedback(
    manifest: &mut ManifestStatus,
    object: &Value,
    config: Config<'_>,
    settings: Settings,
    now: Time,
) -> bool {
    const SYNCED: &str = "StatusFeedbackSynced";
    let (values, error) = feedback::read(object, config.feedback, settings.raw_json);
    let condition = match error {
        _ if config.feedback.is_empty() => {
            Condition::new(SYNCED, Status::True, "NoStatusFeedbackSynced", "", 0, now)
        }
        None => Condition::new(SYNCED, Status::True, SYNCED, "", 0, now),
        Some(error) => {
            let message = format!("Sync status feedback failed with error {error}");
            Condition::new(SYNCED, Status::False, "StatusFeedbackSyncFailed", message, 0, now)
        }
    };
    let changed = manifest.status_feedback.values != values;
    if changed {
        // The transition time of this condition is when the values last changed.
        manifest.conditions.retain(|c| c.kind != SYNCED);
        manifest.status_feedback.values = values;
    }
    status::set(&mut manifest.conditions, condition) || changed
}

#[cfg(test)]
mod tests;
