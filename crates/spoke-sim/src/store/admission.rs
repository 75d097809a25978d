//! Defaults and validation of the API server of a simulated cluster.
//!
//! They exist for ClusterVersion (the schema of config.openshift.io/v1) and Job (selector, immutable template). Objects of
//! other kinds are accepted as they are.

use serde_json::{Value, json};

use super::error::ApiError;
use super::key::ObjectKey;
use crate::fields;

/// Defaults and validation of a new object.
pub(super) fn on_create(key: &ObjectKey, object: &mut Value, uid: &str) -> Result<(), ApiError> {
    match (key.group.as_ref(), key.resource.as_ref()) {
        ("batch", "jobs") => {
            default_job(object);
            select_own_pods(key, object, uid)?;
            label_by_template(object);
            Ok(())
        }
        ("config.openshift.io", "clusterversions") => check_cluster_version(key, object),
        _ => Ok(()),
    }
}

/// Defaults and validation of a changed object.
pub(super) fn on_update(key: &ObjectKey, live: &Value, next: &mut Value) -> Result<(), ApiError> {
    match (key.group.as_ref(), key.resource.as_ref()) {
        ("batch", "jobs") => {
            default_job(next);
            check_job_update(key, live, next)
        }
        ("config.openshift.io", "clusterversions") => check_cluster_version(key, next),
        _ => Ok(()),
    }
}

/// The cause that a server adds if an object does not fit the schema, so that validation rules could not be evaluated.
const NOT_CHECKED: &str = "<nil>: Invalid value: null: some validation rules were not checked because the object was \
                           invalid; correct the existing errors to complete validation";

fn default_job(job: &mut Value) {
    let spec = fields::object_at(job, &["spec"]);
    for (field, default) in [("backoffLimit", 6), ("completions", 1), ("parallelism", 1)] {
        spec.entry(field).or_insert_with(|| default.into());
    }
}

/// Without `manualSelector` the server derives selector and pod labels from the uid of the Job. A manifest without them can
/// therefore never be PUT again.
fn select_own_pods(key: &ObjectKey, job: &mut Value, uid: &str) -> Result<(), ApiError> {
    let manual = fields::get(job, &["spec", "manualSelector"])
        .and_then(Value::as_bool)
        .unwrap_or(false);
    if manual {
        if fields::get(job, &["spec", "selector"]).is_none() {
            return Err(ApiError::invalid(
                "Job",
                key,
                &["spec.selector: Required value".to_owned()],
            ));
        }
        return Ok(());
    }
    let label = "batch.kubernetes.io/controller-uid";
    fields::object_at(job, &["spec"]).insert("selector".into(), json!({"matchLabels": {label: uid}}));
    let labels = fields::object_at(job, &["spec", "template", "metadata", "labels"]);
    labels.insert(label.into(), uid.into());
    labels.insert("batch.kubernetes.io/job-name".into(), key.name.as_ref().into());
    labels.insert("controller-uid".into(), uid.into());
    labels.insert("job-name".into(), key.name.as_ref().into());
    Ok(())
}

/// A Job without labels gets those of its pods.
fn label_by_template(job: &mut Value) {
    let labels = fields::get(job, &["spec", "template", "metadata", "labels"]).cloned();
    if let Some(Value::Object(labels)) = labels
        && fields::object_at(job, &["metadata", "labels"]).is_empty()
    {
        fields::object_at(job, &["metadata"]).insert("labels".into(), labels.into());
    }
}

fn check_job_update(key: &ObjectKey, live: &Value, next: &Value) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    for field in ["selector", "template", "completions"] {
        let (old, new) = (
            fields::get(live, &["spec", field]),
            fields::get(next, &["spec", field]),
        );
        if field == "selector" && new.is_none() {
            causes.push("spec.selector: Required value".to_owned());
        }
        if old != new {
            let shown = new.map_or_else(|| "null".to_owned(), ToString::to_string);
            causes.push(format!(
                "spec.{field}: Invalid value: {shown}: field is immutable"
            ));
        }
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid("Job", key, &causes))
    }
}

fn check_cluster_version(key: &ObjectKey, object: &Value) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    let spec = &["spec"];
    match fields::get(object, &["spec", "clusterID"]) {
        None => causes.push("spec.clusterID: Required value".to_owned()),
        Some(id) => check_type("spec.clusterID", id, "string", Value::is_string, &mut causes),
    }
    for field in ["channel", "upstream"] {
        if let Some(value) = fields::get(object, spec).and_then(|spec| spec.get(field)) {
            check_type(
                &format!("spec.{field}"),
                value,
                "string",
                Value::is_string,
                &mut causes,
            );
        }
    }
    if let Some(update) = fields::get(object, &["spec", "desiredUpdate"]) {
        for field in ["version", "image", "architecture"] {
            if let Some(value) = update.get(field) {
                check_type(
                    &format!("spec.desiredUpdate.{field}"),
                    value,
                    "string",
                    Value::is_string,
                    &mut causes,
                );
            }
        }
        if let Some(value) = update.get("force") {
            check_type(
                "spec.desiredUpdate.force",
                value,
                "boolean",
                Value::is_boolean,
                &mut causes,
            );
        }
    }
    if !causes.is_empty() {
        causes.push(NOT_CHECKED.to_owned());
    } else if let Some(update) = fields::get(object, &["spec", "desiredUpdate"]) {
        let arch = fields::text(update, &["architecture"]);
        let cel = |rule: &str| format!("spec.desiredUpdate: Invalid value: {rule}");
        if !arch.is_empty() && !fields::text(update, &["image"]).is_empty() {
            causes.push(cel("cannot set both Architecture and Image"));
        }
        if !arch.is_empty() && fields::text(update, &["version"]).is_empty() {
            causes.push(cel("Version must be set if Architecture is set"));
        }
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(ApiError::invalid("ClusterVersion", key, &causes))
    }
}

fn check_type(
    path: &str,
    value: &Value,
    wanted: &str,
    is: impl Fn(&Value) -> bool,
    causes: &mut Vec<String>,
) {
    if !is(value) {
        let have = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        causes.push(format!(
            "{path}: Invalid value: \"{have}\": {path} in body must be of type {wanted}: \"{have}\""
        ));
    }
}
