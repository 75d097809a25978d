//! OCM's agents as a klusterlet installs them on a spoke: namespace, accounts and roles.
//!
//! The objects are rendered from OCM's templates in the pinned module. No other roles are added, so an agent has exactly the
//! permissions that OCM gives it.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::apply::parse_yaml;
use crate::crds;

const OCM: &str = "open-cluster-management.io/ocm";

/// Name of the Klusterlet, by which OCM names accounts and roles.
const KLUSTERLET: &str = "klusterlet";
/// Namespace of the agents.
pub const NAMESPACE: &str = "open-cluster-management-agent";
/// Account of the work agent.
pub const WORK_ACCOUNT: &str = "klusterlet-work-sa";

/// What the klusterlet operator applies for the work agent of a cluster that manages itself, in its order.
const TEMPLATES: [&str; 10] = [
    "managed/klusterlet-work-serviceaccount.yaml",
    "managed/klusterlet-work-clusterrole.yaml",
    "managed/klusterlet-work-clusterrolebinding.yaml",
    "managed/klusterlet-work-clusterrole-execution.yaml",
    "managed/klusterlet-work-clusterrolebinding-aggregate.yaml",
    "managed/klusterlet-work-clusterrolebinding-execution-admin.yaml",
    "management/klusterlet-role-extension-apiserver.yaml",
    "management/klusterlet-work-role.yaml",
    "management/klusterlet-work-rolebinding.yaml",
    "management/klusterlet-work-rolebinding-extension-apiserver.yaml",
];

/// Namespace, account and roles of the work agent.
///
/// # Errors
/// The module is not in the tool cache and cannot be fetched by Go, or a template is not what it was.
pub async fn objects() -> Result<Vec<Value>> {
    let files = TEMPLATES.map(|file| format!("manifests/klusterlet/{file}"));
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}),
        aggregate(),
    ];
    for (file, text) in files.iter().zip(crds::texts("ocm", OCM, &files).await?) {
        objects.extend(parse_yaml(&render(&text)).with_context(|| file.clone())?);
    }
    Ok(objects)
}

/// The one role that OCM writes in Go: what others label becomes the agent's (`klusterlet_managed_reconcile.go`).
fn aggregate() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("open-cluster-management:{KLUSTERLET}-work:aggregate")},
        "aggregationRule": {"clusterRoleSelectors": [
            {"matchLabels": {"open-cluster-management.io/aggregate-to-work": "true"}},
        ]},
    })
}

/// Fills a template in: names and accounts of the default installation, and no extra labels or pull secrets, so
/// everything between `{{ if` and its `{{ end }}` goes.
fn render(template: &str) -> String {
    let mut depth = 0_usize;
    let mut text = String::new();
    for line in template.lines() {
        let action = line
            .trim()
            .trim_start_matches("{{")
            .trim_start_matches('-')
            .trim();
        let is_action = line.trim().starts_with("{{");
        if is_action && (action.starts_with("if") || action.starts_with("range")) {
            depth += 1;
        } else if is_action && action.starts_with("end") {
            depth = depth.saturating_sub(1);
        } else if depth == 0 {
            text.push_str(&fill(line));
            text.push('\n');
        }
    }
    text
}

/// One line without actions.
fn fill(line: &str) -> String {
    let values = [
        ("KlusterletName", KLUSTERLET),
        ("KlusterletNamespace", NAMESPACE),
        ("AgentNamespace", NAMESPACE),
        ("WorkServiceAccount", WORK_ACCOUNT),
    ];
    values.iter().fold(line.to_owned(), |line, (name, value)| {
        line.replace(&format!("{{{{ .{name} }}}}"), value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in_and_conditional_parts_go() {
        let template = "metadata:\n  name: open-cluster-management:{{ .KlusterletName }}-work:agent\n  labels:\n    \
                        {{ if gt (len .Labels) 0 }}\n    {{ range $key, $value := .Labels }}\n    \"{{ $key }}\": \"{{ \
                        $value }}\"\n    {{ end }}\n    {{ end }}\n  namespace: {{ .AgentNamespace }}\n";
        let objects = parse_yaml(&render(template)).unwrap();
        assert_eq!(
            objects[0]["metadata"],
            json!({
                "name": "open-cluster-management:klusterlet-work:agent", "labels": null,
                "namespace": "open-cluster-management-agent",
            })
        );
    }
}
