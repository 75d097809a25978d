//! Two replicas of the real binary with a real API server: which one leads, how leadership passes from one to
//! the other, and how many requests that takes.
//!
//! The unit tests of the election only imitate this server.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use controller::events::{EventReason, Publisher, Regarding};
use controller::lease;
use controller::metrics::Metrics;
use controller::sources::Sources;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams, PostParams};
use testenv::Hub;
use testenv::hub::wait_until;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

const WAIT_TIMEOUT: Duration = Duration::from_mins(1);
const NAMESPACE: &str = "mcu-system";
const NAME: &str = "mcu-controller";
/// Short enough to wait for the end of a dead leader's claim, but long compared with delays on a loaded
/// machine.
const LEASE_SECONDS: i64 = 15;
/// How much longer than expected a takeover may take.
const STALL: TimeDelta = TimeDelta::seconds(8);

struct Replica {
    child: Child,
    address: String,
}

impl Replica {
    async fn start(kubeconfig: &Path, pod: &str) -> Result<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mcu-controller"))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--listen=127.0.0.1:0", "--lease-namespace", NAMESPACE])
            .arg(format!("--lease-duration={LEASE_SECONDS}s"))
            .env("POD_NAME", pod)
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stderr = child.stderr.take().context("standard error")?;
        let mut lines = BufReader::new(stderr).lines();
        let address = loop {
            let line = lines.next_line().await?.context("ended before it listened")?;
            if let Some((_, address)) = line.split_once("listening address=") {
                break address.trim().to_owned();
            }
        };
        // Reads the output to its end, so that the process never waits for a reader. It is shown when the
        // test fails.
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                eprintln!("{line}");
            }
        });
        Ok(Self { child, address })
    }

    async fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    async fn leads(&self) -> Result<bool> {
        Ok(self.get("/metrics").await?.contains("\nmcu_leader 1\n"))
    }

    async fn signal(&self, name: &str) -> Result<()> {
        let pid = self.child.id().context("it has ended")?.to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status().await?;
        ensure!(status.success(), "kill -s {name}");
        Ok(())
    }
}

async fn hub_with_namespace() -> Result<Hub> {
    let hub = Hub::builder().audit().start().await?;
    let namespace: Namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": NAMESPACE}}))?;
    Api::<Namespace>::all(hub.client().clone())
        .create(&PostParams::default(), &namespace)
        .await?;
    Ok(hub)
}

async fn holder(hub: &Hub) -> Result<String> {
    let lease = Api::<Lease>::namespaced(hub.client().clone(), NAMESPACE)
        .get_opt(NAME)
        .await?;
    Ok(lease
        .and_then(|lease| lease.spec?.holder_identity)
        .unwrap_or_default())
}

/// An audited request of a controller for the Lease.
#[derive(Debug)]
struct LeaseRequest {
    verb: String,
    stage: String,
    code: u64,
    /// Time of the request.
    at: DateTime<Utc>,
}

fn lease_requests(hub: &Hub) -> Result<Vec<LeaseRequest>> {
    let text = std::fs::read_to_string(hub.audit_log().context("audit log")?)?;
    let mut found = Vec::new();
    // A line that is still being written is read the next time.
    for event in text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
    {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let ours = text(&event["userAgent"]).starts_with("mcu-controller/");
        if ours && event["objectRef"]["resource"] == "leases" {
            found.push(LeaseRequest {
                verb: text(&event["verb"]),
                stage: text(&event["stage"]),
                code: event["responseStatus"]["code"].as_u64().unwrap_or(0),
                at: text(&event["requestReceivedTimestamp"]).parse()?,
            });
        }
    }
    Ok(found)
}

/// When the last leader wrote the Lease for the last time (to renew or release it), and when the present
/// leader acquired it.
async fn passed_on(hub: &Hub) -> Result<(DateTime<Utc>, DateTime<Utc>)> {
    let lease = Api::<Lease>::namespaced(hub.client().clone(), NAMESPACE)
        .get(NAME)
        .await?;
    let acquired = lease
        .spec
        .and_then(|spec| spec.acquire_time)
        .context("acquired")?;
    let acquired = DateTime::from_timestamp_micros(acquired.0.as_microsecond()).context("a time")?;
    let written = lease_requests(hub)?
        .into_iter()
        .filter(|request| request.verb == "update" && request.code == 200 && request.at < acquired)
        .map(|request| request.at)
        .max();
    Ok((written.context("somebody led before")?, acquired))
}

