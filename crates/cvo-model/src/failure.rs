//! Why a payload cannot be applied: the kinds of errors with their reasons and texts, how several errors become one, and the
//! summary of a reason (`docs/design/cvo.md#failing-threshold`).

use std::collections::BTreeMap;

use clusterversion::types::{AVAILABLE, Time};

use crate::upgradeable::OperatorState;

/// What an error means for an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpdateEffect {
    /// It is reported but stops nothing.
    Report,
    /// The update continues.
    None,
    /// The update fails if the error lasts longer than the grace period.
    FailAfterInterval,
    /// The update fails.
    Fail,
}

/// What is wrong with a `ClusterOperator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OperatorProblem {
    /// Degraded is True or unknown.
    Degraded,
    /// Available is not True.
    NotAvailable,
    /// The payload's manifest names no versions.
    NoVersions,
    /// It does not yet report the versions of the payload.
    Updating,
}

impl OperatorProblem {
    /// What is wrong with an operator while a version is applied. `initializing`: the cluster is being installed.
    #[must_use]
    pub fn of(operator: &OperatorState, wanted: &str, initializing: bool) -> Option<Self> {
        let conditions = &operator.conditions;
        if !conditions.is_true(AVAILABLE) {
            return Some(Self::NotAvailable);
        }
        if conditions
            .get("Degraded")
            .is_none_or(|condition| !condition.is_false())
        {
            return Some(Self::Degraded);
        }
        (!initializing && operator.version != wanted).then_some(Self::Updating)
    }

    const fn reasons(self) -> (&'static str, &'static str) {
        match self {
            Self::Degraded => ("ClusterOperatorDegraded", "ClusterOperatorsDegraded"),
            Self::NotAvailable => ("ClusterOperatorNotAvailable", "ClusterOperatorsNotAvailable"),
            Self::NoVersions => ("ClusterOperatorNoVersions", "ClusterOperatorsNoVersions"),
            Self::Updating => ("ClusterOperatorUpdating", "ClusterOperatorsUpdating"),
        }
    }

    /// Predicate for one operator and for several.
    const fn predicates(self) -> (&'static str, &'static str) {
        match self {
            Self::Degraded => ("is degraded", "are degraded"),
            Self::NotAvailable => ("is not available", "are not available"),
            Self::NoVersions => (
                "does not declare expected versions",
                "do not declare expected versions",
            ),
            Self::Updating => ("is updating versions", "are updating versions"),
        }
    }

    const fn effect(self, initializing: bool) -> UpdateEffect {
        match self {
            Self::Degraded if initializing => UpdateEffect::Report,
            Self::Degraded => UpdateEffect::FailAfterInterval,
            Self::NotAvailable | Self::NoVersions => UpdateEffect::Fail,
            Self::Updating => UpdateEffect::None,
        }
    }
}

/// Why a manifest other than a `ClusterOperator` cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManifestProblem {
    /// 404, or it exists already.
    ResourceNotFound,
    /// 409.
    ResourceConflict,
    /// 503 or a time limit.
    ClusterDown,
    /// 500.
    ClusterError,
    /// 422.
    ResourceInvalid,
    /// 401.
    ClusterUnauthorized,
    /// 403.
    ResourceForbidden,
    /// 429.
    ClusterOverloaded,
    /// The kind does not exist.
    ResourceTypeMissing,
    /// Anything else.
    Failed,
}

