//! One run: a fleet is upgraded while faults happen; then faults end, and everything must end and stay as it is.

mod asked;
mod endure;
mod outcome;
mod truth;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::conditions::reason::RECORD_REFUSED;
use api::names::LABEL_MCU_UID;
use hub_sim::{At as _, Hub, Object, Snapshot};
use kube::Client;
use serde_json::Value;
use spoke_sim::Agents;

pub use self::outcome::{Outcome, run, run_mutated};
use crate::actor::Role;
use crate::admin::{Admin, upgrades_of};
use crate::choice::Choices;
use crate::describe::{brief, describe};
use crate::fault::{Fault, Faults, Occasion};
use crate::machines::Machines;
use crate::mutation::Mutation;
use crate::names::{RIVAL, TEAM, UPGRADE};
use crate::network::{Ground, Network};
use crate::options::Options;
use crate::oracle::{Known, Oracle, Rule};
use crate::people::{People, upgrade};
use crate::time::VirtualClock;
use crate::trace::Trace;
use crate::wire::Wire;
use crate::world::{make_fleet, start_agents, upgrade as new_upgrade};

/// When faults have ended, everything must be over after the time that the updates need one after the other, and this.
const END_SLACK: Duration = Duration::from_mins(30);
/// How often people who are slow may have to act until all is over.
const SETTLES: u32 = 6;
/// What was under way may come to its end before nothing may change any more.
const SETTLE: Duration = Duration::from_secs(90);
/// The same if a watch was silenced: an agent's client gives it up after 295 s, and only then does the agent see a deletion.
const SETTLE_LONG: Duration = Duration::from_mins(6);
/// How long nothing may change after all replicas started anew: long enough for a new leader to read everything.
const RESTART: Duration = Duration::from_secs(100);
/// How long a replica may not know what has changed.
const DEAF: Duration = Duration::from_secs(75);
/// How long after a claim whatever it tells has come about: for two minutes after the end of an update no claim counts.
const CLAIMED: Duration = Duration::from_mins(3);
/// How often the run looks at the hub.
const LOOK: Duration = Duration::from_secs(1);
/// Conditions of which one says why nothing moves, or that nothing has to.
const TELLING: [&str; 3] = ["Stalled", "Ready", "ClockSkew"];
/// By how much a clock that was ahead may have put off the end of a soak or of a time limit.
const AHEAD: Duration = Duration::from_hours(2);
/// How long works of an upgrade that is gone may stay when faults have ended: ten minutes, and the time until a look and until the
/// look of another leader.
const SWEEP: Duration = Duration::from_mins(22);
/// How often a replica that starts anew, and then leads, may list the same objects.
const LISTS: u64 = 2;
/// For how many seconds a watch stays open, if nothing disturbs it.
const WATCHED: u64 = 30;
/// Faults that may write what a replica cannot read.
const GARBLING: [Fault; 5] = [
    Fault::DeepUpgrade,
    Fault::Tamper,
    Fault::Nonsense,
    Fault::EditRow,
    Fault::ForgeReport,
];
/// An upgrade of which nothing moves for this long must say so.
const STILL: Duration = Duration::from_mins(7);

/// Whether the status is about the present spec.
fn is_observed(value: &Value) -> bool {
    value.at("/status/observedGeneration") == value.at("/metadata/generation")
}

/// Whether a condition of a status is True.
fn is_true(value: &Value, condition: &str) -> bool {
    let conditions = value.at("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|one| {
        let text = |field: &str| one.get(field).and_then(Value::as_str);
        text("type") == Some(condition) && text("status") == Some("True")
    })
}

/// The clusters of which a status says that they wait for their windows.
fn waiting_for_window(value: &Value) -> impl Iterator<Item = &str> {
    let waiting = value.at("/status/waitingClusters").and_then(Value::as_array);
    let waits = |one: &&Value| one.get("reason").and_then(Value::as_str) == Some("WaitingForWindow");
    let waiting = waiting.into_iter().flatten().filter(waits);
    waiting.filter_map(|one| one.get("name")?.as_str())
}

