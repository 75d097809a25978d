//! The grammar of faults: the table of all of them, and the parser.

use std::fmt::Write as _;
use std::str::FromStr;
use std::time::Duration;

use chrono::TimeDelta;
use serde::{Deserialize, Deserializer};

use super::{Fault, Faults, Lie};
use crate::run_levels::OPERATORS;

/// The two simulators that share the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulator {
    /// `spoke-sim agents`: the work agents of many clusters, with clusters in memory.
    Agents,
    /// `spoke-sim cluster`: one cluster on its own API server.
    Cluster,
}

/// Which simulators support a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SupportedBy {
    Both,
    Only(Simulator),
}

/// One row of the table.
pub(super) struct Row {
    pub name: &'static str,
    /// What follows the name.
    pub arguments: &'static str,
    /// What happens, as `--help` and `docs/design/faults.md` say it.
    pub meaning: &'static str,
    pub supported_by: SupportedBy,
}

const fn both(name: &'static str, arguments: &'static str, meaning: &'static str) -> Row {
    Row {
        name,
        arguments,
        meaning,
        supported_by: SupportedBy::Both,
    }
}

const fn agents(name: &'static str, arguments: &'static str, meaning: &'static str) -> Row {
    Row {
        name,
        arguments,
        meaning,
        supported_by: SupportedBy::Only(Simulator::Agents),
    }
}

const fn cluster(name: &'static str, arguments: &'static str, meaning: &'static str) -> Row {
    Row {
        name,
        arguments,
        meaning,
        supported_by: SupportedBy::Only(Simulator::Cluster),
    }
}

/// All faults.
#[rustfmt::skip]
pub(super) const TABLE: [Row; 29] = [
    both("slow", "[=FACTOR]", "updates, operators, machines and Jobs take FACTOR times longer (5)"),
    both("slow-operator", "=OPERATOR[,DURATION]", "the operator takes this much longer to update (45m)"),
    both("degraded", "=OPERATOR[,DURATION]", "the operator is Degraded for this long from the start of its update (40m; for-ever: on a cluster also between updates)"),
    both("unavailable", "=OPERATOR[,DURATION]", "the operator is not Available for this long (5m; for-ever as above)"),
    both("drain-stuck", "[=POOL[,DURATION]]", "the first machine of a pool cannot be drained (worker, for-ever; agents: master only)"),
    both("unverified", "[=MESSAGE]", "no payload can be verified"),
    both("update-service-outage", "[=DURATION]", "the update service cannot be reached (until removed; agents: no duration)"),
    agents("stuck", "[=PERCENT]", "updates stay Partial at PERCENT (85), and Jobs never end"),
    agents("failing", "[=MESSAGE]", "updates report Failing=True, and Jobs fail"),
    agents("job-fails", "[=MESSAGE]", "Jobs fail"),
    agents("flapping", "[=PERIOD[,available]]", "the agent is away, or with `available` cannot read, every other PERIOD of wall-clock time (30s)"),
    agents("offline", "", "the agent writes nothing"),
    agents("old-agent", "", "the agent is older than OCM v0.14: it panics on a work with updateStrategy ReadOnly, reports that it was applied, names no object and goes on with other works"),
    agents("refusing", "[=REASON: MESSAGE]", "Upgradeable=False, so that minor updates are not accepted"),
    agents("lying", "[=stale|early]", "feedback stays at the old version (stale), or reports Completed too early"),
    agents("forbidden", "[=once|always]", "no permission on ClusterVersion until a work grants it (always: never)"),
    agents("unoffered", "", "no update is available, so that requests by version are Invalid"),
    agents("not-in-channel", "", "no channel has the running release; otherwise as unoffered"),
    agents("risk", "=NAME[: MESSAGE]", "the requested update is not recommended because this risk applies; otherwise as unoffered"),
    cluster("cluster-down", "[=DURATION]", "after the API servers rolled, the apply loop cannot reach them (3m)"),
    cluster("apply-failing", "[=DURATION]", "after the API servers rolled, a Deployment cannot be applied (3m)"),
    cluster("pull-failing", "[=POOL[,DURATION]]", "the first machine of a pool cannot pull its system (master, 30m)"),
    cluster("api-outage", "[=DURATION]", "nobody reaches the API server through --tcp-proxy while a master reboots (10m)"),
    cluster("monitoring-outage", "[=DURATION]", "PromQL queries cannot be evaluated (until removed)"),
    cluster("retarget", "=VERSION[,AFTER]", "an administrator requests another version in mid-update (15m)"),
    cluster("not-upgradeable", "=OPERATOR[,REASON: MESSAGE]", "the operator reports Upgradeable=False"),
    cluster("deleting", "=RESOURCE", "a resource of the release hangs in deletion"),
    cluster("no-install-plan", "", "OLM creates no InstallPlans"),
    cluster("frozen", "", "the cluster-version operator is away"),
];

