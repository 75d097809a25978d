//! The whole sequence of an upgrade, from the backup to the last trace of it.

use anyhow::{Context as _, Result};
use api::names::Step::{self, Platform, PreAction};
use api::report::{Outcome, Phase, ReportRow, ReportStep, Stage};
use e2e::sample;
use serde_json::{Value, json};

use crate::audit::Audit;
use crate::cluster::{Cluster, completed, history};
use crate::fleet_test::{job, limits, part, steadily, to, with};

const FROM: &str = "4.16.10";
const TARGET: &str = "4.16.20";
const CHANNEL: &str = "eus-4.16";
/// Account of the Job that approves install plans.
const APPROVER: &str = "system:serviceaccount:installplan-approver:installplan-approver";

/// Two operators with a new version that waits for approval; the upgrade includes one of them.
fn installed() -> Value {
    let package =
        |name: &str| json!({"name": name, "versions": [format!("{name}.v1.0.0"), format!("{name}.v2.0.0")]});
    let subscription = |name: &str| json!({"name": name, "namespace": "openshift-operators"});
    let mut setup = steadily(FROM, CHANNEL);
    setup["packages"] = json!([package("gitops"), package("storage")]);
    setup["subscriptions"] = json!([subscription("gitops"), subscription("storage")]);
    setup
}

/// Pre-action, canary, platform, operators by the real script under its own account, post-action, and nothing left.
#[tokio::test]
async fn an_upgrade_runs_from_the_backup_to_the_health_check_and_leaves_nothing_behind() -> Result<()> {
    part(2, &[installed()], async |turn| {
        let s = turn.scenario();
        let audits = [1, 2].map(|number| Audit::from_now(turn.cluster(number).spoke().plane()));
        let check = "test \"$(oc version --client -o json | grep -c gitVersion)\" -gt 0";
        let spec = with(&[
            to(TARGET, CHANNEL),
            limits(2, "20m"),
            json!({
                "preUpgradeAction": job("backup", "echo backed up"),
                "postUpgradeAction": job("health-check", check),
                "ocpOperators": sample::operators(&["gitops"]),
                "upgradeStrategy": {
                    "canaryClusters": sample::canaries(&s.some(&[2])), "operatorsUpgradeTimeout": "10m",
                },
            }),
        ]);
        s.create(spec).await?;

        s.work(2, PreAction).await?;
        s.work(2, Platform).await?;
        s.until("in progress", |seen| {
            seen.is("InProgress") && seen.is("Reconciling")
        })
        .await?;
        let canary = s
            .up()
            .row_until(s.c(2), "complete", |row| row.phase == Phase::Complete)
            .await?;
        assert_eq!((canary.to_version.as_str(), canary.canary), (TARGET, true));
        let seen = s.complete().await?;
        assert!(seen.is("Selected") && seen.is("Applied") && seen.is("Ready"));
        assert!(seen.is_not("Failed") && seen.is_not("InProgress") && seen.is_not("Reconciling"));
        assert!(seen.is_not("Stalled"));
        assert_eq!((seen.clusters().total, seen.clusters().complete), (2, 2));
        assert_eq!((seen.canaries().total, seen.canaries().complete), (1, 1));
        assert_eq!((seen.pre().total, seen.pre().available), (2, 2));
        assert_eq!((seen.post().total, seen.post().available), (2, 2));

        let rows = [steps_in_order(s, 1).await?, steps_in_order(s, 2).await?];
        let ended = rows[1].steps.last().and_then(|step| step.finished_at);
        assert!(
            Some(rows[0].steps[0].started_at) >= ended,
            "the canary goes alone: {rows:?}"
        );
        for (number, audit) in [1, 2].into_iter().zip(audits) {
            for step in Step::ALL {
                assert_eq!(s.created(number, step), 1, "{step} of {}", s.c(number));
                s.gone(number, step).await?;
            }
            let approvals =
                audit?.writes(|request| request.resource == "installplans" && request.user == APPROVER)?;
            assert_eq!(
                approvals.len(),
                1,
                "approved once, by the Job's own account: {approvals:?}"
            );
            upgraded(turn.cluster(number)).await?;
        }
        Ok(())
    })
    .await
}

/// The row knows every step, each after the one before.
async fn steps_in_order(s: &e2e::Scenario, number: usize) -> Result<ReportRow> {
    let ended = |row: &ReportRow| row.steps.last().is_some_and(|step| step.finished_at.is_some());
    let row = s
        .up()
        .row_until(s.c(number), "complete with its last step", |row| {
            row.phase == Phase::Complete && row.steps.len() == Step::ALL.len() && ended(row)
        })
        .await?;
    let names: Vec<Stage> = row.steps.iter().map(|step| step.name).collect();
    let order = [
        Stage::PreAction,
        Stage::Platform,
        Stage::Operators,
        Stage::PostAction,
    ];
    assert_eq!(names, order, "{row:?}");
    let all = |held: fn(&ReportStep) -> bool| row.steps.iter().all(held);
    assert!(all(|step| step.outcome == Some(Outcome::Succeeded)), "{row:?}");
    let mut pairs = row.steps.iter().zip(row.steps.iter().skip(1));
    assert!(
        pairs.all(|(one, next)| one.finished_at.is_some_and(|end| end <= next.started_at)),
        "{row:?}"
    );
    Ok(row)
}

/// The platform is at the target, only the requested operator is approved, and with the works everything was deleted except
/// the ClusterVersion.
async fn upgraded(cluster: &Cluster) -> Result<()> {
    let version = cluster.version_until("upgraded", completed(TARGET)).await?;
    assert_eq!(
        version["metadata"]["ownerReferences"],
        Value::Null,
        "orphaned before it could go"
    );
    assert_eq!(history(&version), [TARGET, FROM]);
    let approved = approved(cluster).await?;
    assert!(
        approved.contains(&("gitops.v2.0.0".to_owned(), true)),
        "{approved:?}"
    );
    assert!(
        approved.contains(&("storage.v2.0.0".to_owned(), false)),
        "{approved:?}"
    );
    for gone in [
        ["namespace", "installplan-approver"].as_slice(),
        &["clusterrole", "installplan-approver"],
        &["clusterrolebinding", "admin-ocm"],
        &["job", "-n", "default", "backup"],
        &["job", "-n", "default", "health-check"],
    ] {
        assert!(
            !cluster.has(gone).await?,
            "{gone:?} is still there on {}",
            cluster.name()
        );
    }
    Ok(())
}

/// InstallPlans by what they install, and whether they are approved.
async fn approved(cluster: &Cluster) -> Result<Vec<(String, bool)>> {
    let text = cluster
        .kubectl(&["get", "installplans", "-A", "-o", "json"])
        .await?;
    let list: Value = serde_json::from_str(&text)?;
    let plans = list["items"].as_array().context("a list")?;
    Ok(plans
        .iter()
        .map(|plan| {
            let name = plan["spec"]["clusterServiceVersionNames"][0].as_str();
            let approved = plan["spec"]["approved"].as_bool();
            (name.unwrap_or_default().to_owned(), approved.unwrap_or_default())
        })
        .collect())
}
