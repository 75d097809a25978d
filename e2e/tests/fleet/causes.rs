//! A fault of one cluster is named in time, and the others continue.

use anyhow::{Context as _, Result};
use api::report::{Phase, ReportRow, Stage};
use chrono::TimeDelta;
use e2e::{Scenario, sample};
use serde_json::{Value, json};

use crate::fleet_test::{Turn, at, job, limits, part, to, whole, with};

const FROM: &str = "4.16.10";
const TARGET: &str = "4.16.20";
const CHANNEL: &str = "eus-4.16";
/// Reason of a platform that was not updated when its time was over; the message is the cause.
const TIMEOUT: &str = "ClusterUpgradeTimeout";

fn good() -> Value {
    at(FROM, CHANNEL)
}

/// Waits until a cluster is in a phase with a reason and with these words.
async fn ends(s: &Scenario, number: usize, phase: Phase, reason: &str, words: &str) -> Result<ReportRow> {
    let what = format!("{phase:?} {reason}: {words}");
    s.up()
        .row_until(s.c(number), &what, |row| {
            row.phase == phase && row.reason == reason && row.message.contains(words)
        })
        .await
}

async fn completes(s: &Scenario, number: usize) -> Result<()> {
    s.up()
        .row_until(s.c(number), "complete", |row| row.phase == Phase::Complete)
        .await
        .map(drop)
}

/// A step that ran out of time did so because of this limit and not before it, by its own record.
fn out_of_time(row: &ReportRow, name: Stage, limit: i64) -> Result<()> {
    let step = row
        .steps
        .iter()
        .find(|step| step.name == name)
        .context("no such step")?;
    let took = step.finished_at.context("the step has no end")? - step.started_at;
    assert!(took >= TimeDelta::seconds(limit), "{name:?} took {took}: {row:?}");
    let named = format!("done within {limit}s");
    assert!(row.message.contains(&named), "{row:?}");
    Ok(())
}

/// One of the clusters completed, and the upgrade as a whole did not.
async fn one_completed(s: &Scenario) -> Result<()> {
    let seen = s
        .until("one is complete", |seen| seen.clusters().complete == 1)
        .await?;
    assert!(seen.is_not("Complete"), "{}", seen.raw["status"]);
    Ok(())
}

/// Plays an upgrade of two clusters of which the first is bad and fails for want of time, and the second completes.
async fn one_times_out(turn: &Turn, spec: Value, words: &str) -> Result<()> {
    let s = turn.scenario();
    s.create(with(&[limits(1, "30s"), spec])).await?;
    let row = ends(s, 1, Phase::Failed, TIMEOUT, words).await?;
    out_of_time(&row, Stage::Platform, 30)?;
    completes(s, 2).await?;
    one_completed(s).await
}

/// Without OCM's execution role the agent of the first may bind nothing and write no ClusterVersion; the backup of the
/// second fails; the third has neither fault.
#[tokio::test]
async fn missing_permissions_and_a_job_that_fails_are_named_and_hold_back_nobody_else() -> Result<()> {
    whole(&[good()], async |turn| {
        let s = turn.scenario();
        turn.cluster(1).forbid().await?;
        // The pod sends a request to its API server by its account, which has the right on two of them.
        let reader = "backup-reader";
        let may = ["--clusterrole=view", "--serviceaccount=default:default"];
        for number in [1, 3] {
            let bind = [["create", "clusterrolebinding", reader].as_slice(), &may].concat();
            turn.cluster(number).kubectl(&bind).await?;
        }
        // An authorizer that has not seen the agent's own binding yet refuses its first patch, and after several such
        // refusals the agent rests for longer than this upgrade may take.
        turn.cluster(3).bind_agent().await?;
        let command = "oc get configmaps -n openshift-config";
        let action = json!({"preUpgradeAction": job("backup", command)});
        s.create(with(&[to(TARGET, CHANNEL), limits(3, "45s"), action]))
            .await?;
        let degraded = ends(s, 2, Phase::PreActionDegraded, "PreActionFailed", "backup").await?;
        assert!(
            degraded.steps.iter().all(|step| step.name == Stage::PreAction),
            "{degraded:?}"
        );
        let forbidden = ends(s, 1, Phase::Initialized, "NotApplied", "forbidden").await?;
        assert!(forbidden.steps.iter().any(|step| step.name == Stage::Platform));
        completes(s, 3).await?;
        let row = ends(s, 1, Phase::Failed, TIMEOUT, "forbidden").await?;
        out_of_time(&row, Stage::Platform, 45)?;
        let seen = s
            .until("one of each", |seen| {
                let clusters = seen.clusters();
                (clusters.complete, clusters.failed, seen.pre().degraded) == (1, 1, 1)
            })
            .await?;
        assert!(seen.is_not("Complete"));
        for number in [1, 3] {
            let unbind = ["delete", "clusterrolebinding", reader];
            turn.cluster(number).kubectl(&unbind).await?;
        }
        Ok(())
    })
    .await
}

