//! The controllers of a simulated cluster: what happens to objects after the agent applied them.
//!
//! Each controller sees the store, the faults and the clock, and answers when it next has something to do.
//! None of them knows of ManifestWorks.

pub mod clusterversion;
mod job;
mod pace;
mod workload;

pub use self::job::JobRule;
pub use self::pace::{Pace, scale};
use crate::dice::Dice;
use crate::fault::Faults;
use crate::fields::Time;
use crate::store::Store;

/// What a controller works with.
pub struct Ground<'a> {
    /// The cluster's objects.
    pub store: &'a mut Store,
    /// What is wrong with the cluster.
    pub faults: &'a Faults,
    /// How long things take.
    pub pace: &'a Pace,
    /// The cluster's own draws.
    pub dice: Dice,
    /// When what is new in the store was asked for on the hub: durations count from here, not from when it
    /// reached the cluster.
    pub asked: Time,
}

/// A controller of the cluster.
pub trait Controller {
    /// Brings its objects up to `now`. Returns when it next wants to run even if nothing else changes.
    fn advance(&mut self, ground: &mut Ground<'_>, now: Time) -> Option<Time>;
}

/// All controllers of one cluster.
#[derive(Clone, Debug, Default)]
pub struct Platform {
    version: clusterversion::Operator,
    jobs: job::Jobs,
    workloads: workload::Workloads,
}

impl Controller for Platform {
    fn advance(&mut self, ground: &mut Ground<'_>, now: Time) -> Option<Time> {
        let controllers: [&mut dyn Controller; 3] = [&mut self.version, &mut self.jobs, &mut self.workloads];
        controllers
            .into_iter()
            .filter_map(|controller| controller.advance(ground, now))
            .min()
    }
}
