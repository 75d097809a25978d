//! Acceptance of a release: from the request to the payload that is reconciled.
//!
//! Owns what a request means, the steps of `ReleaseAccepted` with their texts, what is recorded as accepted, and that a
//! request that was refused proceeds by itself when what stood against it is gone (`docs/design/cvo.md#release-accepted`).
//! While a release is not accepted, nothing else of the status changes.

use chrono::TimeDelta;

use crate::era::Era;
use crate::precondition::{self, Summary};
use crate::retrieval::MULTI;
use crate::types::{ClusterVersion, Condition, ConditionStatus, RELEASE_ACCEPTED, Release, Time};

/// How long a payload may take to be retrieved.
pub const RETRIEVE_TIMEOUT: TimeDelta = TimeDelta::minutes(4);

/// A payload as it describes itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Version.
    pub version: String,
    /// Pull specification.
    pub image: String,
    /// `amd64` and the like, or `Multi`.
    pub architecture: String,
    /// Errata page, should the payload name it.
    pub url: String,
    /// Channels, should the payload name them.
    pub channels: Option<Vec<String>>,
}

impl Payload {
    /// The release without what only the graph knows.
    #[must_use]
    pub fn release(&self) -> Release {
        Release {
            architecture: if self.architecture == MULTI {
                MULTI.to_owned()
            } else {
                String::new()
            },
            url: self.url.clone(),
            channels: {
                let mut channels = self.channels.clone().unwrap_or_default();
                channels.sort();
                channels.dedup();
                channels
            },
            ..Release::new(&*self.version, &*self.image)
        }
    }
}

/// A release that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Version; may be empty.
    pub version: String,
    /// Pull specification.
    pub image: String,
    /// Verification and preconditions are overruled.
    pub force: bool,
}

/// The release that a spec asks for; `None` when it asks for none that can be found: the running one then stays.
#[must_use]
pub fn requested(object: &ClusterVersion, running_architecture: &str) -> Option<Request> {
    let update = object.spec.desired_update.as_ref()?;
    if !update.image.is_empty() {
        return Some(Request {
            version: update.version.clone(),
            image: update.image.clone(),
            force: update.force,
        });
    }
    // To all architectures leads only the same version in their graph.
    let migrates = update.architecture == MULTI && running_architecture != MULTI;
    let version = if migrates {
        &object.status.desired.version
    } else {
        &update.version
    };
    let available = &object.status.available_updates;
    let found = available
        .iter()
        .find(|release| release.version == *version && !release.image.is_empty());
    found.map(|release| Request {
        version: version.clone(),
        image: release.image.clone(),
        force: update.force,
    })
}

/// A payload that was retrieved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The payload.
    pub payload: Payload,
    /// Why its signature could not be verified; `None`: it was.
    pub verification_error: Option<String>,
}

/// Why a payload could not be retrieved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PayloadFailure {
    /// It could not be pulled, in time or at all.
    Retrieve(String),
    /// It was pulled and cannot be read.
    Load(String),
}

/// The answer to [`Retrieve`](crate::law::Effect::Retrieve).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadAnswer {
    /// The image that was asked for.
    pub image: String,
    /// The payload.
    pub outcome: Result<Loaded, PayloadFailure>,
}

/// A step of the acceptance: what `ReleaseAccepted` says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Report {
    status: ConditionStatus,
    step: &'static str,
    message: String,
}

/// A release on its way to be accepted.
#[derive(Clone, Debug, PartialEq)]
struct Pending {
    target: Request,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// Asked for at this time.
    Retrieving(Time),
    /// Retrieved; preconditions stand against it.
    Loaded(Loaded),
    /// To be tried again at this time.
    Failed(Time),
}

/// The payload that is reconciled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The payload.
    pub payload: Payload,
    /// Whether its signature was verified.
    pub verified: bool,
    /// What was overruled; `None` for the operator's own payload, whose history entry stands as it is.
    pub risks: Option<String>,
}

/// The memory of the acceptance; lost when the operator restarts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Acceptance {
    accepted: Option<Accepted>,
    pending: Option<Pending>,
    report: Option<Report>,
}

/// What an advance asks of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Nothing new.
    Nothing,
    /// Retrieve a payload.
    Retrieve(Request),
    /// Begin to apply a payload that was just accepted.
    Begin(Payload),
}

