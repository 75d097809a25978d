//! Conditions Progressing, Failing and Available, during an update and after it.
//!
//! This module defines the texts and the grace periods: after 30 minutes (machine-config: 90) an operator is called slow, and
//! after 40 minutes a degraded operator fails the update (`docs/design/cvo.md#failing-threshold`).

use std::fmt::Write as _;

use chrono::TimeDelta;
use clusterversion::Era;
use clusterversion::types::{
    AVAILABLE, ClusterOperatorCondition, ConditionStatus, Conditions, FAILING, PROGRESSING,
    RETRIEVED_UPDATES, Time,
};

use crate::era::Behavior as _;
use crate::failure::{TaskError, UpdateEffect, UpdateError, condense};

/// How long an operator may be degraded during an update.
pub const DEGRADED_GRACE: TimeDelta = TimeDelta::minutes(40);
/// How long an operator may take before it is called slow.
pub const SLOW_AFTER: TimeDelta = TimeDelta::minutes(30);
/// The same for machine-config, which updates one node after the other.
pub const SLOW_AFTER_MACHINE_CONFIG: TimeDelta = TimeDelta::minutes(90);
/// The type of the condition about capabilities that the operator enables without being told to.
const IMPLICITLY_ENABLED_CAPABILITIES: &str = "ImplicitlyEnabledCapabilities";
/// The operator that updates the nodes.
pub const MACHINE_CONFIG: &str = "machine-config";

/// What the apply loop of the operator is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoundState {
    /// It installs the cluster: it does not wait for the versions of operators, and only reports degraded ones.
    Initializing,
    /// It applies another payload.
    Updating,
    /// It reconciles a payload that was fully applied.
    #[default]
    Reconciling,
}

/// The state of the apply loop during a round or after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// The payload of the round. If it is not the accepted payload, the round counts as not started.
    pub image: String,
    /// The generation of the ClusterVersion that the loop has observed. It becomes `observedGeneration`.
    pub generation: i64,
    /// What the loop is doing.
    pub state: RoundState,
    /// Manifests applied in this round.
    pub done: u32,
    /// Manifests of the payload; 0 until they are counted.
    pub total: u32,
    /// Hash over the manifests. An empty text keeps the existing one.
    pub version_hash: String,
    /// Whether the payload was fully applied at least once.
    pub completed: bool,
    /// The errors.
    pub errors: Vec<TaskError>,
}

/// How an error is described as progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct WaitSummary {
    reason: String,
    message: String,
    /// Whether it still counts as progress and not as an error.
    goes_on: bool,
    /// Whether it takes longer than expected.
    slow: bool,
}

fn names(waits: &[&str]) -> String {
    waits.join(", ")
}

fn waiting(now: Time, error: &UpdateError, era: Era) -> WaitSummary {
    let told = |message: String, goes_on| WaitSummary {
        reason: error.reason.clone(),
        message,
        goes_on,
        slow: false,
    };
    match error.effect {
        Some(UpdateEffect::Report) => told(error.message.clone(), false),
        Some(UpdateEffect::None) => updating(now, error, era),
        Some(UpdateEffect::FailAfterInterval) => {
            let exceeded: Vec<&str> = error
                .waits
                .iter()
                .filter(|(_, since)| now - *since > DEGRADED_GRACE)
                .map(|(name, _)| name.as_str())
                .collect();
            if exceeded.is_empty() {
                told(format!("waiting up to 40 minutes on {}", error.name), true)
            } else {
                let names = names(&exceeded);
                told(
                    format!("wait has exceeded 40 minutes for these operators: {names}"),
                    false,
                )
            }
        }
        Some(UpdateEffect::Fail) | None => WaitSummary::default(),
    }
}

fn updating(now: Time, error: &UpdateError, era: Era) -> WaitSummary {
    let limit = |name: &str| {
        if name == MACHINE_CONFIG {
            SLOW_AFTER_MACHINE_CONFIG
        } else {
            SLOW_AFTER
        }
    };
    let slow: Vec<&str> = error
        .waits
        .iter()
        .filter(|(name, since)| era.suspects_slow_operators() && now - *since > limit(name))
        .map(|(name, _)| name.as_str())
        .collect();
    let machine_config = slow.contains(&MACHINE_CONFIG);
    let others: Vec<&str> = slow
        .iter()
        .copied()
        .filter(|name| *name != MACHINE_CONFIG)
        .collect();
    let message = match (others.as_slice(), machine_config) {
        ([], false) => format!("waiting on {}", error.name),
        ([], true) => "waiting on machine-config over 90 minutes which is longer than expected".to_owned(),
        (others, false) => format!(
            "waiting on {} over 30 minutes which is longer than expected",
            names(others)
        ),
        (others, true) => format!(
            "waiting on {} over 30 minutes and machine-config over 90 minutes which is longer than expected",
            names(others)
        ),
    };
    WaitSummary {
        reason: error.reason.clone(),
        message,
        goes_on: true,
        slow: !slow.is_empty(),
    }
}

