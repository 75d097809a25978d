//! Success checks of actions and feedback values of Jobs. Whoever renders a work and whoever reads its status use the same
//! (`docs/design/rules.md#action-success`).

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::views::ResourceMeta;

/// What the status of a manifest must show before its action counts as successful.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionCheck<'a> {
    /// API group of the manifest.
    #[serde(borrow)]
    pub group: Cow<'a, str>,
    /// Kind of the manifest.
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    /// Namespace of the manifest; empty for a cluster-scoped object.
    #[serde(borrow)]
    pub namespace: Cow<'a, str>,
    /// Name of the manifest.
    #[serde(borrow)]
    pub name: Cow<'a, str>,
    /// All of these checks must pass.
    pub needs: Vec<Need>,
}

/// One success check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Need {
    /// Feedback: at least one pod of the Job succeeded.
    Succeeded,
    /// Feedback: the Job's condition Complete is True.
    JobComplete,
    /// A condition rule named Complete holds.
    CompleteRule,
}

/// The meaning of a feedback value of a Job, by its name. Users choose the names, so case does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobValue {
    /// Number of pods that succeeded.
    Succeeded,
    /// Status of the condition Complete.
    Complete,
    /// Number of pods that failed, or status of the condition Failed.
    Failed,
    /// Status of the condition Failed, or number of pods that failed.
    FailedCondition,
    /// Number of pods that are running.
    Active,
}

impl JobValue {
    /// The meaning of a value of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<JobValue> {
        const NAMES: [(&str, JobValue); 7] = [
            ("succeeded", JobValue::Succeeded),
            ("jobsucceeded", JobValue::Succeeded),
            ("jobcomplete", JobValue::Complete),
            ("complete", JobValue::Complete),
            ("failed", JobValue::Failed),
            ("jobfailed", JobValue::FailedCondition),
            ("active", JobValue::Active),
        ];
        NAMES
            .into_iter()
            .find(|(known, _)| name.eq_ignore_ascii_case(known))
            .map(|(_, value)| value)
    }
}

impl ActionCheck<'_> {
    /// Whether the status of a manifest is about this manifest. A status without a kind is matched by its
    /// resource.
    #[must_use]
    pub fn is_about(&self, meta: &ResourceMeta) -> bool {
        let same_kind = if meta.kind.is_empty() {
            is_plural(&meta.resource, &self.kind)
        } else {
            self.kind == meta.kind
        };
        same_kind && self.group == meta.group && self.namespace == meta.namespace && self.name == meta.name
    }

    /// `Kind namespace/name` or `Kind name`.
    #[must_use]
    pub fn subject(&self) -> String {
        subject(&self.kind, &self.namespace, &self.name)
    }
}

/// `Kind namespace/name`, or `Kind name` for a cluster-scoped object.
#[must_use]
pub fn subject(kind: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        format!("{kind} {name}")
    } else {
        format!("{kind} {namespace}/{name}")
    }
}

/// Whether a plural resource name is that of a kind, by the rule with which Kubernetes guesses it.
#[must_use]
pub fn is_plural(resource: &str, kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    let plural = if let Some(stem) = kind.strip_suffix('y') {
        format!("{stem}ies")
    } else if kind.ends_with('s') {
        format!("{kind}es")
    } else {
        format!("{kind}s")
    };
    resource == plural || resource == kind
}