/// Waits until this number of watches of the Lease were started. A follower that watches has seen the claim
/// for whose end it waits.
async fn watched(hub: &Hub, times: usize) -> Result<()> {
    wait_until("followers watch the Lease", WAIT_TIMEOUT, || async {
        let requests = lease_requests(hub)?;
        let begun = |request: &&LeaseRequest| request.verb == "watch" && request.stage == "ResponseStarted";
        Ok(requests.iter().filter(begun).count() >= times)
    })
    .await
}

#[tokio::test]
async fn leading_passes_on_at_once_after_sigterm_and_within_the_lease_after_a_kill() -> Result<()> {
    let hub = hub_with_namespace().await?;
    let path = hub.kubeconfig_path();
    let mut first = Replica::start(&path, "pod-a").await?;
    wait_until("the first replica leads", WAIT_TIMEOUT, || first.leads()).await?;
    let mut second = Replica::start(&path, "pod-b").await?;
    watched(&hub, 1).await?;
    ensure!(holder(&hub).await?.starts_with("pod-a"));
    ensure!(!second.leads().await?, "one leads, not both");

    first.signal("TERM").await?;
    let status = tokio::time::timeout(WAIT_TIMEOUT, first.child.wait()).await??;
    ensure!(status.success(), "SIGTERM ends with {status}");
    wait_until("the second replica leads", WAIT_TIMEOUT, || second.leads()).await?;
    let (released, acquired) = passed_on(&hub).await?;
    let gap = acquired - released;
    ensure!(
        gap < TimeDelta::seconds(LEASE_SECONDS) - STALL,
        "a released lease is free, not only when it has run out: {gap}"
    );

    let third = Replica::start(&path, "pod-c").await?;
    watched(&hub, 2).await?;
    second.signal("KILL").await?;
    second.child.wait().await?;
    wait_until("the third replica leads", WAIT_TIMEOUT, || third.leads()).await?;
    let (renewed, acquired) = passed_on(&hub).await?;
    let gap = acquired - renewed;
    ensure!(
        gap < TimeDelta::seconds(LEASE_SECONDS) + STALL,
        "the claim outlived the lease: {gap}"
    );
    ensure!(holder(&hub).await?.starts_with("pod-c"));

    let requests = lease_requests(&hub)?;
    let refused: Vec<_> = requests.iter().filter(|request| request.code >= 400).collect();
    ensure!(
        matches!(refused[..], [one] if one.verb == "get" && one.code == 404),
        "only the first read finds nothing: {refused:?}"
    );
    hub.stop().await
}

#[tokio::test]
async fn a_replica_that_was_stopped_past_its_lease_finds_its_successor_and_follows() -> Result<()> {
    let hub = hub_with_namespace().await?;
    let path = hub.kubeconfig_path();
    let first = Replica::start(&path, "pod-a").await?;
    wait_until("the first replica leads", WAIT_TIMEOUT, || first.leads()).await?;
    let second = Replica::start(&path, "pod-b").await?;
    first.signal("STOP").await?;
    wait_until("the second replica leads", WAIT_TIMEOUT, || second.leads()).await?;
    first.signal("CONT").await?;
    wait_until("the first replica has noticed", WAIT_TIMEOUT, || async {
        Ok(first
            .get("/metrics")
            .await?
            .contains("\nmcu_lease_transitions_total 2\n"))
    })
    .await?;
    ensure!(!first.leads().await? && second.leads().await?);
    ensure!(holder(&hub).await?.starts_with("pod-b"));
    hub.stop().await
}

#[tokio::test]
async fn events_are_accepted_by_the_api_and_seen_by_kubectl() -> Result<()> {
    let hub = hub_with_namespace().await?;
    let stop = CancellationToken::new();
    let sources = Sources::system();
    let (publisher, task) = Publisher::start(
        hub.client().clone(),
        lease::Handle::always().fence(),
        std::sync::Arc::new(Metrics::new()),
        lease::identity(&sources),
        &sources,
        stop.clone(),
    );
    let regarding = Regarding {
        namespace: NAMESPACE.to_owned(),
        name: "fleet".to_owned(),
        uid: "7a0c1b7e-0000-4000-8000-000000000001".to_owned(),
    };
    for (reason, _) in EventReason::ALL {
        publisher.cluster(&regarding, "spoke1", *reason, "x".repeat(3000));
    }
    stop.cancel();
    task.await?;
    let found = Api::<Event>::namespaced(hub.client().clone(), NAMESPACE)
        .list(&ListParams::default())
        .await?;
    ensure!(
        found.items.len() == EventReason::ALL.len(),
        "{} arrived",
        found.items.len()
    );
    let shown = hub
        .kubectl(&["-n", NAMESPACE, "events", "--for", "ManagedClustersUpgrade/fleet"])
        .await;
    if let Ok(shown) = shown {
        ensure!(shown.contains("ClusterFailed"), "{shown}");
    }
    hub.stop().await
}
