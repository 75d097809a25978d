//! The machines that replicas run on: their clocks, their ends, and what starts them again.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use controller::metrics::Metrics;
use hub_sim::Hub;
use tokio::time::{Instant, sleep_until};

use crate::actor::Role;
use crate::choice::Choices;
use crate::fault::Fault;
use crate::mutation::Mutation;
use crate::network::{Network, works_of};
use crate::replica::Replica;
use crate::time::MachineClock;
use crate::wire::Wire;

/// The machines of a run.
pub struct Machines {
    network: Network,
    hub: Hub,
    members: Vec<Machine>,
    /// Those of all replicas that were ever started.
    metrics: Vec<Arc<Metrics>>,
    starts: u64,
    /// All replicas are of the newer build.
    is_updated: bool,
}

struct Machine {
    name: String,
    clock: MachineClock,
    replica: Option<Replica>,
    /// What happens to it next, and when.
    turn: Option<(Instant, Turn)>,
}

#[derive(Clone, Copy)]
enum Turn {
    /// It ends, and starts again after this time.
    End(Duration),
    Start,
}

impl Machines {
    /// Machines without replicas.
    #[must_use]
    pub fn new(network: &Network, hub: &Hub) -> Self {
        let machine = |number| Machine {
            name: format!("r{number}"),
            clock: MachineClock::new(network.ground.clock),
            replica: None,
            turn: None,
        };
        Self {
            members: (0..network.ground.options.replicas).map(machine).collect(),
            network: network.clone(),
            hub: hub.clone(),
            metrics: Vec::new(),
            starts: 0,
            is_updated: false,
        }
    }

    fn start(&mut self, at: usize) -> Result<()> {
        self.starts += 1;
        let Some(machine) = self.members.get_mut(at) else {
            return Ok(());
        };
        let identity = format!("{}-{}", machine.name, self.starts);
        let seed = Choices::new(self.network.ground.options.seed)
            .of(&identity, 0)
            .bits();
        self.network.tell(&format!("{identity} starts"));
        let is_newer = self.is_updated || (self.network.ground.options.newer_build && at == 1);
        let wire = Wire::new(
            &self.network,
            &self.hub,
            Role::Controller,
            &machine.name,
            &identity,
        )
        .newer(is_newer);
        let replica = Replica::start(wire, &identity, &machine.clock, seed)?;
        self.metrics.push(replica.metrics());
        machine.replica = Some(replica);
        Ok(())
    }

    /// Starts a replica on every machine.
    ///
    /// # Errors
    /// The flags of the controller contradict each other.
    pub fn start_all(&mut self) -> Result<()> {
        (0..self.members.len()).try_for_each(|at| self.start(at))
    }

    /// Kills all replicas.
    pub fn stop_all(&mut self) {
        for machine in &mut self.members {
            machine.replica = None;
        }
    }

    /// Kills all replicas, and starts others in their places.
    ///
    /// # Errors
    /// The flags of the controller contradict each other.
    pub fn restart_all(&mut self) -> Result<()> {
        self.stop_all();
        self.start_all()
    }

    /// Kills a replica and starts another one in its place.
    fn restart(&mut self, at: usize) -> Result<()> {
        if let Some(machine) = self.members.get_mut(at) {
            self.network.tell(&format!("{} is killed", machine.name));
            machine.replica = None;
        }
        self.start(at)
    }

    /// Lets time pass. A replica whose end a commit is ends at once.
    ///
    /// # Errors
    /// The flags of the controller contradict each other.
    pub async fn live_for(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        let network = self.network.clone();
        loop {
            let turns = self.members.iter().filter_map(|machine| Some(machine.turn?.0));
            let next = turns.min().filter(|turn| *turn < end);
            tokio::select! {
                biased;
                doomed = network.doomed() => {
                    for name in doomed {
                        if let Some(at) = self.members.iter().position(|machine| machine.name == name) {
                            self.restart(at)?;
                        }
                    }
                }
                () = sleep_until(next.unwrap_or(end)) => {
                    if next.is_none() {
                        return Ok(());
                    }
                    (0..self.members.len()).try_for_each(|at| self.take_turn(at))?;
                }
            }
        }
    }

    /// Ends or starts a replica whose time has come.
    fn take_turn(&mut self, at: usize) -> Result<()> {
        let now = Instant::now();
        let Some(machine) = self.members.get_mut(at) else {
            return Ok(());
        };
        match machine.turn.take_if(|(when, _)| *when <= now) {
            Some((_, Turn::End(pause))) => {
                self.network.tell(&format!("{} crashes", machine.name));
                machine.replica = None;
                machine.turn = Some((now + pause, Turn::Start));
                Ok(())
            }
            Some((_, Turn::Start)) if machine.replica.is_none() => self.start(at),
            _ => Ok(()),
        }
    }

