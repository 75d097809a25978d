//! Action works: the user's `ManifestWorkSpec`, copied, with feedback added for Jobs that have none
//! (`docs/design/rules.md#actions-are-copied`), and the success checks that it declares
//! (`docs/design/rules.md#action-success`).
//!
//! Owns which check a manifest declares and how a reported value counts. Refuses to change anything else of the
//! user's work.

use std::borrow::Cow;

use api::mcu::UpgradeAction;
use api::views::ResourceMeta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{ANNOTATION_CHECKS, SpecText, Template};
use crate::works::canonical;

/// What a manifest must show before its action counts as successful.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Check<'a> {
    #[serde(borrow)]
    group: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    /// All of them.
    pub(super) needs: Vec<Need>,
}

/// One success check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Need {
    /// Feedback: at least one pod of the Job succeeded.
    Succeeded,
    /// Feedback: the Job's condition Complete is True.
    JobComplete,
    /// A condition rule named Complete holds.
    CompleteRule,
}

/// What a feedback value of a Job tells, by its name; names are the user's, so case does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobValue {
    Succeeded,
    Complete,
    Failed,
    FailedCondition,
    Active,
}

impl JobValue {
    pub(super) fn named(name: &str) -> Option<JobValue> {
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

impl Check<'_> {
    /// Whether a manifest's status is about this manifest; one that names no kind is known by its resource.
    pub(super) fn is_about(&self, meta: &ResourceMeta) -> bool {
        let same_kind = if meta.kind.is_empty() {
            is_plural(&meta.resource, &self.kind)
        } else {
            self.kind == meta.kind
        };
        same_kind && self.group == meta.group && self.namespace == meta.namespace && self.name == meta.name
    }

    /// `Kind namespace/name` or `Kind name`.
    pub(super) fn subject(&self) -> String {
        subject(&self.kind, &self.namespace, &self.name)
    }
}

/// `Kind namespace/name`, or `Kind name` for a cluster-scoped object.
pub(super) fn subject(kind: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        format!("{kind} {name}")
    } else {
        format!("{kind} {namespace}/{name}")
    }
}

pub(super) fn template(action: &UpgradeAction) -> Template {
    let work = &action.manifest_work;
    let manifests = &work.workload.manifests;
    let mut spec: Map<String, Value> = work.rest.clone();
    spec.insert("workload".to_owned(), json!({ "manifests": manifests }));
    let mut spec = Value::Object(spec);
    let hash = canonical::hash(&spec);
    if let Value::Object(spec) = &mut spec {
        add_job_feedback(spec, manifests);
    }
    let configs = spec.get("manifestConfigs").and_then(Value::as_array);
    let checks = declared(manifests, configs.map_or(&[], Vec::as_slice));
    // It is all that is kept of an action.
    let mut text = spec.to_string();
    text.shrink_to_fit();
    Template {
        hash,
        annotations: vec![(ANNOTATION_CHECKS, json!(checks).to_string())],
        spec: SpecText::Whole(text),
    }
}

/// Adds a manifestConfig for each batch/v1 Job that no existing one applies to. A `manifestConfigs` that is no list is
/// left for the API server to refuse.
///
/// Applied server-side: the agent's default strategy replaces the spec a few minutes later, without what the Job
/// controller has filled in, which the API server refuses for ever. A Job that runs longer would never be reported done.
fn add_job_feedback(spec: &mut Map<String, Value>, manifests: &[Value]) {
    let jobs: Vec<Identity<'_>> = manifests
        .iter()
        .map(Identity::of)
        .filter(Identity::is_job)
        .collect();
    if jobs.is_empty() {
        return;
    }
    let configs = spec
        .entry("manifestConfigs")
        .and_modify(|configs| {
            if configs.is_null() {
                *configs = json!([]);
            }
        })
        .or_insert_with(|| json!([]));
    let Some(configs) = configs.as_array_mut() else {
        return;
    };
    for job in jobs {
        if configs.iter().any(|config| job.matches(config)) {
            continue;
        }
        configs.push(json!({
            "resourceIdentifier": {
                "group": "batch",
                "resource": "jobs",
                "name": job.name,
                "namespace": job.namespace,
            },
            "updateStrategy": {
                "type": "ServerSideApply",
                "serverSideApply": { "force": true, "fieldManager": "work-agent-mcu" },
            },
            "feedbackRules": [
                { "type": "WellKnownStatus" },
                {
                    "type": "JSONPaths",
                    "jsonPaths": [{
                        "name": "jobFailed",
                        "path": r#".status.conditions[?(@.type=="Failed")].status"#,
                    }],
                },
            ],
        }));
    }
}

