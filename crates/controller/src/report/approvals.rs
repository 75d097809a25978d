//! What the status says of checkpoints. Pure.

use api::mcu::{CheckpointStatus, LastApproval, ManagedClustersUpgradeStatus};
use api::message::{count, join};
use api::text::cut;
use api::time::from_chrono;
use chrono::{DateTime, Utc};
use rollout::remedy::Names;
use rollout::{CheckpointProgress, CheckpointState, ClusterState, Phase, Plan, PlanHash};

use super::text::plain;

/// Longest name of an approver and longest text of an approval in a status, in bytes.
const MAX_APPROVER_BYTES: usize = 128;
const MAX_MESSAGE_BYTES: usize = 200;

/// The checkpoints of a plan.
pub(super) fn of_plan(
    plan: &Plan,
    previous: &ManagedClustersUpgradeStatus,
    now: DateTime<Utc>,
) -> Vec<CheckpointStatus> {
    let Some(hash) = &plan.hash else {
        return Vec::new();
    };
    let all = plan.checkpoints.iter();
    all.map(|state| {
        if state.progress == CheckpointProgress::Unknown {
            return as_before(state, hash, &previous.approvals);
        }
        if state.progress == CheckpointProgress::Ahead
            && let Some(passed) = passed(plan, hash, state, &previous.approvals)
        {
            return passed;
        }
        let approval = state.approval.as_ref();
        let is_waiting = state.progress == CheckpointProgress::Waiting;
        let mut known = previous.approvals.iter();
        let before = known.find(|known| known.name == *state.name && known.is_waiting());
        let since = before.and_then(|before| before.waiting_since.clone());
        CheckpointStatus {
            name: state.name.to_string(),
            state: word(state.progress).to_owned(),
            plan_hash: hash.to_string(),
            waiting_since: is_waiting.then(|| since.unwrap_or_else(|| from_chrono(now))),
            changed: state.changed.as_deref().unwrap_or_default().to_owned(),
            approver: approval
                .map(|approval| plain(cut(&approval.approver, MAX_APPROVER_BYTES)))
                .unwrap_or_default(),
            approved_at: approval.and_then(|approval| approval.given).map(from_chrono),
            expires: approval.and_then(|approval| approval.expires).map(from_chrono),
            message: approval
                .map(|approval| plain(cut(&approval.message, MAX_MESSAGE_BYTES)))
                .unwrap_or_default(),
            last_approval: match approval {
                Some(_) => None,
                None => last_approval(&state.name, &previous.approvals),
            },
        }
    })
    .collect()
}

/// What is said of checkpoints while the spec is invalid. Nobody is asked, and no plan is told: it would be that of the last valid spec,
/// which an approver does not find in the upgrade. Who approved stays.
pub(super) fn of_invalid(checkpoints: &[CheckpointStatus]) -> Vec<CheckpointStatus> {
    let told = |checkpoint: &CheckpointStatus| {
        if checkpoint.state == CheckpointStatus::APPROVED {
            return checkpoint.clone();
        }
        CheckpointStatus {
            last_approval: last_approval(&checkpoint.name, checkpoints),
            ..ahead(checkpoint.name.clone(), String::new())
        }
    };
    checkpoints.iter().map(told).collect()
}

/// What is said of a checkpoint while it is not known whether it is approved: nothing new. Nobody is asked who may have approved.
fn as_before(state: &CheckpointState, hash: &PlanHash, previous: &[CheckpointStatus]) -> CheckpointStatus {
    let before = previous.iter().find(|known| known.name == *state.name);
    before
        .cloned()
        .unwrap_or_else(|| ahead(state.name.to_string(), hash.to_string()))
}

