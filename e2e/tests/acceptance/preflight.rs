//! What clusters are asked before they start: what admission refuses, and what a hub without newer agents does.
//!
//! The answers of real agents are in the fleet of real spokes.

use anyhow::Result;
use api::names::LABEL_AGENT_VERSION;
use api::names::Step::Platform;
use api::report::Phase;
use e2e::Scenario;
use e2e::agent::{condition, status};
use e2e::view::Kind;
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

/// The controller of these tests does not know that all agents can read without writing, and an older one would panic.
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

/// How long, and how often in a second, one cluster changes what it says.
const FLAPPING: std::time::Duration = std::time::Duration::from_secs(12);
const A_SECOND: u32 = 10;

/// What the agent reports of a probe: the values of the ClusterVersion and its message about the target.
fn says(probe: &Value, channel: &Value, offer: &str) -> Value {
    let values = [
        ("desiredVersion", json!("4.11.0")),
        ("channel", channel.clone()),
        ("progressing", json!("False")),
        ("failing", json!("False")),
        ("retrievedUpdates", json!("True")),
    ];
    let mut said = status(probe, 1, &[], &values);
    let rules = [
        ("UpgradeOffer", offer),
        ("UpgradeGates", "keys/1"),
        ("UpgradeAcks", "keys/1"),
    ];
    for (number, (rule, message)) in rules.into_iter().enumerate() {
        let conditions = &mut said["resourceStatus"]["manifests"][number]["conditions"];
        if let Some(conditions) = conditions.as_array_mut() {
            conditions.push(condition(
                "Available",
                "True",
                "ResourceAvailable",
                "Resource is available",
            ));
            conditions.push(condition(rule, "True", "ConditionRulesAggregated", message));
        }
    }
    said
}

#[tokio::test]
async fn a_cluster_that_changes_its_answers_all_the_time_costs_its_own_start_and_no_storm_of_writes()
-> Result<()> {
    let s = Scenario::new(2).await?;
    for number in [1, 2] {
        let label = json!({"metadata": {"labels": {LABEL_AGENT_VERSION: "v1.2.1"}}});
        managed_clusters(&s)
            .patch(s.c(number), &PatchParams::default(), &Patch::Merge(label))
            .await?;
    }
    s.create(json!({"preflight": {"mode": "Require"}})).await?;
    let name = |number: usize| format!("{}-upgrade-preflight", s.c(number));
    let mut probes = Vec::new();
    for number in [1, 2] {
        let probe = s.wait("a probe", |known| {
            known.live(Kind::Work, s.c(number), &name(number)).cloned()
        });
        probes.push(probe.await?);
    }
    let channel = s.spec()["clusterVersion"]["channel"].clone();
    let good = format!("offer/1\nlisted quay.io/r@sha256:{}", "a".repeat(64));
    let huge = format!("offer/1\nupdate False x\nrisk T {}", "Slow ".repeat(6_000));
    let unknown = "offer/1\nupdate Unknown quay.io/r@sha256:b\nrisk U Slow It is slow.";
    let answers = ["offer/1", &huge, "nonsense", unknown];
    let tell = async |number: usize, said: Value| {
        let api = s.api(Kind::Work, s.c(number));
        let change = Patch::Merge(json!({"status": said}));
        api.patch_status(&name(number), &PatchParams::default(), &change)
            .await
    };
    tell(1, says(&probes[0], &channel, &good)).await?;
    let begun = std::time::Instant::now();
    let mut told = 0;
    let mut ticks = tokio::time::interval(std::time::Duration::from_secs(1) / A_SECOND);
    while begun.elapsed() < FLAPPING {
        ticks.tick().await;
        let answer = answers[told % answers.len()];
        let channel = if told.is_multiple_of(3) {
            json!(7)
        } else {
            channel.clone()
        };
        tell(2, says(&probes[1], &channel, answer)).await?;
        told += 1;
    }
    let seconds = usize::try_from(begun.elapsed().as_secs())? + 1;
    s.work(1, Platform).await?;
    assert_eq!(s.created(2, Platform), 0, "it never started");
    let written = s.test_hub().view().look(|known| {
        let versions = |kind, name: &str| {
            let track = known.track(kind, s.id(), name);
            track.map_or(0, |track| track.versions.len())
        };
        let probes = known
            .track(Kind::Work, s.c(2), &name(2))
            .map_or(0, |track| track.uids.len());
        (
            versions(Kind::Upgrade, "up"),
            versions(Kind::Report, "up-report-1"),
            probes,
        )
    });
    assert_eq!(written.2, 1, "its probe stays the same");
    for (what, count) in [("status", written.0), ("report", written.1)] {
        assert!(
            count <= seconds + 6,
            "{told} answers in {seconds} s made {count} versions of the {what}\n{}",
            s.dump()
        );
    }
    tell(2, says(&probes[1], &s.spec()["clusterVersion"]["channel"], &good)).await?;
    s.work(2, Platform).await?;
    Ok(())
}