impl ManifestProblem {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::ResourceNotFound,
        Self::ResourceConflict,
        Self::ClusterDown,
        Self::ClusterError,
        Self::ResourceInvalid,
        Self::ClusterUnauthorized,
        Self::ResourceForbidden,
        Self::ClusterOverloaded,
        Self::ResourceTypeMissing,
        Self::Failed,
    ];

    /// Reason of Failing.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::ResourceNotFound => "UpdatePayloadResourceNotFound",
            Self::ResourceConflict => "UpdatePayloadResourceConflict",
            Self::ClusterDown => "UpdatePayloadClusterDown",
            Self::ClusterError => "UpdatePayloadClusterError",
            Self::ResourceInvalid => "UpdatePayloadResourceInvalid",
            Self::ClusterUnauthorized => "UpdatePayloadClusterUnauthorized",
            Self::ResourceForbidden => "UpdatePayloadResourceForbidden",
            Self::ClusterOverloaded => "UpdatePayloadClusterOverloaded",
            Self::ResourceTypeMissing => "UpdatePayloadResourceTypeMissing",
            Self::Failed => "UpdatePayloadFailed",
        }
    }

    /// The cause in the text; empty for [`ManifestProblem::Failed`], whose text is the error itself.
    #[must_use]
    pub const fn cause(self) -> &'static str {
        match self {
            Self::ResourceNotFound => "resource may have been deleted",
            Self::ResourceConflict => "someone else is updating this resource",
            Self::ClusterDown => "the server is down or not responding",
            Self::ClusterError => "the server is reporting an internal error",
            Self::ResourceInvalid => "the object is invalid, possibly due to local cluster configuration",
            Self::ClusterUnauthorized => "could not authenticate to the server",
            Self::ResourceForbidden => "the server has forbidden updates to this resource",
            Self::ClusterOverloaded => "the server is overloaded and is not accepting updates",
            Self::ResourceTypeMissing => {
                "the server does not recognize this resource, check extension API servers"
            }
            Self::Failed => "",
        }
    }
}

/// An error of one manifest in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskError {
    /// There is a problem with a `ClusterOperator`.
    Operator {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: OperatorProblem,
        /// When the CVO started to wait for it in this update. Grace periods start here.
        since: Time,
    },
    /// A manifest could not be applied.
    Manifest {
        /// Why.
        problem: ManifestProblem,
        /// Which: `deployment "ns/name" (412 of 863)`.
        task: String,
        /// The error itself. Only the text of [`ManifestProblem::Failed`] contains it.
        error: String,
    },
}

impl TaskError {
    fn update_error(&self, initializing: bool) -> UpdateError {
        match self {
            Self::Operator { name, problem, since } => UpdateError {
                effect: Some(problem.effect(initializing)),
                reason: problem.reasons().0.to_owned(),
                message: format!("Cluster operator {name} {}", problem.predicates().0),
                name: name.clone(),
                waits: vec![(name.clone(), *since)],
                nested: Vec::new(),
            },
            Self::Manifest { problem, task, error } => {
                let cause = match (problem.cause(), error.as_str()) {
                    ("", error) => error,
                    (cause, _) => cause,
                };
                UpdateError {
                    effect: Some(UpdateEffect::Fail),
                    reason: problem.reason().to_owned(),
                    message: format!("Could not update {task}: {cause}"),
                    name: task.clone(),
                    waits: Vec::new(),
                    nested: Vec::new(),
                }
            }
        }
    }
}

/// Operators that the CVO waits for, and since when.
pub type Waits = Vec<(String, Time)>;

/// One or several errors as the CVO reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateError {
    /// What it means for the update; `None` for several errors of different kinds.
    pub effect: Option<UpdateEffect>,
    /// Reason.
    pub reason: String,
    /// Text.
    pub message: String,
    /// The operator or manifest, several of them separated by `, `; empty for several kinds.
    pub name: String,
    /// The operators that the CVO waits for.
    pub waits: Waits,
    /// The errors, if they are of several kinds.
    pub nested: Vec<UpdateError>,
}