struct Run {
    options: Arc<Options>,
    clock: VirtualClock,
    network: Network,
    hub: Hub,
    oracle: Oracle,
    agents: Arc<Agents>,
    admin: Admin,
    people: People,
    machines: Machines,
    /// When faults ended.
    repaired: Duration,
    /// How many updates had ended when the change of claims was last planned.
    claimed: u64,
    /// When the claims of clusters are to follow next.
    claim_at: Option<Duration>,
    /// How many plans had been refused by checkers at the last look.
    refused: u64,
    /// How many objects replicas could not read until the last look.
    unread: u64,
    /// The hub and what is known of it, as they were some seconds ago, the latest last.
    snapshots: VecDeque<(u64, Snapshot, Known)>,
}

impl Run {
    async fn begin(
        options: &Options,
        faults: &Faults,
        trace: Trace,
        mutation: Option<Mutation>,
    ) -> Result<Self> {
        let clock = VirtualClock::start();
        let options = Arc::new(options.clone());
        let hub = Hub::new(hub_sim::Options {
            seed: options.seed,
            history: 2_000,
            clock: Arc::new(move || clock.wall()),
            managed_fields: false,
        });
        // Clocks that differ by less than half a minute are trusted, and a `Date` has a resolution of a second.
        let may_strike = |fault: Fault| match faults {
            Faults::ByRate => options.rate(fault) > 0,
            Faults::Only(all) => all.iter().any(|one| one.fault == fault),
        };
        let jumps = may_strike(Fault::ClockJump) || may_strike(Fault::ClockFar);
        let oracle = Oracle::new(Duration::from_secs(if jumps { 33 } else { 1 }), trace.clone());
        let network = Network::new(Ground {
            options: Arc::clone(&options),
            faults: Arc::new(faults.clone()),
            clock,
            trace,
            oracle: oracle.clone(),
            mutation,
        });
        let (observer, notes) = (oracle.clone(), network.clone());
        hub.observe(Box::new(move |kind, change| {
            let line = format!(
                "  {} {} {:?} rv {}",
                kind.plural, change.after.key, change.kind, change.revision
            );
            notes.note_about(&line, change.after.text());
            notes.ground.trace.explain(|| describe(kind, change));
            observer.observe(clock.elapsed(), kind, change);
        }));
        // Plays kube-controller-manager.
        tokio::spawn(hub.clone().keep_collecting_garbage());
        let client = |role, name| Client::new(Wire::new(&network, &hub, role, name, name), "default");
        let admin = Admin::new(client(Role::People, "people"));
        make_fleet(&admin, &options).await.context("the fleet")?;
        let agents = Arc::new(start_agents(client(Role::Agents, "agents"), &options, clock).await?);
        let mut machines = Machines::new(&network, &hub);
        machines.start_all()?;
        admin
            .create(&upgrades_of(TEAM), &new_upgrade(&options, UPGRADE))
            .await
            .context("the upgrade")?;
        let mut run = Self {
            people: People::new(admin.clone(), &hub, &network, Arc::clone(&agents)),
            options,
            clock,
            network,
            hub,
            oracle,
            agents,
            admin,
            machines,
            repaired: Duration::ZERO,
            claimed: 0,
            claim_at: None,
            refused: 0,
            unread: 0,
            snapshots: VecDeque::new(),
        };
        run.furnish().await;
        Ok(run)
    }

    async fn play(&mut self) -> Result<()> {
        self.chaos().await?;
        self.repair().await?;
        self.end().await?;
        // A claim may tell that a cluster has begun anew meanwhile. Then an upgrade goes on that was over.
        while self.open().is_none() && self.people.claim().await? {
            self.machines.live_for(CLAIMED).await?;
            self.end().await?;
        }
        self.quiet().await?;
        self.truth();
        Ok(())
    }

