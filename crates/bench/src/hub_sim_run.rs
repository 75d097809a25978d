//! `bench hub-sim`: the upgrade of a fleet that is too large for a real hub on one machine. The hub is simulated, in this process,
//! and so are the agents. The controller is its real program, a process of its own, so its memory and its CPU are its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use e2e::audit::measures::float;
use e2e::program::{free_address, get};
use hub_sim::{Hub, Options, Service};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use repository::{CONTROLLER, Profile, Programs};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use spoke_sim::Agents;
use testenv::{FleetSpec, fleet};
use tokio::process::{Child, Command};

use crate::fleet::bare::Works;
use crate::fleet::history::cpu_seconds;
use crate::fleet::test_bed::{note, peak_rss_mib};
use crate::thresholds::{Side, Threshold, require_counts, show};

const NAMESPACE: &str = "bench";
const SET: &str = "fleet";
const UPGRADE: &str = "bench";
/// Works that the bare client creates and deletes.
const MAX_BARE_WORKS: usize = 10_000;
/// Changes per kind that the hub remembers.
const HISTORY: usize = 50_000;
const START_TIMEOUT: Duration = Duration::from_mins(5);
const POLL: Duration = Duration::from_millis(500);
const PROGRESS: Duration = Duration::from_secs(15);

/// What to measure.
#[derive(Clone, Debug, Args)]
pub struct HubSimArgs {
    /// Clusters of the fleet.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub clusters: usize,
    /// maxConcurrency.
    #[arg(long = "max-concurrency", value_name = "N", default_value_t = 5_000)]
    pub slots: usize,
    /// From a work's creation to its terminal feedback, Partial in between.
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    pub agent_seconds: f64,
    /// Give up after this time.
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    pub minutes: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// The bare client's hub and work.
#[derive(Clone, Debug, Args)]
pub struct BareClientArgs {
    #[arg(long)]
    kubeconfig: PathBuf,
    #[arg(long)]
    clusters: usize,
    #[arg(long)]
    works: usize,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    clusters: usize,
    slots: usize,
    agent_seconds: f64,
    /// Seconds from the creation of the upgrade to Complete.
    done_seconds: f64,
    /// Seconds of CPU that the controller used from the start of its process to Complete.
    cpu_seconds: f64,
    /// Milliseconds of it for each cluster.
    cpu_ms_per_cluster: f64,
    /// The same of a client that only creates and deletes the same works.
    bare_cpu_ms_per_cluster: f64,
    /// Plans that were made and checked, and the mean time of one in milliseconds.
    plans: f64,
    plan_ms: f64,
    peak_rss_mib: f64,
    /// Peak resident memory before the upgrade was created.
    idle_rss_mib: f64,
    thresholds: Vec<Threshold>,
}

/// What the bare client says.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Bare {
    cpu_seconds: f64,
}

/// The simulated hub, and the directory of its kubeconfig and of the controller's log.
struct Bed {
    hub: Hub,
    client: Client,
    dir: tempfile::TempDir,
}

/// Measures and prints; says whether every threshold was met.
///
/// # Errors
/// The controller or the agents do not work as they should.
pub async fn run(args: &HubSimArgs) -> Result<bool> {
    let report = round(args).await?;
    show(&report, args.json, print)?;
    Ok(report.thresholds.iter().all(|threshold| threshold.met))
}

/// A short run, of which only the memory is judged.
///
/// # Errors
/// The controller does not upgrade the fleet, or needs too much memory.
pub async fn check_counts() -> Result<()> {
    let args = HubSimArgs {
        clusters: 300,
        slots: 50,
        agent_seconds: 0.5,
        minutes: 5,
        json: false,
    };
    let report = round(&args).await?;
    print(&report);
    require_counts(&report.thresholds)
}

async fn round(args: &HubSimArgs) -> Result<Report> {
    let programs = Programs::build(Profile::own())?;
    let bed = Bed::prepare(args).await?;
    let bare = bed.bare(&programs.path("bench"), args.clusters).await?;
    let agents = Agents::builder(bed.client.clone())
        .agent_seconds(args.agent_seconds)
        .start()
        .await?;
    agents.ready().await;
    let address = free_address()?;
    let mut controller = bed.controller(&programs.path(CONTROLLER), &address)?;
    let pid = controller.id().context("the controller has no process id")?;
    let report = measure(args, &bed, (pid, &address), bare).await;
    controller.kill().await?;
    agents.stop().await;
    report.with_context(|| bed.log())
}

