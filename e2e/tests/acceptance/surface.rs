//! What a user sees besides the status: columns, events, metrics, health.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::names::Step::PreAction;
use e2e::{Scenario, TestHub, WorldOptions, sample};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::json;
use testenv::hub::wait_until;
use tokio::sync::OnceCell;

#[tokio::test]
async fn kubectl_get_shows_target_state_and_progress() -> Result<()> {
    let s = Scenario::new(2).await?;
    let players = s.play(&[1]);
    s.create(json!({})).await?;
    s.until("one done", |seen| seen.clusters().complete == 1).await?;
    drop(players);
    let hub = s.test_hub().hub();
    let table = hub.kubectl(&["get", "mcu", "-n", s.id()]).await?;
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        ["NAME", "TARGET", "STATE", "DONE", "FAILED", "REASON", "AGE"],
        "{table}"
    );
    assert_eq!(
        lines[1][..6],
        ["up", "4.12.0", "Upgrading", "1/2", "0", "UpgradeRunning"],
        "{table}"
    );
    let wide = hub
        .kubectl(&["get", "managedclustersupgrades", "-n", s.id(), "-o", "wide"])
        .await?;
    for text in ["SLOTS", "CANARIES", "MESSAGE", "1/10", "1 of 2 complete"] {
        assert!(wide.contains(text), "{text}: {wide}");
    }
    s.up().row_until(s.c(1), "there", |_| true).await?;
    let reports = hub.kubectl(&["get", "mcur", "-n", s.id()]).await?;
    let first = reports.lines().find(|line| line.starts_with("up-report-1 "));
    let first: Vec<&str> = first.unwrap_or_default().split_whitespace().collect();
    assert_eq!(first[1..5], ["up", "2", "1", "0"], "{reports}");
    let explained = hub
        .kubectl(&["explain", "mcu.spec.upgradeStrategy.maxFailures"])
        .await?;
    assert!(explained.contains("How many clusters may fail"), "{explained}");
    Ok(())
}

/// Events are limited in number over all upgrades of a controller, so their tests have one for themselves.
async fn quiet(count: usize) -> Result<Scenario> {
    static QUIET: OnceCell<Arc<TestHub>> = OnceCell::const_new();
    let options = WorldOptions {
        controller: true,
        ..WorldOptions::default()
    };
    let test_hub = QUIET.get_or_try_init(|| TestHub::start(options)).await?;
    Scenario::on(test_hub, count).await
}

async fn event_reasons(s: &Scenario) -> Result<BTreeSet<String>> {
    let events: Api<Event> = Api::namespaced(s.client().clone(), s.id());
    let all = events.list(&ListParams::default()).await?;
    Ok(all.items.into_iter().filter_map(|event| event.reason).collect())
}

async fn until_events(s: &Scenario, wanted: &[&str]) -> Result<()> {
    wait_until(&format!("events {wanted:?}"), e2e::WAIT_TIMEOUT, || async {
        let reasons = event_reasons(s).await?;
        Ok(wanted.iter().all(|reason| reasons.contains(*reason)))
    })
    .await
    .with_context(|| s.dump())
}

#[tokio::test]
async fn the_story_of_an_upgrade_is_told_by_events() -> Result<()> {
    let s = quiet(2).await?;
    s.create(json!({"upgradeStrategy": {"canaryClusters": sample::canaries(&s.some(&[1]))}}))
        .await?;
    until_events(&s, &["Selected", "Started"]).await?;
    s.edit(json!({"paused": true})).await?;
    until_events(&s, &["Paused"]).await?;
    s.edit(json!({"paused": false})).await?;
    until_events(&s, &["Resumed"]).await?;
    let players = s.play_all();
    s.complete().await?;
    drop(players);
    until_events(&s, &["CanariesComplete", "Completed"]).await?;
    let events: Api<Event> = Api::namespaced(s.client().clone(), s.id());
    for event in events.list(&ListParams::default()).await?.items {
        let regarding = event.regarding.context("it regards the upgrade")?;
        assert_eq!(
            (regarding.kind.as_deref(), regarding.name.as_deref()),
            (Some("ManagedClustersUpgrade"), Some("up"))
        );
    }
    Ok(())
}

