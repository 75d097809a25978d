//! What GitOps tools make of an upgrade in each of its states, by their own code and by the script and the expressions of
//! `docs/guide/gitops.md`.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};
use chrono::{TimeDelta, Utc};
use e2e::{Scenario, Seen};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// What the tools make of one version of an upgrade.
#[derive(Debug, Deserialize)]
struct Verdict {
    argo: String,
    message: String,
    flux: String,
    kstatus: String,
}

/// The guide's script for Argo CD and its expressions for Flux.
fn of_guide() -> Result<(String, Value)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/gitops.md");
    let page = std::fs::read_to_string(page)?;
    let (_, script) = page
        .split_once("_ManagedClustersUpgrade: |\n")
        .context("the guide has a script")?;
    let script: Vec<&str> = script
        .lines()
        .take_while(|line| !line.starts_with("```"))
        .collect();
    let expression = |name: &str| {
        let name = format!("      {name}: ");
        let line = page.lines().find_map(|line| line.strip_prefix(&*name));
        line.with_context(|| format!("the guide has the expression {name}"))
    };
    let expressions = json!({
        "inProgress": expression("inProgress")?, "failed": expression("failed")?, "current": expression("current")?,
    });
    Ok((script.join("\n"), expressions))
}

async fn verdicts(versions: &[Seen]) -> Result<Vec<Verdict>> {
    let (script, expressions) = of_guide()?;
    let objects: Vec<&Value> = versions.iter().map(|seen| &*seen.raw).collect();
    let input = json!({"lua": script, "expressions": expressions, "objects": objects});
    let mut tools = Command::new("go")
        .args(["run", "."])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("hub-tools/gitops"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut stdin = tools.stdin.take().context("it has an input")?;
    stdin.write_all(input.to_string().as_bytes()).await?;
    drop(stdin);
    let output = tools.wait_with_output().await?;
    ensure!(output.status.success(), "the tools end with {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A window that opens in half a year, for an hour.
fn far() -> Value {
    let opens = Utc::now() + TimeDelta::days(180);
    json!({"name": "far", "schedule": opens.format("0 0 %d %m *").to_string(), "duration": "1h"})
}

#[tokio::test]
async fn argo_and_flux_read_every_state_of_an_upgrade_as_the_guide_says() -> Result<()> {
    let s = Scenario::new(3).await?;
    s.create(json!({"paused": true})).await?;
    let mut states = vec![(
        "Suspended",
        "InProgress",
        s.until("paused", |seen| seen.reason("Ready") == "Paused").await?,
    )];
    let strategy = json!({
        "approvals": [{"name": "one", "when": 1}], "clusterUpgradeTimeout": "4s", "maxConcurrency": 1, "maxFailures": 0,
    });
    s.edit(json!({"paused": false, "upgradeStrategy": strategy}))
        .await?;
    let running = s.until("running", |seen| seen.in_flight() > 0).await?;
    states.push(("Progressing", "InProgress", running));
    s.agent(1).completed().await?;
    let waiting = s
        .until("approval", |seen| seen.reason("Ready") == "WaitingForApproval")
        .await?;
    states.push(("Suspended", "InProgress", waiting));
    s.edit(json!({"upgradeStrategy": {"approvals": null}, "maintenance": {"windows": [far()]}}))
        .await?;
    s.up()
        .row_until(s.c(2), "waits", |row| row.reason == "WaitingForWindow")
        .await?;
    states.push(("Progressing", "InProgress", s.until("window", |_| true).await?));
    s.edit(json!({"maintenance": null})).await?;
    states.push((
        "Degraded",
        "Failed",
        s.until("stalled", |seen| seen.is("Stalled")).await?,
    ));
    let left_out = |number: usize| json!([{"cluster": s.c(number), "reason": "no power"}]);
    s.edit(json!({"upgradeStrategy": {"skip": left_out(2), "abort": left_out(3)}}))
        .await?;
    let complete = s.until("complete", |seen| seen.is("Complete")).await?;
    let phases = &complete.status.phases;
    assert_eq!(
        (phases.get("Skipped"), phases.get("Aborted")),
        (Some(&1), Some(&1))
    );
    states.push(("Healthy", "Current", complete));

    let named: Vec<Seen> = states.iter().map(|(.., seen)| seen.clone()).collect();
    for ((argo, flux, seen), found) in states.iter().zip(verdicts(&named).await?) {
        let expected = (*argo, *flux, *flux);
        let made = (&*found.argo, &*found.flux, &*found.kstatus);
        assert_eq!(made, expected, "{}", seen.raw["status"]);
        assert!(!found.message.is_empty(), "{}", seen.raw["status"]);
    }
    agree(&s.up().history()).await
}

/// In no version that was ever stored do the tools contradict each other.
async fn agree(history: &[Seen]) -> Result<()> {
    let first = history.first().context("it was created")?;
    assert_eq!(
        first.raw["status"]["observedGeneration"], -1,
        "before any controller has seen it"
    );
    for (seen, found) in history.iter().zip(verdicts(history).await?) {
        let flux = match found.argo.as_str() {
            "Progressing" | "Suspended" => "InProgress",
            "Degraded" => "Failed",
            "Healthy" => "Current",
            other => bail!("Argo CD knows no health {other}"),
        };
        assert_eq!((&*found.flux, &*found.kstatus), (flux, flux), "{}", seen.raw);
    }
    Ok(())
}
