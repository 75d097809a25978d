//! The faults of one cluster, and what they mean for its parts.

use std::fmt;
use std::time::Duration;

use chrono::TimeDelta;
use cvo_model::failure::OperatorProblem;

use super::{Fault, HeldBy, Lie, OperatorFault};
use crate::run_levels::MACHINE_CONFIG;

/// The faults of one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults(Vec<Fault>);

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (n, fault) in self.0.iter().enumerate() {
            write!(f, "{}{fault:?}", if n == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl Faults {
    /// Adds a fault, unless there is one about the same thing already. Returns whether it was added.
    pub(super) fn put(&mut self, fault: Fault) -> bool {
        let subject = fault.subject();
        if subject.is_some() && self.0.iter().any(|other| other.subject() == subject) {
            return false;
        }
        self.0.push(fault);
        true
    }

    /// Whether there are no faults.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find<'a, T>(&'a self, pick: impl Fn(&'a Fault) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(pick)
    }

    /// How many times longer everything takes.
    #[must_use]
    pub fn slowness(&self) -> f64 {
        let factor = self.find(|fault| match fault {
            Fault::Slow(factor) => Some(*factor),
            _ => None,
        });
        factor.unwrap_or(1.0)
    }

    /// Why payloads cannot be verified.
    #[must_use]
    pub fn unverified(&self) -> Option<&str> {
        self.find(|fault| match fault {
            Fault::Unverified(message) => Some(message.as_str()),
            _ => None,
        })
    }

    /// Whether the update service cannot be reached. `updating`: how long the current update has been running.
    #[must_use]
    pub fn update_service_outage(&self, updating: Option<TimeDelta>) -> bool {
        let outage = self.find(|fault| match fault {
            Fault::UpdateServiceOutage(span) => Some(lasts(*span, updating)),
            _ => None,
        });
        outage.unwrap_or(false)
    }
}

/// Questions of `spoke-sim agents`.
impl Faults {
    /// The percentage at which updates are stuck.
    #[must_use]
    pub fn stuck(&self) -> Option<f64> {
        self.find(|fault| match fault {
            Fault::Stuck(percent) => Some(*percent),
            _ => None,
        })
    }

    /// The message that updates fail with.
    #[must_use]
    pub fn failing(&self) -> Option<&str> {
        self.find(|fault| match fault {
            Fault::Failing(message) => Some(message.as_str()),
            _ => None,
        })
    }

    /// The message that Jobs fail with.
    #[must_use]
    pub fn job_fails(&self) -> Option<&str> {
        self.find(|fault| match fault {
            Fault::Failing(_) => Some("Job has reached the specified backoff limit"),
            Fault::JobFails(message) => Some(message.as_str()),
            _ => None,
        })
    }

    /// Reason and message of the ClusterVersion's Upgradeable=False.
    #[must_use]
    pub fn refusing(&self) -> Option<(&str, &str)> {
        self.find(|fault| match fault {
            Fault::Refusing { reason, message } => Some((reason.as_str(), message.as_str())),
            _ => None,
        })
    }

    /// How feedback is wrong.
    #[must_use]
    pub fn lie(&self) -> Option<Lie> {
        self.find(|fault| match fault {
            Fault::Lying(lie) => Some(*lie),
            _ => None,
        })
    }

    /// Whether the agent has no permission on ClusterVersion, and if so whether it can never get it.
    #[must_use]
    pub fn forbidden(&self) -> Option<bool> {
        self.find(|fault| match fault {
            Fault::Forbidden { always } => Some(*always),
            _ => None,
        })
    }

    /// Whether no update is available, for whatever reason.
    #[must_use]
    pub fn unoffered(&self) -> bool {
        self.0.contains(&Fault::Unoffered)
            || self.is_in_no_channel()
            || self.update_service_outage(None)
            || self.risk().is_some()
    }

    /// Whether no channel has the running release.
    #[must_use]
    pub fn is_in_no_channel(&self) -> bool {
        self.0.contains(&Fault::NotInChannel)
    }

    /// Name and message of a risk that applies to whatever release is requested.
    #[must_use]
    pub fn risk(&self) -> Option<(&str, &str)> {
        self.find(|fault| match fault {
            Fault::Risk { name, message } => Some((name.as_str(), message.as_str())),
            _ => None,
        })
    }

    /// The operator that holds updates up.
    #[must_use]
    pub fn held_by(&self) -> Option<HeldBy<'_>> {
        self.find(|fault| {
            let (operator, problem, lasts) = match fault {
                Fault::SlowOperator(name, lasts) => (name.as_str(), OperatorProblem::Updating, *lasts),
                Fault::DrainStuck(_, lasts) => (MACHINE_CONFIG, OperatorProblem::Updating, *lasts),
                Fault::Degraded(name, lasts) => (name.as_str(), OperatorProblem::Degraded, *lasts),
                Fault::Unavailable(name, lasts) => (name.as_str(), OperatorProblem::NotAvailable, *lasts),
                _ => return None,
            };
            Some(HeldBy {
                operator,
                problem,
                lasts,
            })
        })
    }

    /// Whether the agent is away until the fault is removed.
    #[must_use]
    pub fn offline(&self) -> bool {
        self.0.contains(&Fault::Offline)
    }

    /// Whether the agent panics on works that only read.
    #[must_use]
    pub fn old_agent(&self) -> bool {
        self.0.contains(&Fault::OldAgent)
    }

    /// The period of flapping in wall-clock time, and whether reads fail rather than the agent being away.
    #[must_use]
    pub fn flapping(&self) -> Option<(Duration, bool)> {
        self.find(|fault| match fault {
            Fault::Flapping { period, available } => Some((*period, *available)),
            _ => None,
        })
    }
}

