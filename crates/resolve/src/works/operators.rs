//! The operators work: a Job on the cluster that approves the InstallPlans of the selected Subscriptions
//! (`docs/design/rules.md#approval-job`).
//!
//! A Job's pod template is immutable, so a changed work is deleted and created again.

use api::ManagedClustersUpgradeSpec;
use api::mcu::{OcpOperators, OperatorRef};
use api::names::APPROVER;
use serde_json::{Value, json};

use super::{SpecTemplate, Template, WorkFlags};
use crate::works::canonical;

/// What the Job runs, by `bash -c`.
const SCRIPT: &str = include_str!("script.sh");

/// How many seconds longer than the script the Job may live, including the image pull.
const DEADLINE_MARGIN: i64 = 90;

/// The default of `operatorsUpgradeTimeout`, in seconds.
const DEFAULT_WAIT: i64 = 20 * 60;

/// `None` if there is nothing to approve, because the include list is empty and approveAllUpgrades is not
/// set.
pub(crate) fn template(spec: &ManagedClustersUpgradeSpec, flags: &WorkFlags) -> Option<Template> {
    let operators = spec.ocp_operators.as_ref()?;
    if !operators.approve_all_upgrades && operators.include.is_empty() {
        return None;
    }
    let wait = wait_seconds(&spec.upgrade_strategy.operators_upgrade_timeout);
    Some(Template {
        hash: canonical::hash(&json!({
            "include": selected(operators, sorted_elements),
            "exclude": sorted_elements(&operators.exclude),
        })),
        annotations: Vec::new(),
        spec: SpecTemplate::Whole(work_spec(operators, wait, flags).to_string()),
    })
}

/// The include list in the form that `list` returns. approveAllUpgrades ignores the list, and an empty list
/// means all.
fn selected<T>(operators: &OcpOperators, list: impl Fn(&[OperatorRef]) -> T) -> T {
    if operators.approve_all_upgrades {
        list(&[])
    } else {
        list(&operators.include)
    }
}

fn elements(list: &[OperatorRef]) -> impl Iterator<Item = String> {
    list.iter()
        .map(|operator| format!("{},{}", operator.name, operator.namespace))
}

/// The lists are sets, so a change of their order does not change the spec.
fn sorted_elements(list: &[OperatorRef]) -> Vec<String> {
    let mut all: Vec<_> = elements(list).collect();
    all.sort();
    all
}

fn joined(list: &[OperatorRef]) -> String {
    elements(list).collect::<Vec<_>>().join(" ")
}

/// Whole seconds, rounded up, so that even a timeout below a second lets the script run once.
fn wait_seconds(timeout: &str) -> i64 {
    api::validate::parse_duration(timeout).map_or(DEFAULT_WAIT, |length| {
        let whole = length.num_seconds();
        let rest = i64::from(length.subsec_nanos() > 0);
        (whole + rest).max(1)
    })
}

fn work_spec(operators: &OcpOperators, wait: i64, flags: &WorkFlags) -> Value {
    let feedback = [
        ("succeeded", ".status.succeeded"),
        ("active", ".status.active"),
        ("failed", ".status.failed"),
        (
            "jobComplete",
            r#".status.conditions[?(@.type=="Complete")].status"#,
        ),
        ("jobFailed", r#".status.conditions[?(@.type=="Failed")].status"#),
    ]
    .map(|(name, path)| json!({ "name": name, "path": path }));
    json!({
        "deleteOption": { "propagationPolicy": "Foreground" },
        "manifestConfigs": [{
            "resourceIdentifier": {
                "group": "batch",
                "resource": "jobs",
                "name": APPROVER,
                "namespace": APPROVER,
            },
            "feedbackRules": [{ "type": "JSONPaths", "jsonPaths": feedback }],
        }],
        "workload": { "manifests": manifests(&job(operators, wait, flags)) },
    })
}

fn manifests(job: &Value) -> Value {
    json!([
        { "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": APPROVER } },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": APPROVER },
            // Only the permissions that the script needs: whoever may patch a Subscription may install any
            // operator.
            "rules": [
                {
                    "apiGroups": ["operators.coreos.com"],
                    "resources": ["subscriptions"],
                    "verbs": ["get", "list"],
                },
                {
                    "apiGroups": ["operators.coreos.com"],
                    "resources": ["installplans"],
                    "verbs": ["get", "patch"],
                },
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": APPROVER },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": APPROVER,
            },
            "subjects": [{ "kind": "ServiceAccount", "name": APPROVER, "namespace": APPROVER }],
        },
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": APPROVER, "namespace": APPROVER },
        },
        job,
    ])
}

fn job(operators: &OcpOperators, wait: i64, flags: &WorkFlags) -> Value {
    let container = json!({
        "name": APPROVER,
        "image": flags.approver_image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {},
        "command": ["/bin/bash", "-c", SCRIPT],
        "env": [
            { "name": "EXCLUDELIST", "value": joined(&operators.exclude) },
            { "name": "INCLUDELIST", "value": selected(operators, joined) },
            { "name": "WAITTIME", "value": wait.to_string() },
        ],
    });
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": APPROVER, "namespace": APPROVER },
        "spec": {
            "activeDeadlineSeconds": wait + DEADLINE_MARGIN,
            "manualSelector": true,
            "selector": { "matchLabels": { "job-name": APPROVER } },
            "template": {
                "metadata": { "labels": { "job-name": APPROVER } },
                "spec": {
                    "serviceAccountName": APPROVER,
                    "containers": [container],
                    "dnsPolicy": "ClusterFirst",
                    "restartPolicy": "OnFailure",
                },
            },
        },
    })
}
