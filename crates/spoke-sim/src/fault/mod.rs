//! Faults: what can go wrong on a simulated cluster.
//!
//! Flags, scenarios and the annotation [`ANNOTATION`] all write faults in one grammar, and `spoke-sim agents` and
//! `spoke-sim cluster` share it: `NAME[=ARGUMENTS]`, several joined by `;`. `docs/design/faults.md` lists every fault and
//! says which of the two simulators supports it.
//!
//! A fault does not start a clock, so a simulator that restarts finds each fault where it was. Faults of operators
//! and machines count from the start of the operator's or machine's own update. An outage with a duration counts from the
//! start of the cluster's update; one without a duration lasts until the fault is removed.

mod faults;
mod grammar;

use std::time::Duration;

use chrono::TimeDelta;
use cvo_model::failure::OperatorProblem;

pub use self::faults::Faults;
pub use self::grammar::{
    FaultError, Simulator, for_ever, help, parse_duration, read_for_agents, read_for_cluster,
};

/// Annotation that sets the faults of a cluster while the simulator runs: on the ManagedCluster for `spoke-sim agents`, on
/// the ClusterVersion for `spoke-sim cluster`. The value `none` removes all faults; without the annotation a ManagedCluster
/// has none and a ClusterVersion those of its scenario.
pub const ANNOTATION: &str = "spoke-sim.mcu/fault";

/// One fault. Each variant shows how it is written, with defaults in parentheses. Durations are simulated time unless
/// something else is said.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// `slow[=FACTOR]`: payloads, operators, machines, updates and Jobs take this many times longer (5).
    Slow(f64),
    /// `slow-operator=OPERATOR[,DURATION]`: the operator takes this much longer to update (45m).
    SlowOperator(String, TimeDelta),
    /// `degraded=OPERATOR[,DURATION]`: the operator reports Degraded=True for this long from the start of its update (40m;
    /// `for-ever`).
    Degraded(String, TimeDelta),
    /// `unavailable=OPERATOR[,DURATION]`: the operator reports Available=False for this long (5m).
    Unavailable(String, TimeDelta),
    /// `drain-stuck[=POOL[,DURATION]]`: the first machine of a pool (worker) cannot be drained (for ever).
    DrainStuck(String, TimeDelta),
    /// `unverified[=MESSAGE]`: no payload can be verified.
    Unverified(String),
    /// `update-service-outage[=DURATION]`: the update service cannot be reached.
    UpdateServiceOutage(Option<TimeDelta>),

    /// `stuck[=PERCENT]`: updates stay Partial at this percentage (85), and Jobs never end.
    Stuck(f64),
    /// `failing[=MESSAGE]`: updates report Failing=True with the message, and Jobs fail.
    Failing(String),
    /// `job-fails[=MESSAGE]`: Jobs fail, updates succeed.
    JobFails(String),
    /// `flapping[=PERIOD[,available]]`: the agent is away every other period (30s); with `available` the agent stays, and
    /// it cannot read objects every other period.
    Flapping {
        /// Length of one period, in wall-clock time.
        period: Duration,
        /// Whether reads fail instead of the agent being away.
        available: bool,
    },
    /// `offline`: the agent writes nothing.
    Offline,
    /// `old-agent`: the agent is older than OCM v0.14 and panics on a work with `updateStrategy` `ReadOnly`.
    OldAgent,
    /// `refusing[=REASON: MESSAGE]`: the ClusterVersion reports Upgradeable=False, so that minor updates fail their
    /// preconditions.
    Refusing {
        /// Reason of Upgradeable.
        reason: String,
        /// Message of Upgradeable.
        message: String,
    },
    /// `lying[=stale|early]`: the feedback is wrong.
    Lying(Lie),
    /// `forbidden[=once|always]`: the agent has no permission on ClusterVersion until a binding `admin-ocm` or an
    /// aggregated `ClusterRole` is applied; with `always` it never has.
    Forbidden {
        /// Whether no work can grant the permission.
        always: bool,
    },
    /// `unoffered`: no update is available, so that a request by version is Invalid.
    Unoffered,
    /// `not-in-channel`: no channel has the running release, so that no updates are retrieved and none is available.
    NotInChannel,
    /// `risk=NAME[: MESSAGE]`: the requested release is a conditional update whose risk applies. It is not recommended and
    /// therefore not available.
    Risk {
        /// Name of the risk.
        name: String,
        /// Message of the risk.
        message: String,
    },

    /// `cluster-down[=DURATION]`: after the API servers have rolled, the apply loop fails with `UpdatePayloadClusterDown`
    /// (3m).
    ClusterDown(TimeDelta),
    /// `apply-failing[=DURATION]`: after the API servers have rolled, a Deployment cannot be applied
    /// (`UpdatePayloadFailed`; together with `cluster-down` `MultipleErrors`) (3m).
    ApplyFailing(TimeDelta),
    /// `pull-failing[=POOL[,DURATION]]`: the first machine of a pool (master) cannot pull its new system (30m).
    PullFailing(String, TimeDelta),
    /// `api-outage[=DURATION]`: while a master reboots, the API server is unreachable through the TCP proxy (10m).
    ApiOutage(TimeDelta),
    /// `monitoring-outage[=DURATION]`: `PromQL` queries cannot be evaluated.
    MonitoringOutage(Option<TimeDelta>),
    /// `retarget=VERSION[,AFTER]`: an administrator requests another version this long after the start of an update (15m).
    Retarget(String, TimeDelta),
    /// `not-upgradeable=OPERATOR[,REASON: MESSAGE]`: an operator reports Upgradeable=False.
    NotUpgradeable(String, String, String),
    /// `deleting=RESOURCE`: a resource of the release hangs in deletion.
    Deleting(String),
    /// `no-install-plan`: OLM creates no InstallPlans.
    NoInstallPlan,
    /// `frozen`: the cluster-version operator is away and writes nothing.
    Frozen,
}

