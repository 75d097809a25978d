//! Work agents before OCM v0.14. They are none of the programs that tests build; whoever has one names it:
//! `go build open-cluster-management.io/ocm/cmd/work` in a module that requires v0.13.3.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;
use spoke_sim::Faults;
use testenv::hub::wait_until;
use testenv::{Process, ProcessSpec};

use crate::cases::{named, strategy, work};
use crate::compare;
use crate::pair::{FAKE, Pair, REAL};

/// Environment variable with the path of such an agent.
const BINARY: &str = "MCU_OLD_WORK_AGENT";
const NAME: &str = "old-agent";
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn a_work_agent_before_v0_14_reads_nothing_and_says_so_of_no_object_and_so_does_the_fake_one()
-> Result<()> {
    let Some(binary) = std::env::var_os(BINARY) else {
        eprintln!("not run: {BINARY} names no work agent before OCM v0.14");
        return Ok(());
    };
    let pair = Pair::start().await?;
    let spoke = pair.spoke();
    spoke.stop_agent().await?;
    let file = |name: &str| spoke.dir().join(name).display().to_string();
    let spec = ProcessSpec::new(NAME, Path::new(&binary)).args([
        "agent".to_owned(),
        "--disable-leader-election".to_owned(),
        format!("--namespace={}", testenv::klusterlet::NAMESPACE),
        format!("--kubeconfig={}", file("work.kubeconfig")),
        "--workload-source-driver=kube".to_owned(),
        format!("--workload-source-config={}", file("hub.kubeconfig")),
        format!("--spoke-cluster-name={REAL}"),
        format!("--agent-id={REAL}"),
    ]);
    let agent = Process::start(&spec, spoke.dir())?;
    pair.agents().set_faults(FAKE, "old-agent".parse::<Faults>()?);
    let update = strategy(NAME, &json!({"type": "Update"}));
    for cluster in [REAL, FAKE] {
        pair.write_work(
            cluster,
            "writes",
            &work(&[named(NAME)], std::slice::from_ref(&update)),
        )
        .await?;
    }
    for cluster in [REAL, FAKE] {
        wait_until("the agent applies a work", WAIT_TIMEOUT, || async {
            Ok(pair.work(cluster, "writes").await?["status"]["conditions"].is_array())
        })
        .await?;
    }
    let reading = strategy(NAME, &json!({"type": "ReadOnly"}));
    for cluster in [REAL, FAKE] {
        pair.write_work(
            cluster,
            "reads",
            &work(&[named(NAME)], std::slice::from_ref(&reading)),
        )
        .await?;
    }
    let panicked = wait_until("the old agent panics", WAIT_TIMEOUT, || async {
        Ok(agent.log_tail(2_000).contains("nil pointer dereference"))
    });
    panicked.await.with_context(|| agent.log_tail(30))?;
    for cluster in [REAL, FAKE] {
        let spec = work(
            &[named("later")],
            &[strategy("later", &json!({"type": "Update"}))],
        );
        pair.write_work(cluster, "later", &spec).await?;
    }
    for cluster in [REAL, FAKE] {
        wait_until("the agent applies a later work", WAIT_TIMEOUT, || async {
            Ok(pair.work(cluster, "later").await?["status"]["conditions"].is_array())
        })
        .await?;
        wait_until("the agent reports on the other one", WAIT_TIMEOUT, || async {
            Ok(pair.work(cluster, "reads").await?["status"]["conditions"].is_array())
        })
        .await?;
    }
    // It takes its panic for success, and names no object.
    let by_real = pair.work(REAL, "reads").await?;
    let manifest = &by_real["status"]["resourceStatus"]["manifests"][0];
    assert_eq!(manifest["resourceMeta"]["name"], "");
    let by_fake = pair.work(FAKE, "reads").await?;
    assert_eq!(compare::status(&by_fake), compare::status(&by_real));
    assert!(agent.exited()?.is_none(), "it goes on");
    pair.stop().await
}
