//! Connects the controllers of a simulated cluster: informers, channels between controllers, tasks.

use std::sync::Arc;

use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::clock::Clock;
use super::cvo::VersionOperator;
use super::error::StartError;
use super::informer::{Informer, Scope};
use super::install::Installed;
use super::kubelet::{Context, Kubelet};
use super::metrics::OperatorReport;
use super::olm::Olm;
use super::options::Options;
use super::prometheus::Prometheus;
use super::rollout::operators::Target;
use super::rollout::{MachineEvents, Rollout};
use super::setup::Setup;
use super::status_writer::StatusWriter;
use super::updates::UpdateService;
use super::{kinds, serve};
use crate::fault::{ANNOTATION, Faults, Simulator};
use crate::fields;
use crate::seeded_rng::SeededRng;

/// What is needed to start the controllers.
pub(super) struct Wiring {
    pub client: Client,
    pub clock: Clock,
    pub setup: Arc<Setup>,
    pub dark: watch::Sender<bool>,
    pub stop: CancellationToken,
    pub tasks: JoinSet<()>,
    pub rng: SeededRng,
}

/// Wakes each controller up.
#[derive(Default)]
struct Notifiers {
    cvo: Arc<Notify>,
    rollout: Arc<Notify>,
    olm: Arc<Notify>,
    kubelet: Arc<Notify>,
    faults: Arc<Notify>,
}

/// Everything that is watched.
struct Informers {
    version: Informer,
    operators: Informer,
    pools: Informer,
    nodes: Informer,
    pods: Informer,
    gates: Informer,
    acks: Informer,
    /// Subscriptions and InstallPlans, where they are served.
    olm: Option<(Informer, Informer)>,
}

impl Informers {
    fn all(&self) -> Vec<Informer> {
        let mut all = [
            &self.version,
            &self.operators,
            &self.pools,
            &self.nodes,
            &self.pods,
            &self.gates,
            &self.acks,
        ]
        .map(Clone::clone)
        .to_vec();
        all.extend(
            self.olm
                .iter()
                .flat_map(|(subscriptions, plans)| [subscriptions.clone(), plans.clone()]),
        );
        all
    }
}

/// Channels between the controllers.
struct Channels {
    faults: watch::Receiver<Faults>,
    target: (watch::Sender<Option<Target>>, watch::Receiver<Option<Target>>),
    machine_events: (watch::Sender<MachineEvents>, watch::Receiver<MachineEvents>),
    report: watch::Sender<OperatorReport>,
}

impl Wiring {
    /// Starts everything. The returned value becomes true when all objects are listed.
    pub fn start(
        &mut self,
        options: &Options,
        installed: &Installed,
        context: Context,
        metrics: Option<TcpListener>,
    ) -> Result<watch::Receiver<bool>, StartError> {
        let notifiers = Notifiers::default();
        let informers = self.informers(&notifiers, installed.has_olm);
        let (set_faults, faults) = watch::channel(self.setup.faults.clone());
        let (tell_ready, ready) = watch::channel(false);
        let (report, reported) = watch::channel(OperatorReport {
            update_service: options.update_service.clone(),
            risks: installed.knows_accept_risks,
            ..OperatorReport::default()
        });
        if let Some(listener) = metrics {
            let sources = serve::MetricsSources {
                report: reported,
                version: informers.version.clone(),
                operators: informers.operators.clone(),
                dark: self.dark.subscribe(),
                ready: ready.clone(),
            };
            self.tasks.spawn(serve::run(listener, sources, self.stop.clone()));
        }
        self.tasks.spawn(follow_faults(
            informers.version.clone(),
            self.setup.faults.clone(),
            set_faults,
            Arc::clone(&notifiers.faults),
            self.stop.clone(),
        ));
        let channels = Channels {
            faults,
            target: watch::channel(None),
            machine_events: watch::channel(MachineEvents::default()),
            report,
        };
        let all = informers.all();
        let controllers = self.controllers(options, installed, context, &notifiers, informers, channels)?;
        self.tasks
            .spawn(when_listed(all, tell_ready, self.stop.clone(), controllers));
        Ok(ready)
    }

    fn writer(&self) -> StatusWriter {
        StatusWriter::new(self.client.clone(), self.dark.subscribe())
    }

    fn informer(&mut self, scope: &Scope, notifiers: &[&Arc<Notify>]) -> Informer {
        let notifiers = notifiers.iter().map(|notify| Arc::clone(notify)).collect();
        Informer::start(&mut self.tasks, &self.client, scope, notifiers, &self.stop)
    }