impl Fault {
    /// What the fault is about. Of two faults with the same subject only the first could ever happen, so that the second is
    /// refused. `None`: the fault may be given more than once, or that makes no difference.
    fn subject(&self) -> Option<(&'static str, &str)> {
        Some(match self {
            Self::Slow(_) => ("slow", ""),
            Self::SlowOperator(name, _) => ("slow-operator", name),
            Self::Degraded(name, _) | Self::Unavailable(name, _) => ("operator", name),
            Self::DrainStuck(pool, _) => ("drain-stuck", pool),
            Self::Unverified(_) => ("unverified", ""),
            Self::UpdateServiceOutage(_) => ("update-service-outage", ""),
            Self::Stuck(_) => ("stuck", ""),
            Self::Failing(_) => ("failing", ""),
            Self::JobFails(_) => ("job-fails", ""),
            Self::Flapping { .. } => ("flapping", ""),
            Self::Refusing { .. } => ("refusing", ""),
            Self::Lying(_) => ("lying", ""),
            Self::Forbidden { .. } => ("forbidden", ""),
            Self::Risk { .. } => ("risk", ""),
            Self::ClusterDown(_) => ("cluster-down", ""),
            Self::ApplyFailing(_) => ("apply-failing", ""),
            Self::PullFailing(pool, _) => ("pull-failing", pool),
            Self::ApiOutage(_) => ("api-outage", ""),
            Self::MonitoringOutage(_) => ("monitoring-outage", ""),
            Self::Retarget(..) => ("retarget", ""),
            Self::NotUpgradeable(name, ..) => ("not-upgradeable", name),
            Self::Offline
            | Self::OldAgent
            | Self::Unoffered
            | Self::NotInChannel
            | Self::Deleting(_)
            | Self::NoInstallPlan
            | Self::Frozen => return None,
        })
    }
}

/// How feedback is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// It stays as it was before the update.
    Stale,
    /// It reports the update as Completed before that is true, with the observedGeneration from before the request.
    Early,
}

/// An operator that holds an update up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBy<'a> {
    /// Name of the operator.
    pub operator: &'a str,
    /// What is wrong with it.
    pub problem: OperatorProblem,
    /// For how long, simulated time.
    pub lasts: TimeDelta,
}

/// What an operator reports while it updates, and for how long; without end, it reports that between updates as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorFault {
    /// Degraded=True.
    Degraded(TimeDelta),
    /// Available=False.
    Unavailable(TimeDelta),
}

impl OperatorFault {
    /// True without end.
    #[must_use]
    pub fn lasts_for_ever(&self) -> bool {
        let (Self::Degraded(span) | Self::Unavailable(span)) = self;
        *span == grammar::for_ever()
    }
}

#[cfg(test)]
mod tests;
