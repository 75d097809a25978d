//! Bad input is refused at admission, with a message that names the field and the remedy.

use anyhow::Result;
use serde_json::{Value, json};

use crate::installed::{installed, spec_with, try_create};

/// Sends each spec; all must be refused with a message that has all the phrases.
async fn refused(cases: &[(Value, &[&str])]) -> Result<()> {
    let admin = installed().await?.admin().await?;
    let mut wrong = Vec::new();
    for (spec, phrases) in cases {
        match try_create(&admin, "default", "bad", spec).await {
            Ok(stored) => wrong.push(format!("{spec} was admitted as {stored}")),
            Err(message) => {
                let missing = phrases.iter().filter(|phrase| !message.contains(**phrase));
                wrong.extend(missing.map(|phrase| format!("{spec}: no {phrase:?} in: {message}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn strategy(field: &str, value: impl Into<Value>) -> Value {
    let mut strategy = serde_json::Map::new();
    strategy.insert(field.to_owned(), value.into());
    spec_with(json!({"upgradeStrategy": strategy}))
}

fn action(manifest: &Value) -> Value {
    spec_with(json!({"preUpgradeAction": {"manifestWork": {"workload": {"manifests": [manifest]}}}}))
}

fn selector(expression: &Value) -> Value {
    spec_with(json!({"clusterSelector": {"matchExpressions": [expression]}}))
}

#[tokio::test]
async fn an_omitted_or_null_strategy_gets_the_defaults() -> Result<()> {
    let admin = installed().await?.admin().await?;
    let defaults =
        json!({"clusterUpgradeTimeout": "3h", "maxConcurrency": 10, "operatorsUpgradeTimeout": "20m"});
    for spec in [
        spec_with(json!({})),
        spec_with(json!({"upgradeStrategy": null})),
        spec_with(json!({"upgradeStrategy": {}})),
        spec_with(json!({"upgradeStrategy": {"maxConcurrency": null, "clusterUpgradeTimeout": null}})),
    ] {
        let stored = try_create(&admin, "default", "good", &spec)
            .await
            .map_err(anyhow::Error::msg)?;
        assert_eq!(stored["spec"]["upgradeStrategy"], defaults, "{spec}");
    }
    let some = strategy("maxConcurrency", "25%");
    let stored = try_create(&admin, "default", "good", &some)
        .await
        .map_err(anyhow::Error::msg)?;
    assert_eq!(stored["spec"]["upgradeStrategy"]["maxConcurrency"], "25%");
    assert_eq!(
        stored["spec"]["upgradeStrategy"]["operatorsUpgradeTimeout"],
        "20m"
    );
    Ok(())
}

#[tokio::test]
async fn durations_that_are_no_go_durations_above_zero_are_refused() -> Result<()> {
    const OPERATORS: &str = "spec.upgradeStrategy.operatorsUpgradeTimeout";
    let cluster: &[&str] = &[
        "spec.upgradeStrategy.clusterUpgradeTimeout",
        "such as 90m, 2h or 1h30m (days are not a unit)",
    ];
    let mut cases = Vec::new();
    for text in ["2d", "-1h", "abc", "0", "0s", "1h-30m", "9000h"] {
        cases.push((strategy("clusterUpgradeTimeout", text), cluster));
    }
    let soak: &[&str] = &["spec.upgradeStrategy.minSuccessTime", "such as 10m or 1h30m"];
    cases.push((
        strategy("operatorsUpgradeTimeout", "2d"),
        &[OPERATORS, "days are not a unit"],
    ));
    cases.push((
        strategy("operatorsUpgradeTimeout", 0),
        &[OPERATORS, "must be of type string"],
    ));
    cases.push((strategy("minSuccessTime", "-1h"), soak));
    refused(&cases).await
}

#[tokio::test]
async fn a_concurrency_below_one_or_above_all_clusters_is_refused() -> Result<()> {
    let mut cases: Vec<(Value, &[&str])> = Vec::new();
    for value in [
        json!(0),
        json!(-1),
        json!("0%"),
        json!("150%"),
        json!("-5%"),
        json!("ten"),
    ] {
        cases.push((
            strategy("maxConcurrency", value),
            &[
                "spec.upgradeStrategy.maxConcurrency",
                "must be a number of clusters of at least 1, or a percentage from 1% to 100% such as 25%",
            ],
        ));
    }
    for value in [json!(-1), json!("101%"), json!("few")] {
        cases.push((
            strategy("maxFailures", value),
            &[
                "spec.upgradeStrategy.maxFailures",
                "at least 0, or a percentage from 0% to 100%",
            ],
        ));
    }
    refused(&cases).await
}

#[tokio::test]
async fn an_upgrade_that_would_do_nothing_is_refused() -> Result<()> {
    let nothing: &[&str] = &[
        "spec: Invalid value: nothing to do",
        "set spec.clusterVersion, or spec.ocpOperators.approveAllUpgrades, or name operators in spec.ocpOperators.include",
    ];
    refused(&[
        (json!({}), nothing),
        (json!({"ocpOperators": {}}), nothing),
        (json!({"clusterVersion": null}), nothing),
        (
            json!({"ocpOperators": {"approveAllUpgrades": false, "include": []}}),
            nothing,
        ),
        (
            json!({"ocpOperators": {"exclude": [{"name": "a", "namespace": "b"}]}}),
            nothing,
        ),
    ])
    .await
}

#[tokio::test]
async fn a_release_without_version_and_image_or_with_a_malformed_one_is_refused() -> Result<()> {
    let version: &[&str] = &[
        "spec.clusterVersion.version",
        "must be a full semantic version such as 4.20.0, without a leading v",
    ];
    let neither: &[&str] = &["spec.clusterVersion", "set version (such as 4.20.0) or image"];
    refused(&[
        (json!({"clusterVersion": {}}), neither),
        (json!({"clusterVersion": {"channel": "stable-4.12"}}), neither),
        (json!({"clusterVersion": {"version": "", "image": ""}}), neither),
        (json!({"clusterVersion": {"version": "v4.12"}}), version),
        (json!({"clusterVersion": {"version": "v4.12.0"}}), version),
        (json!({"clusterVersion": {"version": "4.12"}}), version),
        (
            json!({"clusterVersion": {"version": "4.12.0", "upstream": "ftp://graph"}}),
            &["spec.clusterVersion.upstream", "must be an http or https URL"],
        ),
    ])
    .await
}

#[tokio::test]
async fn operators_without_namespace_or_named_twice_are_refused() -> Result<()> {
    let include = |list: Value| json!({"ocpOperators": {"include": list}});
    let one = json!({"name": "logging", "namespace": "openshift-logging"});
    refused(&[
        (
            include(json!([{"name": "logging"}])),
            &["spec.ocpOperators.include[0].namespace", "Required value"],
        ),
        (
            include(json!([{"name": "logging", "namespace": ""}])),
            &[
                "spec.ocpOperators.include[0].namespace",
                "must be the namespace of a Subscription",
            ],
        ),
        (
            include(json!([{"name": "Logging, all", "namespace": "x"}])),
            &[
                "spec.ocpOperators.include[0].name",
                "must be the name of a Subscription",
            ],
        ),
        (
            include(json!([one, one])),
            &["spec.ocpOperators.include[1]", "Duplicate value"],
        ),
    ])
    .await
}

#[tokio::test]
async fn selectors_with_an_unknown_operator_or_unfit_values_are_refused() -> Result<()> {
    let values = "values must name at least one value for operator In or NotIn";
    let at = "spec.clusterSelector.matchExpressions[0]";
    refused(&[
        (
            selector(&json!({"key": "env", "operator": "Is", "values": ["dev"]})),
            &[
                "spec.clusterSelector.matchExpressions[0].operator",
                "supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\"",
            ],
        ),
        (selector(&json!({"key": "env", "operator": "In"})), &[at, values]),
        (
            selector(&json!({"key": "env", "operator": "NotIn", "values": []})),
            &[at, values],
        ),
        (
            selector(&json!({"key": "env", "operator": "Exists", "values": ["x"]})),
            &[at, "left out for Exists"],
        ),
    ])
    .await
}

#[tokio::test]
async fn actions_with_unnamed_or_no_manifests_are_refused() -> Result<()> {
    let unnamed: &[&str] = &[
        "spec.preUpgradeAction.manifestWork.workload.manifests",
        "every manifest needs metadata.name",
    ];
    refused(&[
        (action(&json!({"apiVersion": "v1", "kind": "ConfigMap"})), unnamed),
        (
            action(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "x"}})),
            unnamed,
        ),
        (
            action(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}})),
            unnamed,
        ),
        (
            action(&json!({"metadata": {"name": "x"}})),
            &[
                "spec.preUpgradeAction.manifestWork.workload.manifests[0].kind",
                "Required value",
            ],
        ),
        (
            spec_with(json!({"postUpgradeAction": {"manifestWork": {"workload": {"manifests": []}}}})),
            &[
                "spec.postUpgradeAction.manifestWork.workload.manifests",
                "at least 1 items",
            ],
        ),
    ])
    .await
}

#[tokio::test]
async fn newer_fields_of_a_manifest_work_survive_in_an_action() -> Result<()> {
    let admin = installed().await?.admin().await?;
    let work = json!({
        "deleteOption": {"propagationPolicy": "Orphan"},
        "fieldOfTomorrow": {"a": [1, 2]},
        "workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}}]},
    });
    let spec = spec_with(json!({"postUpgradeAction": {"manifestWork": work}}));
    let stored = try_create(&admin, "default", "good", &spec)
        .await
        .map_err(anyhow::Error::msg)?;
    assert_eq!(stored["spec"]["postUpgradeAction"]["manifestWork"], work);
    Ok(())
}

#[tokio::test]
async fn a_name_of_64_characters_is_refused_and_one_of_63_admitted() -> Result<()> {
    let admin = installed().await?.admin().await?;
    let spec = spec_with(json!({}));
    let refused = try_create(&admin, "default", &"a".repeat(64), &spec).await;
    let message = refused.err().unwrap_or_default();
    assert!(
        message.contains("metadata.name must be at most 63 characters"),
        "{message}"
    );
    try_create(&admin, "default", &"a".repeat(63), &spec)
        .await
        .map_err(anyhow::Error::msg)?;
    Ok(())
}
