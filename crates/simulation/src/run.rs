//! One run: a fleet is upgraded while faults happen; then faults end, and everything must end and stay as it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hub_sim::{Hub, Service};
use kube::Client;
use serde_json::Value;

use crate::choice::Choices;
use crate::fault::{Fault, Faults, Occasion};
use crate::options::Options;
use crate::oracle::{Oracle, Rule, Violation};
use crate::replica::Replica;
use crate::time::VirtualClock;
use crate::trace::Trace;
use crate::wire::{Network, Wire};
use crate::world::{Admin, TEAM, UPGRADE, start_agents};

/// When faults have ended, everything must be over after the time that the updates need one after the other, and this.
const END_SLACK: Duration = Duration::from_mins(30);
/// Nothing may change for this long when all is over: twice the longest pause between two attempts of the controller.
const QUIET: Duration = Duration::from_mins(15);
/// What was under way may come to its end before nothing may change any more: a watch that a fault has silenced stays silent
/// until its client gives it up after 295 s, and only then does an agent see a deletion.
const SETTLE: Duration = Duration::from_mins(6);
/// How often the run looks at the hub.
const LOOK: Duration = Duration::from_secs(1);

/// The outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What was violated.
    pub violations: Vec<Violation>,
    /// The hash of the trace.
    pub hash: u64,
    /// Requests to the hub.
    pub requests: u64,
    /// The faults that happened.
    pub faults: Vec<Occasion>,
    /// How often each rule was tried.
    pub checked: BTreeMap<Rule, u64>,
    /// Virtual seconds.
    pub seconds: f64,
    /// The lines of the trace, if they were kept.
    pub lines: String,
}

