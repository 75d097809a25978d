//! The simulated hub: an API server in memory on a port of this machine, with a scheduler of Placements, simulated clusters behind
//! simulated work agents, and the real controller, all in this process.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use controller::controller::{self as daemon, Parts};
use controller::events::Publisher;
use controller::flags::Flags;
use controller::health::Readiness;
use controller::lease;
use controller::metrics::Metrics;
use controller::sources::Sources;
use http::{Request, Response, StatusCode};
use hub_sim::{Hub, Options, Service};
use kube::Client;
use kube::client::Body;
use spoke_sim::{Agents, Pace};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use tracing_subscriber::EnvFilter;

use super::claims;
use super::fixtures::{Fixtures, REFUSAL};
use super::narrator::Narrator;
use super::picture::Picture;
use super::story::{self, Stage};
use super::summary::{Requests, Summary};
use super::{DemoArgs, Kept};

/// The namespace of the controller and its Lease.
const CONTROLLER_NAMESPACE: &str = "mcu-system";
/// What is logged. The client's own complaints are left out, as in the other programs.
pub(super) const LOG: &str = "info,kube_client=off";
/// Simulated over real time in the demo: a minute is a second.
const TIME_SCALE: f64 = 1.0 / 60.0;
/// An update of the platform takes three seconds in the demo.
const UPDATE: Duration = Duration::from_mins(3);

/// A running hub. Dropping it ends everything.
pub struct SimulatedHub {
    hub: Hub,
    client: Client,
    kubeconfig: String,
    requests: Arc<Counts>,
    tasks: JoinSet<()>,
}

/// Requests of the controller.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicUsize,
    wasted: AtomicUsize,
}

impl Counts {
    fn count(&self, status: StatusCode) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        if matches!(status, StatusCode::NOT_FOUND | StatusCode::CONFLICT) {
            self.wasted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl SimulatedHub {
    /// Starts an empty hub.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn start() -> Result<Self> {
        let hub = Hub::new(Options {
            seed: u64::from(std::process::id()),
            ..Options::default()
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let kubeconfig = hub_sim::kubeconfig(listener.local_addr()?);
        let mut tasks = JoinSet::new();
        tasks.spawn(hub.clone().keep_collecting_garbage());
        tasks.spawn(hub.clone().keep_deciding_placements());
        let served = hub.clone();
        tasks.spawn(async move { hub_sim::serve(&listener, &served).await });
        Ok(Self {
            client: Client::new(Service::new(&hub, "system:admin"), "default"),
            hub,
            kubeconfig,
            requests: Arc::default(),
            tasks,
        })
    }

    /// A client of the administrator.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The text of its kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Starts the agents of all clusters, also of those that are created later.
    ///
    /// # Errors
    /// They cannot be started.
    pub async fn start_agents(&mut self, pace: Pace) -> Result<()> {
        let client = Client::new(Service::new(&self.hub, "spoke-agents"), "default");
        let agents = Agents::builder(client).pace(pace).heartbeat(true).start().await?;
        agents.ready().await;
        self.tasks
            .spawn(claims::keep_current(self.client.clone(), agents));
        Ok(())
    }

    /// Starts the controller.
    ///
    /// # Errors
    /// Its namespace cannot be created, or its flags contradict each other.
    pub fn start_controller(&mut self) -> Result<()> {
        let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CONTROLLER_NAMESPACE}});
        self.hub
            .create("", "namespaces", &namespace)
            .context("the namespace of the controller")?;
        let requests = Arc::clone(&self.requests);
        let service = Service::new(&self.hub, "system:serviceaccount:mcu-system:mcu-controller");
        let count = move |response: Response<hub_sim::Body>| {
            requests.count(response.status());
            response
        };
        let service = ServiceExt::<Request<Body>>::map_response(service, count);
        let client = Client::new(service, CONTROLLER_NAMESPACE);
        // The simulated hub enforces no admission policies.
        let flags = Flags::try_parse_from(["mcu-controller", "--require-admission-policies=false"])?;
        let sources = Sources::system();
        let metrics = Arc::new(Metrics::new());
        let shutdown = CancellationToken::new();
        let lease = flags.lease_config(CONTROLLER_NAMESPACE)?;
        let identity = lease.identity.clone();
        let (leadership, election) = lease::run(client.clone(), lease, &sources, shutdown.clone());
        let (events, sender) = Publisher::start(
            client.clone(),
            leadership.fence(),
            Arc::clone(&metrics),
            identity,
            &sources,
            shutdown.clone(),
        );
        let parts = Parts {
            metrics,
            readiness: Arc::new(Readiness::new()),
            leadership,
            events,
            sources,
            shutdown,
        };
        self.tasks.spawn(async move {
            if let Err(error) = daemon::run(client, &flags, parts).await {
                eprintln!("error: the controller ended: {error:#}");
            }
            // Both run for as long as the controller does.
            election.abort();
            sender.abort();
        });
        Ok(())
    }

