//! What a run is like: sizes, times, and which faults happen how often. All of it follows from the seed.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::choice::Choices;
use crate::fault::Fault;

/// The first of the seeds whose upgrades may ask clusters and wait for worker pools. Only sweeps of fresh seeds come to them by themselves.
pub const ASKING: u64 = 1 << 62;

/// In seeds with this bit, starts may depend on maintenance windows and approvals. Only sweeps of fresh seeds come to them by themselves.
pub const CONTROLLED: u64 = 1 << 61;

/// What an upgrade does with the answers of clusters to its preflight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preflight {
    /// The status tells them.
    Report,
    /// Only clusters that would take the update start.
    Require,
}

/// The options of a run. A story names only those that differ from the default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "independent choices of a run")]
pub struct Options {
    /// The seed of everything.
    pub seed: u64,
    /// Clusters of the fleet.
    pub clusters: u64,
    /// Of these, the first are canaries.
    pub canaries: u64,
    /// `maxConcurrency`.
    pub max_concurrency: u64,
    /// `maxFailures`; absent for no limit.
    pub max_failures: Option<u64>,
    /// `minSuccessTime` in seconds; zero for none.
    pub soak_seconds: u64,
    /// `clusterUpgradeTimeout` in seconds.
    pub timeout_seconds: u64,
    /// `operatorsUpgradeTimeout` in seconds; absent for the default of 20 minutes.
    pub operators_timeout_seconds: Option<u64>,
    /// `actionTimeout` in seconds; absent for that of the cluster.
    pub action_timeout_seconds: Option<u64>,
    /// Whether there are pre- and post-actions.
    pub actions: bool,
    /// Whether operators are upgraded, too.
    pub operators: bool,
    /// Whether a Placement selects the clusters, not a selector.
    pub placement: bool,
    /// Whether a second, younger upgrade wants some of the clusters.
    pub rival: bool,
    /// The patch version of 4.14 that the second upgrade asks for; the first one asks for 12.
    pub rival_version: u64,
    /// Replicas of the controller.
    pub replicas: u64,
    /// Whether the second replica is of a newer build, whose rows have words that the first does not know.
    pub newer_build: bool,
    /// Whether lists of replicas and agents come in pages of two objects.
    pub small_pages: bool,
    /// How long a cluster takes for its update, in seconds.
    pub update_seconds: u64,
    /// How long after an update the cluster's claim follows, in seconds.
    pub claim_seconds: u64,
    /// Longest latency of a request in one direction, in milliseconds.
    pub max_latency_millis: u64,
    /// How long faults happen, in seconds.
    pub chaos_seconds: u64,
    /// How long people wait, when faults have ended, before they look at what waits for them, in seconds.
    pub settle_seconds: u64,
    /// How long nothing may change when all is done, in seconds.
    pub quiet_seconds: u64,
    /// Whether all replicas start anew when all is done.
    pub restart: bool,
    /// `spec.preflight.mode`; absent if clusters are not asked.
    pub preflight: Option<Preflight>,
    /// `spec.preflight.timeout` in seconds.
    pub preflight_seconds: u64,
    /// Whether the preflight ignores that a cluster fails.
    pub ignore_failing: bool,
    /// Whether clusters are in another channel, which the preflight sets.
    pub set_channel: bool,
    /// Whether some clusters offer the update with risks, or not at first.
    pub mixed_offers: bool,
    /// Whether the spec accepts these risks from the beginning.
    pub accept_risks: bool,
    /// Whether clusters run another minor version, and the update has a gate.
    pub gates: bool,
    /// Whether the spec acknowledges the gate from the beginning.
    pub acknowledge: bool,
    /// Whether the upgrade waits for worker pools.
    pub worker_pools: bool,
    /// How long worker pools take for a new configuration, in seconds.
    pub pools_seconds: u64,
    /// `workerPoolsTimeout` in seconds.
    pub pools_timeout_seconds: u64,
    /// How often the maintenance window opens, in minutes; zero if there is none.
    pub window_minutes: u64,
    /// How long it is open, in seconds.
    pub window_seconds: u64,
    /// `minimumRemaining` in seconds; zero for none.
    pub remaining_seconds: u64,
    /// After how many clusters an approval is asked for; absent for none.
    pub approve_at: Option<u64>,
    /// Whether one is asked for after the canaries, too.
    pub approve_canaries: bool,
    /// For how long an approval counts, in seconds; zero for ever.
    pub approval_seconds: u64,
    /// How often each fault happens, in thousandths of its occasions. A story names its faults one by one instead.
    #[serde(skip)]
    pub rates: Vec<(Fault, u64)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            clusters: 3,
            canaries: 0,
            max_concurrency: 1,
            max_failures: None,
            soak_seconds: 0,
            timeout_seconds: 10_800,
            operators_timeout_seconds: None,
            action_timeout_seconds: None,
            actions: false,
            operators: false,
            placement: false,
            rival: false,
            rival_version: 12,
            replicas: 1,
            newer_build: false,
            small_pages: false,
            update_seconds: 20,
            claim_seconds: 0,
            max_latency_millis: 5,
            chaos_seconds: 60,
            settle_seconds: 0,
            quiet_seconds: 120,
            restart: false,
            preflight: None,
            preflight_seconds: 120,
            ignore_failing: false,
            set_channel: false,
            mixed_offers: false,
            accept_risks: false,
            gates: false,
            acknowledge: false,
            worker_pools: false,
            pools_seconds: 30,
            pools_timeout_seconds: 21_600,
            window_minutes: 0,
            window_seconds: 0,
            remaining_seconds: 0,
            approve_at: None,
            approve_canaries: false,
            approval_seconds: 0,
            rates: Vec::new(),
        }
    }
}

