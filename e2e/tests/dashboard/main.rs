//! The dashboard of `kubectl mcu`: its server, and its page in a real browser, before a simulated hub.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod page;
mod pictures;
mod server;
mod switch;

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::ManagedClustersUpgrade;
use clap::Parser as _;
use e2e::ReportedFleet;
use e2e::reported_fleet::{NAMESPACE, rows_in_the_middle, status_of};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use kubectl_mcu::args::Cli;
use kubectl_mcu::dashboard::guard::Token;
use kubectl_mcu::dashboard::server::router;
use kubectl_mcu::dashboard::state::Dashboard;
use kubectl_mcu::hub::Hub;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A dashboard that runs in this process.
struct Served {
    address: SocketAddr,
    token: String,
    /// The client of the dashboard.
    client: Client,
}

impl Served {
    /// A dashboard of the hub of a kubeconfig.
    async fn before(kubeconfig: &Path, allow_actions: bool) -> Result<Self> {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let cli = Cli::try_parse_from(["kubectl-mcu", "dashboard", "-n", NAMESPACE, &kubeconfig])?;
        let hub = Hub::connect(&cli.common).await.context("the hub")?;
        let client = hub.connection().client().clone();
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let address = listener.local_addr()?;
        let token = Token::random().context("the token")?;
        let text = token.as_str().to_owned();
        let dashboard = Arc::new(Dashboard::new(hub, false, allow_actions));
        tokio::spawn(axum::serve(listener, router(dashboard, token)).into_future());
        Ok(Self {
            address,
            token: text,
            client,
        })
    }

    /// The address that the command would print.
    fn url(&self) -> String {
        format!("http://{}/#token={}", self.address, self.token)
    }
}

/// A dashboard, and the fleet that it shows.
struct Running {
    fleet: ReportedFleet,
    served: Served,
}

impl Deref for Running {
    type Target = Served;

    fn deref(&self) -> &Served {
        &self.served
    }
}

impl Running {
    /// A dashboard of a fleet of this size in the middle of its upgrade.
    async fn start(clusters: usize, allow_actions: bool) -> Result<Self> {
        let rows = rows_in_the_middle(clusters, chrono::Utc::now());
        let fleet = ReportedFleet::start(&rows).await?;
        fleet.set_status(&status_of(&rows)).await?;
        let served = Served::before(&fleet.kubeconfig(), allow_actions).await?;
        Ok(Self { fleet, served })
    }

    /// Creates another upgrade, which selects no cluster and has no reports.
    async fn add_empty_upgrade(&self, name: &str, paused: bool, status: &Value) -> Result<()> {
        let resource = ApiResource::erase::<ManagedClustersUpgrade>(&());
        let upgrades: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), NAMESPACE, &resource);
        let upgrade = json!({
            "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
            "kind": "ManagedClustersUpgrade",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "clusterSelector": {"matchLabels": {"season": name}},
                "clusterVersion": {"channel": "stable-4.19", "version": "4.19.3"},
                "paused": paused,
            },
        });
        let upgrade: DynamicObject = serde_json::from_value(upgrade)?;
        upgrades.create(&PostParams::default(), &upgrade).await?;
        let patch = Patch::Merge(json!({"status": status}));
        upgrades
            .patch_status(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }
}