/// In this channel the target is no update; the other cluster runs it already. Both have been in it before: one that
/// changes to it together with the version may still take the version for an update of its former channel.
#[tokio::test]
async fn a_channel_without_the_version_is_named() -> Result<()> {
    part(
        2,
        &[at(FROM, "stable-4.9"), at(TARGET, "stable-4.9")],
        async |turn| {
            let words = "VersionNotFound: Unable to retrieve available updates";
            one_times_out(turn, to(TARGET, "stable-4.9"), words).await
        },
    )
    .await
}

/// The cluster refuses a version that does not exist, however often it is requested.
#[tokio::test]
async fn a_version_that_does_not_exist_is_named() -> Result<()> {
    part(1, &[good()], async |turn| {
        let s = turn.scenario();
        s.create(with(&[to("4.16.999", CHANNEL), limits(1, "20s")]))
            .await?;
        let row = ends(s, 1, Phase::Failed, TIMEOUT, "4.16.999").await?;
        out_of_time(&row, Stage::Platform, 20)
    })
    .await
}

#[tokio::test]
async fn a_release_that_cannot_be_verified_is_named() -> Result<()> {
    let mut bad = good();
    bad["faults"] = json!("unverified=no signature of a trusted key");
    part(2, &[bad, good()], async |turn| {
        let words = "no signature of a trusted key";
        one_times_out(turn, to(TARGET, CHANNEL), words).await
    })
    .await
}

/// A subscription that never gets an install plan fails its operators step when the Job's time is over.
#[tokio::test]
async fn an_install_plan_that_never_appears_is_named() -> Result<()> {
    let operators = |faults: &str| {
        let mut setup = good();
        setup["packages"] = json!([{"name": "gitops", "versions": ["gitops.v1.0.0", "gitops.v2.0.0"]}]);
        setup["subscriptions"] = json!([{"name": "gitops", "namespace": "openshift-operators"}]);
        setup["faults"] = json!(faults);
        setup
    };
    part(
        2,
        &[operators("no-install-plan"), operators("none")],
        async |turn| {
            let s = turn.scenario();
            let operators = json!({
                "ocpOperators": sample::operators(&["gitops"]),
                "upgradeStrategy": {"operatorsUpgradeTimeout": "5s"},
            });
            s.create(with(&[to(TARGET, CHANNEL), limits(2, "5m"), operators]))
                .await?;
            completes(s, 2).await?;
            turn.let_go(2);
            let row = ends(
                s,
                1,
                Phase::Failed,
                "OperatorsJobFailed",
                "some InstallPlans were not approved in time",
            )
            .await?;
            // The approver in the Job waits for that long.
            let step = row.steps.iter().find(|step| step.name == Stage::Operators);
            let step = step.context("no operators step")?;
            let took = step.finished_at.context("the step has no end")? - step.started_at;
            assert!(took >= TimeDelta::seconds(5), "{row:?}");
            one_completed(s).await
        },
    )
    .await
}