impl Options {
    /// The options of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let choices = Choices::new(seed);
        let between = |name: &str, least, most| choices.of(name, 0).between(least, most);
        let happens = |name: &str, per_mille| choices.of(name, 0).happens(per_mille);
        let clusters = between("clusters", 2, 6);
        let replicas = between("replicas", 1, 2);
        let update_seconds = between("update", 5, 90);
        // Jobs take as long as updates.
        let job_seconds = 2 * update_seconds + 60;
        let plain = Self {
            seed,
            clusters,
            canaries: between("canaries", 0, 2).min(clusters - 1),
            max_concurrency: between("maxConcurrency", 1, 3),
            max_failures: happens("maxFailures", 400).then(|| between("failures", 0, 2)),
            soak_seconds: if happens("soak", 333) { 20 } else { 0 },
            // Short enough for a cluster that is slow to run out of it, or out of the question.
            timeout_seconds: if happens("timeout", 400) {
                3 * update_seconds + 60
            } else {
                10_800
            },
            operators_timeout_seconds: happens("operators timeout", 400).then_some(job_seconds),
            action_timeout_seconds: happens("action timeout", 300).then_some(job_seconds),
            actions: happens("actions", 400),
            operators: happens("operators", 150),
            placement: happens("placement", 300),
            rival: happens("rival", 200),
            rival_version: between("rival version", 11, 13),
            replicas,
            newer_build: replicas > 1 && happens("newer build", 200),
            small_pages: happens("small pages", 250),
            update_seconds,
            claim_seconds: if happens("late claims", 300) {
                between("claim", 5, 300)
            } else {
                0
            },
            max_latency_millis: between("latency", 1, 400),
            chaos_seconds: between("chaos", 60, 600),
            // Longer than it takes until an upgrade must say that nothing moves.
            settle_seconds: if happens("slow people", 250) { 600 } else { 0 },
            // Twice the longest pause between two attempts of the controller, or a part of it.
            quiet_seconds: if happens("long quiet", 75) { 900 } else { 120 },
            restart: happens("restart", 500),
            rates: rates(choices),
            ..Self::default()
        };
        plain
            .asking(choices, seed >= ASKING)
            .controlled(choices, seed & CONTROLLED != 0)
    }

    /// The same with maintenance windows and approvals, in a part of the seeds that may have them. All others they cost nothing.
    fn controlled(mut self, choices: Choices, may_be: bool) -> Self {
        let happens = |name: &str, per_mille| may_be && choices.of(name, 0).happens(per_mille);
        let between = |name: &str, least, most| choices.of(name, 0).between(least, most);
        if happens("windows", 600) {
            self.window_minutes = choices.of("window period", 0).pick(&[5, 10, 15]).unwrap_or(5);
            self.window_seconds = between("window", 60, self.window_minutes * 60 - 60);
            if happens("minimum remaining", 400) {
                self.remaining_seconds = between("remaining", 10, self.window_seconds / 2);
            }
        }
        if happens("approvals", 600) {
            self.approve_at = Some(between("approve at", 0, self.clusters - 1));
            self.approve_canaries = self.canaries > 0 && happens("approve canaries", 500);
            if happens("approvals expire", 300) {
                self.approval_seconds = between("approval", 60, 400);
            }
        }
        if !self.is_controlled() {
            self.rates.retain(|(fault, _)| !fault.is_of_control());
        }
        self
    }

    /// Whether starts depend on windows or approvals.
    #[must_use]
    pub const fn is_controlled(&self) -> bool {
        self.window_minutes > 0 || self.approve_at.is_some()
    }

    /// How long each step of a cluster may wait for a window or an approval.
    #[must_use]
    pub const fn control(&self) -> Duration {
        let approvals = if self.approve_at.is_some() { 120 } else { 0 };
        Duration::from_secs(2 * 60 * self.window_minutes + approvals)
    }

    /// The same with a preflight and worker pools, in a part of the seeds that may have them. All others they cost nothing.
    fn asking(mut self, choices: Choices, may_ask: bool) -> Self {
        let happens = |name: &str, per_mille| may_ask && choices.of(name, 0).happens(per_mille);
        let between = |name: &str, least, most| choices.of(name, 0).between(least, most);
        if happens("preflight", 250) {
            let modes = [Preflight::Require, Preflight::Require, Preflight::Report];
            self.preflight = choices.of("preflight mode", 0).pick(&modes);
            self.preflight_seconds = between("preflight timeout", 20, 300);
            self.ignore_failing = happens("ignore failing", 300);
            self.set_channel = happens("set channel", 200);
            self.mixed_offers = happens("mixed offers", 600);
            self.accept_risks = happens("accept risks", 500);
            // The second upgrade acknowledges nothing.
            self.gates = !self.rival && happens("gates", 300);
            self.acknowledge = self.gates && happens("acknowledge", 500);
        }
        if happens("worker pools", 150) {
            self.worker_pools = true;
            self.pools_seconds = between("pools", 5, 200);
            if happens("pools timeout", 300) {
                self.pools_timeout_seconds = 240 + self.pools_seconds;
            }
        }
        if !self.asks() {
            self.rates.retain(|(fault, _)| !fault.is_of_probes());
        }
        self
    }

    /// Whether clusters are asked anything.
    #[must_use]
    pub const fn asks(&self) -> bool {
        self.preflight.is_some() || self.worker_pools
    }

    /// The same with these faults.
    #[must_use]
    pub fn with_rates(mut self, rates: &[(Fault, u64)]) -> Self {
        self.rates = rates.to_vec();
        self
    }

    /// How long a cluster takes for its update.
    #[must_use]
    pub const fn update(&self) -> Duration {
        Duration::from_secs(self.update_seconds)
    }

    /// `minSuccessTime`; zero for none.
    #[must_use]
    pub const fn soak(&self) -> Duration {
        Duration::from_secs(self.soak_seconds)
    }

    /// How long a cluster takes for what it is asked, at the most.
    #[must_use]
    pub const fn answers(&self) -> Duration {
        let before = if self.preflight.is_some() { 180 } else { 0 };
        let pools = if self.worker_pools {
            240 + 2 * self.pools_seconds
        } else {
            0
        };
        Duration::from_secs(before + pools)
    }

    /// How often a fault happens, in thousandths.
    #[must_use]
    pub fn rate(&self, fault: Fault) -> u64 {
        self.rates
            .iter()
            .find(|(have, _)| *have == fault)
            .map_or(0, |(_, rate)| *rate)
    }
}