/// When the next grace period of these errors ends.
#[must_use]
pub fn wake_at(now: Time, round: &Round, era: Era) -> Option<Time> {
    use crate::failure::OperatorProblem::{Degraded, Updating};
    if round.state == RoundState::Reconciling {
        return None;
    }
    let ends = round.errors.iter().filter_map(|error| match error {
        TaskError::Operator { name, problem, since } => match problem {
            Degraded => Some(*since + DEGRADED_GRACE),
            Updating if !era.suspects_slow_operators() => None,
            Updating if name == MACHINE_CONFIG => Some(*since + SLOW_AFTER_MACHINE_CONFIG),
            Updating => Some(*since + SLOW_AFTER),
            _ => None,
        },
        TaskError::Manifest { .. } => None,
    });
    // A grace period ends when it is exceeded, not when it is reached.
    ends.map(|at| at + TimeDelta::seconds(1))
        .filter(|at| *at > now)
        .min()
}

/// What the conditions are about.
#[derive(Clone, Copy, Debug)]
pub struct ConditionSubject<'a> {
    /// The version being reconciled, or its image if there is no version.
    pub version: &'a str,
    /// Whether the spec is invalid.
    pub invalid: bool,
    /// Whether there is a history. Without one no error counts as progress.
    pub has_history: bool,
}

/// Writes Available, Failing and Progressing for a round.
pub fn write(now: Time, conditions: &mut Conditions, round: &Round, subject: ConditionSubject<'_>, era: Era) {
    let ConditionSubject {
        version,
        invalid,
        has_history,
    } = subject;
    if round.completed {
        let text = format!("Done applying {version}");
        conditions.set(ClusterOperatorCondition::new(
            now,
            AVAILABLE,
            ConditionStatus::True,
            "",
            text,
        ));
    } else if conditions.get(AVAILABLE).is_none() {
        conditions.set(ClusterOperatorCondition::new(
            now,
            AVAILABLE,
            ConditionStatus::False,
            "",
            "",
        ));
    }
    let reconciling = round.state == RoundState::Reconciling;
    let error = condense(&round.errors, round.state == RoundState::Initializing);
    let converts = !reconciling && has_history;
    let waiting = match &error {
        Some(error) if converts => waiting(now, error, era),
        _ => WaitSummary::default(),
    };
    let failure = match &error {
        Some(error) if converts => error.without_progress(),
        other => other.clone(),
    };
    conditions.set(failing(now, failure.as_ref(), &waiting));
    let no = ConditionStatus::False;
    let yes = ConditionStatus::True;
    let progressing = match error.filter(|_| !waiting.goes_on) {
        Some(error) => {
            let summary = if waiting.message.is_empty() {
                error.summary()
            } else {
                waiting.message
            };
            if reconciling {
                let text = format!("Error while reconciling {version}: {summary}");
                ClusterOperatorCondition::new(now, PROGRESSING, no, error.reason, text)
            } else {
                let text = format!("Unable to apply {version}: {summary}");
                ClusterOperatorCondition::new(now, PROGRESSING, yes, error.reason, text)
            }
        }
        None if reconciling && invalid => {
            let text = format!("Stopped at {version}: the cluster version is invalid");
            ClusterOperatorCondition::new(now, PROGRESSING, no, "InvalidClusterVersion", text)
        }
        None if reconciling => {
            ClusterOperatorCondition::new(now, PROGRESSING, no, "", format!("Cluster version is {version}"))
        }
        None if invalid => {
            let text = format!("Reconciling {version}: the cluster version is invalid");
            ClusterOperatorCondition::new(now, PROGRESSING, yes, "InvalidClusterVersion", text)
        }
        None => {
            let text = towards(version, round, &waiting);
            ClusterOperatorCondition::new(now, PROGRESSING, yes, waiting.reason, text)
        }
    };
    conditions.set(progressing);
    if conditions.get(RETRIEVED_UPDATES).is_none() {
        conditions.set(ClusterOperatorCondition::new(now, RETRIEVED_UPDATES, no, "", ""));
    }
}

fn failing(now: Time, failure: Option<&UpdateError>, waiting: &WaitSummary) -> ClusterOperatorCondition {
    let (status, reason, message) = match failure {
        Some(_) if waiting.slow => (
            ConditionStatus::Unknown,
            "SlowClusterOperator".to_owned(),
            waiting.message.clone(),
        ),
        Some(failure) if !waiting.goes_on => (
            ConditionStatus::True,
            failure.reason.clone(),
            failure.message.clone(),
        ),
        _ => (ConditionStatus::False, String::new(), String::new()),
    };
    ClusterOperatorCondition::new(now, FAILING, status, reason, message)
}

/// `Working towards V: D of T done (P% complete), waiting on a, b`. The percentage is rounded down.
fn towards(version: &str, round: &Round, waiting: &WaitSummary) -> String {
    let mut text = format!("Working towards {version}");
    let counted = round.done > 0 && round.total > 0;
    if counted {
        let percent = u64::from(round.done) * 100 / u64::from(round.total);
        let _ = write!(
            text,
            ": {} of {} done ({percent}% complete)",
            round.done, round.total
        );
    }
    if waiting.goes_on {
        text.push_str(if counted { ", " } else { ": " });
        text.push_str(&waiting.message);
    }
    text
}

/// Writes the condition about capabilities. The model never enables a capability implicitly.
pub fn write_capabilities(now: Time, conditions: &mut Conditions) {
    if conditions.get(IMPLICITLY_ENABLED_CAPABILITIES).is_none() {
        conditions.set(ClusterOperatorCondition::new(
            now,
            IMPLICITLY_ENABLED_CAPABILITIES,
            ConditionStatus::False,
            "AsExpected",
            "Capabilities match configured spec",
        ));
    }
}

#[cfg(test)]
mod tests;
