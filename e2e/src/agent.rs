//! The work agent of one cluster, controlled by the test: it writes conditions and feedback as OCM's agent does.
//!
//! It applies nothing: the test decides what the cluster reports.

use anyhow::{Context as _, Result};
use api::names::Step;
use api::time::to_rfc3339;
use chrono::Utc;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::TARGET;
use crate::scenario::Scenario;
use crate::seen::Work;
use crate::view::Kind;

/// The finalizer that agents hold on works.
pub const CLEANUP: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// See the module. Every answer waits until there is a work to answer.
#[derive(Debug, Clone, Copy)]
pub struct Agent<'a> {
    scenario: &'a Scenario,
    cluster: &'a str,
}

impl Scenario {
    /// Plays the work agent of a cluster.
    #[must_use]
    pub fn agent(&self, number: usize) -> Agent<'_> {
        Agent::new(self, self.c(number))
    }

    /// Lets the first cluster report that its update is under way, and waits until the status of the upgrade counts it.
    ///
    /// # Errors
    /// As [`Agent::partial`] and [`Scenario::until`].
    pub async fn first_is_partial(&self) -> Result<()> {
        self.agent(1).partial().await?;
        self.until("the first is partial", |seen| {
            seen.clusters().partial_upgrade == 1
        })
        .await?;
        Ok(())
    }
}

impl<'a> Agent<'a> {
    pub(crate) const fn new(scenario: &'a Scenario, cluster: &'a str) -> Self {
        Self { scenario, cluster }
    }

    /// Applied and available, nothing reported.
    ///
    /// # Errors
    /// No work in time, or the API server refuses.
    pub async fn available(&self, step: Step) -> Result<()> {
        self.answer(step, &[], &[]).await
    }

    /// Applied, not available yet.
    ///
    /// # Errors
    /// As [`Agent::available`].
    pub async fn applied(&self, step: Step) -> Result<()> {
        let missing = condition("Available", "False", "ResourcesNotAvailable", "not there yet");
        self.answer(step, &[missing], &[]).await
    }

    /// Applied, available and degraded.
    ///
    /// # Errors
    /// As [`Agent::available`].
    pub async fn degraded(&self, step: Step) -> Result<()> {
        let degraded = condition(
            "Degraded",
            "True",
            "ConditionRulesAggregated",
            "the health check failed",
        );
        self.answer(step, &[degraded], &[]).await
    }

    /// The agent could not apply the work.
    ///
    /// # Errors
    /// As [`Agent::available`].
    pub async fn not_applied(&self, step: Step, message: &str) -> Result<()> {
        let failed = condition("Applied", "False", "AppliedManifestWorkFailed", message);
        let missing = condition("Available", "False", "ResourcesNotAvailable", "not there");
        self.answer(step, &[failed, missing], &[]).await
    }

    /// The history that the cluster's ClusterVersion shows: version and state of the newest entry.
    ///
    /// # Errors
    /// As [`Agent::available`].
    pub async fn feedback(&self, version: &str, state: &str) -> Result<()> {
        self.values(
            Step::Platform,
            &[
                ("version", json!(version)),
                ("state", json!(state)),
                ("verified", json!(true)),
                ("message", json!(format!("Working towards {version}"))),
            ],
        )
        .await
    }

    /// The upgrade to the target is under way.
    ///
    /// # Errors
    /// As [`Agent::available`].
    pub async fn partial(&self) -> Result<()> {
        self.feedback(TARGET, "Partial").await
    }

    /// The upgrade to the target is done.
    ///
    /// # Errors
    /// As [`Agent::available`].
    pub async fn completed(&self) -> Result<()> {
        self.feedback(TARGET, "Completed").await
    }

    /// What the approver's Job shows, such as `{"succeeded": 1}`.
    ///
    /// # Errors
    /// As [`Agent::available`].
    pub async fn job(&self, status: Value) -> Result<()> {
        let values: Vec<(&str, Value)> = status
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        self.values(Step::Operators, &values).await
    }

    /// Feedback of the manifest that a step is judged by: the last one with a feedback rule.
    ///
    /// # Errors
    /// As [`Agent::available`].
    pub async fn values(&self, step: Step, values: &[(&str, Value)]) -> Result<()> {
        self.answer(step, &[], values).await
    }

    /// Writes a status as it is, without any shape.
    ///
    /// # Errors
    /// As [`Agent::available`].
    pub async fn raw_status(&self, step: Step, status: &Value) -> Result<()> {
        self.work(step).await?;
        self.write(step, status).await
    }

    /// Holds the work by the agents' finalizer.
    ///
    /// # Errors
    /// As [`Agent::available`].
    pub async fn hold(&self, step: Step) -> Result<()> {
        self.finalizers(step, json!([CLEANUP])).await
    }

    /// Lets the work go.
    ///
    /// # Errors
    /// As [`Agent::available`].
    pub async fn release(&self, step: Step) -> Result<()> {
        self.finalizers(step, json!(null)).await
    }

    async fn finalizers(&self, step: Step, finalizers: Value) -> Result<()> {
        let what = format!("a work {step} of {} to hold", self.cluster);
        self.scenario
            .wait(&what, |known| known.work(self.cluster, step))
            .await?;
        let change = json!({"metadata": {"finalizers": finalizers}});
        self.scenario
            .patch(Kind::Work, self.cluster, &step.work_name(self.cluster), &change)
            .await?;
        Ok(())
    }