/// Which faults are on, and how often they happen: in some runs a few, in others many, so that each is also seen alone.
fn rates(choices: Choices) -> Vec<(Fault, u64)> {
    let share = choices
        .of("share of faults", 0)
        .pick(&[60, 150, 350])
        .unwrap_or_default();
    let rate_of = |fault: &Fault| {
        let name = format!("rate of {}", fault.as_str());
        let rate = choices.of(&name, 1).pick(&[5, 20, 60, 150]).unwrap_or_default();
        (
            *fault,
            if choices.of(&name, 0).happens(share) {
                rate
            } else {
                0
            },
        )
    };
    Fault::ALL.iter().map(rate_of).collect()
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As a story has them: only what differs from the default.
        let plain = serde_json::to_value(Self::default()).unwrap_or_default();
        let options = serde_json::to_value(self).unwrap_or_default();
        write!(f, "seed {}:", self.seed)?;
        for (name, value) in options.as_object().into_iter().flatten() {
            if name != "seed" && plain.get(name) != Some(value) {
                write!(f, " {name} {value}")?;
            }
        }
        write!(f, "; faults")?;
        for (fault, rate) in self.rates.iter().filter(|(_, rate)| *rate > 0) {
            write!(f, " {} {rate}‰", fault.as_str())?;
        }
        Ok(())
    }
}
