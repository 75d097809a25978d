//! A cluster-version operator in small: it accepts a request, shows progress and completes it.
//!
//! Validation, preconditions, history, and the texts of conditions are the law's ([`clusterversion`]); the time between
//! events comes from [`Pace`](super::Pace), trouble from the cluster's faults. It computes no update graph: whatever version is
//! asked for is on offer, unless a fault says otherwise.

mod object;
mod request;

use chrono::TimeDelta;
use clusterversion::failure::{OperatorProblem, TaskError};
use clusterversion::precondition::Summary;
use clusterversion::progressing::{Round, RoundState};
use serde_json::{Value, json};

pub use self::object::{Birth, lie, newborn};
pub(crate) use self::request::payload;
use self::request::{Release, Request};
use super::{Controller, Ground};
use crate::fields::{self, Cond, Time, set_condition};
use crate::spoke::rollout::table::manifests;
use crate::store::ObjectKey;

/// The key of every cluster's ClusterVersion.
#[must_use]
pub fn key() -> ObjectKey {
    ObjectKey::new("config.openshift.io", "clusterversions", "", "version")
}

/// Progress of a real update: (fraction of its time, percent done, operators waited for).
const PLATEAUS: [(f64, u32, &str); 6] = [
    (0.0, 0, ""),
    (0.04, 12, "etcd, kube-apiserver"),
    (0.35, 16, "kube-scheduler"),
    (0.5, 79, "authentication, openshift-apiserver"),
    (0.6, 85, "machine-config"),
    (0.97, 99, ""),
];
const SINGLE: [(f64, u32, &str); 1] = [(0.0, 50, "")];