fn quoted(target: &Request) -> String {
    format!("version={:?} image={:?}", target.version, target.image)
}

fn refusal(step: &'static str, message: String) -> Report {
    Report {
        status: ConditionStatus::False,
        step,
        message,
    }
}

impl Acceptance {
    /// The payload that is reconciled; `None` before the first [`Acceptance::advance`].
    #[must_use]
    pub const fn accepted(&self) -> Option<&Accepted> {
        self.accepted.as_ref()
    }

    /// The release on its way, if there is one.
    #[must_use]
    pub fn pending(&self) -> Option<&Request> {
        self.pending.as_ref().map(|pending| &pending.target)
    }

    /// Goes on: takes an answer, looks at the preconditions again, asks for what is wanted now.
    ///
    /// The object has the status as it will be written, so that a gate that clears counts at once. Retried every `retry`.
    pub fn advance(
        &mut self,
        now: Time,
        object: &ClusterVersion,
        running: &Payload,
        answer: Option<&PayloadAnswer>,
        retry: TimeDelta,
        era: Era,
    ) -> Asks {
        let current = self.accepted.get_or_insert_with(|| Accepted {
            payload: running.clone(),
            verified: false,
            risks: None,
        });
        let (image, architecture) = (
            current.payload.image.clone(),
            current.payload.architecture.clone(),
        );
        let wanted = requested(object, &architecture).filter(|request| request.image != image);
        let Some(wanted) = wanted else {
            self.settle(object);
            return Asks::Nothing;
        };
        if self
            .pending
            .as_ref()
            .is_none_or(|pending| pending.target != wanted)
        {
            self.report = Some(Report {
                status: ConditionStatus::Unknown,
                step: "RetrievePayload",
                message: format!("Retrieving and verifying payload {}", quoted(&wanted)),
            });
            self.pending = Some(Pending {
                target: wanted.clone(),
                phase: Phase::Retrieving(now),
            });
            return Asks::Retrieve(wanted);
        }
        let own = wanted.image == running.image;
        match answer.filter(|answer| answer.image == wanted.image) {
            Some(answer) => match &answer.outcome {
                Ok(loaded) => self.consider(now, object, wanted, loaded.clone(), own, retry, era),
                Err(failure) => {
                    let report = match failure {
                        PayloadFailure::Retrieve(why) => refusal(
                            "RetrievePayload",
                            format!("Retrieving payload failed {} failure={why}", quoted(&wanted)),
                        ),
                        PayloadFailure::Load(why) => refusal(
                            "LoadPayload",
                            format!("Loading payload failed {} failure={why}", quoted(&wanted)),
                        ),
                    };
                    self.fail(now + retry, wanted, report)
                }
            },
            None => self.wait(now, object, wanted, own, retry, era),
        }
    }

    /// Nothing is pending: the report speaks of the payload that is reconciled.
    fn settle(&mut self, object: &ClusterVersion) {
        let Some(Accepted { payload, .. }) = &self.accepted else {
            return;
        };
        let text = format!(
            "Payload loaded version={:?} image={:?}",
            payload.version, payload.image
        );
        let loaded = |message: String| Report {
            status: ConditionStatus::True,
            step: "PayloadLoaded",
            message,
        };
        if self.pending.take().is_some() {
            // The request was taken back: the text that shipped leaves out the architecture.
            self.report = Some(loaded(text));
        } else if self.report.is_none() {
            // After a restart: the text stays as it was for this payload.
            let old = object.status.conditions.get(RELEASE_ACCEPTED);
            let kept = old.filter(|old| old.is_true() && old.message.starts_with(&text));
            self.report = Some(loaded(kept.map_or_else(
                || format!("{text} architecture={:?}", payload.architecture),
                |old| old.message.clone(),
            )));
        }
    }

    fn wait(
        &mut self,
        now: Time,
        object: &ClusterVersion,
        wanted: Request,
        own: bool,
        retry: TimeDelta,
        era: Era,
    ) -> Asks {
        let Some(pending) = &mut self.pending else {
            return Asks::Nothing;
        };
        match &pending.phase {
            Phase::Loaded(loaded) => {
                let loaded = loaded.clone();
                self.consider(now, object, wanted, loaded, own, retry, era)
            }
            Phase::Failed(at) if now < *at => Asks::Nothing,
            Phase::Retrieving(since) if now < *since + RETRIEVE_TIMEOUT + RETRIEVE_TIMEOUT => Asks::Nothing,
            Phase::Failed(_) | Phase::Retrieving(_) => {
                // The report stays: a failure is not hidden by a new attempt.
                pending.phase = Phase::Retrieving(now);
                Asks::Retrieve(wanted)
            }
        }
    }

