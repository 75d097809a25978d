//! Whether the controller is installed and works.

use api::admission::{POLICIES, describe, evaluate_all};
use api::names::ANNOTATION_LEADER_VERSION;
use api::time::parse_rfc3339;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::facts::{CONTROLLER, Installed, OUR_KINDS};
use super::{Check, Checks, Level, agents, definitions, skew, some};
use crate::age;
use crate::table::one_line;

/// Judges the facts. `namespace` is that of the upgrades, `controller_namespace` that of the controller.
#[must_use]
pub fn judge(
    facts: &Installed,
    namespace: &str,
    controller_namespace: &str,
    now: DateTime<Utc>,
) -> Vec<Check> {
    let mut checks = Checks::default();
    checks.begin("kinds");
    kinds(&mut checks, facts);
    definitions::judge(&mut checks, facts);
    checks.begin("admission");
    admission(&mut checks, facts, controller_namespace);
    checks.begin("controller");
    controller(&mut checks, facts, controller_namespace);
    leader(&mut checks, facts, controller_namespace, now);
    checks.begin("clusters");
    bindings(&mut checks, facts, namespace);
    checks.begin("agents");
    agents::heartbeats(&mut checks, facts, now);
    if let Ok(Some(deployment)) = &facts.deployment {
        let flags = flags_of(deployment);
        let is_granted = is_granted_by_name(&flags);
        agents::accounts(&mut checks, facts, &account_of(&flags), is_granted);
    }
    agents::works(&mut checks, facts, namespace);
    checks.all
}

fn kinds(checks: &mut Checks, facts: &Installed) {
    match &facts.kinds {
        Err(why) => checks.unread("What the hub serves", why),
        Ok(served) => {
            for plural in OUR_KINDS {
                if served.contains(plural) {
                    checks.ok(format!("The hub serves {plural}"));
                } else {
                    checks.add(
                        Level::Failed,
                        format!("The hub does not serve {plural}"),
                        "Apply the CRDs of this release: helm upgrade, or kubectl apply -k crds.",
                    );
                }
            }
        }
    }
}

fn admission(checks: &mut Checks, facts: &Installed, controller_namespace: &str) {
    if facts.is_simulated {
        return checks.ok("Admission policies are not checked, because a simulated hub enforces none");
    }
    let account = format!("system:serviceaccount:{controller_namespace}:{CONTROLLER}");
    match &facts.policies {
        Err(why) => checks.unread("The admission policies", why),
        Ok((policies, bindings)) => match describe(&evaluate_all(policies, bindings, Some(&account))) {
            None => checks.ok(format!("All {} admission policies are bound", POLICIES.len())),
            Some(text) => checks.add(
                Level::Failed,
                format!("The hub does not enforce all admission policies: {text}"),
                "Apply the policies of this release: helm upgrade, or kubectl apply -k deploy; otherwise other users may forge what the controller trusts.",
            ),
        },
    }
}

fn controller(checks: &mut Checks, facts: &Installed, namespace: &str) {
    if facts.is_simulated {
        return checks.ok("The controller's Deployment is not checked, because a simulated hub runs none");
    }
    let deployment = match &facts.deployment {
        Err(why) => return checks.unread("The Deployment of the controller", why),
        Ok(None) => {
            return checks.add(
                Level::Failed,
                format!("Namespace {namespace} has no Deployment {CONTROLLER}"),
                "Install the controller, or name its namespace with --controller-namespace.",
            );
        }
        Ok(Some(deployment)) => deployment,
    };
    let ready = deployment["status"]["readyReplicas"].as_i64().unwrap_or_default();
    let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let message = format!("{ready} of {wanted} replicas of the controller are ready");
    match ready {
        // No log says that an image cannot be pulled.
        0 => checks.add(
            Level::Failed,
            message,
            format!(
                "Look at the pods and their events: kubectl describe pods -n {namespace} -l app.kubernetes.io/name={CONTROLLER}"
            ),
        ),
        _ if ready < wanted => checks.add(
            Level::Warning,
            message,
            format!("Look at the pods: kubectl get pods -n {namespace}"),
        ),
        _ => checks.ok(message),
    }
    let lease = facts.lease.as_ref().ok().and_then(Option::as_ref);
    match lease.and_then(version_of_leader).map_or_else(|| version_of(deployment), Ok) {
        Err(why) => checks.add(
            Level::Warning,
            format!("The version of the controller is not known: {why}"),
            "Name the image of the controller by the tag of its release, or compare its digest with that of the release.",
        ),
        Ok(version) => match skew(env!("CARGO_PKG_VERSION"), &version) {
            None => checks.ok(format!("The controller has version {version}")),
            Some(skew) => checks.add(
                Level::Warning,
                format!("Versions differ: {skew}"),
                "Use the plugin of the controller's release.",
            ),
        },
    }
    spoke_flags(checks, &flags_of(deployment));
}

