//! Whether a hub is ready for an installation.

use serde_json::Value;

use super::facts::{Before, CREATED, OCM};
use super::{Check, Checks, Level, minor_of};

/// The oldest API server with admission policies that are generally available.
const OLDEST: (u32, u32) = (1, 30);

/// Judges the facts.
#[must_use]
pub fn judge(facts: &Before) -> Vec<Check> {
    let mut checks = Checks::default();
    checks.begin("kubernetes");
    match &facts.version {
        Err(why) => {
            checks.add(
                Level::Failed,
                format!("The hub does not answer: {why}"),
                "Choose the hub with --context or --kubeconfig.",
            );
            // Every other check would fail for the same reason.
            return checks.all;
        }
        Ok(version) if minor_of(version).is_some_and(|minor| minor < OLDEST) => checks.add(
            Level::Failed,
            format!("The hub runs Kubernetes {version}"),
            "Update the hub to Kubernetes 1.30 (OpenShift 4.17) or later.",
        ),
        Ok(version) => checks.ok(format!("The hub runs Kubernetes {version}")),
    }
    checks.begin("open-cluster-management");
    for ((group, plurals), served) in OCM.iter().zip(&facts.ocm) {
        match served {
            Err(why) => checks.unread(&format!("API {group}"), why),
            Ok(served) => {
                let missing: Vec<&str> = plurals
                    .iter()
                    .copied()
                    .filter(|plural| !served.contains(*plural))
                    .collect();
                if missing.is_empty() {
                    checks.ok(format!("The hub serves {} ({group})", plurals.join(", ")));
                } else {
                    checks.add(
                        Level::Failed,
                        format!("The hub does not serve {} ({group})", missing.join(", ")),
                        "Install Open Cluster Management 1.0 or later, or Advanced Cluster Management.",
                    );
                }
            }
        }
    }
    match &facts.manager {
        Err(why) => checks.unread("The version of Open Cluster Management", why),
        Ok(None) => {}
        Ok(Some(manager)) => manager_version(&mut checks, manager),
    }
    if !facts.may_create.is_empty() {
        checks.begin("rights");
    }
    for ((_, plural), allowed) in CREATED.iter().zip(&facts.may_create) {
        match allowed {
            Err(why) => checks.unread(&format!("Whether you may create {plural}"), why),
            Ok(true) => checks.ok(format!("You may create {plural}")),
            Ok(false) => checks.add(
                Level::Failed,
                format!("You may not create {plural}"),
                "Install as a cluster administrator of the hub.",
            ),
        }
    }
    checks.all
}

/// The version is in the tag of the image of the work controller.
fn manager_version(checks: &mut Checks, manager: &Value) {
    let image = manager["spec"]["workImagePullSpec"].as_str().unwrap_or_default();
    match image.rsplit_once(':') {
        Some((_, tag)) if minor_of(tag).is_some() => {
            checks.ok(format!("Open Cluster Management has version {tag}"));
        }
        _ => checks.ok("Open Cluster Management is installed; its image names no version"),
    }
}