    fn requests(&self) -> Requests {
        Requests {
            sent: self.requests.sent.load(Ordering::Relaxed),
            wasted: self.requests.wasted.load(Ordering::Relaxed),
        }
    }
}

/// Shows the demo on a simulated hub. Returns the hub if it is to be kept.
pub(super) async fn show(args: &DemoArgs) -> Result<Option<Kept>> {
    let fixtures = Fixtures::new(args.clusters);
    let mut narrator = Narrator::new();
    let dir = tempfile::Builder::new().prefix("mcu-demo-").tempdir()?;
    let log = dir.path().join("mcu-controller.log");
    log_to_file(&log)?;
    narrator.say(
        "starting a SIMULATED hub: an API server in memory and a scheduler of Placements, in this process\n\
         (cargo xtask demo --real-hub: the same with kube-apiserver and OCM)",
    );
    let mut hub = SimulatedHub::start().await?;
    let kubeconfig = dir.path().join("kubeconfig");
    std::fs::write(&kubeconfig, hub.kubeconfig())?;
    fixtures.fleet().create(hub.client()).await?;
    story::set_fault(hub.client(), &fixtures.refusing, Some(REFUSAL)).await?;
    hub.start_agents(Pace::scaled(TIME_SCALE, UPDATE)).await?;
    narrator.say(&fixtures.introduction());
    hub.start_controller()?;
    narrator.say("mcu-controller, the real one, runs in this process, too");
    let stage = Stage {
        client: hub.client().clone(),
        fixtures,
        picture: Picture {
            kubeconfig: (!args.json).then(|| kubeconfig.clone()),
        },
        log,
    };
    let ended = Box::pin(story::run(&mut narrator, &stage)).await;
    let shown = ended.map(|end| Summary::new("simulated in memory", &stage.fixtures, &end, hub.requests()));
    if !args.keep {
        super::finish(args, &shown?)?;
        return Ok(None);
    }
    match &shown {
        Ok(summary) => super::finish(args, summary)?,
        // A user who keeps the hub wants to inspect it.
        Err(error) => eprintln!("error: {error:#}"),
    }
    eprintln!(
        "\nThe simulated hub stays until Ctrl-C. To look around, in another terminal:\n{}",
        stage.fixtures.commands(&kubeconfig, &programs())
    );
    Ok(Some((hub, dir)))
}

/// The directory of this program, which has the plugin beside it.
fn programs() -> String {
    let here = std::env::current_exe().ok();
    here.as_deref()
        .and_then(Path::parent)
        .map(|dir| dir.display().to_string())
        .unwrap_or_default()
}

/// The controller logs in this process, whose terminal shows the picture.
fn log_to_file(path: &Path) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    tracing_subscriber::fmt()
        .with_writer(Mutex::new(file))
        .with_ansi(false)
        .with_env_filter(EnvFilter::new(LOG))
        .init();
    Ok(())
}
