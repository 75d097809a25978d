//! Operators are upgraded after the platform.

use std::time::Duration;

use anyhow::Result;
use api::names::ANNOTATION_STARTED_AT;
use api::names::Step::{Operators, Platform};
use api::report::{Phase, Stage};
use api::time::{to_chrono, to_rfc3339};
use chrono::{TimeDelta, Utc};
use e2e::{Scenario, sample};
use serde_json::{Value, json};

async fn at_operators(s: &Scenario, change: Value) -> Result<()> {
    let mut spec = json!({"ocpOperators": {"approveAllUpgrades": true}});
    sample::join(&mut spec, &change);
    s.create(spec).await?;
    for number in 1..=s.names().len() {
        s.agent(number).completed().await?;
    }
    for number in 1..=s.names().len() {
        s.work(number, Operators).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_operators_work_comes_after_the_platform_with_job_account_and_deadlines() -> Result<()> {
    let s = Scenario::new(1).await?;
    let operators = sample::operators(&["openshift-gitops-operator"]);
    s.create(json!({"ocpOperators": operators, "upgradeStrategy": {"operatorsUpgradeTimeout": "10m"}}))
        .await?;
    s.agent(1).partial().await?;
    s.settle().await?;
    assert_eq!(s.created(1, Operators), 0);
    s.agent(1).completed().await?;
    let work = s.work(1, Operators).await?;
    let kinds: Vec<&str> = work
        .manifests()
        .iter()
        .filter_map(|manifest| manifest["kind"].as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "Namespace",
            "ClusterRole",
            "ClusterRoleBinding",
            "ServiceAccount",
            "Job"
        ]
    );
    let job = &work.manifests()[4]["spec"];
    assert_eq!(job["activeDeadlineSeconds"], 690);
    assert_eq!(
        job["template"]["spec"]["serviceAccountName"],
        "installplan-approver"
    );
    assert_eq!(work.approver_env("WAITTIME"), Some("600"));
    assert_eq!(
        work.approver_env("INCLUDELIST"),
        Some("openshift-gitops-operator,openshift-operators")
    );
    assert_eq!(work.approver_env("EXCLUDELIST"), Some(""));
    Ok(())
}

#[tokio::test]
async fn all_named_operators_are_in_the_lists_and_approve_all_ignores_the_include_list() -> Result<()> {
    let s = Scenario::new(2).await?;
    let three = sample::operators(&["a-operator", "b-operator", "c-operator"]);
    let lists = json!({"include": three["include"], "exclude": [
        {"name": "x", "namespace": "ns1"}, {"name": "y", "namespace": "ns2"}, {"name": "z", "namespace": "ns3"}]});
    let mut all = lists.clone();
    all["approveAllUpgrades"] = json!(true);
    let only = |number| json!({"clusterVersion": null, "clusterSelector": sample::selector(s.id(), &s.some(&[number]))});
    for (name, number, operators) in [("lists", 1, lists), ("all", 2, all)] {
        let mut spec = only(number);
        spec["ocpOperators"] = operators;
        s.upgrade(name).create(spec).await?;
    }
    let work = s.work(1, Operators).await?;
    let sorted = |text: &str| {
        let mut parts: Vec<String> = text.split(' ').map(str::to_owned).collect();
        parts.sort();
        parts
    };
    let included = sorted(work.approver_env("INCLUDELIST").unwrap_or_default());
    assert_eq!(
        included,
        ["a", "b", "c"].map(|name| format!("{name}-operator,openshift-operators"))
    );
    assert_eq!(
        sorted(work.approver_env("EXCLUDELIST").unwrap_or_default()),
        ["x,ns1", "y,ns2", "z,ns3"]
    );
    let work = s.work(2, Operators).await?;
    assert_eq!(work.approver_env("INCLUDELIST"), Some(""));
    assert_eq!(
        sorted(work.approver_env("EXCLUDELIST").unwrap_or_default()),
        ["x,ns1", "y,ns2", "z,ns3"]
    );
    Ok(())
}

#[tokio::test]
async fn an_active_job_is_not_complete_and_a_succeeded_one_is() -> Result<()> {
    let s = Scenario::new(1).await?;
    at_operators(&s, json!({})).await?;
    s.agent(1).job(json!({"active": 1})).await?;
    let seen = s.settle().await?;
    assert_eq!(
        (seen.clusters().complete, seen.clusters().partial_upgrade),
        (0, 1)
    );
    s.agent(1)
        .values(
            Operators,
            &[
                ("failed", json!(0)),
                ("succeeded", json!(1)),
                ("active", json!(0)),
            ],
        )
        .await?;
    s.complete().await?;
    s.gone(1, Operators).await
}

/// A Job that only looks failed counts as failed after 15 s, whatever the order of its values; one that says so, at once.
#[tokio::test]
async fn a_job_without_active_pods_fails_after_its_grace_and_at_once_when_it_says_so() -> Result<()> {
    let s = Scenario::new(4).await?;
    at_operators(&s, json!({})).await?;
    let began = Utc::now();
    s.agent(1).job(json!({"failed": 1})).await?;
    s.agent(2)
        .values(
            Operators,
            &[
                ("failed", json!(2)),
                ("active", json!(0)),
                ("succeeded", json!(0)),
            ],
        )
        .await?;
    s.agent(3).job(json!({"active": 1, "failed": 1})).await?;
    s.agent(4).job(json!({"failed": 1, "jobFailed": "True"})).await?;
    let seen = s
        .until("the fourth failed at once", |seen| seen.clusters().failed == 1)
        .await?;
    assert!(
        seen.failed(s.c(4))
            .is_some_and(|note| note.reason == "OperatorsJobFailed")
    );
    let seen = s
        .until("three failed", |seen| seen.clusters().failed == 3)
        .await?;
    let since = |number| {
        let note = seen.failed(s.c(number));
        note.and_then(|note| to_chrono(note.since.as_ref()?))
    };
    // Times in the status are whole seconds.
    let earliest = began + TimeDelta::seconds(14);
    for number in [1, 2] {
        assert!(
            since(number) > Some(earliest),
            "not before 15 s: {:?}",
            since(number)
        );
        assert!(since(4) < since(number), "the one that said so did not wait");
    }
    assert!(seen.failed(s.c(3)).is_none(), "one with an active pod runs on");
    s.agent(3).job(json!({"succeeded": 1, "failed": 1})).await?;
    s.until("the third is complete", |seen| seen.clusters().complete == 1)
        .await?;
    Ok(())
}

#[tokio::test]
async fn without_operators_to_approve_the_platform_is_all() -> Result<()> {
    let s = Scenario::new(2).await?;
    let one = |number| json!({"clusterSelector": sample::selector(s.id(), &s.some(&[number]))});
    s.upgrade("none").create(one(1)).await?;
    let mut empty = one(2);
    empty["ocpOperators"] = json!({"approveAllUpgrades": false, "include": []});
    s.upgrade("empty").create(empty).await?;
    for (number, name) in [(1, "none"), (2, "empty")] {
        s.agent(number).completed().await?;
        s.upgrade(name)
            .until("complete", |seen| seen.is("Complete"))
            .await?;
        assert_eq!(s.created(number, Operators), 0);
    }
    Ok(())
}

#[tokio::test]
async fn operators_alone_start_at_once_and_complete() -> Result<()> {
    let s = Scenario::new(2).await?;
    let one = |number| json!({"clusterVersion": null, "clusterSelector": sample::selector(s.id(), &s.some(&[number]))});
    let mut all = one(1);
    all["ocpOperators"] = json!({"approveAllUpgrades": true});
    s.upgrade("all").create(all).await?;
    let mut named = one(2);
    named["ocpOperators"] = sample::operators(&["gitops"]);
    s.upgrade("named").create(named).await?;
    for (number, name) in [(1, "all"), (2, "named")] {
        s.agent(number).job(json!({"succeeded": 1})).await?;
        s.upgrade(name)
            .until("complete", |seen| seen.is("Complete"))
            .await?;
        assert_eq!(s.created(number, Platform), 0);
    }
    Ok(())
}

/// 90 s belong to the Job's own deadline and 30 s to the controller's grace.
#[tokio::test]
async fn operators_that_never_report_fail_when_their_time_is_over() -> Result<()> {
    let s = Scenario::new(1).await?.within(Duration::from_mins(4));
    at_operators(&s, json!({"upgradeStrategy": {"operatorsUpgradeTimeout": "1s"}})).await?;
    let row = s
        .up()
        .row_until(s.c(1), "Failed", |row| row.phase == Phase::Failed)
        .await?;
    let step = row.steps.iter().find(|step| step.name == Stage::Operators);
    let step = step.expect("the step has begun");
    let took = row.since - step.started_at;
    assert!(took >= TimeDelta::seconds(121), "{took}");
    assert_eq!(row.reason, "OperatorsUpgradeTimeout");
    assert!(row.message.contains("done within 2m1s"), "{}", row.message);
    Ok(())
}

#[tokio::test]
async fn operators_that_never_report_are_not_failed_by_whoever_sets_their_start_back() -> Result<()> {
    let s = Scenario::new(1).await?;
    at_operators(&s, json!({"upgradeStrategy": {"operatorsUpgradeTimeout": "10s"}})).await?;
    let set_back = async |seconds| {
        let start = to_rfc3339(Utc::now() - TimeDelta::seconds(seconds));
        let change = json!({"metadata": {"annotations": {ANNOTATION_STARTED_AT: start}}});
        s.patch_as_controller(s.c(1), Operators, &change).await
    };
    // The record of the start counts, not the work's annotation.
    for seconds in [128, 3_600, -3_600] {
        set_back(seconds).await?;
        assert_eq!(s.settle().await?.clusters().failed, 0, "{seconds}");
    }
    Ok(())
}