async fn measure(args: &HubSimArgs, bed: &Bed, (pid, address): (u32, &str), bare: f64) -> Result<Report> {
    bed.wait_ready(address).await?;
    let idle_rss_mib = peak_rss_mib(pid);
    note(&format!("upgrading; the controller has {idle_rss_mib:.0} MiB"));
    let started = Instant::now();
    bed.create_upgrade(args)?;
    bed.wait_complete(started, Duration::from_mins(args.minutes), pid)
        .await?;
    let done_seconds = started.elapsed().as_secs_f64();
    let cpu_seconds = cpu_seconds(pid);
    let (_, metrics) = get(address, "/metrics").await?;
    let plans = metric(&metrics, "mcu_plan_duration_seconds_count")?;
    let plan_ms = metric(&metrics, "mcu_plan_duration_seconds_sum")? / plans.max(1.0) * 1000.0;
    let cpu_ms_per_cluster = cpu_seconds * 1000.0 / float(args.clusters);
    let peak_rss_mib = peak_rss_mib(pid);
    let thresholds = vec![
        Threshold::count("peak RSS", (Side::Below, 500.0), peak_rss_mib, "MiB"),
        Threshold::time(
            "CPU of the controller per cluster",
            (Side::Below, 1.0),
            cpu_ms_per_cluster,
            "ms",
        ),
        Threshold::time(
            "one plan with its check, mean",
            (Side::Below, 80.0),
            plan_ms,
            "ms",
        ),
    ];
    Ok(Report {
        clusters: args.clusters,
        slots: args.slots,
        agent_seconds: args.agent_seconds,
        done_seconds,
        cpu_seconds,
        cpu_ms_per_cluster,
        bare_cpu_ms_per_cluster: bare,
        plans,
        plan_ms,
        peak_rss_mib,
        idle_rss_mib,
        thresholds,
    })
}

fn print(report: &Report) {
    println!(
        "fleet of {}, {} slots, agents of {} s, simulated hub\n\ndone after {:.0} s; {:.1} s of CPU of the controller, {:.3} ms per \
         cluster; a bare client needs {:.3} ms to create and delete a work, ratio {:.2}\n{:.0} plans of {:.1} ms; {:.0} MiB before \
         the upgrade\n",
        report.clusters,
        report.slots,
        report.agent_seconds,
        report.done_seconds,
        report.cpu_seconds,
        report.cpu_ms_per_cluster,
        report.bare_cpu_ms_per_cluster,
        report.cpu_ms_per_cluster / report.bare_cpu_ms_per_cluster,
        report.plans,
        report.plan_ms,
        report.idle_rss_mib,
    );
    for threshold in &report.thresholds {
        println!("{threshold}");
    }
}

/// The value of a metric without labels.
fn metric(text: &str, name: &str) -> Result<f64> {
    let value_of = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    let value = text.lines().find_map(value_of);
    value.with_context(|| format!("the controller has no metric {name}"))
}

impl Bed {
    /// A hub with a fleet, on a port.
    async fn prepare(args: &HubSimArgs) -> Result<Self> {
        let hub = Hub::new(Options {
            history: HISTORY,
            ..Options::default()
        });
        tokio::spawn(hub.clone().keep_collecting_garbage());
        let listener = tokio::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let dir = tempfile::tempdir()?;
        std::fs::write(
            dir.path().join("kubeconfig"),
            hub_sim::kubeconfig(listener.local_addr()?),
        )?;
        let served = hub.clone();
        tokio::spawn(async move { hub_sim::serve(&listener, &served).await });
        let client = Client::new(Service::new(&hub, "system:admin"), "default");
        note(&format!("creating {} clusters", args.clusters));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mcu-system"}});
        hub.create("", "namespaces", &namespace)
            .context("the namespace is refused")?;
        let spec = FleetSpec::numbered("spoke", args.clusters)
            .in_set(SET)
            .bound_in(NAMESPACE);
        fleet::create(&client, &spec).await?;
        Ok(Self { hub, client, dir })
    }

    fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// Milliseconds of CPU that a bare client needs for each work that it creates and deletes.
    async fn bare(&self, program: &Path, clusters: usize) -> Result<f64> {
        let works = clusters.min(MAX_BARE_WORKS);
        note(&format!("a bare client creates and deletes {works} works"));
        let output = Command::new(program)
            .args(["bare-client", "--clusters", &clusters.to_string()])
            .args(["--works", &works.to_string(), "--kubeconfig"])
            .arg(self.kubeconfig())
            .stderr(Stdio::inherit())
            .output()
            .await?;
        ensure!(output.status.success(), "the bare client failed");
        let bare: Bare = serde_json::from_slice(&output.stdout)?;
        Ok(bare.cpu_seconds * 1000.0 / float(works))
    }

    fn controller(&self, program: &Path, address: &str) -> Result<Child> {
        let log = std::fs::File::create(self.dir.path().join("controller.log"))?;
        Command::new(program)
            .args(["--leader-elect=true".to_owned(), format!("--listen={address}")])
            // The simulated hub has none.
            .arg("--require-admission-policies=false")
            .env("KUBECONFIG", self.kubeconfig())
            .env("POD_NAMESPACE", "mcu-system")
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("the controller does not start")
    }

    /// The end of the controller's log.
    fn log(&self) -> String {
        let log = testenv::process::tail(&self.dir.path().join("controller.log"), 15);
        format!("the end of the controller's log:\n{log}")
    }

    async fn wait_ready(&self, address: &str) -> Result<()> {
        let started = Instant::now();
        while !get(address, "/readyz")
            .await
            .is_ok_and(|(status, _)| status == 200)
        {
            ensure!(started.elapsed() < START_TIMEOUT, "the controller is not ready");
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    fn create_upgrade(&self, args: &HubSimArgs) -> Result<()> {
        let spec = json!({
            "clusterSelector": {"clusterSets": [SET]},
            "clusterVersion": {"channel": "stable-4.12", "version": "4.12.0"},
            "upgradeStrategy": {"maxConcurrency": args.slots},
        });
        let upgrade = e2e::testbed::upgrade(NAMESPACE, UPGRADE, &spec);
        self.hub
            .create(api::GROUP, "managedclustersupgrades", &upgrade)
            .map(drop)
            .context("the upgrade is refused")
    }

    /// The status of the upgrade.
    fn status(&self) -> Value {
        let upgrade = self.hub.read(|state| {
            let upgrades = state.objects_of(api::GROUP, "managedclustersupgrades")?;
            upgrades.get(&format!("{NAMESPACE}/{UPGRADE}")).cloned()
        });
        upgrade.map_or(Value::Null, |upgrade| upgrade.value()["status"].clone())
    }

    async fn wait_complete(&self, started: Instant, limit: Duration, pid: u32) -> Result<()> {
        let mut shown = Instant::now();
        loop {
            let status = self.status();
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            if conditions.any(|one| one["type"] == "Complete" && one["status"] == "True") {
                return Ok(());
            }
            if status["clustersSummery"]["failed"].as_i64().unwrap_or(0) > 0 || started.elapsed() > limit {
                bail!(
                    "the upgrade does not succeed within {:?}: {status}",
                    started.elapsed()
                );
            }
            if shown.elapsed() > PROGRESS {
                shown = Instant::now();
                note(&format!(
                    "{:.0} s: {}; the controller used {:.1} s of CPU",
                    started.elapsed().as_secs_f64(),
                    status["progress"].as_str().unwrap_or("?"),
                    cpu_seconds(pid)
                ));
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Creates the works of a fleet as the controller does, and deletes them; prints what that costs.
///
/// # Errors
/// The hub refuses a request.
pub async fn bare_client(args: &BareClientArgs) -> Result<()> {
    let kubeconfig = Kubeconfig::read_from(&args.kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let mut upgrade = e2e::testbed::upgrade(
        NAMESPACE,
        UPGRADE,
        &json!({"clusterVersion": {"version": "4.12.0"}}),
    );
    upgrade["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000".into();
    let works = Works::of(&serde_json::from_value(upgrade)?, args.clusters)?.first(args.works);
    let before = cpu_seconds(std::process::id());
    works.create(&client).await?;
    works.delete(&client).await?;
    let bare = Bare {
        cpu_seconds: cpu_seconds(std::process::id()) - before,
    };
    println!("{}", serde_json::to_string(&bare)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let text = "# HELP a_sum x\na_sum_of_all 3\na_sum 2.5\n";
        assert!((metric(text, "a_sum").unwrap() - 2.5).abs() < f64::EPSILON);
        assert!(metric(text, "a_count").is_err());
    }
}