    /// Faults happen.
    async fn chaos(&mut self) -> Result<()> {
        let choices = Choices::new(self.options.seed);
        let rival_at = choices
            .of("rival at", 0)
            .between(1, self.options.chaos_seconds / 2);
        for second in 0..self.options.chaos_seconds {
            self.machines.live_for(LOOK).await?;
            if self.options.rival && second == rival_at {
                self.admin
                    .create(&upgrades_of(TEAM), &new_upgrade(&self.options, RIVAL))
                    .await?;
            }
            if second % 10 == 0 {
                self.oracle.look(self.clock.elapsed());
                self.machines.disturb(second).await?;
                if self.network.strikes(Fault::Compaction, "hub", second) {
                    self.hub.compact(self.hub.read(hub_sim::State::revision));
                }
                if self.network.strikes(Fault::Restore, "hub", second) {
                    self.restore(None).await?;
                }
                self.people.back_up();
                if self.network.strikes(Fault::RestoreOld, "hub", second) {
                    self.restore(Some(second)).await?;
                }
                self.rewind(second);
                self.oracle
                    .recorded(self.clock.elapsed(), self.network.disturbed());
            }
            self.claim().await?;
            self.people.act(second).await?;
            self.revive()?;
        }
        Ok(())
    }

    /// Ends all faults, and sets right what they left.
    async fn repair(&mut self) -> Result<()> {
        self.network.repair();
        self.machines.repair()?;
        self.endure().await?;
        let mut is_right = false;
        // An agent notices only after five minutes that its watch has gone silent.
        for _ in 0..84 {
            is_right = self.people.repair().await?;
            if is_right {
                break;
            }
            // A namespace does not go as long as one of its works is kept from going.
            self.people.let_all_go().await?;
            self.machines.live_for(Duration::from_secs(5)).await?;
        }
        self.oracle.check(Rule::Ends, is_right, || {
            "what was deleted is not gone seven minutes after the last fault".to_owned()
        });
        // Until a watch that a fault has silenced is noticed.
        self.machines.live_for(DEAF).await?;
        self.repaired = self.clock.elapsed();
        Ok(())
    }

    /// A replica that ended by itself is started again, as the kubelet would do. No plan may have been refused.
    fn revive(&mut self) -> Result<()> {
        let refused = self.machines.refused();
        self.oracle.check(Rule::Internal, refused == self.refused, || {
            "a checker has refused a plan".to_owned()
        });
        self.refused = refused;
        self.have_versions(self.oracle.take_applied());
        self.legible();
        self.note_panics();
        for ended in self.machines.revive()? {
            self.oracle.add(Rule::Ended, format!("the loop of {ended} ended"));
        }
        self.oracle.check(Rule::Ended, true, String::new);
        Ok(())
    }

    /// What nobody has garbled, replicas can read. A newer build writes words that the older one does not know.
    fn legible(&mut self) {
        let is_garbled = |fault: &Fault| self.network.may_strike(*fault);
        if self.options.newer_build || GARBLING.iter().any(is_garbled) {
            return;
        }
        let unread = self.machines.unread();
        self.oracle.check(Rule::Unread, unread == self.unread, || {
            "a replica could not read an object".to_owned()
        });
        self.unread = unread;
    }

    /// Waits until everything is complete.
    async fn end(&mut self) -> Result<()> {
        let per_cluster = self.options.update() * 4
            + self.options.soak()
            + self.options.answers()
            + self.options.control()
            + Duration::from_mins(3);
        let ahead = if self.network.may_strike(Fault::ClockFar) {
            AHEAD
        } else {
            Duration::ZERO
        };
        let patience = Duration::from_secs(self.options.settle_seconds);
        let clusters = per_cluster * u32::try_from(self.options.clusters)?;
        let bound = END_SLACK + ahead + clusters + patience * SETTLES;
        let begin = self.clock.elapsed();
        let mut until = begin + bound;
        let mut settle_at = begin + patience;
        let mut looks = 0_u64;
        while let Some(open) = self.open() {
            // A cluster that only its time can end has all other steps before it when that time is over.
            until = until.max(self.oracle.ends_by_time() + bound);
            if self.clock.elapsed() > until {
                let status = upgrade(&self.hub, open).map(|upgrade| brief(&upgrade));
                self.oracle.check(Rule::Ends, false, || {
                    format!(
                        "{open} is not complete {bound:?} after the last fault: {}",
                        status.unwrap_or_default()
                    )
                });
                return Ok(());
            }
            self.machines.live_for(LOOK).await?;
            self.claim().await?;
            looks += 1;
            if looks.is_multiple_of(30) {
                self.oracle.look(self.clock.elapsed());
                if self.clock.elapsed() >= settle_at {
                    settle_at = self.clock.elapsed() + patience;
                    for name in [UPGRADE, RIVAL] {
                        self.people.settle(name).await?;
                    }
                }
                // An update may have ended when nobody looked.
                self.expect_claim();
                self.oracle
                    .recorded(self.clock.elapsed(), self.network.disturbed());
                self.told(open);
                self.people.approve_all().await?;
                self.people.let_all_go().await?;
            }
            self.revive()?;
        }
        self.oracle.check(Rule::Ends, true, String::new);
        Ok(())
    }

