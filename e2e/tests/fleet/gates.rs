//! A gate that is not acknowledged, until the administrator does so.

use std::time::Duration;

use anyhow::{Context as _, Result};
use api::names::Step::Platform;
use chrono::{DateTime, Utc};
use e2e::Scenario;
use e2e::view::Kind;
use serde_json::{Value, json};

use crate::cluster::{completed, condition, newest, since};
use crate::fleet_test::{at, limits, part, to, with};

const FROM: &str = "4.15.40";
const TARGET: &str = "4.16.42";
const CHANNEL: &str = "eus-4.16";
const GATE: &str = "ack-4.15-kube-1.29-api-removals-in-4.16";
const TEXT: &str =
    "Kubernetes 1.29 and therefore OpenShift 4.16 remove several APIs which require admin consideration.";

/// How often the agent checks its objects, which is OCM's default; each check is delayed by up to 0.9 of it.
const PERIOD: Duration = Duration::from_secs(10);
/// How long the report may take, in addition. It is written two seconds after a change. A machine that is shared may be slow, so
/// this only tells that the cause is reported long before the deadline.
const REPORT_TIMEOUT: Duration = Duration::from_mins(1);

/// When the first report was written that has the cause of a cluster, by the API server's clock.
fn reported(s: &Scenario, cluster: &str, cause: &str) -> Result<DateTime<Utc>> {
    s.test_hub().view().look(|known| {
        let reports = known
            .tracks(Kind::Report)
            .filter(|((namespace, _), _)| namespace == s.id());
        let versions = reports.flat_map(|(_, track)| &track.versions);
        let tells = |report: &Value| {
            report["rows"].as_array().is_some_and(|rows| {
                let said = |row: &Value| row["message"].as_str().is_some_and(|text| text.contains(cause));
                rows.iter().any(|row| row["cluster"] == cluster && said(row))
            })
        };
        let mut told = versions.filter(|(_, report)| tells(report));
        let (_, first) = told.next().context("no report has the cause")?;
        let writes = first["metadata"]["managedFields"].as_array();
        let times = writes
            .into_iter()
            .flatten()
            .filter_map(|write| write["time"].as_str());
        times
            .filter_map(api::time::parse_rfc3339)
            .max()
            .context("the report has no time")
    })
}

#[tokio::test]
async fn a_gate_that_is_not_acknowledged_is_the_cause_at_once_and_the_update_proceeds_after_the_ack()
-> Result<()> {
    let mut setup = at(FROM, CHANNEL);
    setup["adminGates"] = json!({GATE: TEXT});
    part(1, &[setup], async |turn| {
        let (s, cluster) = (turn.scenario(), turn.cluster(1));
        cluster.feedback_every(PERIOD).await?;
        s.create(with(&[to(TARGET, CHANNEL), limits(1, "20m")])).await?;
        let row = s
            .up()
            .row_until(s.c(1), "the cause", |row| row.message.contains("Kubernetes 1.29"))
            .await?;
        assert!(
            row.reason.contains("AdminAck") || row.message.contains("AdminAckRequired"),
            "{row:?}"
        );
        let refused = cluster.version().await?;
        assert_eq!(newest(&refused), (FROM, "Completed"), "it stays where it is");
        for blocked in ["ReleaseAccepted", "Upgradeable"] {
            assert_eq!(condition(&refused, blocked), "False", "{blocked}");
        }
        let shown = since(&refused, "ReleaseAccepted")?.max(since(&refused, "Upgradeable")?);
        let took = reported(s, s.c(1), "Kubernetes 1.29")? - shown;
        let most = PERIOD.mul_f64(1.9) + REPORT_TIMEOUT;
        assert!(
            took.to_std().unwrap_or_default() <= most,
            "the cause took {took}, more than {most:?}"
        );

        let ack = json!({"data": {GATE: "true"}}).to_string();
        let acks = ["-n", "openshift-config", "admin-acks", "--type=merge", "-p", &ack];
        cluster
            .kubectl(&[["patch", "configmap"].as_slice(), &acks].concat())
            .await?;
        s.complete().await?;
        cluster.version_until("upgraded", completed(TARGET)).await?;
        assert_eq!(s.created(1, Platform), 1);
        Ok(())
    })
    .await
}
