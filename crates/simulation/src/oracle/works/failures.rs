//! A step fails by its work only if agents have reported that.

use api::names::Step;
use hub_sim::At as _;
use serde_json::Value;

use super::Work;
use crate::oracle::facts::Facts;
use crate::oracle::fields::text;
use crate::oracle::row::Row;
use crate::oracle::rule::Rule;

/// The step whose work has failed, by the reason of a row.
fn failed_step(reason: &str) -> Option<Step> {
    match reason {
        "PreActionFailed" => Some(Step::PreAction),
        "OperatorsJobFailed" => Some(Step::Operators),
        "PostActionFailed" => Some(Step::PostAction),
        _ => None,
    }
}

/// Whether a condition says that something is degraded.
fn is_degraded(conditions: Option<&Value>) -> bool {
    let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    conditions.any(|one| text(one, "/type") == "Degraded" && text(one, "/status") == "True")
}

/// Whether a value that agents report tells of a Job that has failed: a number of pods, or a condition.
fn is_failure(value: &Value) -> bool {
    let count = value.at("/fieldValue/integer").and_then(Value::as_i64);
    let is_told = count.unwrap_or_default() > 0 || text(value, "/fieldValue/string") == "True";
    is_told && text(value, "/name").to_lowercase().ends_with("failed")
}

impl Work {
    fn tells_failure(&self) -> bool {
        let manifests = self.value.at("/status/resourceStatus/manifests");
        let mut manifests = manifests.and_then(Value::as_array).into_iter().flatten();
        is_degraded(self.value.at("/status/conditions"))
            || manifests.any(|manifest| {
                let values = manifest.at("/statusFeedback/values").and_then(Value::as_array);
                is_degraded(manifest.get("conditions")) || values.into_iter().flatten().any(is_failure)
            })
    }
}

impl Facts {
    pub(super) fn note_failure(&mut self, work: &Work) {
        if work.tells_failure() {
            let of = (work.uid.clone(), work.cluster.clone(), work.name.clone());
            self.failures.insert(of);
        }
    }

    /// A row says that an action or the operators of a cluster have failed. An edit may have given it another attempt than its work
    /// has, so a failure of any attempt counts.
    pub(in crate::oracle) fn judge_failure(&mut self, owner: &str, name: &str, row: &Row) {
        let Some(step) = failed_step(&row.reason) else {
            return;
        };
        let of = (owner.to_owned(), name.to_owned(), step.work_name(name));
        let is_told = self.failures.contains(&of);
        self.check(Rule::Rows, is_told, || {
            format!("{name} failed by {}, and no agent has reported that", row.reason)
        });
    }
}
