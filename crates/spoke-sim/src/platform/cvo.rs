//! A small cluster-version operator: it accepts a request, reports progress and completes it.
//!
//! Validation, preconditions, history and the texts of conditions come from [`cvo_model`], the time between events from
//! [`Pace`](super::Pace), and problems from the cluster's faults. It uses no update graph: every requested version is
//! available unless a fault says otherwise.

mod object;
mod offers;
mod request;
mod update;

use std::collections::BTreeMap;

use clusterversion::{Era, gates};
use cvo_model::precondition::PreconditionResult;
use serde_json::{Value, json};

pub use self::object::{Installation, lie, new_cluster_version};
pub(crate) use self::offers::create_maps;
pub use self::request::payload;
use self::request::{Release, Request};
use self::update::{Update, begin, progress};
use super::controller::{Controller, ControllerContext};
use super::pace::scale;
use crate::fields::{self, Cond, Time, set_condition};
use crate::store::{ObjectKey, Store};

/// The key of every cluster's ClusterVersion.
#[must_use]
pub fn key() -> ObjectKey {
    ObjectKey::new("config.openshift.io", "clusterversions", "", "version")
}

/// The operator's memory.
#[derive(Clone, Debug, Default)]
pub struct VersionOperator {
    generation: i64,
    requested: Requested,
    /// The spec names a version that only the history knows: that is valid, and no payload is found until it is offered.
    is_unfound: bool,
    /// The update that was accepted last. It goes on until another one is accepted.
    update: Option<Update>,
    /// When a change without a new request is acknowledged in observedGeneration.
    acknowledge: Option<Time>,
    /// Versions to which updates are offered before anybody asks.
    offered: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum Requested {
    /// Nothing that the cluster does not run or update to.
    #[default]
    Nothing,
    /// Retrieving and verifying the payload.
    Loading { target: Release, until: Time },
    /// A precondition blocks it. It is tried again when the cluster changes.
    Refused { target: Release },
}

impl Controller for VersionOperator {
    fn advance(&mut self, context: &mut ControllerContext<'_>, now: Time) -> Option<Time> {
        let live = context.store.get(&key())?;
        let mut version = live.clone();
        let is_acknowledged = !self.offered.is_empty() && offers::show_gate(&version, context);
        show_upgradeable(&mut version, context, is_acknowledged, now);
        object::retrieve_again(&mut version, context.faults, now);
        self.read_request(&mut version, context, now);
        let mut next = self.step(&mut version, context, now);
        if !self.offered.is_empty() {
            offers::show(&mut version, &self.offered, context.faults, now);
        }
        if let Some(at) = self.acknowledge {
            if at <= now {
                self.acknowledge = None;
                observe(&mut version);
            } else {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        context.store.set(&key(), &live, version);
        next
    }
}

impl VersionOperator {
    /// The operator of a cluster that offers these updates before anybody asks.
    pub(super) fn offering(updates: &[String]) -> Self {
        Self {
            offered: updates.to_vec(),
            ..Self::default()
        }
    }

    /// Reads the spec if its generation changed, or if a version that was not offered may be available now.
    fn read_request(&mut self, version: &mut Value, context: &ControllerContext<'_>, now: Time) {
        let generation = fields::integer(version, &["metadata", "generation"]).unwrap_or(0);
        let invalid = fields::condition_status(version, "Invalid").is_some();
        let was_unfound = self.is_unfound;
        if generation == self.generation && !invalid && !was_unfound {
            return;
        }
        let is_new = generation != self.generation;
        self.generation = generation;
        object::show_channel(version, context.faults, now);
        object::show_risk(version, context.faults.risk(), now);
        match request::read(version, context.faults.unoffered()) {
            Err(errors) => {
                self.is_unfound = false;
                self.requested = Requested::Nothing;
                object::show_invalid(version, &errors, self.update.is_some(), now);
            }
            Ok(request) => {
                if invalid {
                    object::clear_invalid(version, now);
                }
                self.is_unfound = request == Request::None && request::names_another(version);
                if is_new || invalid || (was_unfound && !self.is_unfound) {
                    self.take_up(version, request, context, now);
                }
            }
        }
    }

    fn take_up(&mut self, version: &mut Value, request: Request, context: &ControllerContext<'_>, now: Time) {
        let generation = context.rng.nth(self.generation.unsigned_abs());
        let slowness = context.faults.slowness();
        let acceptance = context
            .pace
            .deviate(context.pace.acceptance, slowness, generation);
        let same_as = |release: &Release| match &request {
            Request::Release(wanted) => wanted == release,
            Request::None => false,
        };
        match &self.requested {
            Requested::Loading { target, .. } | Requested::Refused { target } if same_as(target) => return,
            Requested::Loading { .. } | Requested::Refused { .. } => {
                object::show_loaded(version, now);
                self.requested = Requested::Nothing;
            }
            Requested::Nothing => {}
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
                self.requested = Requested::Loading {
                    target,
                    until: context.asked + acceptance,
                };
            }
            _ => self.acknowledge = Some(now + acceptance),
        }
    }

    /// Does what is due. Returns when the next thing is.
    fn step(&mut self, version: &mut Value, context: &ControllerContext<'_>, now: Time) -> Option<Time> {
        loop {
            let accepted = self.accept(version, context, now);
            let Some(update) = &mut self.update else {
                return accepted;
            };
            let next = progress(update, version, context, now);
            if next.is_some() || update.held.is_some() {
                return [accepted, next].into_iter().flatten().min();
            }
            object::show_completed(version, now);
            self.update = None;
        }
    }

    /// Decides about the requested release. Returns when that is due.
    fn accept(&mut self, version: &mut Value, context: &ControllerContext<'_>, now: Time) -> Option<Time> {
        loop {
            match &self.requested {
                Requested::Nothing => return None,
                Requested::Loading { until, .. } if *until > now => return Some(*until),
                Requested::Loading { target, until } => match judge(version, target, context) {
                    Err(refusal) => {
                        show_refused(version, &refusal, now);
                        self.requested = Requested::Refused {
                            target: target.clone(),
                        };
                    }
                    Ok(risks) => {
                        object::show_accepted(version, target, &risks, now);
                        observe(version);
                        self.update = Some(begin(target, context, self.generation, *until, now));
                        self.requested = Requested::Nothing;
                    }
                },
                Requested::Refused { target } => {
                    // It may be refused for another reason than before.
                    if let Err(refusal) = judge(version, target, context) {
                        show_refused(version, &refusal, now);
                        return None;
                    }
                    self.requested = Requested::Loading {
                        target: target.clone(),
                        until: now + scale(context.pace.acceptance, 0.5),
                    };
                }
            }
        }
    }
}

/// Why a release is not accepted: the step that refuses it, and its text.
struct Refusal {
    step: &'static str,
    why: String,
}

fn show_refused(version: &mut Value, refusal: &Refusal, now: Time) {
    let cond = Cond {
        kind: "ReleaseAccepted",
        status: "False",
        reason: refusal.step,
        message: &refusal.why,
    };
    set_condition(version, cond, now);
}

/// Decides about a retrieved release. `Ok`: the risks that were accepted.
fn judge(version: &Value, target: &Release, context: &ControllerContext<'_>) -> Result<String, Refusal> {
    let forced =
        fields::get(version, &["spec", "desiredUpdate", "force"]).and_then(Value::as_bool) == Some(true);
    let named = format!("version=\"{}\" image=\"{}\"", target.version, target.image);
    let mut risks = Vec::new();
    match context.faults.unverified() {
        Some(why) if forced => risks.push(format!(
            "Target release {named} cannot be verified, but continuing anyway because the update was forced: {why}"
        )),
        Some(why) => {
            return Err(Refusal {
                step: "RetrievePayload",
                why: format!("Retrieving payload failed {named} failure=The update cannot be verified: {why}"),
            });
        }
        None => {}
    }
    match request::preconditions(version, target, context.faults.unoffered()) {
        PreconditionResult::Passed => {}
        PreconditionResult::Accepted(text) => risks.push(text),
        PreconditionResult::Blocked(why) => {
            return Err(Refusal {
                step: "PreconditionChecks",
                why: format!("Preconditions failed for payload loaded {named}: {why}"),
            });
        }
    }
    Ok(risks.join("\n"))
}

fn show_upgradeable(version: &mut Value, context: &ControllerContext<'_>, is_acknowledged: bool, now: Time) {
    let shown = match context.faults.refusing().filter(|_| !is_acknowledged) {
        Some((reason, message)) => Some((reason.to_owned(), message.to_owned())),
        None => open_gate(version, context.store),
    };
    match shown {
        Some((reason, message)) => {
            let cond = Cond {
                kind: "Upgradeable",
                status: "False",
                reason: &reason,
                message: &message,
            };
            set_condition(version, cond, now);
        }
        None if fields::condition_status(version, "Upgradeable").is_some() => {
            fields::remove_condition(version, "Upgradeable");
        }
        None => {}
    }
}

/// Reason and text of a gate that is not acknowledged, if the cluster has gates.
fn open_gate(version: &Value, store: &Store) -> Option<(String, String)> {
    let of = |(namespace, name)| ObjectKey::new("", "configmaps", namespace, name);
    let data = |object: Value| -> BTreeMap<String, String> {
        serde_json::from_value(object["data"].clone()).unwrap_or_default()
    };
    let gates = data(store.get(&of(gates::GATES))?);
    let acks = store.get(&of(gates::ACKS)).map(data).unwrap_or_default();
    let current = fields::text(version, &["status", "desired", "version"]);
    let open = gates::unacknowledged(&gates, &acks, current, Era::of(current));
    let first = open.into_iter().next()?;
    Some((first.reason.to_owned(), first.message))
}

fn observe(version: &mut Value) {
    let generation = version["metadata"]["generation"].clone();
    fields::object_at(version, &["status"]).insert("observedGeneration".into(), json!(generation));
}

#[cfg(test)]
mod tests;
