//! Acceptance of a release: from the request to the payload that is reconciled (`docs/design/cvo.md#release-accepted`).
//!
//! A refused request proceeds by itself when the reason for the refusal is gone. Until the release is accepted, nothing else in
//! the status changes.

use chrono::TimeDelta;
use clusterversion::Era;
use clusterversion::types::{
    ClusterOperatorCondition, ClusterVersion, ConditionStatus, RELEASE_ACCEPTED, Release, Time,
};

use crate::precondition::{self, PreconditionResult};
use crate::retrieval::MULTI;

/// How long a payload may take to be retrieved.
pub const RETRIEVE_TIMEOUT: TimeDelta = TimeDelta::minutes(4);

/// A payload with its own metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Version.
    pub version: String,
    /// Pull specification.
    pub image: String,
    /// `amd64` and the like, or `Multi`.
    pub architecture: String,
    /// URL of the errata page; empty if the payload has none.
    pub url: String,
    /// Channels, if the payload names them.
    pub channels: Option<Vec<String>>,
}

impl Payload {
    /// The release, without metadata that only the graph has.
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

/// A requested release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Version. It may be empty.
    pub version: String,
    /// Pull specification.
    pub image: String,
    /// Whether verification and preconditions are ignored.
    pub force: bool,
}

/// The release that the spec requests. `None` if it requests none, or one that cannot be found; the running release then
/// stays.
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
    // The migration to all architectures keeps the version.
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

/// A retrieved payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The payload.
    pub payload: Payload,
    /// Why its signature could not be verified. `None` if it was verified.
    pub verification_error: Option<String>,
}

/// Why a payload could not be retrieved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PayloadFailure {
    /// It could not be pulled, or not in time.
    Retrieve(String),
    /// It was pulled but cannot be read.
    Load(String),
}

/// The answer to [`Retrieve`](crate::step::Action::Retrieve).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadAnswer {
    /// The requested image.
    pub image: String,
    /// The payload.
    pub outcome: Result<Loaded, PayloadFailure>,
}

/// What condition `ReleaseAccepted` says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AcceptanceReport {
    status: ConditionStatus,
    step: &'static str,
    message: String,
}

/// A release that is not accepted yet.
#[derive(Clone, Debug, PartialEq)]
struct Pending {
    target: Request,
    phase: PendingPhase,
}

#[derive(Clone, Debug, PartialEq)]
enum PendingPhase {
    /// Its retrieval started at this time.
    Retrieving(Time),
    /// It is retrieved, but preconditions block it.
    Loaded(Loaded),
    /// It failed and is tried again at this time.
    Failed(Time),
}

/// The payload that is reconciled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The payload.
    pub payload: Payload,
    /// Whether its signature was verified.
    pub verified: bool,
    /// The risks that were accepted. `None` for the operator's own payload, whose history entry stays as it is.
    pub risks: Option<String>,
}

/// The memory of the acceptance. It is lost when the operator restarts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Acceptance {
    accepted: Option<Accepted>,
    pending: Option<Pending>,
    report: Option<AcceptanceReport>,
}

/// What the caller must do after an advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcceptanceAction {
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

