//! What admission refuses, with words that name field and remedy.

use anyhow::{Context as _, Result};
use api::time::{parse_rfc3339, to_chrono};
use chrono::TimeDelta;
use e2e::{Scenario, sample};
use serde_json::{Value, json};

async fn refusal(s: &Scenario, change: Value) -> Result<String> {
    s.up().refused(change).await
}

#[tokio::test]
async fn timeouts_that_are_no_positive_duration_are_refused() -> Result<()> {
    let s = Scenario::new(1).await?;
    for field in [
        "actionTimeout",
        "clusterUpgradeTimeout",
        "operatorsUpgradeTimeout",
    ] {
        for wrong in [
            json!("2d"),
            json!("abc"),
            json!(0),
            json!("0s"),
            json!("-1h"),
            json!(""),
        ] {
            let said = refusal(&s, json!({"upgradeStrategy": {field: wrong}})).await?;
            assert!(said.contains(field), "{wrong}: {said}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_concurrency_below_one_is_refused() -> Result<()> {
    let s = Scenario::new(1).await?;
    for wrong in [
        json!(0),
        json!(-1),
        json!("0%"),
        json!("150%"),
        json!("many"),
        json!("10"),
    ] {
        let said = refusal(&s, json!({"upgradeStrategy": {"maxConcurrency": wrong}})).await?;
        assert!(said.contains("maxConcurrency"), "{wrong}: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn without_a_strategy_the_defaults_are_in_the_object() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"paused": true})).await?;
    let seen = s.until("seen", |_| true).await?;
    let strategy = &seen.raw["spec"]["upgradeStrategy"];
    assert_eq!(strategy["maxConcurrency"], 10);
    assert_eq!(strategy["clusterUpgradeTimeout"], "3h");
    assert_eq!(strategy["operatorsUpgradeTimeout"], "20m");
    assert_eq!(seen.status.effective_max_concurrency, Some(10));
    Ok(())
}

/// Every change is refused, with all its words.
async fn refused_with(s: &Scenario, cases: Vec<(Value, Vec<&str>)>) -> Result<()> {
    for (change, words) in cases {
        let said = refusal(s, change.clone()).await?;
        for word in words {
            assert!(said.contains(word), "{change}: no {word:?} in {said}");
        }
    }
    Ok(())
}

/// Our CRD takes it, the hub does not.
fn bogus_action() -> Value {
    let mut action = sample::action("backup");
    action["manifestWork"]["deleteOption"] = json!({"propagationPolicy": "Bogus"});
    action
}

/// Each refusal names its field.
#[tokio::test]
async fn a_spec_that_cannot_work_is_refused_with_its_field() -> Result<()> {
    let s = Scenario::new(1).await?;
    let unnamed = json!({"manifestWork": {"workload": {"manifests": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default"}}]}}});
    let selector = |operator: &str| json!({"matchExpressions": [{"key": "name", "operator": operator, "values": ["x"]}]});
    let cases = vec![
        (
            json!({"clusterVersion": null}),
            vec!["nothing to do", "clusterVersion", "include"],
        ),
        (
            json!({"clusterVersion": null, "ocpOperators": {"approveAllUpgrades": false}}),
            vec!["nothing to do"],
        ),
        (
            json!({"clusterVersion": {"version": null}}),
            vec!["clusterVersion", "image"],
        ),
        (
            json!({"clusterVersion": {"version": "v4.12.0"}}),
            vec!["clusterVersion.version", "leading v"],
        ),
        (
            json!({"clusterVersion": {"version": "4.12"}}),
            vec!["clusterVersion.version", "4.20.0"],
        ),
        (
            json!({"clusterVersion": {"upstream": "updates"}}),
            vec!["clusterVersion.upstream", "URL"],
        ),
        (
            json!({"ocpOperators": {"include": [{"name": "gitops"}]}}),
            vec!["include", "namespace"],
        ),
        (
            json!({"clusterSelector": selector("Like")}),
            vec!["operator", "Like"],
        ),
        (
            json!({"clusterSelector": selector("Exists")}),
            vec!["matchExpressions", "values"],
        ),
        (
            json!({"upgradeStrategy": {"maxFailures": -1}}),
            vec!["maxFailures"],
        ),
        (
            json!({"upgradeStrategy": {"minSuccessTime": "-5m"}}),
            vec!["minSuccessTime"],
        ),
        (
            json!({"preUpgradeAction": unnamed}),
            vec!["preUpgradeAction", "name"],
        ),
    ];
    refused_with(&s, cases).await
}

/// They would select nothing or, under `NotIn` and `DoesNotExist`, everything.
#[tokio::test]
async fn names_that_cannot_exist_are_refused_with_their_field() -> Result<()> {
    let s = Scenario::new(1).await?;
    let cases = vec![
        (
            json!({"placement": [{"name": "Dev clusters"}]}),
            vec!["placement[0].name", "must be the name of a Placement"],
        ),
        (
            json!({"placement": [{"name": "dev", "namespace": "team.a"}]}),
            vec!["placement[0].namespace", "must be the namespace of a Placement"],
        ),
        (
            json!({"clusterSelector": {"clusterSets": ["dev", "Dev set"]}}),
            vec!["clusterSets", "must be names of ManagedClusterSets"],
        ),
        (
            json!({"clusterSelector": {"matchExpressions": [{"key": "gpu type", "operator": "DoesNotExist"}]}}),
            vec!["matchExpressions[0].key", "must be a label key"],
        ),
        (
            json!({"clusterVersion": {"channel": "stable 4.12"}}),
            vec!["clusterVersion.channel", "white space"],
        ),
        (
            json!({"clusterVersion": {"image": "quay.io/ocp /release"}}),
            vec!["clusterVersion.image", "white space"],
        ),
        (
            json!({"clusterVersion": {"version": "4.12.99999999999999999999"}}),
            vec!["clusterVersion.version", "4.20.0"],
        ),
    ];
    refused_with(&s, cases).await
}

/// They are written into works and shown on terminals.
#[tokio::test]
async fn channel_upstream_and_image_are_refused_with_anything_but_printable_ascii() -> Result<()> {
    let s = Scenario::new(1).await?;
    let many = "\u{e9}".repeat(600);
    for (field, start) in [
        ("channel", "stable"),
        ("upstream", "https://a/"),
        ("image", "quay.io/r"),
    ] {
        let tails = [
            "\u{1b}[2J",
            "\u{7f}",
            "\u{9b}2J",
            "\u{202e}",
            "\u{a0}",
            "\u{e9}",
            "\n",
            " ",
        ];
        for tail in tails {
            let said = refusal(&s, json!({"clusterVersion": {field: format!("{start}{tail}")}})).await?;
            for word in [field, "printable ASCII"] {
                assert!(said.contains(word), "{field} {tail:?}: no {word:?} in {said}");
            }
        }
    }
    let said = refusal(
        &s,
        json!({"clusterVersion": {"image": format!("quay.io/{many}")}}),
    )
    .await?;
    assert!(said.contains("clusterVersion.image"), "{said}");
    Ok(())
}

/// The report's label carries the name.
#[tokio::test]
async fn a_name_of_64_characters_is_refused_and_one_of_63_works() -> Result<()> {
    let s = Scenario::new(1).await?;
    let (fits, too_long) = ("n".repeat(63), "n".repeat(64));
    let said = s.upgrade(&too_long).refused(json!({})).await?;
    assert!(said.contains("63"), "{said}");
    let players = s.play_all();
    s.upgrade(&fits).create(json!({})).await?;
    s.upgrade(&fits)
        .until("complete", |seen| seen.is("Complete"))
        .await?;
    s.upgrade(&fits).row_until(s.c(1), "recorded", |_| true).await?;
    drop(players);
    Ok(())
}

/// A violation that only the controller can find is shown on the object, and fixing the field is enough.
#[tokio::test]
async fn an_action_with_a_manifest_twice_is_shown_and_starts_when_fixed() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"preUpgradeAction": sample::action_with_a_manifest_twice("backup")}))
        .await?;
    let seen = s.until("invalid", |seen| seen.stalled("InvalidSpec")).await?;
    let said = seen.message("Stalled");
    assert!(
        said.contains("spec.preUpgradeAction") && said.contains("twice"),
        "{said}"
    );
    assert!(seen.is_not("Ready") && seen.is_not("Reconciling"));
    assert_eq!(s.created(1, api::names::Step::PreAction), 0);
    s.edit(json!({"preUpgradeAction": sample::action("backup")}))
        .await?;
    s.work(1, api::names::Step::PreAction).await?;
    s.until("moving", |seen| seen.is("Reconciling") && seen.is_not("Stalled"))
        .await?;
    Ok(())
}

/// What the hub's own ManifestWork does not allow shows with the first creation; an edit is tried at once.
#[tokio::test]
async fn an_action_that_the_hubs_manifestwork_refuses_stalls_the_upgrade_until_it_is_corrected() -> Result<()>
{
    let s = Scenario::new(2).await?;
    s.create(json!({"preUpgradeAction": bogus_action()})).await?;
    let seen = s.until("stalled", |seen| seen.stalled("ClustersBlocked")).await?;
    let note = seen.waiting(s.c(1)).context("the cluster is listed")?;
    assert_eq!(
        (note.phase, note.reason.as_str()),
        (api::report::Phase::Blocked, "WorkRefused")
    );
    assert!(note.message.contains("propagationPolicy"), "{}", note.message);
    assert!(seen.is_not("Reconciling") && seen.is_not("Ready"));
    s.edit(json!({"preUpgradeAction": {"manifestWork": {"deleteOption": {"propagationPolicy": "Orphan"}}}}))
        .await?;
    // Without the edit it would be tried again 30 s after it was refused.
    let refused = note.since.as_ref().and_then(to_chrono).context("a time")?;
    for number in [1, 2] {
        let work = s.work(number, api::names::Step::PreAction).await?;
        let created = work.raw["metadata"]["creationTimestamp"].as_str();
        let created = created.and_then(parse_rfc3339).context("a time")?;
        assert!(
            created < refused + TimeDelta::seconds(30),
            "{created}, refused at {refused}"
        );
    }
    s.until("moving", |seen| seen.is("Reconciling") && seen.is_not("Stalled"))
        .await?;
    Ok(())
}

/// A refused creation left nothing, so nothing is waited for.
#[tokio::test]
async fn an_upgrade_whose_works_are_refused_is_deleted_at_once() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"preUpgradeAction": bogus_action()})).await?;
    s.until("stalled", |seen| seen.stalled("ClustersBlocked")).await?;
    s.up().delete().await?;
    // A creation without an answer would keep the upgrade for 90 s, which is longer than a test waits.
    s.up().gone().await
}

/// OCM's webhook refuses more than 500 KiB; so do we, before anything is written.
#[tokio::test]
async fn an_action_that_is_too_large_is_shown() -> Result<()> {
    let s = Scenario::new(1).await?;
    let mut large = sample::action("backup");
    large["manifestWork"]["workload"]["manifests"][0]["data"]["a"] = json!("x".repeat(520 * 1024));
    s.create(json!({"postUpgradeAction": large})).await?;
    let seen = s.until("invalid", |seen| seen.stalled("InvalidSpec")).await?;
    assert!(
        seen.message("Stalled").contains("spec.postUpgradeAction"),
        "{}",
        seen.message("Stalled")
    );
    assert_eq!(s.created(1, api::names::Step::Platform), 0);
    Ok(())
}
