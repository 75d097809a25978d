//! Refused requests, with code, reason, details and text of kube-apiserver.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::fields::Conflict;
use crate::kind::Kind;
use crate::schema::Cause;

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status.
    pub code: u16,
    /// The reason, such as `NotFound`.
    pub reason: &'static str,
    /// The text for people.
    pub message: String,
    /// The `details` of the Status.
    pub details: Option<Value>,
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

impl ApiError {
    fn of(code: u16, reason: &'static str, message: String, details: Option<Value>) -> Self {
        Self {
            code,
            reason,
            message,
            details,
        }
    }

    /// `managedclusters.cluster.open-cluster-management.io "x" not found`
    #[must_use]
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", kind.qualified());
        Self::of(404, "NotFound", message, Some(details(kind, name)))
    }

    /// No resource is served at this path. Unlike all other refusals, the server says so without a Status.
    #[must_use]
    pub fn no_such_path() -> Self {
        Self::of(404, "", "404 page not found\n".to_owned(), None)
    }

    /// A custom resource has no such subresource.
    #[must_use]
    pub fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource".to_owned();
        Self::of(404, "NotFound", message, Some(json!({})))
    }

    /// `namespaces "x" not found`
    #[must_use]
    pub fn namespace_not_found(name: &str) -> Self {
        let message = format!("namespaces \"{name}\" not found");
        Self::of(
            404,
            "NotFound",
            message,
            Some(json!({"name": name, "kind": "namespaces"})),
        )
    }

    /// The namespace is being deleted, so nothing can be created in it.
    #[must_use]
    pub fn namespace_terminating(kind: &Kind, name: &str, namespace: &str) -> Self {
        let message = format!(
            "{} \"{name}\" is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
            kind.qualified()
        );
        let mut details = details(kind, name);
        details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        Self::of(403, "Forbidden", message, Some(details))
    }

    /// `managedclusters.cluster.open-cluster-management.io "x" already exists`
    #[must_use]
    pub fn already_exists(kind: &Kind, name: &str, is_deleting: bool) -> Self {
        let prefix = if is_deleting {
            "object is being deleted: "
        } else {
            ""
        };
        let message = format!("{prefix}{} \"{name}\" already exists", kind.qualified());
        Self::of(409, "AlreadyExists", message, Some(details(kind, name)))
    }

    /// The object has another resourceVersion than the writer expected.
    #[must_use]
    pub fn modified(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// A conflict with its cause.
    #[must_use]
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            kind.qualified()
        );
        Self::of(409, "Conflict", message, Some(details(kind, name)))
    }

    /// Fields that other managers own.
    #[must_use]
    pub fn apply_conflict(conflicts: &[Conflict]) -> Self {
        let mut message = format!(
            "Apply failed with {} conflict{}: ",
            conflicts.len(),
            if conflicts.len() == 1 { "" } else { "s" }
        );
        if let [only] = conflicts {
            let _ = write!(message, "conflict with {}: {}", only.manager, only.field);
        } else {
            let mut previous = "";
            for conflict in conflicts {
                if conflict.manager != previous {
                    let line = if previous.is_empty() { "" } else { "\n" };
                    let _ = write!(message, "{line}conflicts with {}:", conflict.manager);
                    previous = &conflict.manager;
                }
                let _ = write!(message, "\n- {}", conflict.field);
            }
        }
        let causes: Vec<Value> = conflicts
            .iter()
            .map(|conflict| {
                json!({
                    "reason": "FieldManagerConflict",
                    "message": format!("conflict with {}", conflict.manager),
                    "field": conflict.field,
                })
            })
            .collect();
        Self::of(409, "Conflict", message, Some(json!({"causes": causes})))
    }

    /// `Kind.group "x" is invalid: …`
    #[must_use]
    pub fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Self {
        // Inside of the server, events belong to the core group.
        let group = if kind.group == "events.k8s.io" {
            ""
        } else {
            kind.group.as_str()
        };
        Self::invalid_of((group, &kind.kind), name, causes)
    }

    /// The same about an object that says that it is of another kind or version.
    #[must_use]
    pub fn invalid_type(version: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let group = version.split_once('/').map_or("", |(group, _)| group);
        Self::invalid_of((group, kind), name, causes)
    }

    fn invalid_of((group, kind): (&str, &str), name: &str, causes: &[Cause]) -> Self {
        let kind_and_group = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let message = format!("{kind_and_group} \"{name}\" is invalid: {}", texts(causes));
        let mut details = json!({"name": name, "kind": kind, "causes": listed(causes)});
        if !group.is_empty() {
            details["group"] = group.into();
        }
        Self::of(422, "Invalid", message, Some(details))
    }

    /// The same, named by the resource instead of the kind.
    #[must_use]
    pub fn invalid_resource(kind: &Kind, name: &str, cause: &Cause) -> Self {
        let mut error = Self::invalid(kind, name, std::slice::from_ref(cause));
        error.message = format!(
            "{} \"{name}\" is invalid: {}: {}",
            kind.qualified(),
            cause.field,
            cause.message
        );
        if let Some(details) = &mut error.details {
            details["kind"] = kind.plural.as_str().into();
        }
        error
    }

    /// A patch makes something that is no object of the kind.
    #[must_use]
    pub fn invalid_patch(patched: &str, why: &str) -> Self {
        let message = format!("Invalid value: {patched:?}: {why}");
        let details =
            json!({"causes": [{"reason": "FieldValueInvalid", "message": message, "field": "patch"}]});
        Self::of(
            422,
            "Invalid",
            format!(" \"\" is invalid: patch: {message}"),
            Some(details),
        )
    }

    /// Options of a request have values that they cannot have, such as `dryRun` of `CreateOptions`.
    #[must_use]
    pub fn invalid_options(options: &str, causes: &[Cause]) -> Self {
        let message = format!("{options}.meta.k8s.io \"\" is invalid: {}", texts(causes));
        let details = json!({"group": "meta.k8s.io", "kind": options, "causes": listed(causes)});
        Self::of(422, "Invalid", message, Some(details))
    }

    /// A JSON patch does not fit the object.
    #[must_use]
    pub fn patch_failed() -> Self {
        let message = "the server rejected our request due to an error in our request".to_owned();
        Self::of(422, "Invalid", message, Some(json!({})))
    }

    /// The server cannot do it, without a reason.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::of(500, "", message.into(), None)
    }

    /// A patch took the `apiVersion` out of a custom resource.
    #[must_use]
    pub fn without_version() -> Self {
        let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
        let message = format!("Internal error occurred: {why}");
        Self::of(
            500,
            "InternalError",
            message,
            Some(json!({"causes": [{"message": why}]})),
        )
    }

    /// A precondition of a deletion does not hold.
    #[must_use]
    pub fn deletion_conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let group = if kind.group.is_empty() {
            String::new()
        } else {
            format!(".{}", kind.group)
        };
        let message = format!(
            "Operation cannot be fulfilled on {}{group} \"{name}\": {why}",
            kind.kind
        );
        let mut details = details(kind, name);
        details["kind"] = kind.kind.as_str().into();
        Self::of(409, "Conflict", message, Some(details))
    }

    /// The request itself is wrong.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::of(400, "BadRequest", message.into(), None)
    }

    /// The path has no such verb.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource".to_owned();
        Self::of(405, "MethodNotAllowed", message, Some(json!({})))
    }

    /// The same for a subresource of a custom resource.
    #[must_use]
    pub fn not_supported(verb: &str, group: &str, plural: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{plural}.{group}\"");
        let details = json!({"group": group, "kind": plural});
        Self::of(405, "MethodNotAllowed", message, Some(details))
    }

    /// The body, or a part of it, is too large.
    #[must_use]
    pub fn too_large(limit: &str) -> Self {
        let message = format!("Request entity too large: {limit}");
        Self::of(413, "RequestEntityTooLarge", message, None)
    }

    /// The namespace is one that the server needs.
    #[must_use]
    pub fn namespace_is_needed(kind: &Kind, name: &str) -> Self {
        let message = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        Self::of(403, "Forbidden", message, Some(details(kind, name)))
    }

    /// The body has a media type that the verb does not take.
    #[must_use]
    pub fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::of(415, "UnsupportedMediaType", message.into(), None)
    }

    /// The revision is older than what is remembered.
    #[must_use]
    pub fn expired(message: impl Into<String>) -> Self {
        Self::of(410, "Expired", message.into(), None)
    }

    /// The server asks to come back later.
    #[must_use]
    pub fn too_large_resource_version(wanted: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {wanted}, current: {current}");
        let details = json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        });
        Self::of(504, "Timeout", message, Some(details))
    }

    /// The same about events of the core group.
    #[must_use]
    pub(crate) fn about_core_event(mut self) -> Self {
        self.message = self.message.replace("events.events.k8s.io", "events");
        if let Some(details) = self.details.as_mut().and_then(Value::as_object_mut) {
            details.remove("group");
        }
        self
    }

    /// The body of the response.
    pub(crate) fn to_body(&self) -> String {
        if *self == Self::no_such_path() {
            self.message.clone()
        } else {
            self.to_status().to_string()
        }
    }

    /// The Status object.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

/// What is invalid, for people.
fn texts(causes: &[Cause]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for cause in causes {
        let text = format!("{}: {}", cause.field, cause.message);
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// The same for programs.
fn listed(causes: &[Cause]) -> Vec<Value> {
    let cause = |cause: &Cause| json!({"reason": cause.kind.reason(), "message": cause.message, "field": cause.field});
    causes.iter().map(cause).collect()
}

fn details(kind: &Kind, name: &str) -> Value {
    let mut details = json!({"name": name, "kind": kind.plural});
    if !kind.group.is_empty() {
        details["group"] = kind.group.clone().into();
    }
    details
}