/// Who approved last. The status keeps that also when the approval has expired, was deleted, or is of another plan.
fn last_approval(name: &str, previous: &[CheckpointStatus]) -> Option<LastApproval> {
    let before = previous.iter().find(|known| known.name == name)?;
    if before.approver.is_empty() {
        return before.last_approval.clone();
    }
    Some(LastApproval {
        plan_hash: before.plan_hash.clone(),
        approver: before.approver.clone(),
        approved_at: before.approved_at.clone(),
        expires: before.expires.clone(),
        message: before.message.clone(),
    })
}

fn ahead(name: String, plan_hash: String) -> CheckpointStatus {
    CheckpointStatus {
        name,
        state: CheckpointStatus::AHEAD.to_owned(),
        plan_hash,
        ..CheckpointStatus::default()
    }
}

/// What is kept of a checkpoint that was approved: who approved, although the approval may have expired since, or be deleted. If nothing
/// is left to start, it is also kept when the plan has changed since, with the hash that was approved.
fn passed(
    plan: &Plan,
    hash: &PlanHash,
    state: &CheckpointState,
    previous: &[CheckpointStatus],
) -> Option<CheckpointStatus> {
    let is_approved =
        |known: &&CheckpointStatus| known.name == *state.name && known.state == CheckpointStatus::APPROVED;
    let known = previous.iter().find(is_approved)?;
    if known.plan_hash == **hash.as_str() {
        return Some(known.clone());
    }
    let may_start = |state: &ClusterState| matches!(state.record.phase, Phase::Pending | Phase::Blocked);
    let is_over = !plan.clusters.iter().any(may_start);
    is_over.then(|| CheckpointStatus {
        changed: hash.changed_since(&known.plan_hash).unwrap_or_default(),
        ..known.clone()
    })
}

const fn word(progress: CheckpointProgress) -> &'static str {
    match progress {
        CheckpointProgress::Ahead | CheckpointProgress::Unknown => CheckpointStatus::AHEAD,
        CheckpointProgress::Waiting => CheckpointStatus::WAITING,
        CheckpointProgress::Approved => CheckpointStatus::APPROVED,
    }
}

/// The checkpoints that clusters wait at.
fn open(plan: &Plan) -> Vec<&CheckpointState> {
    let states = plan.checkpoints.iter();
    let is_open = |state: &&CheckpointState| state.progress == CheckpointProgress::Waiting;
    states
        .filter(|_| plan.summary.waiting_for_approval > 0)
        .filter(is_open)
        .collect()
}

/// True when clusters may wait behind a checkpoint of which it is not known whether it is approved.
fn is_unknown(plan: &Plan) -> bool {
    let mut states = plan.checkpoints.iter();
    plan.summary.waiting_for_approval > 0 && states.any(|state| state.progress == CheckpointProgress::Unknown)
}

/// How many clusters wait for an approval, and of what.
pub(super) fn waiting(plan: &Plan) -> Option<String> {
    let open = open(plan);
    let number = plan.summary.waiting_for_approval;
    let waits = if number == 1 { "waits" } else { "wait" };
    let Some(first) = open.first() else {
        let clusters = count(number, "cluster");
        return is_unknown(plan)
            .then(|| format!("{clusters} {waits} until the approvals are read from the hub"));
    };
    let others = match open.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "{} {waits} for the approval of checkpoint {}{others}",
        count(number, "cluster"),
        first.name
    ))
}

/// What somebody is asked to approve, when nothing else is going on.
pub(super) fn asked(plan: &Plan, complete: &str, names: Names<'_>) -> Option<String> {
    let waiting = waiting(plan)?;
    let open = open(plan);
    let Some(first) = open.first() else {
        return Some(join([waiting.as_str(), complete]));
    };
    let changed = first
        .changed
        .as_ref()
        .map(|changed| format!("Since the last approval {changed} changed"));
    let how = format!(
        "To approve it, run kubectl mcu approve {} {} -n {}",
        names.name, first.name, names.namespace
    );
    Some(join([
        waiting.as_str(),
        changed.as_deref().unwrap_or_default(),
        complete,
        &how,
    ]))
}

#[cfg(test)]
mod tests;