#[tokio::test]
async fn failures_are_told_by_events_per_cluster() -> Result<()> {
    let s = quiet(2).await?;
    let strategy = json!({"clusterUpgradeTimeout": "4s"});
    s.create(json!({"preUpgradeAction": sample::action("backup"), "upgradeStrategy": strategy}))
        .await?;
    s.agent(1).degraded(PreAction).await?;
    s.agent(2).available(PreAction).await?;
    s.until("both are out", |seen| {
        seen.clusters().failed == 1 && seen.pre().degraded == 1
    })
    .await?;
    until_events(&s, &["ClusterFailed", "PreActionDegraded", "Stalled"]).await?;
    let events: Api<Event> = Api::namespaced(s.client().clone(), s.id());
    let failed = events.list(&ListParams::default()).await?.items.into_iter();
    let notes: Vec<String> = failed
        .filter(|event| event.reason.as_deref() == Some("ClusterFailed"))
        .filter_map(|event| event.note)
        .collect();
    assert!(notes.iter().any(|note| note.contains(s.c(2))), "{notes:?}");
    s.up().retry("1").await?;
    until_events(&s, &["Retrying"]).await
}

#[tokio::test]
async fn metrics_and_health_are_served() -> Result<()> {
    let s = Scenario::new(1).await?;
    let players = s.play_all();
    s.create(json!({})).await?;
    s.complete().await?;
    drop(players);
    let controller = s.test_hub().own_controller()?;
    let (code, text) = controller.get("/metrics").await?;
    assert_eq!(code, 200);
    for name in [
        "mcu_reconcile_total",
        "mcu_plan_duration_seconds_bucket",
        "mcu_clusters{",
        "mcu_upgrades{",
        "mcu_actions_total",
        "mcu_status_bytes_bucket",
        "mcu_index_objects",
        "mcu_leader",
        "mcu_build_info",
        "process_resident_memory_bytes",
    ] {
        assert!(text.contains(name), "{name} is missing");
    }
    assert!(!text.contains(s.c(1)), "no cluster name in a label");
    let violations = text
        .lines()
        .find(|line| line.starts_with("mcu_check_violations_total"));
    assert_eq!(
        violations,
        Some("mcu_check_violations_total 0"),
        "no plan broke its check in any test"
    );
    for path in ["/livez", "/readyz"] {
        assert_eq!(controller.get(path).await?.0, 200, "{path}");
    }
    Ok(())
}

/// RBAC: what `deploy/` grants is enough for everything that any test made the controller do so far.
#[tokio::test]
async fn the_controller_is_never_forbidden_anything() -> Result<()> {
    let s = Scenario::new(1).await?;
    let players = s.play_all();
    s.create(
        json!({"preUpgradeAction": sample::action("backup"), "upgradeStrategy": {"minSuccessTime": "1s"}}),
    )
    .await?;
    s.complete().await?;
    drop(players);
    s.up().delete().await?;
    s.up().gone().await?;
    let log = s
        .test_hub()
        .hub()
        .audit_log()
        .context("the shared hub is audited")?;
    let account = "system:serviceaccount:mcu-system:mcu-controller";
    let mut requests = 0;
    for line in std::fs::read_to_string(log)?.lines() {
        // The last line may be half written.
        let Ok(event) = serde_json::from_str::<serde_json::Value>(line) else {
            continue;
        };
        if event["user"]["username"] != account {
            continue;
        }
        requests += 1;
        let decision = &event["annotations"]["authorization.k8s.io/decision"];
        assert_ne!(decision, "forbid", "{line}");
        assert_ne!(event["objectRef"]["resource"], "secrets", "{line}");
    }
    assert!(requests > 20, "{requests} requests");
    Ok(())
}
