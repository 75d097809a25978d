//! Errors of the API server of a simulated cluster, with the texts of a real one.

use std::fmt::Write as _;

use super::key::ObjectKey;
use super::ownership::FieldSet;

/// A refused request. `Display` is the text a client of a real API server sees.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// 404
    #[error("{0}")]
    NotFound(String),
    /// 409 on create
    #[error("{0}")]
    AlreadyExists(String),
    /// 409 of a server-side apply without force
    #[error("{0}")]
    ApplyConflict(String),
    /// 422
    #[error("{0}")]
    Invalid(String),
    /// 403
    #[error("{0}")]
    Forbidden(String),
    /// The kind is not served. This text comes from the REST mapper and not from the server
    #[error("the server doesn't have a resource type \"{0}\"")]
    NoSuchKind(String),
}

impl ApiError {
    /// `jobs.batch "x" not found`
    #[must_use]
    pub fn not_found(key: &ObjectKey) -> Self {
        Self::NotFound(format!("{} \"{}\" not found", key.qualified(), key.name))
    }

    /// `jobs.batch "x" already exists`
    #[must_use]
    pub fn already_exists(key: &ObjectKey) -> Self {
        Self::AlreadyExists(format!("{} \"{}\" already exists", key.qualified(), key.name))
    }

    /// `namespaces "x" not found`
    #[must_use]
    pub fn namespace_not_found(name: &str) -> Self {
        Self::NotFound(format!("namespaces \"{name}\" not found"))
    }

    /// `Job.batch "x" is invalid: <causes>`
    #[must_use]
    pub fn invalid(kind: &str, key: &ObjectKey, causes: &[String]) -> Self {
        let kind = if key.group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{}", key.group)
        };
        let causes = match causes {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Self::Invalid(format!("{kind} \"{}\" is invalid: {causes}", key.name))
    }

    /// The RBAC error for the work agent.
    #[must_use]
    pub fn forbidden(verb: &str, key: &ObjectKey) -> Self {
        let scope = if key.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", key.namespace)
        };
        Self::Forbidden(format!(
            "{} \"{}\" is forbidden: User \"system:serviceaccount:open-cluster-management-agent:klusterlet-work-sa\" \
             cannot {verb} resource \"{}\" in API group \"{}\" {scope}",
            key.qualified(),
            key.name,
            key.resource,
            key.group
        ))
    }

    /// The text of server-side apply conflicts, each given as (manager, by apply, fields).
    #[must_use]
    pub fn apply_conflict(api_version: &str, conflicts: &[(String, bool, FieldSet)]) -> Self {
        let manager = |name: &str, apply: bool| {
            if apply {
                format!("\"{name}\"")
            } else {
                format!("\"{name}\" using {api_version}")
            }
        };
        let fields: Vec<Vec<String>> = conflicts.iter().map(|(_, _, fields)| fields.readable()).collect();
        let count: usize = fields.iter().map(Vec::len).sum();
        if let ([(name, apply, _)], 1) = (conflicts, count) {
            return Self::ApplyConflict(format!(
                "Apply failed with 1 conflict: conflict with {}: {}",
                manager(name, *apply),
                fields[0][0]
            ));
        }
        let mut message = format!("Apply failed with {count} conflicts: ");
        for (n, ((name, apply, _), fields)) in conflicts.iter().zip(fields).enumerate() {
            let separator = if n == 0 { "" } else { "\n" };
            let _ = write!(message, "{separator}conflicts with {}:", manager(name, *apply));
            for field in fields {
                let _ = write!(message, "\n- {field}");
            }
        }
        Self::ApplyConflict(message)
    }
}