/// The version that the leader has written on its Lease, if there is a leader.
#[must_use]
pub fn version_of_leader(lease: &Value) -> Option<String> {
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    let version = lease["metadata"]["annotations"][ANNOTATION_LEADER_VERSION].as_str()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let is_version = version.len() <= MAX_VERSION && version.chars().all(is_plain);
    (!holder.is_empty() && is_version && super::minor_of(version).is_some()).then(|| version.to_owned())
}

/// The version that the tag of a Deployment's image names.
///
/// # Errors
/// The image names no version, with the image. The label of the Deployment is no proof: it stays when somebody sets another image, so it
/// counts only where it says the same as the tag. What runs by a digest may be of any version.
pub fn version_of(deployment: &Value) -> Result<String, String> {
    let label = deployment["metadata"]["labels"]["app.kubernetes.io/version"].as_str();
    let image = container(deployment)["image"].as_str().unwrap_or_default();
    let plain = |version: &str| one_line(version.trim_start_matches('v'));
    let tag = image.rsplit_once(':').map(|(_, tag)| tag);
    let tag = tag.filter(|tag| !image.contains('@') && super::minor_of(tag).is_some());
    match (tag, label) {
        (Some(tag), None) => Ok(plain(tag)),
        (Some(tag), Some(label)) if plain(tag) == plain(label) => Ok(plain(tag)),
        (_, Some(label)) => Err(format!(
            "image {}, of which the label of the Deployment says {}",
            one_line(image),
            one_line(label)
        )),
        (None, None) => Err(format!("image {}", one_line(image))),
    }
}

/// No version of a release is longer, in bytes.
const MAX_VERSION: usize = 64;

fn container(deployment: &Value) -> &Value {
    let containers = deployment.pointer("/spec/template/spec/containers");
    let mut all = containers.and_then(Value::as_array).into_iter().flatten();
    all.find(|container| container["name"] == CONTROLLER)
        .unwrap_or(&Value::Null)
}

fn flags_of(deployment: &Value) -> Vec<String> {
    let args = container(deployment)["args"].as_array();
    let args = args.into_iter().flatten().filter_map(Value::as_str);
    args.map(str::to_owned).collect()
}

/// The value of a flag, which is given as `--name=value`.
fn value_of(flags: &[String], name: &str) -> Option<String> {
    let value = flags.iter().find_map(|flag| flag.strip_prefix(name));
    value.map(one_line)
}

/// The service account under which the controller believes that agents run.
fn account_of(flags: &[String]) -> String {
    value_of(flags, "--agent-service-account=")
        .unwrap_or_else(|| "open-cluster-management-agent/klusterlet-work-sa".to_owned())
}

/// True if that service account gets its rights by its name.
fn is_granted_by_name(flags: &[String]) -> bool {
    let rights = value_of(flags, "--spoke-rbac=");
    !matches!(rights.as_deref(), Some("aggregate" | "none"))
}

