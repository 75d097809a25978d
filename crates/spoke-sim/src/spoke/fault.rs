//! What can go wrong on a spoke, and how it is written in scenarios, flags and the annotation.
//!
//! The words are those of [`crate::fault`]: `name[=ARGUMENTS]`, several joined by `;`. Durations are simulated
//! time. A fault has no clock of its own: those of operators and machines count from when these begin their
//! update, outages with a duration from the start of the update, and those without stand until removed. So a
//! restarted simulator finds each fault where it was.

use std::fmt;
use std::str::FromStr;

use chrono::TimeDelta;
use serde::{Deserialize, Deserializer};

use super::rollout::table::OPERATORS;
use crate::fault::{FaultError, parse_duration};

/// Annotation on the ClusterVersion `version` that sets the faults while the simulator runs; absent: those of
/// the scenario, `none`: no fault.
pub const ANNOTATION: &str = crate::fault::ANNOTATION;

/// One fault of a spoke.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// `slow[=FACTOR]`: payload, operators and machines take this many times longer (5).
    Slow(f64),
    /// `slow-operator=OPERATOR[,DURATION]`: it takes this much longer to update (45m).
    SlowOperator(String, TimeDelta),
    /// `degraded=OPERATOR[,DURATION]`: Degraded=True for so long from when its update begins (40m), which then
    /// goes on; `for-ever` as duration: no end.
    Degraded(String, TimeDelta),
    /// `unavailable=OPERATOR[,DURATION]`: the same with Available=False (5m).
    Unavailable(String, TimeDelta),
    /// `cluster-down[=DURATION]`: after the API servers rolled, the apply loop fails with
    /// `UpdatePayloadClusterDown` (3m).
    ClusterDown(TimeDelta),
    /// `apply-failing[=DURATION]`: at the same time a Deployment cannot be applied: `UpdatePayloadFailed`, together with
    /// `cluster-down` `MultipleErrors` (3m).
    ApplyFailing(TimeDelta),
    /// `drain-stuck[=POOL[,DURATION]]`: the first machine of a pool (worker) cannot be drained (for ever).
    DrainStuck(String, TimeDelta),
    /// `pull-failing[=POOL[,DURATION]]`: the first machine of a pool (master) cannot pull its new system (30m).
    PullFailing(String, TimeDelta),
    /// `api-outage[=DURATION]`: while a master reboots nobody reaches the API server through the door (10m).
    ApiOutage(TimeDelta),
    /// `unverified[=MESSAGE]`: payloads cannot be verified.
    Unverified(String),
    /// `monitoring-outage[=DURATION]`: `PromQL` cannot be evaluated; with a duration, so long from the start
    /// of each update.
    MonitoringOutage(Option<TimeDelta>),
    /// `update-service-outage[=DURATION]`: the update service cannot be reached; duration as above.
    UpdateServiceOutage(Option<TimeDelta>),
    /// `retarget=VERSION[,AFTER]`: an admin asks for another version this long after an update began (15m).
    Retarget(String, TimeDelta),
    /// `not-upgradeable=OPERATOR[,REASON: MESSAGE]`: Upgradeable=False on an operator.
    NotUpgradeable(String, String, String),
    /// `deleting=RESOURCE`: a resource of the release hangs in deletion.
    Deleting(String),
    /// `no-install-plan`: OLM makes none.
    NoInstallPlan,
    /// `frozen`: the cluster-version operator is away and writes nothing.
    Frozen,
}

const KNOWN: &str = "known are slow, slow-operator, degraded, unavailable, cluster-down, apply-failing, drain-stuck, \
                     pull-failing, api-outage, unverified, monitoring-outage, update-service-outage, retarget, not-upgradeable, \
                     deleting, no-install-plan, frozen";

/// No end in sight: longer than any run.
#[must_use]
pub fn for_ever() -> TimeDelta {
    TimeDelta::days(3650)
}

fn delta(text: &str) -> Option<TimeDelta> {
    if text == "for-ever" {
        return Some(for_ever());
    }
    TimeDelta::from_std(parse_duration(text)?).ok()
}

/// The arguments of one fault.
struct Arguments<'a> {
    text: &'a str,
    whole: &'a str,
}