impl Row {
    pub(super) fn is_supported_by(&self, simulator: Simulator) -> bool {
        match self.supported_by {
            SupportedBy::Both => true,
            SupportedBy::Only(one) => one == simulator,
        }
    }
}

/// The faults of a simulator, a line each, for its `--help`.
#[must_use]
pub fn help(simulator: Simulator) -> String {
    let rows = || TABLE.iter().filter(|row| row.is_supported_by(simulator));
    let width = rows()
        .map(|row| row.name.len() + row.arguments.len())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    for row in rows() {
        let written = format!("{}{}", row.name, row.arguments);
        let _ = writeln!(text, "  {written:width$}  {}", row.meaning);
    }
    text
}

/// A text that is not a fault, or not one of the simulator that should simulate it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fault \"{text}\": {problem}")]
pub struct FaultError {
    text: String,
    problem: String,
}

impl FaultError {
    fn new(text: &str, problem: impl Into<String>) -> Self {
        Self {
            text: text.trim().to_owned(),
            problem: problem.into(),
        }
    }
}

/// Longer than any run, for faults without an end.
#[must_use]
pub fn for_ever() -> TimeDelta {
    TimeDelta::days(3650)
}

/// A positive duration such as `30s` or `1m 30s`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    humantime::parse_duration(text)
        .ok()
        .filter(|duration| !duration.is_zero())
}

fn simulated_duration(text: &str) -> Option<TimeDelta> {
    if text == "for-ever" {
        return Some(for_ever());
    }
    TimeDelta::from_std(parse_duration(text)?).ok()
}

impl FromStr for Fault {
    type Err = FaultError;

    /// Reads a fault of either simulator.
    fn from_str(text: &str) -> Result<Self, FaultError> {
        let fault = read(text).map_err(|problem| FaultError::new(text, problem))?;
        check_names(&fault).map_err(|problem| FaultError::new(text, problem))?;
        Ok(fault)
    }
}

impl FromStr for Faults {
    type Err = FaultError;

    /// Reads faults of either simulator, separated by `;`. Empty text or `none` means no faults.
    fn from_str(text: &str) -> Result<Self, FaultError> {
        let mut faults = Self::default();
        faults.add(text, None)?;
        Ok(faults)
    }
}

impl Faults {
    /// Reads faults that a simulator should simulate, separated by `;`. Empty text or `none` means no faults.
    ///
    /// # Errors
    /// The text contains something that is not a fault or that the simulator does not support, or two faults about the same
    /// thing.
    pub fn parse(text: &str, simulator: Simulator) -> Result<Self, FaultError> {
        let mut faults = Self::default();
        faults.add(text, Some(simulator))?;
        Ok(faults)
    }

    /// Adds the faults of a text that a simulator should simulate.
    ///
    /// # Errors
    /// As [`Faults::parse`].
    pub fn extend(&mut self, text: &str, simulator: Simulator) -> Result<(), FaultError> {
        self.add(text, Some(simulator))
    }

    fn add(&mut self, text: &str, simulator: Option<Simulator>) -> Result<(), FaultError> {
        if matches!(text.trim(), "" | "none") {
            return Ok(());
        }
        for part in text.split(';') {
            let error = |problem| FaultError::new(part, problem);
            if let Some(simulator) = simulator {
                check_name(part, simulator).map_err(error)?;
            }
            let fault: Fault = part.parse()?;
            if simulator == Some(Simulator::Agents) {
                check_agents_support(&fault).map_err(|problem| error(problem.to_owned()))?;
            }
            if !self.put(fault) {
                return Err(FaultError::new(
                    part,
                    "another fault is about the same thing; only one of them can happen",
                ));
            }
        }
        Ok(())
    }
}

/// Reads the faults of a scenario of `spoke-sim agents`: one text, or a list of texts.
///
/// # Errors
/// As [`Faults::parse`].
pub fn read_for_agents<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Faults>, D::Error> {
    deserialize(deserializer, Simulator::Agents)
}

/// Reads the faults of a scenario of `spoke-sim cluster`: one text, or a list of texts.
///
/// # Errors
/// As [`Faults::parse`].
pub fn read_for_cluster<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Faults, D::Error> {
    deserialize(deserializer, Simulator::Cluster).map(Option::unwrap_or_default)
}

fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
    simulator: Simulator,
) -> Result<Option<Faults>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    let text = match Option::deserialize(deserializer)? {
        None => return Ok(None),
        Some(OneOrMany::One(text)) => text,
        Some(OneOrMany::Many(texts)) => texts.join(";"),
    };
    Faults::parse(&text, simulator)
        .map(Some)
        .map_err(serde::de::Error::custom)
}

/// Refuses a name that is not a fault of the simulator.
fn check_name(text: &str, simulator: Simulator) -> Result<(), String> {
    let name = split(text).0;
    let is_known = |row: &Row| row.name == name && row.is_supported_by(simulator);
    if TABLE.iter().any(is_known) {
        Ok(())
    } else {
        Err(known(|row| row.is_supported_by(simulator)))
    }
}

/// `known are slow, …`
fn known(which: impl Fn(&Row) -> bool) -> String {
    let names: Vec<&str> = TABLE
        .iter()
        .filter(|row| which(row))
        .map(|row| row.name)
        .collect();
    format!("known are {}", names.join(", "))
}

/// The agents simulate no worker machines, and an outage lasts as long as the fault is set.
fn check_agents_support(fault: &Fault) -> Result<(), &'static str> {
    match fault {
        Fault::DrainStuck(pool, _) if pool != "master" => {
            Err("spoke-sim agents has no pool but master: drain-stuck=master")
        }
        Fault::UpdateServiceOutage(Some(_)) => Err("spoke-sim agents takes no duration here"),
        _ => Ok(()),
    }
}

/// Refuses names of operators and pools that do not exist: such a fault would never happen.
fn check_names(fault: &Fault) -> Result<(), &'static str> {
    match fault {
        Fault::SlowOperator(name, _)
        | Fault::Degraded(name, _)
        | Fault::Unavailable(name, _)
        | Fault::NotUpgradeable(name, ..)
            if OPERATORS.iter().all(|row| row.name != name) =>
        {
            Err("there is no cluster operator of that name")
        }
        Fault::DrainStuck(pool, _) | Fault::PullFailing(pool, _)
            if !matches!(pool.as_str(), "master" | "worker") =>
        {
            Err("the pools are master and worker")
        }
        Fault::Retarget(version, _) if semver::Version::parse(version).is_err() => {
            Err("expected a version such as 4.16.3")
        }
        _ => Ok(()),
    }
}

/// Name and arguments.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once('=')
        .map_or((text, ""), |(name, rest)| (name.trim(), rest.trim()))
}

/// Reads one fault. The error says what is wrong with its text.
fn read(text: &str) -> Result<Fault, String> {
    let (name, arguments) = split(text);
    let arguments = Arguments(arguments);
    let pair = |make: fn(String, TimeDelta) -> Fault, default: Option<&str>, minutes: Option<i64>| {
        let span = minutes.map_or_else(for_ever, TimeDelta::minutes);
        arguments
            .name_and_span(default, span)
            .map(|(name, span)| make(name, span))
    };
    Ok(match name {
        "slow" => Fault::Slow(arguments.positive(5.0)?),
        "slow-operator" => pair(Fault::SlowOperator, None, Some(45))?,
        "degraded" => pair(Fault::Degraded, None, Some(40))?,
        "unavailable" => pair(Fault::Unavailable, None, Some(5))?,
        "drain-stuck" => pair(Fault::DrainStuck, Some("worker"), None)?,
        "unverified" => {
            Fault::Unverified(arguments.or("unable to locate a valid signature for one or more sources"))
        }
        "update-service-outage" => Fault::UpdateServiceOutage(arguments.span()?),
        "stuck" => Fault::Stuck(arguments.percent(85.0)?),
        "failing" => Fault::Failing(arguments.or("Cluster operator network is not available")),
        "job-fails" => Fault::JobFails(arguments.or("Job has reached the specified backoff limit")),
        "flapping" => arguments.flapping()?,
        "offline" => Fault::Offline,
        "old-agent" => Fault::OldAgent,
        "refusing" => arguments.refusing(),
        "lying" => Fault::Lying(match arguments.0 {
            "" | "stale" => Lie::Stale,
            "early" => Lie::Early,
            _ => return Err("expected `stale` or `early`".to_owned()),
        }),
        "forbidden" => Fault::Forbidden {
            always: match arguments.0 {
                "" | "once" => false,
                "always" => true,
                _ => return Err("expected `once` or `always`".to_owned()),
            },
        },
        "unoffered" => Fault::Unoffered,
        "not-in-channel" => Fault::NotInChannel,
        "risk" => arguments.risk()?,
        "cluster-down" => Fault::ClusterDown(arguments.span_or(3)?),
        "apply-failing" => Fault::ApplyFailing(arguments.span_or(3)?),
        "pull-failing" => pair(Fault::PullFailing, Some("master"), Some(30))?,
        "api-outage" => Fault::ApiOutage(arguments.span_or(10)?),
        "monitoring-outage" => Fault::MonitoringOutage(arguments.span()?),
        "retarget" => pair(Fault::Retarget, None, Some(15))?,
        "not-upgradeable" => arguments.not_upgradeable()?,
        "deleting" if arguments.0.is_empty() => return Err("expected a resource after =".to_owned()),
        "deleting" => Fault::Deleting(arguments.0.to_owned()),
        "no-install-plan" => Fault::NoInstallPlan,
        "frozen" => Fault::Frozen,
        _ => return Err(known(|_| true)),
    })
}