/// What the controller lets agents do on clusters.
fn spoke_flags(checks: &mut Checks, flags: &[String]) {
    let account = account_of(flags);
    match value_of(flags, "--spoke-rbac=").as_deref() {
        Some("aggregate") => checks.ok(format!(
            "Work agents ({account}) get the right to update ClusterVersion alone"
        )),
        Some("none") => checks.ok("Work agents get no rights from the controller"),
        _ => checks.add(
            Level::Warning,
            format!("Work agents ({account}) are cluster administrators while their cluster is upgraded"),
            "Start the controller with --spoke-rbac=aggregate.",
        ),
    }
    match value_of(flags, "--approver-image=") {
        Some(image) if image.contains("@sha256:") => {
            checks.ok(format!("Operators are approved with the image {image}"));
        }
        image => {
            let image = image.unwrap_or_else(|| "registry.redhat.io/openshift4/ose-cli:latest".to_owned());
            checks.add(
                Level::Warning,
                format!("The image that approves operators has no digest: {image}"),
                "Start the controller with --approver-image=IMAGE@sha256:DIGEST if your upgrades approve operators.",
            );
        }
    }
}

fn leader(checks: &mut Checks, facts: &Installed, namespace: &str, now: DateTime<Utc>) {
    let lease = match &facts.lease {
        Err(why) => return checks.unread("The Lease of the controller", why),
        Ok(lease) => lease.as_ref().map_or(&Value::Null, |lease| &lease["spec"]),
    };
    let holder = lease["holderIdentity"]
        .as_str()
        .filter(|holder| !holder.is_empty());
    let Some(holder) = holder else {
        return checks.add(
            Level::Failed,
            format!("No controller leads (Lease {namespace}/{CONTROLLER})"),
            format!("Read the log: kubectl logs -n {namespace} deploy/{CONTROLLER}"),
        );
    };
    let holder = one_line(holder);
    let renewed = lease["renewTime"].as_str().and_then(parse_rfc3339);
    let limit = TimeDelta::seconds(lease["leaseDurationSeconds"].as_i64().unwrap_or(15));
    match renewed {
        Some(renewed) if now - renewed <= limit => {
            checks.ok(format!("{holder} leads"));
        }
        renewed => checks.add(
            Level::Failed,
            format!(
                "{holder} led, but has not renewed the Lease for {}",
                age::since(now, renewed)
            ),
            format!("Read the log: kubectl logs -n {namespace} deploy/{CONTROLLER}"),
        ),
    }
}

fn bindings(checks: &mut Checks, facts: &Installed, namespace: &str) {
    let bindings = match &facts.bindings {
        Err(why) => return checks.unread(&format!("The ManagedClusterSetBindings of {namespace}"), why),
        Ok(bindings) => bindings,
    };
    let is_bound = |binding: &Value| {
        let conditions = binding["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.all(|condition| condition["type"] != "Bound" || condition["status"] == "True")
    };
    let name = |binding: &Value| one_line(binding["metadata"]["name"].as_str().unwrap_or_default());
    let (bound, open): (Vec<&Value>, Vec<&Value>) = bindings.iter().partition(|binding| is_bound(binding));
    if bindings.is_empty() {
        checks.add(
            Level::Warning,
            format!("Namespace {namespace} binds no ManagedClusterSet, so its upgrades select no clusters"),
            "Create a ManagedClusterSetBinding, or name another namespace with -n.",
        );
    } else if open.is_empty() {
        let names: Vec<String> = bound.iter().map(|binding| name(binding)).collect();
        checks.ok(format!("Namespace {namespace} binds {}", some(&names)));
    } else {
        let names: Vec<String> = open.iter().map(|binding| name(binding)).collect();
        checks.add(
            Level::Failed,
            format!(
                "Bindings of namespace {namespace} are not in force: {}",
                some(&names)
            ),
            "Check that the ManagedClusterSets exist.",
        );
    }
}