impl<'a> Arguments<'a> {
    fn error(&self, problem: &'static str) -> FaultError {
        FaultError::new(self.text, problem)
    }

    /// `NAME[,DURATION]`; the name may be left out when there is one by default.
    fn named(&self, name: Option<&str>, duration: TimeDelta) -> Result<(String, TimeDelta), FaultError> {
        let (first, rest) = self.whole.split_once(',').unwrap_or((self.whole, ""));
        let first = match (first.trim(), name) {
            ("", Some(name)) => name,
            ("", None) => return Err(self.error("a name is wanted after =")),
            (first, _) => first,
        };
        let duration = match rest.trim() {
            "" => duration,
            rest => delta(rest).ok_or_else(|| self.error("a duration like 40m or for-ever is wanted"))?,
        };
        Ok((first.to_owned(), duration))
    }

    fn duration(&self) -> Result<Option<TimeDelta>, FaultError> {
        match self.whole {
            "" => Ok(None),
            text => delta(text)
                .map(Some)
                .ok_or_else(|| self.error("a duration like 40m or for-ever is wanted")),
        }
    }

    fn or(&self, default: &'a str) -> String {
        if self.whole.is_empty() {
            default
        } else {
            self.whole
        }
        .to_owned()
    }
}

impl Fault {
    /// What it is about; of two faults about the same only the first would ever happen.
    fn subject(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Slow(_) => Some(("slow", "")),
            Self::SlowOperator(name, _) => Some(("delay", name.as_str())),
            Self::Degraded(name, _) | Self::Unavailable(name, _) => Some(("trouble", name.as_str())),
            Self::ClusterDown(_) => Some(("cluster-down", "")),
            Self::ApplyFailing(_) => Some(("apply-failing", "")),
            Self::DrainStuck(pool, _) => Some(("drain-stuck", pool.as_str())),
            Self::PullFailing(pool, _) => Some(("pull-failing", pool.as_str())),
            Self::ApiOutage(_) => Some(("api-outage", "")),
            Self::Unverified(_) => Some(("unverified", "")),
            Self::MonitoringOutage(_) => Some(("monitoring-outage", "")),
            Self::UpdateServiceOutage(_) => Some(("update-service-outage", "")),
            Self::Retarget(..) => Some(("retarget", "")),
            Self::NotUpgradeable(name, ..) => Some(("not-upgradeable", name.as_str())),
            Self::Deleting(_) | Self::NoInstallPlan | Self::Frozen => None,
        }
    }

    /// Refuses names that nothing has: such a fault would never happen.
    fn check(&self, text: &str) -> Result<(), FaultError> {
        let problem = match self {
            Self::SlowOperator(name, _)
            | Self::Degraded(name, _)
            | Self::Unavailable(name, _)
            | Self::NotUpgradeable(name, ..)
                if OPERATORS.iter().all(|row| row.name != name) =>
            {
                "no cluster operator has that name"
            }
            Self::DrainStuck(pool, _) | Self::PullFailing(pool, _)
                if !matches!(pool.as_str(), "master" | "worker") =>
            {
                "the pools are master and worker"
            }
            Self::Retarget(version, _) if semver::Version::parse(version).is_err() => {
                "a version like 4.16.3 is wanted"
            }
            _ => return Ok(()),
        };
        Err(FaultError::new(text, problem))
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let fault = read(text)?;
        fault.check(text.trim())?;
        Ok(fault)
    }
}