/// Runs a seed.
///
/// # Errors
/// The simulated world cannot be built: a defect of the simulation.
pub fn run(options: &Options, faults: &Faults, trace: Trace) -> Result<Outcome> {
    fastrand::seed(options.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let outcome = runtime.block_on(Run::play(options, faults, trace));
    runtime.shutdown_background();
    outcome
}

struct Run {
    options: Arc<Options>,
    clock: VirtualClock,
    trace: Trace,
    network: Network,
    hub: Hub,
    oracle: Oracle,
    replicas: Vec<Replica>,
    starts: u64,
}

impl Run {
    async fn play(options: &Options, faults: &Faults, trace: Trace) -> Result<Outcome> {
        let clock = VirtualClock::start();
        let options = Arc::new(options.clone());
        let hub = Hub::new(hub_sim::Options {
            seed: options.seed,
            history: 2_000,
            clock: Arc::new(move || clock.wall()),
            managed_fields: false,
        });
        let oracle = Oracle::new(&options);
        let (observer, changes) = (oracle.clone(), trace.clone());
        hub.observe(Box::new(move |kind, change| {
            let line = format!(
                "  {} {} {:?} rv {}",
                kind.plural, change.after.key, change.kind, change.revision
            );
            changes.add(clock.seconds(), &line);
            observer.observe(kind, change);
        }));
        // Plays kube-controller-manager.
        tokio::spawn(hub.clone().keep_collecting_garbage());
        let network = Network::new(&options, faults, clock, &trace);
        let mut run = Self {
            options: Arc::clone(&options),
            clock,
            trace,
            network,
            hub,
            oracle,
            replicas: Vec::new(),
            starts: 0,
        };
        let admin = Admin::new(Client::new(run.wire("admin").reliable(), "default"));
        admin.make_fleet(&options).await.context("the fleet")?;
        let agents = start_agents(Client::new(run.wire("agents"), "default"), &options, clock).await?;
        for number in 0..options.replicas {
            let replica = run.start_replica(number)?;
            run.replicas.push(replica);
        }
        admin.create_upgrade(&options).await.context("the upgrade")?;
        run.chaos().await?;
        run.network.repair();
        run.end().await?;
        run.quiet().await;
        drop(agents);
        Ok(run.outcome())
    }

    fn wire(&self, client: &str) -> Wire {
        Wire::new(&self.network, Service::new(&self.hub, client), client)
    }

    fn start_replica(&mut self, number: u64) -> Result<Replica> {
        self.starts += 1;
        let identity = format!("replica-{number}-{}", self.starts);
        let seed = Choices::new(self.options.seed).of(&identity, 0).bits();
        self.trace
            .add(self.clock.seconds(), &format!("{identity} starts"));
        Replica::start(self.wire(&format!("r{number}")), &identity, self.clock, seed)
    }

    /// Faults happen.
    async fn chaos(&mut self) -> Result<()> {
        let looks = self.options.chaos_seconds;
        for look in 0..looks {
            tokio::time::sleep(LOOK).await;
            // Kills and compactions are rarer than requests, so their rates are taken per ten looks.
            if look % 10 == 0 {
                for number in 0..self.options.replicas {
                    if self.network.strikes(Fault::Kill, &format!("r{number}"), look) {
                        self.restart(number).await?;
                    }
                }
                if self.network.strikes(Fault::Compaction, "hub", look) {
                    self.hub.compact(self.hub.read(hub_sim::State::revision));
                }
            }
            self.revive().await?;
        }
        Ok(())
    }

    /// Kills a replica and starts another one in its place.
    async fn restart(&mut self, number: u64) -> Result<()> {
        self.trace
            .add(self.clock.seconds(), &format!("r{number} is killed"));
        let at = usize::try_from(number)?;
        let new = self.start_replica(number)?;
        drop(std::mem::replace(&mut self.replicas[at], new));
        tokio::task::yield_now().await;
        Ok(())
    }

    /// A replica that ended by itself is started again, as the kubelet would do.
    async fn revive(&mut self) -> Result<()> {
        for number in 0..self.options.replicas {
            let at = usize::try_from(number)?;
            if self.replicas[at].has_ended() {
                self.oracle
                    .add(Rule::Ended, format!("the loop of r{number} ended"));
                self.restart(number).await?;
            }
        }
        Ok(())
    }

    /// Waits until the upgrade is complete.
    async fn end(&mut self) -> Result<()> {
        self.oracle.tried(Rule::Ends);
        let per_cluster = self.options.update() * 3 + self.options.soak() + Duration::from_mins(3);
        let bound = END_SLACK + per_cluster * u32::try_from(self.options.clusters)?;
        let mut waited = Duration::ZERO;
        while !self.is_complete() {
            if waited > bound {
                let status = self
                    .upgrade()
                    .map(|upgrade| upgrade["status"].to_string())
                    .unwrap_or_default();
                self.oracle.add(
                    Rule::Ends,
                    format!("not complete {bound:?} after the last fault: {status}"),
                );
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
            waited += LOOK;
            self.revive().await?;
        }
        Ok(())
    }

    fn upgrade(&self) -> Option<Value> {
        self.hub.read(|state| {
            let upgrades =
                state.objects_of("cluster.open-cluster-management.io", "managedclustersupgrades")?;
            upgrades
                .get(&format!("{TEAM}/{UPGRADE}"))
                .map(|object| object.value())
        })
    }

    fn is_complete(&self) -> bool {
        let upgrade = self.upgrade().unwrap_or_default();
        upgrade.pointer("/status/state").and_then(Value::as_str) == Some("Complete")
    }

    /// When all is over, nothing changes any more.
    async fn quiet(&mut self) {
        if !self.is_complete() {
            return;
        }
        self.oracle.tried(Rule::Quiet);
        tokio::time::sleep(SETTLE).await;
        let before = self.oracle.changes();
        tokio::time::sleep(QUIET).await;
        let changes = self.oracle.changes() - before;
        if changes > 0 {
            self.oracle.add(
                Rule::Quiet,
                format!("{changes} changes after everything was over"),
            );
        }
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            violations: self.oracle.violations(),
            hash: self.trace.hash(),
            requests: self.trace.requests(),
            faults: self.trace.faults(),
            checked: self.oracle.checked(),
            seconds: self.clock.seconds(),
            lines: self.trace.lines(),
        }
    }
}
