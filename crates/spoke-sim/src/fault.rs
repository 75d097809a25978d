//! What can be wrong with a simulated cluster, and how it is written in flags, scenarios and annotations.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use chrono::TimeDelta;
use clusterversion::failure::OperatorProblem;
use serde::{Deserialize, Deserializer};

use crate::spoke::fault::Fault as ClusterFault;
use crate::spoke::rollout::table::MACHINE_CONFIG;

/// Annotation on a ManagedCluster that sets its faults while the simulator runs. The value is as in
/// [`Faults::from_str`]; `none` or removing the annotation mends the cluster.
pub const ANNOTATION: &str = "spoke-sim.mcu/fault";

/// One fault.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// `slow[=FACTOR]`: acceptance, update and Jobs take this many times longer (5).
    Slow(f64),
    /// `stuck[=PERCENT]`: the update stays Partial at this percentage (85); Jobs never end.
    Stuck(f64),
    /// `failing[=MESSAGE]`: in mid-update Failing=True with the message; Jobs fail.
    Failing(String),
    /// `job-fails[=MESSAGE]`: Jobs fail, updates go well.
    JobFails(String),
    /// `flapping[=PERIOD[,available]]`: the agent is gone every other period (30s); with `available` it stays
    /// and the objects cannot be read every other period.
    Flapping {
        /// Length of one half of the cycle, wall-clock.
        period: Duration,
        /// Whether reads fail instead of the agent.
        available: bool,
    },
    /// `offline`: the agent writes nothing.
    Offline,
    /// `refusing[=REASON: MESSAGE]`: Upgradeable=False; minor updates fail their precondition checks.
    Refusing {
        /// Reason of Upgradeable.
        reason: String,
        /// Message of Upgradeable.
        message: String,
    },
    /// `lying[=stale|early]`: feedback shows the old version as Completed for ever (stale, the default), or the
    /// target as Completed with an observedGeneration of before (early).
    Lying(Lie),
    /// `forbidden[=always]`: the agent may not touch ClusterVersion until a binding `admin-ocm` or an
    /// aggregated `ClusterRole` is there; with `always` never.
    Forbidden {
        /// Whether RBAC cannot be mended by a work.
        always: bool,
    },
    /// `unoffered`: no version is in availableUpdates, so that a version-only request is Invalid.
    Unoffered,
    /// `not-in-channel`: no channel has the release that runs: no updates are retrieved, as `unoffered`.
    NotInChannel,
    /// `risk=NAME[: MESSAGE]`: what is asked for is a conditional update whose risk applies: not recommended, as
    /// `unoffered`.
    Risk {
        /// Name of the risk.
        name: String,
        /// Its text.
        message: String,
    },
    /// A word of `spoke-sim cluster` that means the same here: `slow-operator`, `degraded`, `unavailable`,
    /// `unverified`, `update-service-outage` without a duration, and `drain-stuck=master`. Durations are simulated time.
    Cluster(ClusterFault),
}

/// An operator that holds an update up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait<'a> {
    /// Its name.
    pub operator: &'a str,
    /// What is wrong with it.
    pub problem: OperatorProblem,
    /// For how long, simulated time.
    pub lasts: TimeDelta,
}

/// How feedback lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Frozen in the time before the update.
    Stale,
    /// Completed before it is.
    Early,
}

/// A fault text that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fault \"{text}\": {problem}")]
pub struct FaultError {
    text: String,
    problem: &'static str,
}