    /// Some time after an update has ended, the claims of clusters follow.
    async fn claim(&mut self) -> Result<()> {
        self.people.tend();
        let (ended, now) = (self.oracle.ended(), self.clock.elapsed());
        if ended > self.claimed {
            self.claimed = ended;
            self.expect_claim();
        }
        if self.claim_at.take_if(|at| *at <= now).is_some() {
            self.people.claim().await?;
        }
        Ok(())
    }

    fn expect_claim(&mut self) {
        let at = self.clock.elapsed() + Duration::from_secs(self.options.claim_seconds);
        self.claim_at.get_or_insert(at);
    }

    /// When nothing moves, the status says that a human is needed.
    fn told(&self, name: &'static str) {
        let Some(object) = self.object(name) else { return };
        let now = self.clock.elapsed();
        if now < self.oracle.last_change().max(self.repaired) + STILL || self.oracle.is_under_way(&object.uid)
        {
            return;
        }
        let value = object.value();
        let tells = TELLING.iter().any(|condition| is_true(&value, condition));
        // What another upgrade has under way, or comes to later, ends or fails by time: no human is needed yet. Nor is one where the
        // status says that a cluster waits for its window, and nothing else keeps it from starting.
        let mut waiting = waiting_for_window(&value);
        let is_right = tells
            || self.oracle.waits_for_another(&object.uid, now)
            || waiting.any(|cluster| self.oracle.starts_by_itself(&object.uid, cluster));
        self.oracle.check(Rule::Told, is_right, || {
            format!(
                "nothing of {name} has moved for {STILL:?}, and no condition says so: {}",
                brief(&value)
            )
        });
    }

    fn object(&self, name: &str) -> Option<Arc<Object>> {
        self.hub.read(|state| {
            let upgrades =
                state.objects_of("cluster.open-cluster-management.io", "managedclustersupgrades")?;
            upgrades.get(&format!("{TEAM}/{name}")).cloned()
        })
    }

    /// Whether an upgrade has come to its end: it is complete, or the clusters that are not run something newer than it asks for.
    fn is_over(&self, object: &Object) -> bool {
        let value = object.value();
        match value.at("/status/state").and_then(Value::as_str) {
            Some("Complete") => true,
            Some("Stalled") => is_observed(&value) && self.oracle.waits_for_ever(&object.uid),
            _ => false,
        }
    }

