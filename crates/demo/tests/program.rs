//! The program on its simulated hub: it can be interrupted, an upgrade that somebody creates on the hub to play with moves, and
//! the plugin says which hub it is. The whole story is a step of `cargo xtask test`.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use api::{ManagedClustersUpgrade, ManagedClustersUpgradeStatus};
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

const TIMEOUT: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);

/// The program, killed if the test ends before it does.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Demo {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    /// Sends a signal and returns the exit code.
    fn end(&mut self, signal: &str) -> Option<i32> {
        let kill = Command::new("kill")
            .args([signal, &self.0.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        self.0.wait().unwrap().code()
    }
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(TIMEOUT, async {
        while !holds().await {
            tokio::time::sleep(POLL).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("not in time: {what}"));
}

async fn client(kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

#[test]
fn it_says_which_hub_it_is_and_ctrl_c_ends_it() {
    let mut demo = Demo::start(&["--clusters", "4"]);
    let mut told = BufReader::new(demo.0.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    assert!(told.next().unwrap().contains("SIMULATED hub"));
    // The picture is there, too.
    assert!(told.any(|line| line.contains("ManagedClustersUpgrade fleet-4-20")));
    assert_eq!(demo.end("-INT"), Some(130));
    assert!(told.any(|line| line.contains("interrupted")));
}

#[tokio::test]
async fn an_upgrade_on_the_hub_to_play_with_moves_by_its_placement() {
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    let path = kubeconfig.display().to_string();
    let mut demo = Demo::start(&["serve", "--clusters", "3", "--kubeconfig", &path]);
    until("the kubeconfig", async || kubeconfig.exists()).await;
    let client = client(&kubeconfig).await;
    let note = kubectl_mcu::policies::warning(&client).await;
    assert!(note.is_some_and(|note| note.contains("this is a simulated hub")));
    let upgrades: Api<ManagedClustersUpgrade> = Api::namespaced(client, "default");
    let upgrade = json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION), "kind": "ManagedClustersUpgrade",
        "metadata": {"name": "spring", "namespace": "default"},
        "spec": {
            "placement": [{"name": "fleet"}],
            "clusterVersion": {"channel": "stable-4.20", "version": "4.20.4"},
            "upgradeStrategy": {"maxConcurrency": 2},
        },
    });
    let upgrade = serde_json::from_value(upgrade).unwrap();
    upgrades.create(&PostParams::default(), &upgrade).await.unwrap();
    until("two of three clusters are in flight", async || {
        let found = upgrades.get("spring").await.unwrap();
        let status: ManagedClustersUpgradeStatus = found.status.unwrap_or_default();
        let total = status.clusters_summery.map(|summary| summary.total);
        status.in_flight == Some(2) && total == Some(3)
    })
    .await;
    let check = ["kubectl-mcu", "check", "--kubeconfig", &path];
    assert_eq!(kubectl_mcu::run_args(check).await, kubectl_mcu::Exit::Done);
    assert_eq!(demo.end("-TERM"), Some(0));
}
