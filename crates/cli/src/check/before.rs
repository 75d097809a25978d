//! Whether a hub is ready for an installation.

use std::ops::Range;

use serde_json::Value;

use super::facts::{Before, CREATED, OCM};
use super::{Check, Checks, Level, minor_of};
use crate::table::one_line;

/// The oldest API server with admission policies that are generally available.
const OLDEST: (u32, u32) = (1, 30);
/// The versions of Open Cluster Management that docs/guide/support-matrix.md says to be tested or expected to work.
const SUPPORTED_OCM: Range<(u32, u32)> = (1, 0)..(2, 0);

/// [`SUPPORTED_OCM`] in words, as the page has them.
pub(super) fn supported_ocm() -> String {
    let Range { start, end } = SUPPORTED_OCM;
    format!("{}.{} and later, before {}.{}", start.0, start.1, end.0, end.1)
}

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
        Ok(version) if facts.is_simulated() => checks.ok(format!("This is a simulated hub ({version})")),
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
                        format!(
                            "Install Open Cluster Management ({}) or Advanced Cluster Management.",
                            supported_ocm()
                        ),
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
    rights(&mut checks, facts);
    checks.all
}

fn rights(checks: &mut Checks, facts: &Before) {
    if facts.may_create.is_empty() {
        return;
    }
    checks.begin("rights");
    if facts.is_simulated() {
        return checks
            .ok("Your rights are not checked, because a simulated hub lets everybody do everything");
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
}

/// The version is in the tag of the image of the work controller.
fn manager_version(checks: &mut Checks, manager: &Value) {
    let image = manager["spec"]["workImagePullSpec"].as_str().unwrap_or_default();
    let tag = image.rsplit_once(':').map(|(_, tag)| tag);
    let Some((tag, minor)) = tag.and_then(|tag| Some((tag, minor_of(tag)?))) else {
        return checks.ok("Open Cluster Management is installed; its image names no version");
    };
    let message = format!("Open Cluster Management has version {}", one_line(tag));
    if SUPPORTED_OCM.contains(&minor) {
        checks.ok(message);
    } else {
        checks.add(
            Level::Warning,
            format!("{message}; supported are {}", supported_ocm()),
            "Read docs/guide/support-matrix.md, and install a supported version.",
        );
    }
}
