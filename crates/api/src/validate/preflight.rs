//! The rules of the preflight, of accepted risks and of acknowledgments.

use std::collections::BTreeSet;

use super::{SpecViolation, check_twice, parse_duration, says_something, violation};
use crate::mcu::{ClusterVersionSpec, ManagedClustersUpgradeSpec};
use crate::preflight::{PreflightMode, PreflightSpec};

/// Longest name of a risk, key of a gate and reason, in bytes.
const MAX_RISK: usize = 256;
const MAX_KEY: usize = 253;
const MAX_REASON: usize = 1024;

pub(super) fn check_preflight(spec: &ManagedClustersUpgradeSpec, found: &mut Vec<SpecViolation>) {
    if let Some(target) = &spec.cluster_version {
        check_risks(target, spec.preflight.as_ref(), found);
        check_acks(target, found);
    }
    let Some(preflight) = &spec.preflight else { return };
    if preflight.mode != PreflightMode::Off && spec.cluster_version.is_none() {
        found.push(violation(
            "spec.preflight.mode",
            "needs spec.clusterVersion: clusters are asked what they say to an update; set it, or set mode to Off",
        ));
    }
    check_channel(preflight, spec.cluster_version.as_ref(), found);
    if parse_duration(&preflight.timeout).is_none_or(|length| length < chrono::TimeDelta::seconds(1)) {
        found.push(violation(
            "spec.preflight.timeout",
            format!(
                "{:?} must be a duration of at least 1s and at most 8760h in hours, minutes and seconds, such as 10m or 1h30m (days are not a unit)",
                preflight.timeout
            ),
        ));
    }
}

fn check_channel(
    preflight: &PreflightSpec,
    target: Option<&ClusterVersionSpec>,
    found: &mut Vec<SpecViolation>,
) {
    if !preflight.set_channel {
        return;
    }
    let field = "spec.preflight.setChannel";
    if preflight.mode == PreflightMode::Off {
        found.push(violation(
            field,
            "needs spec.preflight.mode Report or Require: the channel is set when a cluster is asked",
        ));
    }
    if target.is_none_or(|target| target.channel.is_empty()) {
        found.push(violation(
            field,
            "needs spec.clusterVersion.channel: set the channel whose updates the clusters are to evaluate",
        ));
    } else if target.is_some_and(|target| !target.image.is_empty()) {
        found.push(violation(
            field,
            "has no effect with spec.clusterVersion.image, because a cluster does not look for such a request in its channel; remove one of them",
        ));
    }
}

fn check_risks(
    target: &ClusterVersionSpec,
    preflight: Option<&PreflightSpec>,
    found: &mut Vec<SpecViolation>,
) {
    let field = "spec.clusterVersion.acceptRisks";
    let is_asked = preflight.is_some_and(|preflight| preflight.mode != PreflightMode::Off);
    if !target.accept_risks.is_empty() && !is_asked {
        found.push(violation(
            field,
            "needs spec.preflight.mode Report or Require: without it, nobody learns which risks apply to a cluster",
        ));
    }
    if !target.accept_risks.is_empty() && !target.image.is_empty() {
        found.push(violation(
            field,
            "has no effect with spec.clusterVersion.image, because a cluster does not check such a request for risks; remove one of them",
        ));
    }
    let mut seen = BTreeSet::new();
    for (index, risk) in target.accept_risks.iter().enumerate() {
        let printable = risk.name.bytes().all(|byte| byte.is_ascii_graphic());
        if risk.name.is_empty() || risk.name.len() > MAX_RISK || !printable {
            found.push(violation(
                format!("{field}[{index}].name"),
                format!("{:?} must be the name of a risk, such as OVNIPsecConnectivity, in at most {MAX_RISK} printable ASCII characters without white space", risk.name),
            ));
        }
        check_reason(&format!("{field}[{index}]"), &risk.reason, found);
        check_twice(&mut seen, &risk.name, &format!("{field}[{index}].name"), found);
    }
}

fn check_acks(target: &ClusterVersionSpec, found: &mut Vec<SpecViolation>) {
    let field = "spec.clusterVersion.adminAcks";
    let mut seen = BTreeSet::new();
    for (index, ack) in target.admin_acks.iter().enumerate() {
        if ack.key.len() > MAX_KEY || !is_ack_key(&ack.key) {
            found.push(violation(
                format!("{field}[{index}].key"),
                format!("{:?} must be the key of a gate, such as ack-4.19-admissionregistration-v1beta1-api-removals-in-4.20", ack.key),
            ));
        }
        check_reason(&format!("{field}[{index}]"), &ack.reason, found);
        check_twice(&mut seen, &ack.key, &format!("{field}[{index}].key"), found);
    }
}

/// True for `ack-MAJOR.MINOR-NAME`, in the characters of keys of a `ConfigMap`.
#[must_use]
pub fn is_ack_key(key: &str) -> bool {
    let Some((release, name)) = key.strip_prefix("ack-").and_then(|rest| rest.split_once('-')) else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let in_key = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    release
        .split_once('.')
        .is_some_and(|(major, minor)| is_number(major) && is_number(minor))
        && !name.is_empty()
        && name.bytes().all(in_key)
}

fn check_reason(field: &str, reason: &str, found: &mut Vec<SpecViolation>) {
    if !says_something(reason) || reason.len() > MAX_REASON * 4 {
        found.push(violation(
            format!("{field}.reason"),
            format!("must say why, in at most {MAX_REASON} characters"),
        ));
    }
}

#[cfg(test)]
mod tests;
