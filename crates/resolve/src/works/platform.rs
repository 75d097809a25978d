//! The platform work: ClusterVersion, applied server-side, and the agent's permission to do so
//! (`docs/design/works.md#platform`).
//!
//! Orphaning rules keep ClusterVersion when the work is deleted. Under server-side apply, fields that the MCU
//! does not set keep their value on the cluster.

use api::mcu::ClusterVersionSpec;
use api::names::{ANNOTATION_TARGET_IMAGE, ANNOTATION_TARGET_VERSION};
use api::preflight::AdminAck;
use clusterversion::feedback::RULES;
use serde_json::{Map, Value, json};

use super::{SpecTemplate, SpokeRbac, Template, WorkFlags, acks};
use crate::works::canonical;

/// The first minor version of OpenShift in which every release has `desiredUpdate.architecture`.
const ARCHITECTURE_SINCE: (u64, u64) = (4, 13);
/// Name of the `ClusterRole` of [`SpokeRbac::Aggregate`].
const AGGREGATED_ROLE: &str = "open-cluster-management:mcu-clusterversion";

pub(super) fn template(version: &ClusterVersionSpec, flags: &WorkFlags) -> Template {
    let targets = [
        (ANNOTATION_TARGET_VERSION, &version.version),
        (ANNOTATION_TARGET_IMAGE, &version.image),
    ];
    Template {
        hash: canonical::hash(&json!({
            "channel": version.channel,
            "version": version.version,
            "upstream": version.upstream,
            "image": version.image,
        })),
        annotations: targets
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| (key, value.clone()))
            .collect(),
        spec: spec_text(version, flags),
    }
}

fn spec_text(version: &ClusterVersionSpec, flags: &WorkFlags) -> SpecTemplate {
    let head = format!(
        concat!(
            r#"{{"deleteOption":{},"manifestConfigs":{},"workload":{{"manifests":["#,
            r#"{{"apiVersion":"config.openshift.io/v1","kind":"ClusterVersion","metadata":{{"name":"version"}},"spec":{{"#
        ),
        delete_option(flags.spoke_rbac, &version.admin_acks),
        manifest_configs(version),
    );
    let fields = Value::Object(request(version)).to_string();
    // `fields` is never empty; its opening brace is already in the head.
    let fields = fields.trim_start_matches('{');
    let acks = (!version.admin_acks.is_empty()).then(|| acks::manifest(&version.admin_acks));
    let others: Vec<String> = permission(flags)
        .into_iter()
        .chain(acks)
        .map(|manifest| format!(",{manifest}"))
        .collect();
    let image = image_member(&version.image);
    let (before, after) = fields.split_once(&image).unwrap_or((fields, ""));
    SpecTemplate::PerCluster {
        head,
        before_image: before.to_owned(),
        tail: format!("{after}}}{}]}}}}", others.concat()),
        image,
    }
}

/// The key `image` with its value, as JSON.
pub(super) fn image_member(image: &str) -> String {
    format!(r#""image":{}"#, Value::from(image))
}

/// The key `acceptRisks` with these names, as JSON.
pub(super) fn risks_member(names: &str) -> String {
    let risks: Vec<Value> = names.split(' ').map(|name| json!({ "name": name })).collect();
    format!(r#""acceptRisks":{}"#, Value::Array(risks))
}

/// The ClusterVersion's spec without clusterID. All leaves of `desiredUpdate` are always written. If one were
/// omitted, server-side apply would keep the value that `oc adm upgrade` wrote earlier, and CVO would follow
/// a stale image or migrate the cluster to another architecture. The field `mode` has no neutral value, so it is read
/// back instead.
fn request(version: &ClusterVersionSpec) -> Map<String, Value> {
    let mut spec = Map::new();
    for (key, value) in [("channel", &version.channel), ("upstream", &version.upstream)] {
        if !value.is_empty() {
            spec.insert(key.to_owned(), Value::from(value.as_str()));
        }
    }
    let mut update = json!({ "force": false, "image": version.image, "version": version.version });
    if knows_architecture(&version.version) {
        update["architecture"] = Value::from("");
    }
    spec.insert("desiredUpdate".to_owned(), update);
    spec
}

/// True when every cluster that may be asked for the version has the field `architecture`. An older one would reject the whole
/// request, because server-side apply does not accept unknown fields. Clusters go up by at most one minor version at a time.
fn knows_architecture(version: &str) -> bool {
    let version = clusterversion::version::parse(version);
    version.is_some_and(|version| (version.major(), version.minor()) > ARCHITECTURE_SINCE)
}

fn delete_option(rbac: SpokeRbac, acks: &[AdminAck]) -> Value {
    let mut rules = vec![
        json!({ "group": "config.openshift.io", "resource": "clusterversions", "name": "version", "namespace": "" }),
        // This rule has the kind where agents expect the plural resource, so it matches nothing and is
        // harmless.
        json!({ "group": "", "resource": "ClusterVersion.config.openshift.io", "name": "version", "namespace": "" }),
    ];
    if rbac == SpokeRbac::Aggregate {
        // Foreground deletion would remove the role that the next upgrade of the cluster needs.
        rules.push(json!({
            "group": "rbac.authorization.k8s.io",
            "resource": "clusterroles",
            "name": AGGREGATED_ROLE,
            "namespace": "",
        }));
    }
    if !acks.is_empty() {
        rules.push(acks::identifier());
    }
    json!({
        "propagationPolicy": "SelectivelyOrphan",
        "selectivelyOrphans": { "orphaningRules": rules },
    })
}

/// The field manager of the request. Each set of fields has one of its own, because a manager that applies fewer fields than
/// before would take the others back: a cluster whose channel an earlier upgrade set would be left without one.
fn field_manager(version: &ClusterVersionSpec) -> &'static str {
    match (version.channel.is_empty(), version.upstream.is_empty()) {
        (false, true) => "work-agent-mcu",
        (true, true) => "work-agent-mcu-version",
        (true, false) => "work-agent-mcu-upstream",
        (false, false) => "work-agent-mcu-channel-upstream",
    }
}

fn manifest_configs(version: &ClusterVersionSpec) -> Value {
    let acks = &version.admin_acks;
    let paths: Vec<Value> = RULES
        .iter()
        .map(|(name, path)| json!({ "name": name, "path": path }))
        .collect();
    let mut configs = vec![json!({
        "resourceIdentifier": {
            "group": "config.openshift.io",
            "resource": "clusterversions",
            "name": "version",
            "namespace": "",
        },
        "updateStrategy": {
            "type": "ServerSideApply",
            "serverSideApply": { "force": true, "fieldManager": field_manager(version) },
        },
        "feedbackRules": [{ "type": "JSONPaths", "jsonPaths": paths }],
    })];
    if !acks.is_empty() {
        configs.push(json!({
            "resourceIdentifier": acks::identifier(),
            "updateStrategy": acks::strategy(acks),
        }));
    }
    Value::Array(configs)
}

fn permission(flags: &WorkFlags) -> Option<Value> {
    let (namespace, name) = &flags.agent_service_account;
    match flags.spoke_rbac {
        SpokeRbac::AdminOcm => Some(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {
                "name": "admin-ocm",
                "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
            },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": namespace }],
        })),
        SpokeRbac::Aggregate => Some(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {
                "name": AGGREGATED_ROLE,
                "labels": { "open-cluster-management.io/aggregate-to-work": "true" },
            },
            "rules": [{
                "apiGroups": ["config.openshift.io"],
                "resources": ["clusterversions"],
                "verbs": ["get", "list", "watch", "patch", "update"],
            }],
        })),
        SpokeRbac::None => None,
    }
}
