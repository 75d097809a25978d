//! The controllers of a simulated cluster, which act on objects after the agent has applied them.
//!
//! Each controller gets the store, the faults and the time, and returns when it next has something to do. None of them knows
//! ManifestWorks.

mod controller;
pub mod cvo;
mod job;
mod pace;
pub mod pools;
mod workload;

pub use self::controller::{Controller, ControllerContext};
pub use self::pace::{JobRule, Pace, scale};
use crate::fields::Time;

/// All controllers of one cluster.
#[derive(Clone, Debug, Default)]
pub struct Platform {
    version: cvo::VersionOperator,
    jobs: job::Jobs,
    workloads: workload::Workloads,
    pools: pools::MachineConfigOperator,
}

impl Controller for Platform {
    fn advance(&mut self, context: &mut ControllerContext<'_>, now: Time) -> Option<Time> {
        let controllers: [&mut dyn Controller; 4] = [
            &mut self.version,
            &mut self.jobs,
            &mut self.workloads,
            &mut self.pools,
        ];
        controllers
            .into_iter()
            .filter_map(|controller| controller.advance(context, now))
            .min()
    }
}