/// Combines errors into one. `ClusterOperators` with the same problem are named together, and several kinds are listed.
/// `None` without errors.
#[must_use]
pub fn condense(errors: &[TaskError], initializing: bool) -> Option<UpdateError> {
    let mut condensed: Vec<UpdateError> = Vec::new();
    let mut by_reason: BTreeMap<&str, (OperatorProblem, Waits)> = BTreeMap::new();
    for error in errors {
        match error {
            TaskError::Operator { name, problem, since } => by_reason
                .entry(problem.reasons().0)
                .or_insert_with(|| (*problem, Vec::new()))
                .1
                .push((name.clone(), *since)),
            TaskError::Manifest { .. } => condensed.push(error.update_error(initializing)),
        }
    }
    for (problem, mut waits) in by_reason.into_values() {
        waits.sort();
        waits.dedup_by(|a, b| a.0 == b.0);
        if let [(name, since)] = waits.as_slice() {
            let (name, since) = (name.clone(), *since);
            condensed.push(TaskError::Operator { name, problem, since }.update_error(initializing));
            continue;
        }
        let name = waits
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        condensed.push(UpdateError {
            effect: Some(problem.effect(initializing)),
            reason: problem.reasons().1.to_owned(),
            message: format!("Cluster operators {name} {}", problem.predicates().1),
            name,
            waits,
            nested: Vec::new(),
        });
    }
    several(condensed)
}

/// One error, or a sorted list of the distinct texts of several.
fn several(mut errors: Vec<UpdateError>) -> Option<UpdateError> {
    if errors.len() < 2 {
        return errors.pop();
    }
    let mut messages: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
    messages.sort_unstable();
    messages.dedup();
    let message = format!(
        "Multiple errors are preventing progress:\n* {}",
        messages.join("\n* ")
    );
    Some(UpdateError {
        effect: None,
        reason: "MultipleErrors".to_owned(),
        message,
        name: String::new(),
        waits: Vec::new(),
        nested: errors,
    })
}

impl UpdateError {
    /// The error without the parts with which the update continues; `None` if nothing is left.
    #[must_use]
    pub fn without_progress(&self) -> Option<Self> {
        if self.nested.is_empty() {
            return Some(self.clone());
        }
        let kept = self
            .nested
            .iter()
            .filter(|error| error.effect != Some(UpdateEffect::None));
        several(kept.cloned().collect())
    }

    /// The summary in condition Progressing, for people who do not know manifests.
    #[must_use]
    pub fn summary(&self) -> String {
        let name = &self.name;
        let one = |text: &str, nameless: &str| {
            if name.is_empty() {
                nameless.to_owned()
            } else {
                format!("the cluster operator {name} {text}")
            }
        };
        match self.reason.as_str() {
            "UpdatePayloadResourceNotFound" | "UpdatePayloadResourceConflict" => {
                "some resources could not be updated".to_owned()
            }
            "UpdatePayloadClusterDown" => "the control plane is down or not responding".to_owned(),
            "UpdatePayloadClusterError" => "the control plane is reporting an internal error".to_owned(),
            "UpdatePayloadClusterOverloaded" => {
                "the control plane is overloaded and is not accepting updates".to_owned()
            }
            "UpdatePayloadClusterUnauthorized" => "could not authenticate to the server".to_owned(),
            "UpdatePayloadResourceForbidden" => "the server is rejecting updates".to_owned(),
            "UpdatePayloadResourceTypeMissing" => {
                "a required extension is not available to update".to_owned()
            }
            "UpdatePayloadResourceInvalid" => "some cluster configuration is invalid".to_owned(),
            "ClusterOperatorDegraded" => one("is degraded", "a cluster operator is degraded"),
            "ClusterOperatorNotAvailable" => one("is not available", "a cluster operator is not available"),
            "ClusterOperatorsNotAvailable" => "some cluster operators are not available".to_owned(),
            "ClusterOperatorNoVersions" => one(
                "does not declare expected versions",
                "a cluster operator does not declare expected versions",
            ),
            reason if reason.starts_with("UpdatePayload") => "the update could not be applied".to_owned(),
            reason if name.is_empty() => format!("an unknown error has occurred: {reason}"),
            reason => format!("{name} has an unknown error: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests;