fn refusal(step: &'static str, message: String) -> AcceptanceReport {
    AcceptanceReport {
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

    /// The release that is not accepted yet, if there is one.
    #[must_use]
    pub fn pending(&self) -> Option<&Request> {
        self.pending.as_ref().map(|pending| &pending.target)
    }

    /// Processes an answer, checks the preconditions again and returns what to do next. Failed attempts are repeated every
    /// `retry`.
    ///
    /// The object has the status that will be written, so that a cleared Upgradeable=False counts at once.
    pub fn advance(
        &mut self,
        now: Time,
        object: &ClusterVersion,
        running: &Payload,
        answer: Option<&PayloadAnswer>,
        retry: TimeDelta,
        era: Era,
    ) -> AcceptanceAction {
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
            return AcceptanceAction::Nothing;
        };
        if self
            .pending
            .as_ref()
            .is_none_or(|pending| pending.target != wanted)
        {
            self.report = Some(AcceptanceReport {
                status: ConditionStatus::Unknown,
                step: "RetrievePayload",
                message: format!("Retrieving and verifying payload {}", quoted(&wanted)),
            });
            self.pending = Some(Pending {
                target: wanted.clone(),
                phase: PendingPhase::Retrieving(now),
            });
            return AcceptanceAction::Retrieve(wanted);
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

    /// Nothing is pending: the report is about the payload that is reconciled.
    fn settle(&mut self, object: &ClusterVersion) {
        let Some(Accepted { payload, .. }) = &self.accepted else {
            return;
        };
        let text = format!(
            "Payload loaded version={:?} image={:?}",
            payload.version, payload.image
        );
        let loaded = |message: String| AcceptanceReport {
            status: ConditionStatus::True,
            step: "PayloadLoaded",
            message,
        };
        if self.pending.take().is_some() {
            // The request was withdrawn. The shipped text has no architecture in this case.
            self.report = Some(loaded(text));
        } else if self.report.is_none() {
            // After a restart the text for this payload stays as it was.
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
    ) -> AcceptanceAction {
        let Some(pending) = &mut self.pending else {
            return AcceptanceAction::Nothing;
        };
        match &pending.phase {
            PendingPhase::Loaded(loaded) => {
                let loaded = loaded.clone();
                self.consider(now, object, wanted, loaded, own, retry, era)
            }
            PendingPhase::Failed(at) if now < *at => AcceptanceAction::Nothing,
            PendingPhase::Retrieving(since) if now < *since + RETRIEVE_TIMEOUT + RETRIEVE_TIMEOUT => {
                AcceptanceAction::Nothing
            }
            PendingPhase::Failed(_) | PendingPhase::Retrieving(_) => {
                // The report stays, so that a new attempt does not hide the failure.
                pending.phase = PendingPhase::Retrieving(now);
                AcceptanceAction::Retrieve(wanted)
            }
        }
    }

    /// Decides about a retrieved payload.
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
    ) -> AcceptanceAction {
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
                PreconditionResult::Passed => {}
                PreconditionResult::Accepted(text) => risks.push(text),
                PreconditionResult::Blocked(text) => {
                    let text = format!(
                        "Preconditions failed for payload loaded version={version:?} image={:?}: {text}",
                        wanted.image
                    );
                    self.report = Some(refusal("PreconditionChecks", text));
                    self.pending = Some(Pending {
                        target: wanted,
                        phase: PendingPhase::Loaded(loaded),
                    });
                    return AcceptanceAction::Nothing;
                }
            }
        }
        self.report = Some(AcceptanceReport {
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
        AcceptanceAction::Begin(loaded.payload)
    }

    fn fail(&mut self, again: Time, target: Request, report: AcceptanceReport) -> AcceptanceAction {
        self.report = Some(report);
        self.pending = Some(Pending {
            target,
            phase: PendingPhase::Failed(again),
        });
        AcceptanceAction::Nothing
    }

    /// Adds risks that were accepted by name to those of the payload that was just accepted.
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
            // As shipped, this continues the previous line and does not start a new one.
            "; It is".to_owned()
        };
        let text = format!(
            "{exposed} exposed to the risks [{}] which were all explicitly accepted by the cluster administrator.",
            names.join(",")
        );
        risks.push_str(&text);
    }

    /// When to advance again if nothing changes earlier.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        match self.pending.as_ref()?.phase {
            PendingPhase::Failed(at) => Some(at),
            PendingPhase::Retrieving(since) => Some(since + RETRIEVE_TIMEOUT + RETRIEVE_TIMEOUT),
            PendingPhase::Loaded(_) => None,
        }
    }

    /// Condition `ReleaseAccepted`.
    #[must_use]
    pub fn condition(&self, now: Time) -> Option<ClusterOperatorCondition> {
        let AcceptanceReport {
            status,
            step,
            message,
        } = self.report.as_ref()?;
        Some(ClusterOperatorCondition::new(
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
