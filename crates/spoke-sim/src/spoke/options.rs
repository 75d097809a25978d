//! Settings of a simulated cluster that are not part of its scenario.

use std::net::SocketAddr;
use std::path::PathBuf;

use cvo_model::Settings;

use super::setup::Setup;

/// Settings of a simulated cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its scenario.
    pub setup: Setup,
    /// How many times faster than real time its clock runs.
    pub speed: f64,
    /// URL of the update service's graph. It takes precedence over `spec.upstream`.
    pub update_service: Option<String>,
    /// URL of the cluster's Prometheus. Without it no `PromQL` query can be evaluated.
    pub prometheus: Option<String>,
    /// Where to serve `/metrics` and `/healthz`.
    pub listen: Option<SocketAddr>,
    /// Address of the TCP proxy in front of the API server.
    pub tcp_proxy: Option<SocketAddr>,
    /// The kubectl that pods find as `oc` and `kubectl`.
    pub kubectl: Option<PathBuf>,
    /// Directory of the pods, with their output in `logs`.
    pub dir: PathBuf,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Options {
    /// Settings with a scenario and a speed, and defaults for everything else.
    #[must_use]
    pub fn new(setup: Setup, speed: f64, dir: PathBuf) -> Self {
        Self {
            setup,
            speed,
            update_service: None,
            prometheus: None,
            listen: None,
            tcp_proxy: None,
            kubectl: None,
            dir,
            seed: 1,
        }
    }

    /// Settings of the model. `knows_accept_risks`: the schema of ClusterVersion has `acceptRisks`, so the feature gate is on.
    #[must_use]
    pub fn settings(&self, knows_accept_risks: bool) -> Settings {
        Settings {
            era: self.setup.fixed_era(),
            accept_risks: knows_accept_risks,
            update_service: self.update_service.clone(),
            ..Settings::default()
        }
    }
}
