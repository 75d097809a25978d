//! How the controllers of a spoke are put together: mirrors, wires between them, tasks.

use std::sync::Arc;

use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::birth::Born;
use super::clock::Clock;
use super::cvo::VersionOperator;
use super::desk::Desk;
use super::fault::{ANNOTATION, Faults};
use super::kubelet::{Context, Kubelet};
use super::metrics::Exhibit;
use super::mirror::{Mirror, Scope};
use super::olm::Olm;
use super::prometheus::Prometheus;
use super::rollout::operators::Target;
use super::rollout::{Rollout, Surroundings};
use super::setup::Setup;
use super::updates::UpdateService;
use super::{Options, StartError, kinds, serve};
use crate::dice::Dice;
use crate::fields;

/// What all controllers share while they are set up.
pub(super) struct Stage {
    pub client: Client,
    pub clock: Clock,
    pub setup: Arc<Setup>,
    pub dark: watch::Sender<bool>,
    pub stop: CancellationToken,
    pub tasks: JoinSet<()>,
    pub dice: Dice,
}

/// What tells each controller to look.
#[derive(Default)]
struct Bells {
    cvo: Arc<Notify>,
    rollout: Arc<Notify>,
    olm: Arc<Notify>,
    kubelet: Arc<Notify>,
    faults: Arc<Notify>,
}

/// All that is watched.
struct Mirrors {
    version: Mirror,
    operators: Mirror,
    pools: Mirror,
    nodes: Mirror,
    pods: Mirror,
    gates: Mirror,
    acks: Mirror,
    /// Subscriptions and InstallPlans, where they are served.
    olm: Option<(Mirror, Mirror)>,
}