    fn informers(&mut self, notifiers: &Notifiers, has_olm: bool) -> Informers {
        let map = |namespace, name| Scope::one(kinds::config_map(), Some(namespace), name);
        let version = Scope::one(kinds::cluster_version(), None, "version");
        Informers {
            version: self.informer(&version, &[&notifiers.cvo, &notifiers.olm, &notifiers.faults]),
            operators: self.informer(
                &Scope::all(kinds::cluster_operator()),
                &[&notifiers.cvo, &notifiers.rollout],
            ),
            pools: self.informer(&Scope::all(kinds::machine_config_pool()), &[&notifiers.rollout]),
            nodes: self.informer(
                &Scope::all(kinds::node()),
                &[&notifiers.rollout, &notifiers.kubelet],
            ),
            pods: self.informer(&Scope::all(kinds::pod()), &[&notifiers.kubelet]),
            gates: self.informer(&map("openshift-config-managed", "admin-gates"), &[&notifiers.cvo]),
            acks: self.informer(&map("openshift-config", "admin-acks"), &[&notifiers.cvo]),
            olm: has_olm.then(|| {
                let subscriptions = self.informer(&Scope::all(kinds::subscription()), &[&notifiers.olm]);
                (
                    subscriptions,
                    self.informer(&Scope::all(kinds::install_plan()), &[&notifiers.olm]),
                )
            }),
        }
    }

    /// The controllers, ready to run.
    fn controllers(
        &self,
        options: &Options,
        installed: &Installed,
        context: Context,
        notifiers: &Notifiers,
        informers: Informers,
        channels: Channels,
    ) -> Result<Vec<Controller>, StartError> {
        let stop = &self.stop;
        let mut controllers: Vec<Controller> = Vec::new();
        let cvo = VersionOperator {
            clock: self.clock,
            setup: Arc::clone(&self.setup),
            settings: options.settings(installed.knows_accept_risks),
            faults: channels.faults.clone(),
            dark: self.dark.subscribe(),
            machine_events: channels.machine_events.1,
            target: channels.target.0,
            report: channels.report,
            version: informers.version.clone(),
            operators: informers.operators.clone(),
            gates: informers.gates,
            acks: informers.acks,
            notify: Arc::clone(&notifiers.cvo),
            writer: self.writer(),
            service: UpdateService::new()?,
            prometheus: Prometheus::new(options.prometheus.as_deref())?,
            rng: self.rng,
        };
        controllers.push(Box::pin(cvo.run(stop.clone())));
        let rollout = Rollout {
            clock: self.clock,
            setup: Arc::clone(&self.setup),
            faults: channels.faults.clone(),
            target: channels.target.1,
            machine_events: channels.machine_events.0,
            dark: self.dark.clone(),
            operators: informers.operators,
            pools: informers.pools,
            nodes: informers.nodes.clone(),
            notify: Arc::clone(&notifiers.rollout),
            writer: self.writer(),
            rng: self.rng,
        };
        controllers.push(Box::pin(rollout.run(stop.clone())));
        let kubelet = Kubelet {
            context: Arc::new(context),
            pods: informers.pods,
            nodes: informers.nodes,
            notify: Arc::clone(&notifiers.kubelet),
        };
        controllers.push(Box::pin(kubelet.run(stop.clone())));
        if let Some((subscriptions, plans)) = informers.olm {
            let olm = Olm {
                clock: self.clock,
                setup: Arc::clone(&self.setup),
                faults: channels.faults,
                subscriptions,
                plans,
                version: informers.version,
                notify: Arc::clone(&notifiers.olm),
                writer: self.writer(),
            };
            controllers.push(Box::pin(olm.run(stop.clone())));
        }
        Ok(controllers)
    }
}

type Controller = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts the controllers when every informer has its first list. A controller that started earlier would mistake a missing
/// list for missing objects.
async fn when_listed(
    informers: Vec<Informer>,
    ready: watch::Sender<bool>,
    stop: CancellationToken,
    controllers: Vec<Controller>,
) {
    let listed = async {
        for informer in &informers {
            informer.ready().await;
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => return,
        () = listed => {}
    }
    ready.send_replace(true);
    let mut tasks: JoinSet<()> = controllers.into_iter().collect();
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a controller failed");
        }
    }
}

/// Sets the faults by the annotation of the ClusterVersion.
async fn follow_faults(
    version: Informer,
    scenario: Faults,
    set: watch::Sender<Faults>,
    notify: Arc<Notify>,
    stop: CancellationToken,
) {
    loop {
        let object = version.get(None, "version").unwrap_or_default();
        let annotation = fields::get(&object, &["metadata", "annotations", ANNOTATION]);
        let faults = match annotation.and_then(serde_json::Value::as_str) {
            None => Ok(scenario.clone()),
            Some(text) => Faults::parse(text, Simulator::Cluster),
        };
        match faults {
            Ok(faults) => {
                let changed = set.send_if_modified(|now| {
                    let changed = *now != faults;
                    now.clone_from(&faults);
                    changed
                });
                if changed {
                    tracing::info!(%faults, "faults changed");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the fault annotation cannot be read; the faults stay as they are");
            }
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = notify.notified() => {}
        }
    }
}