/// Questions of `spoke-sim cluster`.
impl Faults {
    /// How much longer an operator takes to update.
    #[must_use]
    pub fn delay(&self, operator: &str) -> TimeDelta {
        let delay = self.find(|fault| match fault {
            Fault::SlowOperator(name, span) if name == operator => Some(*span),
            _ => None,
        });
        delay.unwrap_or_default()
    }

    /// What an operator reports while it updates.
    #[must_use]
    pub fn operator_fault(&self, operator: &str) -> Option<OperatorFault> {
        self.find(|fault| match fault {
            Fault::Degraded(name, span) if name == operator => Some(OperatorFault::Degraded(*span)),
            Fault::Unavailable(name, span) if name == operator => Some(OperatorFault::Unavailable(*span)),
            _ => None,
        })
    }

    /// For how long after the API servers rolled the apply loop cannot reach them.
    #[must_use]
    pub fn cluster_down(&self) -> Option<TimeDelta> {
        self.find(|fault| match fault {
            Fault::ClusterDown(span) => Some(*span),
            _ => None,
        })
    }

    /// For how long after the API servers rolled a Deployment cannot be applied.
    #[must_use]
    pub fn apply_failing(&self) -> Option<TimeDelta> {
        self.find(|fault| match fault {
            Fault::ApplyFailing(span) => Some(*span),
            _ => None,
        })
    }

    /// For how long the first machine of a pool cannot be drained.
    #[must_use]
    pub fn drain_stuck(&self, pool: &str) -> Option<TimeDelta> {
        self.find(|fault| match fault {
            Fault::DrainStuck(name, span) if name == pool => Some(*span),
            _ => None,
        })
    }

    /// For how long the first machine of a pool cannot pull its system.
    #[must_use]
    pub fn pull_failing(&self, pool: &str) -> Option<TimeDelta> {
        self.find(|fault| match fault {
            Fault::PullFailing(name, span) if name == pool => Some(*span),
            _ => None,
        })
    }

    /// How long the API server is unreachable when a master reboots.
    #[must_use]
    pub fn api_outage(&self) -> Option<TimeDelta> {
        self.find(|fault| match fault {
            Fault::ApiOutage(span) => Some(*span),
            _ => None,
        })
    }

    /// Whether `PromQL` queries cannot be evaluated. `updating`: how long the current update has been running.
    #[must_use]
    pub fn monitoring_outage(&self, updating: Option<TimeDelta>) -> bool {
        let outage = self.find(|fault| match fault {
            Fault::MonitoringOutage(span) => Some(lasts(*span, updating)),
            _ => None,
        });
        outage.unwrap_or(false)
    }

    /// Which version an administrator requests in mid-update, and how long after its start.
    #[must_use]
    pub fn retarget(&self) -> Option<(&str, TimeDelta)> {
        self.find(|fault| match fault {
            Fault::Retarget(version, after) => Some((version.as_str(), *after)),
            _ => None,
        })
    }

    /// Reason and message of an operator's Upgradeable=False.
    #[must_use]
    pub fn not_upgradeable(&self, operator: &str) -> Option<(&str, &str)> {
        self.find(|fault| match fault {
            Fault::NotUpgradeable(name, reason, message) if name == operator => {
                Some((reason.as_str(), message.as_str()))
            }
            _ => None,
        })
    }

    /// Resources of the release that hang in deletion.
    #[must_use]
    pub fn deleting(&self) -> Vec<String> {
        let resources = self.0.iter().filter_map(|fault| match fault {
            Fault::Deleting(resource) => Some(resource.clone()),
            _ => None,
        });
        resources.collect()
    }

    /// Whether OLM creates no InstallPlans.
    #[must_use]
    pub fn no_install_plan(&self) -> bool {
        self.0.contains(&Fault::NoInstallPlan)
    }

    /// Whether the cluster-version operator is away.
    #[must_use]
    pub fn frozen(&self) -> bool {
        self.0.contains(&Fault::Frozen)
    }
}

/// An outage without a duration always lasts; one with a duration lasts that long from the start of an update.
fn lasts(span: Option<TimeDelta>, updating: Option<TimeDelta>) -> bool {
    span.is_none_or(|span| updating.is_some_and(|since| since < span))
}
