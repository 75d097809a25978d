//! Approvals: which checkpoints of an upgrade wait, and what an approval of one of them says. No I/O.

use std::fmt::Write as _;

use api::ManagedClustersUpgradeApproval;
use api::approval::{MAX_APPROVAL_MESSAGE, ManagedClustersUpgradeApprovalSpec};
use api::mcu::CheckpointStatus;
use api::time::to_chrono;
use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::render::rehearse::seconds;
use crate::table::one_line;
use crate::upgrade::{NotStarted, Upgrade};

/// Plural of the kind in URLs and messages.
pub const PLURAL: &str = "managedclustersupgradeapprovals";
/// Longest prefix of the name of an approval, so that the rest, which the hub adds, has room.
const MAX_PREFIX: usize = 200;

/// The checkpoint that is to be approved.
///
/// # Errors
/// There is none of this name, it does not wait, or the status is of an earlier spec. Without a name: not exactly one waits.
pub fn waiting<'a>(upgrade: &'a Upgrade, name: Option<&str>) -> Result<&'a CheckpointStatus, String> {
    if !upgrade.is_observed() {
        return Err(
            "the controller has not processed the newest spec of the upgrade yet; try again soon".to_owned(),
        );
    }
    let all = upgrade
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.approvals);
    let names = |found: &[&CheckpointStatus]| {
        let names: Vec<String> = found.iter().map(|one| one_line(&one.name)).collect();
        names.join(", ")
    };
    let open: Vec<&CheckpointStatus> = all.iter().filter(|one| one.is_waiting()).collect();
    let Some(name) = name else {
        return match open.as_slice() {
            [one] => Ok(one),
            [] => Err("the upgrade waits for no approval".to_owned()),
            several => Err(format!(
                "the upgrade waits at several checkpoints, so name one: {}",
                names(several)
            )),
        };
    };
    let found = all.iter().find(|one| one.name == name).ok_or_else(|| {
        let known: Vec<&CheckpointStatus> = all.iter().collect();
        match known.as_slice() {
            [] => "the upgrade has no checkpoints (spec.upgradeStrategy.approvals)".to_owned(),
            known => format!("the upgrade has no checkpoint {name}; it has {}", names(known)),
        }
    })?;
    if found.is_waiting() {
        return Ok(found);
    }
    Err(match found.state.as_str() {
        CheckpointStatus::APPROVED => format!(
            "checkpoint {name} is approved already, by {}",
            one_line(&found.approver)
        ),
        CheckpointStatus::AHEAD => {
            format!("checkpoint {name} is not reached, so nothing waits for an approval")
        }
        other => format!("checkpoint {name} is {}", one_line(other)),
    })
}

/// What is approved: how far the upgrade is, what holds clusters, and when it ends.
#[must_use]
pub fn summary(upgrade: &Upgrade, checkpoint: &CheckpointStatus) -> String {
    let mut text = format!(
        "Checkpoint {} of {}/{}, plan {}\n",
        one_line(&checkpoint.name),
        upgrade.namespace,
        upgrade.name,
        one_line(&checkpoint.plan_hash)
    );
    let counts = upgrade.counts();
    let not_started = upgrade.status.as_ref().map(NotStarted::of).unwrap_or_default();
    let _ = write!(
        text,
        "  target {}, {} of {} clusters complete, {} failed, {} pending",
        one_line(&upgrade.target()),
        counts.complete,
        counts.total,
        counts.failed,
        not_started.pending
    );
    for (clusters, phase) in not_started.left_out() {
        let _ = write!(text, ", {clusters} {}", phase.as_str().to_lowercase());
    }
    text.push('\n');
    if !checkpoint.changed.is_empty() {
        let _ = writeln!(
            text,
            "  changed since the last approval: {}",
            one_line(&checkpoint.changed)
        );
    }
    let Some(status) = &upgrade.status else {
        return text;
    };
    for cause in &status.causes {
        let _ = writeln!(
            text,
            "  {} {} ({}): {}",
            cause.clusters,
            cause.phase,
            one_line(&cause.reason),
            one_line(&cause.message)
        );
    }
    if let Some(end) = status
        .estimate
        .as_ref()
        .and_then(|estimate| to_chrono(&estimate.p50))
    {
        let _ = writeln!(text, "  would be complete at about {}", seconds(end));
    }
    text
}

/// The approval of a checkpoint as it is.
///
/// # Errors
/// The message is too long, or the approval would expire at once.
pub fn approval(
    upgrade: &Upgrade,
    checkpoint: &CheckpointStatus,
    approver: &str,
    message: &str,
    (now, length): (DateTime<Utc>, Option<TimeDelta>),
) -> Result<ManagedClustersUpgradeApproval, String> {
    let message = message.trim();
    if message.chars().count() > MAX_APPROVAL_MESSAGE {
        return Err(format!("--message: at most {MAX_APPROVAL_MESSAGE} characters"));
    }
    if length.is_some_and(|length| length < TimeDelta::minutes(1)) {
        return Err(
            "--expires-in: at least 1m, because nothing starts by an approval that has expired".to_owned(),
        );
    }
    let prefix: String = format!("{}-{}", upgrade.name, checkpoint.name)
        .chars()
        .take(MAX_PREFIX)
        .collect();
    Ok(ManagedClustersUpgradeApproval {
        metadata: ObjectMeta {
            generate_name: Some(format!("{prefix}-")),
            namespace: Some(upgrade.namespace.clone()),
            ..ObjectMeta::default()
        },
        spec: ManagedClustersUpgradeApprovalSpec {
            upgrade: upgrade.name.clone(),
            checkpoint: checkpoint.name.clone(),
            plan_hash: checkpoint.plan_hash.clone(),
            approver: approver.to_owned(),
            message: message.to_owned(),
            expires: length.map(|length| (now + length).trunc_subsecs(0)),
        },
    })
}

#[cfg(test)]
mod tests;