    /// Faults of machines and of what lies between them and the hub.
    ///
    /// # Errors
    /// The flags of the controller contradict each other.
    pub async fn disturb(&mut self, second: u64) -> Result<()> {
        if let Some(replica) = self.members.first().and_then(|machine| machine.replica.as_ref()) {
            match self.network.ground.mutation {
                Some(Mutation::End) => replica.end_loop(),
                Some(Mutation::EndEvents) => replica.end_events(),
                Some(Mutation::RefusedInSilence) => replica.metrics().check_violated(),
                _ => {}
            }
        }
        if self.network.strikes(Fault::KillAll, "all", second) {
            self.network.tell("all are killed");
            self.restart_all()?;
        }
        for at in 0..self.members.len() {
            let Some(name) = self.members.get(at).map(|machine| machine.name.clone()) else {
                continue;
            };
            if self.network.strikes(Fault::Kill, &name, second) {
                self.restart(at)?;
                tokio::task::yield_now().await;
            }
            for fault in [Fault::Partition, Fault::Forbidden, Fault::Overload] {
                if self.network.strikes(fault, &name, second) {
                    if fault == Fault::Forbidden && self.network.endures(&name, second) {
                        self.network.tell(&format!("403 {name} for works, for minutes"));
                        self.network.endure(fault, &works_of(&name));
                        continue;
                    }
                    let time = self.network.choice("for", &name, second).between(3, 60);
                    let until = self.network.ground.clock.elapsed() + Duration::from_secs(time);
                    self.network
                        .tell(&format!("{} {name} for {time} s", fault.as_str()));
                    self.network.last(fault, &name, until);
                }
            }
            self.jump(at, &name, second);
            if self.network.strikes(Fault::Crash, &name, second) {
                let number = |what, most| self.network.choice(what, &name, second).between(0, most);
                let end = Instant::now() + Duration::from_millis(number("crash", 9_999));
                let pause = Duration::from_millis(number("down", 20_000));
                if let Some(machine) = self.members.get_mut(at) {
                    machine.turn = Some((end, Turn::End(pause)));
                }
            }
        }
        Ok(())
    }

    fn jump(&self, at: usize, name: &str, second: u64) {
        const NEAR: [i64; 9] = [0, 5, -5, 25, -25, 45, -45, 300, -300];
        const FAR: [i64; 6] = [0, 3_600, -3_600, 7_200, -7_200, -86_400];
        for (fault, jumps) in [(Fault::ClockJump, &NEAR[..]), (Fault::ClockFar, &FAR[..])] {
            if self.network.strikes(fault, name, second) {
                let choice = self.network.choice("jump", name, second);
                let seconds = choice.pick(jumps).unwrap_or_default();
                self.network
                    .tell(&format!("the clock of {name} is ahead by {seconds} s"));
                if let Some(machine) = self.members.get(at) {
                    self.set_clock(machine, seconds);
                }
            }
        }
    }

    /// Sets by how many seconds the clock of a machine is ahead.
    fn set_clock(&self, machine: &Machine, seconds: i64) {
        machine.clock.set(seconds);
        let ground = &self.network.ground;
        ground
            .oracle
            .set_clock(&machine.name, ground.clock.elapsed(), seconds);
    }

    /// Sets clocks right, and brings all replicas to the newer build if one of them is.
    ///
    /// # Errors
    /// The flags of the controller contradict each other.
    pub fn repair(&mut self) -> Result<()> {
        for machine in &self.members {
            self.set_clock(machine, 0);
        }
        for at in 0..self.members.len() {
            if let Some(machine) = self.members.get_mut(at)
                && machine.turn.take().is_some()
                && machine.replica.is_none()
            {
                self.start(at)?;
            }
        }
        if self.network.ground.options.newer_build {
            self.is_updated = true;
            self.restart_all()?;
        }
        Ok(())
    }

    /// How many plans the checkers of all replicas have refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.metrics.iter().map(|metrics| metrics.checks_violated()).sum()
    }

    /// How many objects all replicas could not read.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.metrics.iter().map(|metrics| metrics.decode_failures()).sum()
    }

    /// Starts replicas whose loops ended by themselves, and returns their names.
    ///
    /// # Errors
    /// The flags of the controller contradict each other.
    pub fn revive(&mut self) -> Result<Vec<String>> {
        let mut ended = Vec::new();
        for at in 0..self.members.len() {
            let machine = self.members.get(at);
            if machine.is_some_and(|machine| machine.replica.as_ref().is_some_and(Replica::has_ended)) {
                ended.extend(machine.map(|machine| machine.name.clone()));
                self.restart(at)?;
            }
        }
        Ok(ended)
    }
}