/// The checks that the configs declare, one entry per manifest that has any.
fn declared<'a>(manifests: &'a [Value], configs: &[Value]) -> Vec<Check<'a>> {
    manifests
        .iter()
        .map(Identity::of)
        .filter_map(|manifest| {
            let needs = manifest.needs(configs);
            (!needs.is_empty()).then(|| Check {
                group: manifest.group.into(),
                kind: manifest.kind.into(),
                namespace: manifest.namespace.into(),
                name: manifest.name.into(),
                needs,
            })
        })
        .collect()
}

/// A manifest as agents identify it.
struct Identity<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Identity<'a> {
    fn of(manifest: &'a Value) -> Identity<'a> {
        let text = |value: &'a Value| value.as_str().unwrap_or_default();
        let api_version = text(&manifest["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Identity {
            group,
            version,
            kind: text(&manifest["kind"]),
            namespace: text(&manifest["metadata"]["namespace"]),
            name: text(&manifest["metadata"]["name"]),
        }
    }

    fn is_job(&self) -> bool {
        self.group == "batch" && self.version == "v1" && self.kind == "Job"
    }

    /// Whether a manifestConfig applies, by the agent's rule: group and resource exactly, namespace and name with `*`.
    fn matches(&self, config: &Value) -> bool {
        let identifier = &config["resourceIdentifier"];
        let text = |key: &str| identifier[key].as_str().unwrap_or_default();
        text("group") == self.group
            && is_plural(text("resource"), self.kind)
            && glob(text("namespace"), self.namespace)
            && glob(text("name"), self.name)
    }

    /// The success checks of the configs that apply: of each kind of rule, the first config that has any counts.
    fn needs(&self, configs: &[Value]) -> Vec<Need> {
        let rules = |key: &str| -> &[Value] {
            configs
                .iter()
                .filter(|config| self.matches(config))
                .filter_map(|config| config[key].as_array())
                .find(|rules| !rules.is_empty())
                .map_or(&[], Vec::as_slice)
        };
        let mut needs = Vec::new();
        if self.is_job() {
            for rule in rules("feedbackRules") {
                feedback_needs(rule, &mut needs);
            }
        }
        if rules("conditionRules")
            .iter()
            .any(|rule| rule["condition"] == "Complete")
        {
            needs.push(Need::CompleteRule);
        }
        needs
    }
}

/// Whether a plural resource name is that of a kind, by the rule Kubernetes guesses with.
fn is_plural(resource: &str, kind: &str) -> bool {
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

fn feedback_needs(rule: &Value, needs: &mut Vec<Need>) {
    let mut add = |need| {
        if !needs.contains(&need) {
            needs.push(need);
        }
    };
    if rule["type"] == "WellKnownStatus" {
        add(Need::JobComplete);
        add(Need::Succeeded);
        return;
    }
    for path in rule["jsonPaths"].as_array().map_or(&[][..], Vec::as_slice) {
        match path["name"].as_str().and_then(JobValue::named) {
            Some(JobValue::Succeeded) => add(Need::Succeeded),
            Some(JobValue::Complete) => add(Need::JobComplete),
            Some(JobValue::Failed | JobValue::FailedCondition | JobValue::Active) | None => {}
        }
    }
}

/// Whether `text` matches `pattern`, in which `*` stands for any run of characters.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part).and_then(|at| rest.get(at + part.len()..)) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests;