/// Reads a fault, whatever its names.
fn read(text: &str) -> Result<Fault, FaultError> {
    let text = text.trim();
    let (name, whole) = text
        .split_once('=')
        .map_or((text, ""), |(name, rest)| (name.trim(), rest.trim()));
    let arguments = Arguments { text, whole };
    let pair = |make: fn(String, TimeDelta) -> Fault, name: Option<&str>, duration| {
        arguments
            .named(name, duration)
            .map(|(name, span)| make(name, span))
    };
    match name {
        "slow" => match whole {
            "" => Ok(Fault::Slow(5.0)),
            factor => match factor.parse::<f64>() {
                Ok(factor) if factor.is_finite() && factor > 0.0 => Ok(Fault::Slow(factor)),
                _ => Err(arguments.error("a positive number is wanted")),
            },
        },
        "slow-operator" => pair(Fault::SlowOperator, None, TimeDelta::minutes(45)),
        "degraded" => pair(Fault::Degraded, None, TimeDelta::minutes(40)),
        "unavailable" => pair(Fault::Unavailable, None, TimeDelta::minutes(5)),
        "cluster-down" => Ok(Fault::ClusterDown(
            arguments.duration()?.unwrap_or(TimeDelta::minutes(3)),
        )),
        "apply-failing" => Ok(Fault::ApplyFailing(
            arguments.duration()?.unwrap_or(TimeDelta::minutes(3)),
        )),
        "drain-stuck" => pair(Fault::DrainStuck, Some("worker"), for_ever()),
        "pull-failing" => pair(Fault::PullFailing, Some("master"), TimeDelta::minutes(30)),
        "api-outage" => Ok(Fault::ApiOutage(
            arguments.duration()?.unwrap_or(TimeDelta::minutes(10)),
        )),
        "unverified" => Ok(Fault::Unverified(
            arguments.or("unable to locate a valid signature for one or more sources"),
        )),
        "monitoring-outage" => arguments.duration().map(Fault::MonitoringOutage),
        "update-service-outage" => arguments.duration().map(Fault::UpdateServiceOutage),
        "retarget" => pair(Fault::Retarget, None, TimeDelta::minutes(15)),
        "not-upgradeable" => {
            let (operator, why) = whole.split_once(',').unwrap_or((whole, ""));
            if operator.trim().is_empty() {
                return Err(arguments.error("a name is wanted after ="));
            }
            let (reason, message) = why.split_once(": ").unwrap_or((
                "NotUpgradeable",
                if why.is_empty() {
                    "not ready for another minor version"
                } else {
                    why
                },
            ));
            Ok(Fault::NotUpgradeable(
                operator.trim().to_owned(),
                reason.trim().to_owned(),
                message.to_owned(),
            ))
        }
        "deleting" if whole.is_empty() => Err(arguments.error("a resource is wanted after =")),
        "deleting" => Ok(Fault::Deleting(whole.to_owned())),
        "no-install-plan" => Ok(Fault::NoInstallPlan),
        "frozen" => Ok(Fault::Frozen),
        _ => Err(arguments.error(KNOWN)),
    }
}

/// The faults of a spoke.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults(Vec<Fault>);

impl FromStr for Faults {
    type Err = FaultError;

    /// Faults separated by `;`. Empty text or `none` means none.
    fn from_str(text: &str) -> Result<Self, FaultError> {
        if matches!(text.trim(), "" | "none") {
            return Ok(Self::default());
        }
        let mut faults = Self::default();
        for part in text.split(';') {
            faults.put(part)?;
        }
        Ok(faults)
    }
}

impl<'de> Deserialize<'de> for Faults {
    /// One text, or a list of texts.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum OneOrMany {
            One(String),
            Many(Vec<String>),
        }
        let text = match OneOrMany::deserialize(deserializer)? {
            OneOrMany::One(text) => text,
            OneOrMany::Many(texts) => texts.join(";"),
        };
        text.parse().map_err(serde::de::Error::custom)
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

/// A trouble of an operator: what it shows, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Degraded=True.
    Degraded(TimeDelta),
    /// Available=False.
    Unavailable(TimeDelta),
}

impl Faults {
    /// Adds the faults of a text.
    ///
    /// # Errors
    /// The text means nothing.
    pub fn add(&mut self, text: &str) -> Result<(), FaultError> {
        if matches!(text.trim(), "" | "none") {
            return Ok(());
        }
        text.split(';').try_for_each(|part| self.put(part))
    }

    fn put(&mut self, text: &str) -> Result<(), FaultError> {
        let fault: Fault = text.parse()?;
        let subject = fault.subject();
        if subject.is_some() && self.0.iter().any(|known| known.subject() == subject) {
            return Err(FaultError::new(
                text.trim(),
                "another fault is about the same; only one can happen",
            ));
        }
        self.0.push(fault);
        Ok(())
    }

    /// How many times longer everything takes.
    #[must_use]
    pub fn slowness(&self) -> f64 {
        self.find(|fault| match fault {
            Fault::Slow(factor) => Some(*factor),
            _ => None,
        })
        .unwrap_or(1.0)
    }

