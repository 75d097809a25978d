//! The dashboard of `kubectl mcu`: its server, and its page in a real browser, before a simulated hub.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod page;
mod pictures;
mod server;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use e2e::ReportedFleet;
use e2e::reported_fleet::{NAMESPACE, rows_in_the_middle, status_of};
use kubectl_mcu::args::Cli;
use kubectl_mcu::dashboard::guard::Token;
use kubectl_mcu::dashboard::server::router;
use kubectl_mcu::dashboard::state::Dashboard;
use kubectl_mcu::hub::Hub;
use tokio::net::TcpListener;

/// A dashboard that runs in this process, and the fleet that it shows.
struct Running {
    fleet: ReportedFleet,
    address: SocketAddr,
    token: String,
}

impl Running {
    /// A dashboard of a fleet of this size in the middle of its upgrade.
    async fn start(clusters: usize, allow_actions: bool) -> Result<Self> {
        let rows = rows_in_the_middle(clusters, chrono::Utc::now());
        let fleet = ReportedFleet::start(&rows).await?;
        fleet.set_status(&status_of(&rows)).await?;
        let kubeconfig = format!("--kubeconfig={}", fleet.kubeconfig().display());
        let cli = Cli::try_parse_from(["kubectl-mcu", "dashboard", "-n", NAMESPACE, &kubeconfig])?;
        let hub = Hub::connect(&cli.common).await.context("the hub")?;
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let address = listener.local_addr()?;
        let token = Token::random().context("the token")?;
        let text = token.as_str().to_owned();
        let dashboard = Arc::new(Dashboard::new(hub, false, allow_actions));
        tokio::spawn(axum::serve(listener, router(dashboard, token)).into_future());
        Ok(Self {
            fleet,
            address,
            token: text,
        })
    }

    /// The address that the command would print.
    fn url(&self) -> String {
        format!("http://{}/#token={}", self.address, self.token)
    }
}