    /// Judges a payload that was retrieved.
    #[expect(
        clippy::too_many_arguments,
        reason = "one step of advance, with what it knows"
    )]
    fn consider(
        &mut self,
        now: Time,
        object: &ClusterVersion,
        wanted: Request,
        loaded: Loaded,
        own: bool,
        retry: TimeDelta,
        era: Era,
    ) -> Asks {
        let named = quoted(&wanted);
        let mut risks: Vec<String> = Vec::new();
        match &loaded.verification_error {
            Some(why) if !wanted.force => {
                let text = format!(
                    "Retrieving payload failed {named} failure=The update cannot be verified: {why}"
                );
                return self.fail(now + retry, wanted, refusal("RetrievePayload", text));
            }
            Some(why) => risks.push(format!(
                "Target release {named} cannot be verified, but continuing anyway because the update was forced: {why}"
            )),
            None => {}
        }
        let version = &loaded.payload.version;
        if !wanted.version.is_empty() && wanted.version != *version {
            let text = format!(
                "Verifying payload failed {named} failure=release image version {version} does not match the expected upstream version {}",
                wanted.version
            );
            return self.fail(now + retry, wanted, refusal("VerifyPayloadVersion", text));
        }
        if !own {
            let failed = precondition::run(object, version, era);
            match precondition::summarize(&failed, wanted.force) {
                Summary::Passed => {}
                Summary::Accepted(text) => risks.push(text),
                Summary::Blocked(text) => {
                    let text = format!(
                        "Preconditions failed for payload loaded version={version:?} image={:?}: {text}",
                        wanted.image
                    );
                    self.report = Some(refusal("PreconditionChecks", text));
                    self.pending = Some(Pending {
                        target: wanted,
                        phase: Phase::Loaded(loaded),
                    });
                    return Asks::Nothing;
                }
            }
        }
        self.report = Some(Report {
            status: ConditionStatus::True,
            step: "PayloadLoaded",
            message: format!(
                "Payload loaded version={version:?} image={:?} architecture={:?}",
                wanted.image, loaded.payload.architecture
            ),
        });
        self.pending = None;
        self.accepted = Some(Accepted {
            payload: loaded.payload.clone(),
            verified: loaded.verification_error.is_none(),
            risks: Some(risks.join("\n")),
        });
        Asks::Begin(loaded.payload)
    }

    fn fail(&mut self, again: Time, target: Request, report: Report) -> Asks {
        self.report = Some(report);
        self.pending = Some(Pending {
            target,
            phase: Phase::Failed(again),
        });
        Asks::Nothing
    }

    /// Adds the risks that were accepted by name to what was overruled for the payload that was just accepted.
    pub fn record_accepted(&mut self, image: &str, names: &[&str]) {
        let Some(risks) = self
            .accepted
            .as_mut()
            .and_then(|accepted| accepted.risks.as_mut())
        else {
            return;
        };
        let exposed = if risks.is_empty() {
            format!("The target release {image} is")
        } else {
            // As shipped: a sentence of the line before, not a line of its own.
            "; It is".to_owned()
        };
        let text = format!(
            "{exposed} exposed to the risks [{}] which were all explicitly accepted by the cluster administrator.",
            names.join(",")
        );
        risks.push_str(&text);
    }

    /// When it wants to be asked again, besides when something changes.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        match self.pending.as_ref()?.phase {
            Phase::Failed(at) => Some(at),
            Phase::Retrieving(since) => Some(since + RETRIEVE_TIMEOUT + RETRIEVE_TIMEOUT),
            Phase::Loaded(_) => None,
        }
    }

    /// Condition `ReleaseAccepted`.
    #[must_use]
    pub fn condition(&self, now: Time) -> Option<Condition> {
        let Report {
            status,
            step,
            message,
        } = self.report.as_ref()?;
        Some(Condition::new(
            now,
            RELEASE_ACCEPTED,
            *status,
            *step,
            message.clone(),
        ))
    }
}

#[cfg(test)]
mod tests;
