//! The admission policy of the hub: only those who may upgrade the hub can name it in a selector.

use anyhow::Result;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::actors::denied;
use crate::installed::{EDITOR, HUB_UPGRADER, installed, spec_with, try_create, upgrade, upgrades};

/// Selectors that name the hub.
fn naming() -> Vec<Value> {
    let expression = |key: &str, operator: &str, values: &[&str]| {
        json!({"matchExpressions": [{"key": "env", "operator": "Exists"},
            {"key": key, "operator": operator, "values": values}]})
    };
    vec![
        json!({"matchLabels": {"name": "local-cluster"}}),
        json!({"matchLabels": {"env": "x", "metadata.name": "local-cluster"}}),
        json!({"matchLabels": {"local-cluster": "true"}}),
        expression("name", "In", &["spoke1", "local-cluster"]),
        expression("metadata.name", "In", &["local-cluster"]),
        expression("local-cluster", "In", &["true"]),
        expression("local-cluster", "Exists", &[]),
    ]
}

/// Selectors that do not.
fn others() -> Vec<Value> {
    vec![
        json!({}),
        json!({"matchLabels": {"name": "spoke1", "env": "local-cluster"}}),
        json!({"matchExpressions": [{"key": "local-cluster", "operator": "DoesNotExist"}]}),
        json!({"matchExpressions": [{"key": "local-cluster", "operator": "NotIn", "values": ["true"]}]}),
        json!({"matchExpressions": [{"key": "name", "operator": "NotIn", "values": ["local-cluster"]}]}),
        json!({"matchExpressions": [{"key": "name", "operator": "Exists"}]}),
    ]
}

fn as_selector(selector: &Value) -> Value {
    spec_with(json!({"clusterSelector": selector}))
}

fn as_canaries(selector: &Value) -> Value {
    spec_with(json!({"upgradeStrategy": {"canaryClusters": {"clusterSelector": selector}}}))
}