/// The operator's memory.
#[derive(Clone, Debug, Default)]
pub struct Operator {
    generation: i64,
    phase: Phase,
    /// When a change that asks for nothing new is acknowledged in observedGeneration.
    acknowledge: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum Phase {
    #[default]
    Settled,
    /// Retrieving and verifying the payload.
    Loading {
        target: Release,
        until: Time,
    },
    /// A precondition stands against it; tried again when the cluster changes.
    Refused {
        target: Release,
    },
    Updating(Update),
}

#[derive(Clone, Debug, PartialEq)]
struct Update {
    version: String,
    started: Time,
    until: Time,
    slowness: f64,
    /// Since when a fault stops the clock.
    held: Option<Time>,
    /// When progress was last looked at.
    seen: Time,
}

impl Controller for Operator {
    fn advance(&mut self, ground: &mut Ground<'_>, now: Time) -> Option<Time> {
        let live = ground.store.get(&key())?;
        let mut version = live.clone();
        show_upgradeable(&mut version, ground, now);
        self.read_request(&mut version, ground, now);
        let mut next = self.step(&mut version, ground, now);
        if let Some(at) = self.acknowledge {
            if at <= now {
                self.acknowledge = None;
                observe(&mut version);
            } else {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        if version != live {
            ground.store.amend(&key(), |object| *object = version);
        }
        next
    }
}

impl Operator {
    /// Looks at the spec when its generation moved, or when an offer that was missing may be there now.
    fn read_request(&mut self, version: &mut Value, ground: &Ground<'_>, now: Time) {
        let generation = fields::integer(version, &["metadata", "generation"]).unwrap_or(0);
        let invalid = fields::condition_status(version, "Invalid").is_some();
        if generation == self.generation && !invalid {
            return;
        }
        let is_new = generation != self.generation;
        self.generation = generation;
        object::show_channel(version, now);
        match request::read(version, ground.faults.unoffered()) {
            Err(errors) => {
                if !matches!(self.phase, Phase::Updating(_)) {
                    self.phase = Phase::Settled;
                }
                object::show_invalid(version, &errors, matches!(self.phase, Phase::Updating(_)), now);
            }
            Ok(request) => {
                if invalid {
                    object::clear_invalid(version, now);
                }
                if is_new || invalid {
                    self.take_up(version, request, ground, now);
                }
            }
        }
    }

    fn take_up(&mut self, version: &mut Value, request: Request, ground: &Ground<'_>, now: Time) {
        let generation = ground.dice.nth(self.generation.unsigned_abs());
        let slowness = ground.faults.slowness();
        let acceptance = ground.pace.deviate(ground.pace.acceptance, slowness, generation);
        let same_as = |release: &Release| match &request {
            Request::Release(wanted) => wanted == release,
            Request::None => false,
        };
        match &self.phase {
            Phase::Loading { target, .. } | Phase::Refused { target } if same_as(target) => return,
            Phase::Loading { .. } | Phase::Refused { .. } => {
                object::show_loaded(version, now);
                self.phase = Phase::Settled;
            }
            Phase::Settled | Phase::Updating(_) => {}
        }
        match request {
            Request::Release(target) if !request::is_running(version, &target) => {
                let message = format!(
                    "Retrieving and verifying payload version=\"{}\" image=\"{}\"",
                    target.version, target.image
                );
                let cond = Cond {
                    kind: "ReleaseAccepted",
                    status: "Unknown",
                    reason: "RetrievePayload",
                    message: &message,
                };
                set_condition(version, cond, now);
                self.acknowledge = None;
                // An accepted update goes on until the next release is loaded; here it just stops.
                self.phase = Phase::Loading {
                    target,
                    until: ground.asked + acceptance,
                };
            }
            _ => self.acknowledge = Some(now + acceptance),
        }
    }

    /// Runs the phases that are due. Returns when the next one is.
    fn step(&mut self, version: &mut Value, ground: &Ground<'_>, now: Time) -> Option<Time> {
        loop {
            match &mut self.phase {
                Phase::Settled => return None,
                Phase::Loading { until, .. } if *until > now => return Some(*until),
                Phase::Loading { target, until } => {
                    let (target, at) = (target.clone(), *until);
                    self.phase = match request::preconditions(version, &target, ground.faults.unoffered()) {
                        Summary::Blocked(why) => {
                            let why = format!(
                                "Preconditions failed for payload loaded version=\"{}\" image=\"{}\": {why}",
                                target.version, target.image
                            );
                            let cond = Cond {
                                kind: "ReleaseAccepted",
                                status: "False",
                                reason: "PreconditionChecks",
                                message: &why,
                            };
                            set_condition(version, cond, now);
                            Phase::Refused { target }
                        }
                        passed => {
                            let risks = if let Summary::Accepted(risks) = &passed {
                                risks
                            } else {
                                ""
                            };
                            object::show_accepted(version, &target, risks, now);
                            observe(version);
                            Phase::Updating(begin(&target, ground, self.generation, at, now))
                        }
                    };
                }
                Phase::Refused { target } => {
                    let refused = request::preconditions(version, target, ground.faults.unoffered());
                    if matches!(refused, Summary::Blocked(_)) {
                        return None;
                    }
                    let target = target.clone();
                    self.phase = Phase::Loading {
                        target,
                        until: now + super::scale(ground.pace.acceptance, 0.5),
                    };
                }
                Phase::Updating(update) => {
                    let next = progress(update, version, ground, now);
                    if next.is_some() || update.held.is_some() {
                        return next;
                    }
                    object::show_completed(version, now);
                    self.phase = Phase::Settled;
                }
            }
        }
    }
}

/// An update's clock starts when its acceptance was due, so that late ticks do not add up.
fn begin(target: &Release, ground: &Ground<'_>, generation: i64, due: Time, now: Time) -> Update {
    let slowness = ground.faults.slowness();
    let dice = ground.dice.of("update").nth(generation.unsigned_abs());
    let started = if now - due < TimeDelta::seconds(1) {
        due
    } else {
        now
    };
    let until = started + ground.pace.deviate(ground.pace.update, slowness, dice);
    Update {
        version: target.version.clone(),
        started,
        until,
        slowness,
        held: None,
        seen: started,
    }
}

/// Shows the progress of `now`. Returns the next instant at which it changes; `None` when done or held.
fn progress(update: &mut Update, version: &mut Value, ground: &Ground<'_>, now: Time) -> Option<Time> {
    let plateaus: &[(f64, u32, &str)] = if ground.pace.plateaus { &PLATEAUS } else { &SINGLE };
    let total = update.until - update.started;
    let at = |fraction: f64| update.started + super::scale(total.to_std().unwrap_or_default(), fraction);
    let hold_percent = ground
        .faults
        .stuck()
        .or_else(|| ground.faults.failing().map(|_| 79.0));
    // Held at the last plateau that is not beyond the percentage.
    let hold = hold_percent.map(|limit| {
        plateaus
            .iter()
            .rposition(|plateau| f64::from(plateau.1) <= limit)
            .unwrap_or(0)
    });
    let reached = plateaus
        .iter()
        .rposition(|plateau| at(plateau.0) <= now)
        .unwrap_or(0);
    if let Some(hold) = hold.filter(|hold| reached >= *hold) {
        // A late look must not make the stop later than it was.
        let since = at(plateaus[hold].0).max(update.seen);
        update.held.get_or_insert(since);
        update.seen = now;
        show_progress(update, version, plateaus[hold], ground, now);
        return None;
    }
    update.seen = now;
    if let Some(since) = update.held.take() {
        // Time stood still; the rest takes as long as it would have.
        let pause = now - since;
        update.started += pause;
        update.until += pause;
        return progress(update, version, ground, now);
    }
    let slowness = ground.faults.slowness();
    if (slowness - update.slowness).abs() > f64::EPSILON {
        stretch(update, slowness / update.slowness, now);
        update.slowness = slowness;
        return progress(update, version, ground, now);
    }
    if now >= update.until {
        return None;
    }
    show_progress(update, version, plateaus[reached], ground, now);
    Some(
        plateaus
            .get(reached + 1)
            .map_or(update.until, |next| at(next.0).max(now)),
    )
}

/// Makes what is left of an update take `factor` times as long, keeping the fraction done.
fn stretch(update: &mut Update, factor: f64, now: Time) {
    let stretched = |span: TimeDelta| super::scale(span.to_std().unwrap_or_default(), factor);
    let (done, left) = (now - update.started, update.until - now);
    update.started = now - stretched(done);
    update.until = now + stretched(left);
}

fn show_progress(
    update: &Update,
    version: &mut Value,
    (_, percent, waiting): (f64, u32, &str),
    ground: &Ground<'_>,
    now: Time,
) {
    let total = manifests(&update.version);
    let errors = waiting.split(", ").filter(|name| !name.is_empty());
    let round = Round {
        state: RoundState::Updating,
        done: (total * percent).div_ceil(100),
        total,
        // An operator that is waited for is never called slow here: that is a fault of its own.
        errors: errors
            .map(|name| TaskError::Operator {
                name: name.to_owned(),
                problem: OperatorProblem::Updating,
                since: now,
            })
            .collect(),
        ..Round::default()
    };
    object::show_round(version, &round, now);
    if let Some(message) = ground.faults.failing().filter(|_| update.held.is_some()) {
        show_failing(version, &update.version, message, now);
    }
}

/// A failure in the words of the fault.
fn show_failing(version: &mut Value, target: &str, message: &str, now: Time) {
    let reason = "ClusterOperatorNotAvailable";
    let summary = format!("Unable to apply {target}: {}", object::summary(message));
    for (kind, message) in [("Failing", message), ("Progressing", summary.as_str())] {
        let cond = Cond {
            kind,
            status: "True",
            reason,
            message,
        };
        set_condition(version, cond, now);
    }
}

fn show_upgradeable(version: &mut Value, ground: &Ground<'_>, now: Time) {
    match ground.faults.refusing() {
        Some((reason, message)) => {
            set_condition(
                version,
                Cond {
                    kind: "Upgradeable",
                    status: "False",
                    reason,
                    message,
                },
                now,
            );
        }
        None if fields::condition_status(version, "Upgradeable").is_some() => {
            fields::remove_condition(version, "Upgradeable");
        }
        None => {}
    }
}

fn observe(version: &mut Value) {
    let generation = version["metadata"]["generation"].clone();
    fields::object_at(version, &["status"]).insert("observedGeneration".into(), json!(generation));
}

#[cfg(test)]
mod tests;