    async fn work(&self, step: Step) -> Result<Work> {
        let what = format!("a work {step} of {} to answer", self.cluster);
        self.scenario
            .wait(&what, |known| {
                known.work(self.cluster, step).filter(|work| !work.terminating())
            })
            .await
    }

    async fn answer(&self, step: Step, conditions: &[Value], values: &[(&str, Value)]) -> Result<()> {
        self.work(step).await?;
        let api = self.scenario.api(Kind::Work, self.cluster);
        let object = api.get(&step.work_name(self.cluster)).await?;
        let generation = object.metadata.generation.unwrap_or_default();
        let work = serde_json::to_value(object)?;
        self.write(step, &status(&work, generation, conditions, values))
            .await
    }

    async fn write(&self, step: Step, status: &Value) -> Result<()> {
        let name = step.work_name(self.cluster);
        self.scenario
            .api(Kind::Work, self.cluster)
            .patch_status(
                &name,
                &PatchParams::default(),
                &Patch::Merge(json!({"status": status})),
            )
            .await
            .with_context(|| format!("status of work {name}"))?;
        Ok(())
    }
}

/// The status an agent writes: Applied and Available at this generation unless `conditions` say otherwise, and
/// `values` as feedback of the last manifest that has a feedback rule (the last one if none has).
#[must_use]
pub fn status(work: &Value, generation: i64, conditions: &[Value], values: &[(&str, Value)]) -> Value {
    let mut all = vec![
        condition(
            "Applied",
            "True",
            "AppliedManifestWorkComplete",
            "Apply manifest work complete",
        ),
        condition(
            "Available",
            "True",
            "ResourcesAvailable",
            "All resources are available",
        ),
    ];
    for new in conditions {
        all.retain(|old| old["type"] != new["type"]);
        all.push(new.clone());
    }
    for one in &mut all {
        one["observedGeneration"] = json!(generation);
    }
    let manifests = work["spec"]["workload"]["manifests"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let reporting = reporting_manifest(work, &manifests);
    let statuses: Vec<Value> = manifests
        .iter()
        .enumerate()
        .map(|(ordinal, manifest)| {
            let mut status = json!({
                "resourceMeta": resource_meta(ordinal, manifest),
                "conditions": [condition("Applied", "True", "AppliedManifestComplete", "Apply manifest complete")],
            });
            if ordinal == reporting && !values.is_empty() {
                let values: Vec<Value> = values.iter().map(|(name, value)| feedback_value(name, value)).collect();
                status["statusFeedback"] = json!({"values": values});
            }
            status
        })
        .collect();
    json!({"conditions": all, "resourceStatus": {"manifests": statuses}})
}

fn reporting_manifest(work: &Value, manifests: &[Value]) -> usize {
    let configs = work["spec"]["manifestConfigs"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let reports = |manifest: &Value| {
        let meta = resource_meta(0, manifest);
        configs.iter().any(|config| {
            let id = &config["resourceIdentifier"];
            config["feedbackRules"].is_array()
                && id["name"] == meta["name"]
                && id["resource"] == meta["resource"]
        })
    };
    manifests
        .iter()
        .rposition(reports)
        .unwrap_or(manifests.len().saturating_sub(1))
}

fn resource_meta(ordinal: usize, manifest: &Value) -> Value {
    let api_version = manifest["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = manifest["kind"].as_str().unwrap_or_default();
    json!({
        "ordinal": ordinal, "group": group, "version": version, "kind": kind,
        "resource": format!("{}s", kind.to_lowercase()),
        "name": manifest["metadata"]["name"], "namespace": manifest["metadata"]["namespace"].as_str().unwrap_or_default(),
    })
}

/// A feedback value with the type of its JSON value.
fn feedback_value(name: &str, value: &Value) -> Value {
    let field = match value {
        Value::String(text) => json!({"type": "String", "string": text}),
        Value::Bool(flag) => json!({"type": "Boolean", "boolean": flag}),
        Value::Number(number) => json!({"type": "Integer", "integer": number}),
        other => json!({"type": "JsonRaw", "jsonRaw": other.to_string()}),
    };
    json!({"name": name, "fieldValue": field})
}

/// A condition of a work that has just changed.
#[must_use]
pub fn condition(r#type: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": r#type, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": to_rfc3339(Utc::now()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feedback_goes_to_the_manifest_with_a_rule_and_bears_its_type() {
        let work = json!({"spec": {
            "workload": {"manifests": [
                {"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}},
                {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "x"}},
            ]},
            "manifestConfigs": [{"resourceIdentifier": {"resource": "clusterversions", "name": "version"},
                "feedbackRules": []}],
        }});
        let status = status(
            &work,
            3,
            &[],
            &[("version", json!("4.12.0")), ("generation", json!(2))],
        );
        let manifests = &status["resourceStatus"]["manifests"];
        assert_eq!(manifests[0]["resourceMeta"]["group"], "config.openshift.io");
        assert_eq!(
            manifests[0]["statusFeedback"]["values"][1]["fieldValue"],
            json!({"type": "Integer", "integer": 2})
        );
        assert!(manifests[1]["statusFeedback"].is_null());
        assert_eq!(status["conditions"][0]["observedGeneration"], 3);
    }
}