impl Mirrors {
    fn all(&self) -> Vec<Mirror> {
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

/// What the controllers tell one another.
struct Wires {
    faults: watch::Receiver<Faults>,
    target: (watch::Sender<Option<Target>>, watch::Receiver<Option<Target>>),
    surroundings: (watch::Sender<Surroundings>, watch::Receiver<Surroundings>),
    exhibit: watch::Sender<Exhibit>,
}

impl Stage {
    /// Starts everything. Returns what turns true when all objects are listed.
    pub fn play(
        &mut self,
        options: &Options,
        born: &Born,
        context: Context,
        metrics: Option<TcpListener>,
    ) -> Result<watch::Receiver<bool>, StartError> {
        let bells = Bells::default();
        let mirrors = self.mirrors(&bells, born.has_olm);
        let (set_faults, faults) = watch::channel(self.setup.faults.clone());
        let (tell_ready, ready) = watch::channel(false);
        let (exhibit, exhibited) = watch::channel(Exhibit {
            update_service: options.update_service.clone(),
            risks: born.knows_accept_risks,
            ..Exhibit::default()
        });
        if let Some(listener) = metrics {
            let show = serve::Show {
                exhibit: exhibited,
                version: mirrors.version.clone(),
                operators: mirrors.operators.clone(),
                dark: self.dark.subscribe(),
                ready: ready.clone(),
            };
            self.tasks.spawn(serve::run(listener, show, self.stop.clone()));
        }
        self.tasks.spawn(follow_faults(
            mirrors.version.clone(),
            self.setup.faults.clone(),
            set_faults,
            Arc::clone(&bells.faults),
            self.stop.clone(),
        ));
        let wires = Wires {
            faults,
            target: watch::channel(None),
            surroundings: watch::channel(Surroundings::default()),
            exhibit,
        };
        let all = mirrors.all();
        let plays = self.plays(options, born, context, &bells, mirrors, wires)?;
        self.tasks
            .spawn(when_listed(all, tell_ready, self.stop.clone(), plays));
        Ok(ready)
    }

    fn desk(&self) -> Desk {
        Desk::new(self.client.clone(), self.dark.subscribe())
    }

    fn mirror(&mut self, scope: &Scope, bells: &[&Arc<Notify>]) -> Mirror {
        let bells = bells.iter().map(|bell| Arc::clone(bell)).collect();
        Mirror::start(&mut self.tasks, &self.client, scope, bells, &self.stop)
    }

    fn mirrors(&mut self, bells: &Bells, has_olm: bool) -> Mirrors {
        let map = |namespace, name| Scope::one(kinds::config_map(), Some(namespace), name);
        let version = Scope::one(kinds::cluster_version(), None, "version");
        Mirrors {
            version: self.mirror(&version, &[&bells.cvo, &bells.olm, &bells.faults]),
            operators: self.mirror(
                &Scope::all(kinds::cluster_operator()),
                &[&bells.cvo, &bells.rollout],
            ),
            pools: self.mirror(&Scope::all(kinds::machine_config_pool()), &[&bells.rollout]),
            nodes: self.mirror(&Scope::all(kinds::node()), &[&bells.rollout, &bells.kubelet]),
            pods: self.mirror(&Scope::all(kinds::pod()), &[&bells.kubelet]),
            gates: self.mirror(&map("openshift-config-managed", "admin-gates"), &[&bells.cvo]),
            acks: self.mirror(&map("openshift-config", "admin-acks"), &[&bells.cvo]),
            olm: has_olm.then(|| {
                let subscriptions = self.mirror(&Scope::all(kinds::subscription()), &[&bells.olm]);
                (
                    subscriptions,
                    self.mirror(&Scope::all(kinds::install_plan()), &[&bells.olm]),
                )
            }),
        }
    }

    /// The controllers, ready to run.
    fn plays(
        &self,
        options: &Options,
        born: &Born,
        context: Context,
        bells: &Bells,
        mirrors: Mirrors,
        wires: Wires,
    ) -> Result<Vec<Play>, StartError> {
        let stop = &self.stop;
        let mut plays: Vec<Play> = Vec::new();
        let cvo = VersionOperator {
            clock: self.clock,
            setup: Arc::clone(&self.setup),
            settings: options.settings(born.knows_accept_risks),
            faults: wires.faults.clone(),
            dark: self.dark.subscribe(),
            surroundings: wires.surroundings.1,
            target: wires.target.0,
            exhibit: wires.exhibit,
            version: mirrors.version.clone(),
            operators: mirrors.operators.clone(),
            gates: mirrors.gates,
            acks: mirrors.acks,
            bell: Arc::clone(&bells.cvo),
            desk: self.desk(),
            service: UpdateService::new()?,
            prometheus: Prometheus::new(options.prometheus.as_deref())?,
            dice: self.dice,
        };
        plays.push(Box::pin(cvo.run(stop.clone())));
        let rollout = Rollout {
            clock: self.clock,
            setup: Arc::clone(&self.setup),
            faults: wires.faults.clone(),
            target: wires.target.1,
            surroundings: wires.surroundings.0,
            dark: self.dark.clone(),
            operators: mirrors.operators,
            pools: mirrors.pools,
            nodes: mirrors.nodes.clone(),
            bell: Arc::clone(&bells.rollout),
            desk: self.desk(),
            dice: self.dice,
        };
        plays.push(Box::pin(rollout.run(stop.clone())));
        let kubelet = Kubelet {
            context: Arc::new(context),
            pods: mirrors.pods,
            nodes: mirrors.nodes,
            bell: Arc::clone(&bells.kubelet),
        };
        plays.push(Box::pin(kubelet.run(stop.clone())));
        if let Some((subscriptions, plans)) = mirrors.olm {
            let olm = Olm {
                clock: self.clock,
                setup: Arc::clone(&self.setup),
                faults: wires.faults,
                subscriptions,
                plans,
                version: mirrors.version,
                bell: Arc::clone(&bells.olm),
                desk: self.desk(),
            };
            plays.push(Box::pin(olm.run(stop.clone())));
        }
        Ok(plays)
    }
}

type Play = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Lets the controllers begin when every mirror shows what is there: one that begins earlier would take a missing
/// list for missing objects.
async fn when_listed(
    mirrors: Vec<Mirror>,
    ready: watch::Sender<bool>,
    stop: CancellationToken,
    plays: Vec<Play>,
) {
    let listed = async {
        for mirror in &mirrors {
            mirror.ready().await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => return,
        () = listed => {}
    }
    ready.send_replace(true);
    let mut tasks: JoinSet<()> = plays.into_iter().collect();
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a controller failed");
        }
    }
}

/// Follows the annotation of the ClusterVersion that sets the faults.
async fn follow_faults(
    version: Mirror,
    scenario: Faults,
    set: watch::Sender<Faults>,
    bell: Arc<Notify>,
    stop: CancellationToken,
) {
    loop {
        let object = version.get(None, "version").unwrap_or_default();
        let annotation = fields::get(&object, &["metadata", "annotations", ANNOTATION]);
        let faults = match annotation.and_then(serde_json::Value::as_str) {
            None => Ok(scenario.clone()),
            Some(text) => text.parse::<Faults>(),
        };
        match faults {
            Ok(faults) => {
                let changed = set.send_if_modified(|now| {
                    let changed = *now != faults;
                    now.clone_from(&faults);
                    changed
                });
                if changed {
                    tracing::info!(%faults, "faults");
                }
            }
            Err(error) => tracing::warn!(%error, "the annotation is not understood; the faults stay"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = bell.notified() => {}
        }
    }
}