    /// How much longer an operator takes.
    #[must_use]
    pub fn delay(&self, operator: &str) -> TimeDelta {
        self.find(|fault| match fault {
            Fault::SlowOperator(name, span) if name == operator => Some(*span),
            _ => None,
        })
        .unwrap_or_default()
    }

    /// What an operator suffers from while it updates.
    #[must_use]
    pub fn trouble(&self, operator: &str) -> Option<Trouble> {
        self.find(|fault| match fault {
            Fault::Degraded(name, span) if name == operator => Some(Trouble::Degraded(*span)),
            Fault::Unavailable(name, span) if name == operator => Some(Trouble::Unavailable(*span)),
            _ => None,
        })
    }

    /// How long the apply loop finds the cluster down after the API servers rolled.
    #[must_use]
    pub fn cluster_down(&self) -> Option<TimeDelta> {
        self.find(|fault| match fault {
            Fault::ClusterDown(span) => Some(*span),
            _ => None,
        })
    }

    /// How long a Deployment cannot be applied after the API servers rolled.
    #[must_use]
    pub fn apply_failing(&self) -> Option<TimeDelta> {
        self.find(|fault| match fault {
            Fault::ApplyFailing(span) => Some(*span),
            _ => None,
        })
    }

    /// How long the first machine of a pool cannot be drained.
    #[must_use]
    pub fn drain_stuck(&self, pool: &str) -> Option<TimeDelta> {
        self.find(|fault| match fault {
            Fault::DrainStuck(name, span) if name == pool => Some(*span),
            _ => None,
        })
    }

    /// How long the first machine of a pool cannot pull.
    #[must_use]
    pub fn pull_failing(&self, pool: &str) -> Option<TimeDelta> {
        self.find(|fault| match fault {
            Fault::PullFailing(name, span) if name == pool => Some(*span),
            _ => None,
        })
    }

    /// How long the API is away when a master reboots.
    #[must_use]
    pub fn api_outage(&self) -> Option<TimeDelta> {
        self.find(|fault| match fault {
            Fault::ApiOutage(span) => Some(*span),
            _ => None,
        })
    }

    /// Why payloads cannot be verified.
    #[must_use]
    pub fn unverified(&self) -> Option<&str> {
        self.find(|fault| match fault {
            Fault::Unverified(message) => Some(message.as_str()),
            _ => None,
        })
    }

    /// Whether `PromQL` cannot be evaluated, `updating` into an update.
    #[must_use]
    pub fn monitoring_outage(&self, updating: Option<TimeDelta>) -> bool {
        self.find(|fault| match fault {
            Fault::MonitoringOutage(span) => Some(lasts(*span, updating)),
            _ => None,
        })
        .unwrap_or(false)
    }

    /// Whether the update service cannot be reached, `updating` into an update.
    #[must_use]
    pub fn update_service_outage(&self, updating: Option<TimeDelta>) -> bool {
        self.find(|fault| match fault {
            Fault::UpdateServiceOutage(span) => Some(lasts(*span, updating)),
            _ => None,
        })
        .unwrap_or(false)
    }

    /// Which version an admin asks for in mid-update, and how long after its start.
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
        self.0
            .iter()
            .filter_map(|fault| match fault {
                Fault::Deleting(resource) => Some(resource.clone()),
                _ => None,
            })
            .collect()
    }

    /// Whether OLM makes no InstallPlans.
    #[must_use]
    pub fn no_install_plan(&self) -> bool {
        self.0.contains(&Fault::NoInstallPlan)
    }

    /// Whether the cluster-version operator is away.
    #[must_use]
    pub fn frozen(&self) -> bool {
        self.0.contains(&Fault::Frozen)
    }

    fn find<'a, T>(&'a self, pick: impl Fn(&'a Fault) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(pick)
    }
}

/// Without a span always; with one, so long from the start of an update.
fn lasts(span: Option<TimeDelta>, updating: Option<TimeDelta>) -> bool {
    span.is_none_or(|span| updating.is_some_and(|since| since < span))
}

#[cfg(test)]
#[path = "fault_tests.rs"]
mod tests;