impl FaultError {
    /// What is wrong with a fault's text.
    pub(crate) fn new(text: &str, problem: &'static str) -> Self {
        Self {
            text: text.to_owned(),
            problem,
        }
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let text = text.trim();
        let (name, argument) = text
            .split_once('=')
            .map_or((text, ""), |(name, rest)| (name.trim(), rest.trim()));
        let error = |problem| FaultError::new(text, problem);
        let number = |default: f64| match argument {
            "" => Ok(default),
            argument => match argument.trim_end_matches('%').parse::<f64>() {
                Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
                _ => Err(error("a positive number is wanted")),
            },
        };
        let or = |default: &str| {
            if argument.is_empty() {
                default.to_owned()
            } else {
                argument.to_owned()
            }
        };
        Ok(match name {
            "slow" => Self::Slow(number(5.0)?),
            "stuck" => Self::Stuck(number(85.0)?.min(100.0)),
            "failing" => Self::Failing(or("Cluster operator network is not available")),
            "job-fails" => Self::JobFails(or("Job has reached the specified backoff limit")),
            "flapping" => {
                let (period, mode) = argument.split_once(',').unwrap_or((argument, "agent"));
                let available = match mode.trim() {
                    "available" => true,
                    "agent" => false,
                    _ => return Err(error("after the period only `agent` or `available` is known")),
                };
                let period = if period.is_empty() { "30s" } else { period };
                let period = parse_duration(period).ok_or_else(|| error("a period like 30s is wanted"))?;
                Self::Flapping { period, available }
            }
            "offline" => Self::Offline,
            "refusing" => {
                let text = or(
                    "IncompatibleOperatorsInstalled: Cluster operator operator-lifecycle-manager should not be \
                     upgraded between minor versions: ClusterServiceVersions blocking cluster upgrade",
                );
                let (reason, message) = text.split_once(": ").unwrap_or(("AdminAckRequired", &text));
                Self::Refusing {
                    reason: reason.to_owned(),
                    message: message.to_owned(),
                }
            }
            "lying" => Self::Lying(match argument {
                "" | "stale" => Lie::Stale,
                "early" => Lie::Early,
                _ => return Err(error("only `stale` and `early` are known")),
            }),
            "forbidden" => Self::Forbidden {
                always: match argument {
                    "" | "once" => false,
                    "always" => true,
                    _ => return Err(error("only `once` and `always` are known")),
                },
            },
            "unoffered" => Self::Unoffered,
            "not-in-channel" => Self::NotInChannel,
            "risk" if argument.is_empty() => return Err(error("a name is wanted after =")),
            "risk" => {
                let (name, message) = argument
                    .split_once(": ")
                    .unwrap_or((argument, "Clusters like this one may break."));
                Self::Risk {
                    name: name.to_owned(),
                    message: message.to_owned(),
                }
            }
            "slow-operator"
            | "degraded"
            | "unavailable"
            | "unverified"
            | "update-service-outage"
            | "drain-stuck" => Self::of_cluster(text)?,
            _ => return Err(error(KNOWN)),
        })
    }
}

impl Fault {
    /// Reads a word of `spoke-sim cluster`.
    fn of_cluster(text: &str) -> Result<Self, FaultError> {
        match text.parse()? {
            ClusterFault::DrainStuck(pool, _) if pool != "master" => Err(FaultError::new(
                text,
                "only the masters are played here: drain-stuck=master",
            )),
            ClusterFault::UpdateServiceOutage(Some(_)) => {
                Err(FaultError::new(text, "no duration is known here"))
            }
            fault => Ok(Self::Cluster(fault)),
        }
    }
}

const KNOWN: &str = "known are slow, stuck, failing, job-fails, flapping, offline, refusing, lying, forbidden, \
                     unoffered, not-in-channel, risk, slow-operator, degraded, unavailable, drain-stuck, unverified, \
                     update-service-outage";

/// A positive duration such as `30s` or `1m 30s`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    humantime::parse_duration(text)
        .ok()
        .filter(|duration| !duration.is_zero())
}

/// The faults of one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults(Vec<Fault>);

impl FromStr for Faults {
    type Err = FaultError;

