//! Action works: copies of the user's `ManifestWorkSpec` with feedback added for Jobs that have none
//! (`docs/design/rules.md#actions-are-copied`), and the success checks that it declares
//! (`docs/design/rules.md#action-success`). Nothing else of the user's work is changed.

use api::checks::{ActionCheck, JobValue, Need, is_plural};
use api::mcu::UpgradeAction;
use api::names::ANNOTATION_CHECKS;
use serde_json::{Map, Value, json};

use super::{SpecTemplate, Template};
use crate::works::canonical;

pub(crate) fn template(action: &UpgradeAction) -> Template {
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
    // This string is all that is kept of an action, so it must not waste capacity.
    let mut text = spec.to_string();
    text.shrink_to_fit();
    Template {
        hash,
        annotations: vec![(ANNOTATION_CHECKS, json!(checks).to_string())],
        spec: SpecTemplate::Whole(text),
    }
}

/// Adds a manifestConfig for each batch/v1 Job to which no existing one applies. If `manifestConfigs` is not
/// a list, it stays as it is and the API server rejects it.
///
/// The Jobs are applied server-side. The agent's default strategy would replace the spec after a few minutes,
/// without the fields that the Job controller has set, and the API server would reject that forever. A Job
/// that runs longer would then never be reported as done.
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

/// The checks that the configs declare, one entry for each manifest that has any.
fn declared<'a>(manifests: &'a [Value], configs: &[Value]) -> Vec<ActionCheck<'a>> {
    manifests
        .iter()
        .map(Identity::of)
        .filter_map(|manifest| {
            let needs = manifest.needs(configs);
            (!needs.is_empty()).then(|| ActionCheck {
                group: manifest.group.into(),
                kind: manifest.kind.into(),
                namespace: manifest.namespace.into(),
                name: manifest.name.into(),
                needs,
            })
        })
        .collect()
}

/// The fields by which agents identify a manifest.
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

    /// Whether a manifestConfig applies, by the agent's rule: group and resource must be equal, namespace and
    /// name may contain `*`.
    fn matches(&self, config: &Value) -> bool {
        let identifier = &config["resourceIdentifier"];
        let text = |key: &str| identifier[key].as_str().unwrap_or_default();
        text("group") == self.group
            && is_plural(text("resource"), self.kind)
            && glob(text("namespace"), self.namespace)
            && glob(text("name"), self.name)
    }

    /// The success checks of the configs that apply. For each kind of rule, the first config that has any
    /// counts.
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

/// Whether `text` matches `pattern`, in which `*` stands for any sequence of characters.
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
