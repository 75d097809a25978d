//! What clusters are asked before they start: what admission refuses, and what a hub without newer agents does.
//!
//! The answers of real agents are in the fleet of real spokes.

use anyhow::Result;
use api::names::LABEL_AGENT_VERSION;
use api::names::Step::Platform;
use api::report::Phase;
use e2e::Scenario;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::selection::managed_clusters;

const KEY: &str = "ack-4.19-admissionregistration-v1beta1-api-removals-in-4.20";

#[tokio::test]
async fn risks_and_acknowledgments_without_name_reason_or_preflight_are_refused_with_their_field()
-> Result<()> {
    let s = Scenario::new(1).await?;
    let asked = |version: Value| json!({"clusterVersion": version, "preflight": {"mode": "Require"}});
    let risk = |name: &str, reason: &str| json!({"acceptRisks": [{"name": name, "reason": reason}]});
    let ack = |key: &str, reason: &str| json!({"adminAcks": [{"key": key, "reason": reason}]});
    for (change, words) in [
        (asked(risk("", "r")), ["acceptRisks", "name"]),
        (asked(risk("Slow Disk", "r")), ["acceptRisks", "white space"]),
        (asked(risk("SlowDisk", "")), ["acceptRisks", "reason"]),
        (asked(ack("4.19-removals", "r")), ["adminAcks", "key of a gate"]),
        (asked(ack(KEY, "")), ["adminAcks", "reason"]),
        (
            json!({"clusterVersion": risk("SlowDisk", "r")}),
            ["acceptRisks", "preflight.mode"],
        ),
        (
            json!({"clusterVersion": null, "ocpOperators": {"approveAllUpgrades": true}, "preflight": {"mode": "Require"}}),
            ["preflight.mode", "clusterVersion"],
        ),
        (
            json!({"clusterVersion": {"version": "4.20.4", "channel": null}, "preflight": {"mode": "Require", "setChannel": true}}),
            ["preflight.setChannel", "clusterVersion.channel"],
        ),
        (
            json!({"preflight": {"mode": "Insist"}}),
            ["preflight.mode", "Insist"],
        ),
        (
            json!({"preflight": {"timeout": "0s"}}),
            ["preflight.timeout", "at least 1s"],
        ),
        (
            json!({"preflight": {"ignore": ["Everything"]}}),
            ["preflight.ignore", "Everything"],
        ),
    ] {
        let said = s.up().refused(change.clone()).await?;
        for word in words {
            assert!(said.contains(word), "{change}: no {word:?} in {said}");
        }
    }
    Ok(())
}

/// The controller of these tests does not know that all agents can read without writing, and an older one would crash.
#[tokio::test]
async fn no_cluster_is_asked_whose_agent_may_be_too_old_and_it_is_blocked_where_an_answer_is_required()
-> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"preflight": {"mode": "Require"}})).await?;
    let row = s
        .up()
        .row_until(s.c(1), "blocked", |row| row.phase == Phase::Blocked)
        .await?;
    assert_eq!(row.reason, "PreflightUnsupported");
    assert!(row.message.contains("--agents-support-read-only"), "{row:?}");
    assert_eq!(s.created(1, Platform), 0);
    let label = json!({"metadata": {"labels": {LABEL_AGENT_VERSION: "v1.2.1"}}});
    managed_clusters(&s)
        .patch(s.c(1), &PatchParams::default(), &Patch::Merge(label))
        .await?;
    s.up()
        .row_until(s.c(1), "asked", |row| row.reason == "PreflightPending")
        .await?;
    s.edit(json!({"preflight": {"mode": "Report"}})).await?;
    s.work(1, Platform).await?;
    Ok(())
}