    /// Faults separated by `;`. Empty text or `none` means none.
    fn from_str(text: &str) -> Result<Self, FaultError> {
        if matches!(text.trim(), "" | "none") {
            return Ok(Self::default());
        }
        text.split(';')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl<'de> Deserialize<'de> for Faults {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

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
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many times longer everything takes.
    #[must_use]
    pub fn slowness(&self) -> f64 {
        self.find(|fault| {
            if let Fault::Slow(factor) = fault {
                Some(*factor)
            } else {
                None
            }
        })
        .unwrap_or(1.0)
    }

    /// The percentage at which an update hangs.
    #[must_use]
    pub fn stuck(&self) -> Option<f64> {
        self.find(|fault| {
            if let Fault::Stuck(percent) = fault {
                Some(*percent)
            } else {
                None
            }
        })
    }

    /// The message an update fails with.
    #[must_use]
    pub fn failing(&self) -> Option<&str> {
        self.find(|fault| {
            if let Fault::Failing(message) = fault {
                Some(message.as_str())
            } else {
                None
            }
        })
    }

    /// The message Jobs fail with.
    #[must_use]
    pub fn job_fails(&self) -> Option<&str> {
        self.find(|fault| match fault {
            Fault::Failing(_) => Some("Job has reached the specified backoff limit"),
            Fault::JobFails(message) => Some(message.as_str()),
            _ => None,
        })
    }

    /// Reason and message of Upgradeable=False.
    #[must_use]
    pub fn refusing(&self) -> Option<(&str, &str)> {
        self.find(|fault| match fault {
            Fault::Refusing { reason, message } => Some((reason.as_str(), message.as_str())),
            _ => None,
        })
    }

    /// How feedback lies.
    #[must_use]
    pub fn lie(&self) -> Option<Lie> {
        self.find(|fault| {
            if let Fault::Lying(lie) = fault {
                Some(*lie)
            } else {
                None
            }
        })
    }

    /// Whether RBAC on ClusterVersion is missing, and if so whether for ever.
    #[must_use]
    pub fn forbidden(&self) -> Option<bool> {
        self.find(|fault| {
            if let Fault::Forbidden { always } = fault {
                Some(*always)
            } else {
                None
            }
        })
    }

    /// Whether no update is offered.
    #[must_use]
    pub fn unoffered(&self) -> bool {
        self.0.contains(&Fault::Unoffered)
            || self.is_in_no_channel()
            || self.update_service_is_away()
            || self.risk().is_some()
    }

    /// Whether no channel has the release that runs.
    #[must_use]
    pub fn is_in_no_channel(&self) -> bool {
        self.0.contains(&Fault::NotInChannel)
    }

    /// Whether the update service cannot be reached.
    #[must_use]
    pub fn update_service_is_away(&self) -> bool {
        self.0
            .contains(&Fault::Cluster(ClusterFault::UpdateServiceOutage(None)))
    }

    /// Name and text of a risk that applies to whatever is asked for.
    #[must_use]
    pub fn risk(&self) -> Option<(&str, &str)> {
        self.find(|fault| match fault {
            Fault::Risk { name, message } => Some((name.as_str(), message.as_str())),
            _ => None,
        })
    }

    /// Why payloads cannot be verified.
    #[must_use]
    pub fn unverified(&self) -> Option<&str> {
        self.find(|fault| match fault {
            Fault::Cluster(ClusterFault::Unverified(message)) => Some(message.as_str()),
            _ => None,
        })
    }

    /// The operator that holds an update up.
    #[must_use]
    pub fn wait(&self) -> Option<Wait<'_>> {
        self.find(|fault| {
            let Fault::Cluster(fault) = fault else {
                return None;
            };
            let (operator, problem, lasts) = match fault {
                ClusterFault::SlowOperator(name, lasts) => (name.as_str(), OperatorProblem::Updating, *lasts),
                ClusterFault::DrainStuck(_, lasts) => (MACHINE_CONFIG, OperatorProblem::Updating, *lasts),
                ClusterFault::Degraded(name, lasts) => (name.as_str(), OperatorProblem::Degraded, *lasts),
                ClusterFault::Unavailable(name, lasts) => {
                    (name.as_str(), OperatorProblem::NotAvailable, *lasts)
                }
                _ => return None,
            };
            Some(Wait {
                operator,
                problem,
                lasts,
            })
        })
    }

    /// Whether the agent is offline for good.
    #[must_use]
    pub fn offline(&self) -> bool {
        self.0.contains(&Fault::Offline)
    }

    /// The period of flapping, and whether reads flap rather than the agent.
    #[must_use]
    pub fn flapping(&self) -> Option<(Duration, bool)> {
        self.find(|fault| match fault {
            Fault::Flapping { period, available } => Some((*period, *available)),
            _ => None,
        })
    }

    fn find<'a, T>(&'a self, pick: impl Fn(&'a Fault) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(pick)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clusterversion::failure::OperatorProblem;

    use super::{Fault, Faults, Lie};

    #[test]
    fn faults_are_read_with_their_arguments_and_defaults() {
        let cases = [
            ("slow", Fault::Slow(5.0)),
            ("slow=2.5", Fault::Slow(2.5)),
            ("stuck=42%", Fault::Stuck(42.0)),
            ("failing=etcd is gone", Fault::Failing("etcd is gone".into())),
            (
                "flapping=10s",
                Fault::Flapping {
                    period: Duration::from_secs(10),
                    available: false,
                },
            ),
            (
                "flapping=1m,available",
                Fault::Flapping {
                    period: Duration::from_mins(1),
                    available: true,
                },
            ),
            ("offline", Fault::Offline),
            (
                "refusing=PoolUpdating: not now",
                Fault::Refusing {
                    reason: "PoolUpdating".into(),
                    message: "not now".into(),
                },
            ),
            ("lying=early", Fault::Lying(Lie::Early)),
            ("forbidden=always", Fault::Forbidden { always: true }),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Fault>().unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn words_of_a_spoke_that_the_agents_cannot_play_are_refused() {
        let wait = |text: &str| {
            let faults: Faults = text.parse().unwrap();
            let wait = faults.wait().unwrap();
            (wait.operator.to_owned(), wait.problem, wait.lasts.num_minutes())
        };
        assert_eq!(
            wait("slow-operator=etcd"),
            ("etcd".to_owned(), OperatorProblem::Updating, 45)
        );
        assert_eq!(
            wait("degraded=network,41m"),
            ("network".to_owned(), OperatorProblem::Degraded, 41)
        );
        assert_eq!(
            wait("drain-stuck=master,3h"),
            ("machine-config".to_owned(), OperatorProblem::Updating, 180)
        );
        for text in [
            "drain-stuck",
            "drain-stuck=worker",
            "update-service-outage=5m",
            "degraded",
            "frozen",
            "risk",
        ] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }

    #[test]
    fn nothing_is_on_offer_for_several_reasons() {
        for (text, unoffered) in [
            ("unoffered", true),
            ("not-in-channel", true),
            ("risk=Leak: Memory leaks.", true),
            ("update-service-outage", true),
            ("unverified", false),
        ] {
            let faults: Faults = text.parse().unwrap();
            assert_eq!(faults.unoffered(), unoffered, "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for text in [
            "slow=0",
            "slow=x",
            "flapping=never",
            "lying=well",
            "broken",
            "forbidden=maybe",
        ] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
        assert!(
            "broken"
                .parse::<Fault>()
                .unwrap_err()
                .to_string()
                .contains("known are slow")
        );
    }

    #[test]
    fn several_faults_are_joined_by_semicolons() {
        let faults: Faults = "slow=3; refusing=A: b".parse().unwrap();
        assert_eq!(faults.refusing(), Some(("A", "b")));
        assert!((faults.slowness() - 3.0).abs() < f64::EPSILON);
        assert!("none".parse::<Faults>().unwrap().is_empty());
        assert!("".parse::<Faults>().unwrap().is_empty());
    }
}
