//! What can be set about a spoke from outside its scenario.

use std::net::SocketAddr;
use std::path::PathBuf;

use clusterversion::law::Settings;

use super::setup::Setup;

/// Settings of a spoke.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it is installed with.
    pub setup: Setup,
    /// How many times faster than the wall's its clock runs.
    pub speed: f64,
    /// URL of the update service's graph; it wins over `spec.upstream`.
    pub update_service: Option<String>,
    /// URL of the spoke's Prometheus; without one no `PromQL` can be evaluated.
    pub prometheus: Option<String>,
    /// Where to serve `/metrics` and `/healthz`.
    pub listen: Option<SocketAddr>,
    /// Where to forward to the API server as long as no outage is played.
    pub door: Option<SocketAddr>,
    /// The kubectl that pods find as `oc` and `kubectl`.
    pub kubectl: Option<PathBuf>,
    /// Directory of the pods: their output is in `logs`.
    pub dir: PathBuf,
    /// Seed of all draws.
    pub seed: u64,
}

impl Options {
    /// A spoke of a scenario at a speed, with everything else left out.
    #[must_use]
    pub fn new(setup: Setup, speed: f64, dir: PathBuf) -> Self {
        Self {
            setup,
            speed,
            update_service: None,
            prometheus: None,
            listen: None,
            door: None,
            kubectl: None,
            dir,
            seed: 1,
        }
    }

    /// Settings of the law. `knows_accept_risks`: the schema of ClusterVersion has them, so their gate is open.
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