    /// An upgrade that is not over.
    fn open(&self) -> Option<&'static str> {
        [UPGRADE, RIVAL].into_iter().find(|name| {
            self.object(name).is_some_and(|object| {
                // Rejected rows are tried again minutes later.
                !self.is_over(&object) || object.is_deleting || object.text().contains(RECORD_REFUSED)
            })
        })
    }

    /// When all is over, nothing changes any more.
    async fn quiet(&mut self) -> Result<()> {
        if self.open().is_some() {
            return Ok(());
        }
        let faults = self.network.ground.trace.faults();
        // A watch that says nothing is opened again after minutes, and so are a rejected report and what was refused of a probe.
        let waits = |fault: &Occasion| {
            let is_retried_late = self.options.asks() && fault.fault.disturbs();
            is_retried_late || matches!(fault.fault, Fault::WatchSilent | Fault::InvalidRow)
        };
        let settle = if faults.iter().any(waits) {
            SETTLE_LONG
        } else {
            SETTLE
        };
        // When an approval expires, and a cluster is left that is blocked, the status asks for another one.
        let expiry = Duration::from_secs(self.options.approval_seconds);
        self.machines.live_for(settle + expiry).await?;
        if self.people.let_all_go().await? {
            self.machines.live_for(SETTLE).await?;
        }
        self.works_left();
        self.probes_left();
        self.recorded_once();
        self.told_as_recorded();
        self.swept().await?;
        self.still(Rule::Quiet, Duration::from_secs(self.options.quiet_seconds))
            .await?;
        if self.options.restart && !self.oracle.has_block_by_memory() {
            self.machines.restart_all()?;
            self.still(Rule::Restart, RESTART).await?;
        }
        Ok(())
    }

    /// Works of upgrades that do not exist any more are removed.
    async fn swept(&mut self) -> Result<()> {
        let begin = self.clock.elapsed();
        loop {
            let known: Vec<String> = [UPGRADE, RIVAL]
                .into_iter()
                .filter_map(|name| Some(self.object(name)?.uid.to_string()))
                .collect();
            let left = self.works(|uid| !known.iter().any(|known| known == uid));
            let is_over = left.is_empty() || self.clock.elapsed() > begin + SWEEP;
            if is_over {
                self.oracle.check(Rule::Ends, left.is_empty(), || {
                    format!(
                        "these works of upgrades that are gone are left: {}",
                        left.join(", ")
                    )
                });
                return Ok(());
            }
            self.machines.live_for(Duration::from_secs(30)).await?;
            self.revive()?;
        }
    }

    /// The works with the UID of an upgrade that `is_meant` accepts.
    fn works(&self, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
        self.hub.read(|state| {
            let works = state.objects_of("work.open-cluster-management.io", "manifestworks");
            let works = works.into_iter().flat_map(hub_sim::Collection::objects);
            let ours = works.filter(|work| {
                let mut labels = work.labels.iter();
                labels.any(|(label, uid)| &**label == LABEL_MCU_UID && is_meant(uid))
            });
            ours.map(|work| work.key.to_string()).collect()
        })
    }

    async fn still(&mut self, rule: Rule, time: Duration) -> Result<()> {
        let (changes, writes, reads) = (self.oracle.changes(), self.oracle.writes(), self.oracle.reads());
        self.machines.live_for(time).await?;
        let changes = self.oracle.changes() - changes;
        self.oracle.check(rule, changes == 0, || {
            format!("{changes} changes after everything was over")
        });
        let writes = self.oracle.writes() - writes;
        self.oracle.check(rule, writes == 0, || {
            format!("{writes} requests to change something after everything was over")
        });
        let replicas = self.options.replicas;
        let most = |read: &str| match rule {
            _ if read.starts_with("WATCH") => (2 + time.as_secs() / WATCHED) * replicas,
            Rule::Restart => LISTS * replicas,
            _ => 0,
        };
        let again = self.oracle.reads().into_iter().find_map(|(read, count)| {
            let count = count - reads.get(&read).copied().unwrap_or_default();
            (count > most(&read)).then_some((read, count))
        });
        self.oracle.check(rule, again.is_none(), || {
            format!("read after everything was over: {again:?}")
        });
        self.revive()
    }

    /// Restores the hub from a backup: upgrades and reports come back with other UIDs, without statuses, and works do not.
    /// `old`: when that happens, if the backup is not a new one.
    async fn restore(&mut self, old: Option<u64>) -> Result<()> {
        self.network.tell("the hub is restored");
        self.machines.stop_all();
        self.network.replace_hub();
        self.people.restore(old).await?;
        self.machines.start_all()
    }

    /// The storage of the hub goes back, if that fault strikes, and nothing else does: replicas and agents run on.
    fn rewind(&mut self, second: u64) {
        if !self.network.may_strike(Fault::Rewind) {
            return;
        }
        if self.network.strikes(Fault::Rewind, "hub", second) {
            let steps = self.network.choice("rewind", "hub", second).between(1, 3);
            let kept = self.snapshots.len();
            let at = kept.saturating_sub(usize::try_from(steps).unwrap_or(1));
            if let Some((since, snapshot, known)) = self.snapshots.get(at).cloned() {
                self.network.tell("the storage of the hub goes back");
                self.hub.restore(snapshot);
                self.oracle.rewind(known);
                self.network.rewind();
                self.agents.forget_versions();
                self.people.rewound(since, second);
                self.snapshots.clear();
            }
        }
        self.snapshots
            .push_back((second, self.hub.snapshot(), self.oracle.snapshot()));
        if self.snapshots.len() > 3 {
            self.snapshots.pop_front();
        }
    }
}
