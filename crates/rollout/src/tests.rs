//! Tests of the planner (by rule, by sequence, by property) and of the checker (by bad plans).

mod abort;
mod actions;
mod approvals;
mod blockers;
mod clocks;
mod doubt;
mod downgrade;
mod earlier_updates;
mod edits;
mod fall_back;
mod forecast;
mod gates;
mod members;
mod never_asked;
mod preflight;
mod proofs;
mod properties;
mod retries;
mod sequences;
mod skip;
mod strategies;
mod transitions;
mod unread;
mod unreadable;
mod violations;
mod windows;
mod workers;

use crate::check::check;
use crate::model::{Fleet, Operation, Phase, Plan, Policy, Reason, Record};
use crate::planner::plan;
use crate::testing::{FleetBuilder, PolicyBuilder, at};

/// The plan at this second. The checker must find it safe.
fn planned(seconds: i64, policy: PolicyBuilder, fleet: FleetBuilder) -> Plan {
    plan_of(seconds, &policy.build(), &fleet.build())
}

fn plan_of(seconds: i64, policy: &Policy, fleet: &Fleet) -> Plan {
    let plan = plan(at(seconds), policy, fleet);
    let violations = check(at(seconds), policy, fleet, &plan);
    assert_eq!(violations, Vec::new(), "{plan:#?}");
    plan
}

/// The record of a cluster.
#[track_caller]
fn record_of<'a>(plan: &'a Plan, name: &str) -> &'a Record {
    let state = plan.clusters.iter().find(|state| *state.name == *name);
    &state
        .unwrap_or_else(|| panic!("{name} is not listed: {plan:#?}"))
        .record
}

/// Phase and reason of a cluster.
#[track_caller]
fn stand(plan: &Plan, name: &str) -> (Phase, Reason) {
    let record = record_of(plan, name);
    (record.phase, record.reason)
}

/// The writes as one text each.
fn writes(plan: &Plan) -> Vec<String> {
    plan.operations.iter().map(write).collect()
}

fn write(operation: &Operation) -> String {
    let (cluster, step) = (operation.cluster(), operation.step());
    match operation {
        Operation::Create { .. } => format!("create {cluster}/{step:?}"),
        Operation::Update { kind, .. } => format!("update {cluster}/{step:?} {kind:?}"),
        Operation::Withdraw { .. } => format!("withdraw {cluster}/{step:?}"),
        Operation::MarkSoak { .. } => format!("soak {cluster}/{step:?}"),
        Operation::Delete { why, .. } => format!("delete {cluster}/{step:?} {why:?}"),
        Operation::Read { .. } => format!("read {cluster}/{step:?}"),
    }
}