/// What follows `=`.
#[derive(Clone, Copy)]
struct Arguments<'a>(&'a str);

impl Arguments<'_> {
    fn or(self, default: &str) -> String {
        if self.0.is_empty() { default } else { self.0 }.to_owned()
    }

    fn positive(self, default: f64) -> Result<f64, String> {
        positive(self.0, default)
    }

    /// A percentage, with or without `%`.
    fn percent(self, default: f64) -> Result<f64, String> {
        positive(self.0.trim_end_matches('%'), default).map(|percent| percent.min(100.0))
    }

    fn span(self) -> Result<Option<TimeDelta>, String> {
        match self.0 {
            "" => Ok(None),
            text => simulated_duration(text).map(Some).ok_or_else(no_duration),
        }
    }

    fn span_or(self, minutes: i64) -> Result<TimeDelta, String> {
        Ok(self.span()?.unwrap_or(TimeDelta::minutes(minutes)))
    }

    /// `NAME[,DURATION]`; without a default the name must be given.
    fn name_and_span(self, default: Option<&str>, span: TimeDelta) -> Result<(String, TimeDelta), String> {
        let (name, rest) = self.0.split_once(',').unwrap_or((self.0, ""));
        let name = match (name.trim(), default) {
            ("", Some(default)) => default,
            ("", None) => return Err(no_name()),
            (name, _) => name,
        };
        let span = match rest.trim() {
            "" => span,
            text => simulated_duration(text).ok_or_else(no_duration)?,
        };
        Ok((name.to_owned(), span))
    }

    /// `[PERIOD[,available]]`
    fn flapping(self) -> Result<Fault, String> {
        let (period, mode) = self.0.split_once(',').unwrap_or((self.0, "agent"));
        let available = match mode.trim() {
            "available" => true,
            "agent" => false,
            _ => return Err("expected `agent` or `available` after the period".to_owned()),
        };
        let period = if period.is_empty() { "30s" } else { period };
        let period = parse_duration(period).ok_or_else(|| "expected a period such as 30s".to_owned())?;
        Ok(Fault::Flapping { period, available })
    }

    /// `[REASON: MESSAGE]`
    fn refusing(self) -> Fault {
        let text = self.or(
            "IncompatibleOperatorsInstalled: Cluster operator operator-lifecycle-manager should not be upgraded \
             between minor versions: ClusterServiceVersions blocking cluster upgrade",
        );
        let (reason, message) = text.split_once(": ").unwrap_or(("AdminAckRequired", &text));
        Fault::Refusing {
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    /// `NAME[: MESSAGE]`
    fn risk(self) -> Result<Fault, String> {
        if self.0.is_empty() {
            return Err(no_name());
        }
        let (name, message) = self
            .0
            .split_once(": ")
            .unwrap_or((self.0, "Clusters like this one may break."));
        Ok(Fault::Risk {
            name: name.to_owned(),
            message: message.to_owned(),
        })
    }

    /// `OPERATOR[,REASON: MESSAGE]`
    fn not_upgradeable(self) -> Result<Fault, String> {
        let (operator, why) = self.0.split_once(',').unwrap_or((self.0, ""));
        if operator.trim().is_empty() {
            return Err(no_name());
        }
        let why = if why.is_empty() {
            "not ready for another minor version"
        } else {
            why
        };
        let (reason, message) = why.split_once(": ").unwrap_or(("NotUpgradeable", why));
        Ok(Fault::NotUpgradeable(
            operator.trim().to_owned(),
            reason.trim().to_owned(),
            message.to_owned(),
        ))
    }
}

fn positive(text: &str, default: f64) -> Result<f64, String> {
    match text {
        "" => Ok(default),
        text => match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
            _ => Err("expected a positive number".to_owned()),
        },
    }
}

fn no_name() -> String {
    "expected a name after =".to_owned()
}

fn no_duration() -> String {
    "expected a duration such as 40m, or for-ever".to_owned()
}