async fn patch(client: &Client, name: &str, change: Value) -> Result<(), String> {
    let done = upgrades(client, "team-a")
        .patch(name, &PatchParams::default(), &Patch::Merge(change))
        .await;
    done.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn an_upgrade_that_names_the_hub_is_for_those_who_may_upgrade_it() -> Result<()> {
    let installed = installed().await?;
    let (editor, upgrader) = (
        installed.as_user(EDITOR).await?,
        installed.as_user(HUB_UPGRADER).await?,
    );
    for selector in naming() {
        for (field, spec) in [
            ("spec.clusterSelector: names the hub", as_selector(&selector)),
            (
                "spec.upgradeStrategy.canaryClusters.clusterSelector: names the hub",
                as_canaries(&selector),
            ),
        ] {
            denied(
                try_create(&editor, "team-a", "x", &spec).await,
                &[
                    field,
                    "edith may not upgrade",
                    "take the keys and values that name local-cluster out, or ask for upgrade on managedclusters",
                ],
            );
            try_create(&upgrader, "team-a", "x", &spec)
                .await
                .map_err(anyhow::Error::msg)?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_upgrade_that_does_not_name_the_hub_needs_no_permission() -> Result<()> {
    let editor = installed().await?.as_user(EDITOR).await?;
    for selector in others() {
        for spec in [as_selector(&selector), as_canaries(&selector)] {
            try_create(&editor, "team-a", "x", &spec)
                .await
                .map_err(anyhow::Error::msg)?;
        }
    }
    Ok(())
}

/// Policies have a budget of computing, and a request that exceeds it is denied.
#[tokio::test]
async fn a_selector_of_ten_thousand_names_is_within_the_policys_budget() -> Result<()> {
    let editor = installed().await?.as_user(EDITOR).await?;
    let mut names: Vec<String> = (0..10_000).map(|number| format!("edge-{number:05}")).collect();
    let selector =
        |names: &[String]| json!({"matchExpressions": [{"key": "name", "operator": "In", "values": names}]});
    let spec = as_selector(&selector(&names));
    try_create(&editor, "team-a", "x", &spec)
        .await
        .map_err(anyhow::Error::msg)?;
    upgrades(&editor, "team-a")
        .create(&PostParams::default(), &upgrade("of-ten-thousand", &spec))
        .await?;
    names[0] = "edge-x".to_owned();
    let other = json!({"spec": {"clusterSelector": selector(&names)}});
    patch(&editor, "of-ten-thousand", other)
        .await
        .map_err(anyhow::Error::msg)?;
    names[9_999] = "local-cluster".to_owned();
    denied(
        try_create(&editor, "team-a", "x", &as_selector(&selector(&names))).await,
        &["spec.clusterSelector", "edith may not upgrade"],
    );
    Ok(())
}

#[tokio::test]
async fn what_an_upgrade_does_on_the_hub_is_changed_by_those_alone_who_may_upgrade_it() -> Result<()> {
    let installed = installed().await?;
    let (editor, upgrader) = (
        installed.as_user(EDITOR).await?,
        installed.as_user(HUB_UPGRADER).await?,
    );
    let ok = anyhow::Error::msg;
    let spec = as_selector(&json!({"matchLabels": {"name": "spoke1"}}));
    upgrades(&editor, "team-a")
        .create(&PostParams::default(), &upgrade("of-the-hub", &spec))
        .await?;
    let hub = json!({"spec": {"clusterSelector": {"matchLabels": {"name": "local-cluster"}}}});
    denied(
        patch(&editor, "of-the-hub", hub.clone()).await,
        &["spec.clusterSelector", "edith may not upgrade"],
    );
    patch(&upgrader, "of-the-hub", hub).await.map_err(ok)?;

    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    for change in [
        json!({"preUpgradeAction": {"manifestWork": {"workload": {"manifests": [manifest]}}}}),
        json!({"postUpgradeAction": {"manifestWork": {"workload": {"manifests": [manifest]}}}}),
        json!({"clusterVersion": {"version": "4.13.0"}}),
        json!({"ocpOperators": {"approveAllUpgrades": true}}),
        json!({"placement": [{"name": "p"}]}),
        json!({"preflight": {"mode": "Report"}}),
    ] {
        denied(
            patch(&editor, "of-the-hub", json!({"spec": change})).await,
            &["spec.clusterSelector", "edith may not upgrade"],
        );
    }
    for change in [
        json!({"spec": {"paused": true}}),
        json!({"spec": {"upgradeStrategy": {"maxConcurrency": 1}}}),
        json!({"metadata": {"annotations": {"note": "x"}}}),
    ] {
        patch(&editor, "of-the-hub", change).await.map_err(ok)?;
    }
    let skip = |clusters: Value| json!({"spec": {"upgradeStrategy": {"skip": clusters}}});
    let left_out = skip(json!([{"cluster": "local-cluster", "reason": "later"}]));
    patch(&editor, "of-the-hub", left_out).await.map_err(ok)?;
    denied(
        patch(&editor, "of-the-hub", skip(json!([]))).await,
        &["spec.clusterSelector", "edith may not upgrade"],
    );
    patch(&upgrader, "of-the-hub", skip(json!([])))
        .await
        .map_err(ok)?;
    let controller = installed.controller.client().await?;
    for finalizers in [json!([api::names::FINALIZER]), json!([])] {
        patch(
            &controller,
            "of-the-hub",
            json!({"metadata": {"finalizers": finalizers}}),
        )
        .await
        .map_err(ok)?;
    }
    Ok(())
}

/// The hub may be under way: it goes through all its steps though it is selected no more, and gets the new action.
#[tokio::test]
async fn an_upgrade_is_taken_away_from_the_hub_by_those_alone_who_may_upgrade_it() -> Result<()> {
    let installed = installed().await?;
    let (editor, upgrader) = (
        installed.as_user(EDITOR).await?,
        installed.as_user(HUB_UPGRADER).await?,
    );
    let ok = anyhow::Error::msg;
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let action = json!({"manifestWork": {"workload": {"manifests": [manifest]}}});
    let (hub, other) = (
        json!({"matchLabels": {"name": "local-cluster"}}),
        json!({"matchLabels": {"name": "spoke1"}}),
    );
    let canaries =
        |selector: &Value| json!({"upgradeStrategy": {"canaryClusters": {"clusterSelector": selector}}});
    for (name, field, spec, away) in [
        (
            "from-the-hub",
            "spec.clusterSelector: names the hub",
            as_selector(&hub),
            vec![
                json!({"clusterSelector": other}),
                json!({"clusterSelector": null, "placement": [{"name": "p"}]}),
            ],
        ),
        (
            "from-the-hubs-canary",
            "spec.upgradeStrategy.canaryClusters.clusterSelector: names the hub",
            as_canaries(&hub),
            vec![canaries(&other), json!({"upgradeStrategy": null})],
        ),
    ] {
        upgrades(&upgrader, "team-a")
            .create(&PostParams::default(), &upgrade(name, &spec))
            .await?;
        for alone in &away {
            let mut with_action = alone.clone();
            with_action["postUpgradeAction"] = action.clone();
            for change in [alone, &with_action] {
                denied(
                    patch(&editor, name, json!({"spec": change})).await,
                    &[
                        field,
                        "before this change or after it, which edith may not upgrade",
                        "leave what the upgrade selects and does as it is (to pause or delete it is allowed), or ask for",
                    ],
                );
            }
        }
        patch(&editor, name, json!({"spec": {"paused": true}}))
            .await
            .map_err(ok)?;
        patch(&upgrader, name, json!({"spec": away[0]}))
            .await
            .map_err(ok)?;
        patch(&editor, name, json!({"spec": {"postUpgradeAction": action}}))
            .await
            .map_err(ok)?;
        patch(&upgrader, name, json!({"spec": spec})).await.map_err(ok)?;
        upgrades(&editor, "team-a")
            .delete(name, &DeleteParams::default())
            .await?;
    }
    Ok(())
}
