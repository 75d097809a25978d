//! Why a cluster does not move, as its own ClusterVersion explains it.
//!
//! The reasons are a closed set with an order of priority. A cause explains why an upgrade waits; it never makes a cluster
//! fail (`docs/design/rules.md#causes-never-fail`). For example, Invalid=True for a short time is normal, because channel and
//! version change together.

use crate::feedback::{Feedback, Target};
use crate::progress::started;

/// Maximum length of a message in bytes.
pub const MAX_MESSAGE: usize = 256;

/// The reasons [`cause`] gives, in the order of their priority.
pub mod reason {
    /// The request has mode Preflight: the CVO checks the update and does not start it.
    pub const PREFLIGHT_ONLY: &str = "PreflightOnly";
    /// The CVO rejects the request, for example because the version is not among its available updates.
    pub const INVALID_UPDATE: &str = "InvalidUpdate";
    /// The release could not be retrieved, verified or loaded, or a precondition failed. The CVO tries again.
    pub const RELEASE_NOT_ACCEPTED: &str = "ReleaseNotAccepted";
    /// The CVO cannot reconcile, for example because a cluster operator is degraded or not available.
    pub const FAILING: &str = "Failing";
    /// Upgradeable is False, and the target is another minor or major version.
    pub const NOT_UPGRADEABLE: &str = "NotUpgradeable";
    /// The CVO could not retrieve updates from the update service, so it cannot resolve a request by version.
    pub const UPDATES_NOT_RETRIEVED: &str = "UpdatesNotRetrieved";
    /// The CVO is retrieving and verifying the release.
    pub const RETRIEVING_RELEASE: &str = "RetrievingRelease";
    /// Failing is Unknown: an operator takes longer than expected. This is not a failure.
    pub const SLOW_CLUSTER_OPERATOR: &str = "SlowClusterOperator";
    /// The CVO is applying the update.
    pub const PROGRESSING: &str = "Progressing";
    /// The CVO has not started the update. The message is what it says about the current release.
    pub const NOT_STARTED: &str = "NotStarted";

    /// All of them.
    pub const ALL: [&str; 10] = [
        PREFLIGHT_ONLY,
        INVALID_UPDATE,
        RELEASE_NOT_ACCEPTED,
        FAILING,
        NOT_UPGRADEABLE,
        UPDATES_NOT_RETRIEVED,
        RETRIEVING_RELEASE,
        SLOW_CLUSTER_OPERATOR,
        PROGRESSING,
        NOT_STARTED,
    ];
}

/// A reason from a closed set and a text for humans.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// One of [`reason::ALL`].
    pub reason: &'static str,
    /// One line of at most [`MAX_MESSAGE`] bytes.
    pub message: String,
}

impl Cause {
    /// Makes a cause. White space in the text is collapsed to single spaces. A text that is too long is cut at a character
    /// boundary and ends in `…`.
    #[must_use]
    pub fn new(reason: &'static str, text: &str) -> Cause {
        Cause {
            reason,
            message: one_line(text),
        }
    }
}

fn one_line(text: &str) -> String {
    const ELLIPSIS: char = '…';
    let mut line = String::with_capacity(text.len().min(MAX_MESSAGE));
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > MAX_MESSAGE {
            line.truncate(line.floor_char_boundary(MAX_MESSAGE - ELLIPSIS.len_utf8()));
            line.push(ELLIPSIS);
            break;
        }
    }
    line
}

/// Why a cluster that was told to run `target` does not run it yet. `None` if the values give no hint.
///
/// Some facts can only stop an update before it starts: mode Preflight, Upgradeable, `RetrievedUpdates`, and the retrieval of the
/// release. They are ignored once the target is in the history.
#[must_use]
pub fn cause(feedback: &Feedback<'_>, target: &Target<'_>) -> Option<Cause> {
    let begun = started(feedback, target);
    (!begun)
        .then(|| only_checked(feedback))
        .flatten()
        .or_else(|| rejected(feedback, target, begun))
        .or_else(|| unhealthy(feedback))
        .or_else(|| (!begun).then(|| gated(feedback, target)).flatten())
        .or_else(|| moving(feedback, begun))
}

/// Failing=True, with its reason and message. Failing=Unknown is not a failure.
#[must_use]
pub fn unhealthy(feedback: &Feedback<'_>) -> Option<Cause> {
    (feedback.failing == Some("True")).then(|| {
        spoken(
            reason::FAILING,
            feedback.failing_reason,
            feedback.failing_message,
            "The cluster-version operator reports Failing=True",
        )
    })
}

/// The request asks for a check only. Whatever that finds, the update does not begin before the mode is removed.
fn only_checked(feedback: &Feedback<'_>) -> Option<Cause> {
    (feedback.mode == Some("Preflight")).then(|| {
        Cause::new(
            reason::PREFLIGHT_ONLY,
            "spec.desiredUpdate.mode of the ClusterVersion is Preflight, so the cluster checks the update and does not start it. Remove the field on the cluster.",
        )
    })
}

fn rejected(feedback: &Feedback<'_>, target: &Target<'_>, begun: bool) -> Option<Cause> {
    if feedback.invalid == Some("True") {
        let text = filled(feedback.invalid_message)
            .unwrap_or("The cluster reports that the requested update is invalid");
        // Most requests by version are rejected because the update service gave no updates to choose from.
        let root = (!begun && target.image.is_empty())
            .then(|| not_retrieved(feedback))
            .flatten();
        return Some(match root {
            Some(root) => Cause::new(reason::INVALID_UPDATE, &format!("{text} ({})", root.message)),
            None => Cause::new(reason::INVALID_UPDATE, text),
        });
    }
    let message = filled(feedback.release_accepted_message);
    (feedback.release_accepted == Some("False") && message.is_none_or(|text| speaks_of(text, target))).then(
        || {
            spoken(
                reason::RELEASE_NOT_ACCEPTED,
                feedback.release_accepted_reason,
                message.map(essence),
                "The cluster did not accept the release",
            )
        },
    )
}

fn gated(feedback: &Feedback<'_>, target: &Target<'_>) -> Option<Cause> {
    if feedback.upgradeable == Some("False") && crosses_minor(feedback.version, target.version) {
        return Some(spoken(
            reason::NOT_UPGRADEABLE,
            feedback.upgradeable_reason,
            feedback.upgradeable_message,
            "The cluster reports Upgradeable=False, and the target is another minor version",
        ));
    }
    let by_version = target.image.is_empty();
    by_version.then(|| not_retrieved(feedback)).flatten().or_else(|| {
        (feedback.release_accepted == Some("Unknown")).then(|| {
            spoken(
                reason::RETRIEVING_RELEASE,
                None,
                feedback.release_accepted_message,
                "The cluster is retrieving and verifying the release",
            )
        })
    })
}

fn not_retrieved(feedback: &Feedback<'_>) -> Option<Cause> {
    (feedback.retrieved_updates == Some("False")).then(|| {
        spoken(
            reason::UPDATES_NOT_RETRIEVED,
            feedback.retrieved_updates_reason,
            feedback.retrieved_updates_message,
            "The cluster has not retrieved its available updates",
        )
    })
}

fn moving(feedback: &Feedback<'_>, begun: bool) -> Option<Cause> {
    if feedback.failing == Some("Unknown") {
        return Some(spoken(
            reason::SLOW_CLUSTER_OPERATOR,
            None,
            feedback.failing_message.or(feedback.failing_reason),
            "The cluster-version operator reports Failing=Unknown",
        ));
    }
    let reason = if begun {
        reason::PROGRESSING
    } else {
        reason::NOT_STARTED
    };
    filled(feedback.message).map(|text| Cause::new(reason, text))
}

/// `Reason: message`, the one of the two that exists, or `otherwise`.
fn spoken(reason: &'static str, theirs: Option<&str>, message: Option<&str>, otherwise: &str) -> Cause {
    match (filled(theirs), filled(message)) {
        (Some(theirs), Some(message)) => Cause::new(reason, &format!("{theirs}: {message}")),
        (Some(text), None) | (None, Some(text)) => Cause::new(reason, text),
        (None, None) => Cause::new(reason, otherwise),
    }
}

fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.trim().is_empty())
}

/// Whether a message is about the target. A message that names no release is taken to be.
fn speaks_of(text: &str, target: &Target<'_>) -> bool {
    let named = |key: &str| {
        let rest = text.split_once(key)?.1;
        rest.split_once('"').map(|(value, _)| value)
    };
    let differs = |wanted: &str, key: &str| {
        !wanted.is_empty() && named(key).is_some_and(|value| !value.is_empty() && value != wanted)
    };
    !differs(target.version, "version=\"") && !differs(target.image, "image=\"")
}

/// Leaves out the introduction that repeats version and image, so that the actual reason is not cut off.
fn essence(text: &str) -> &str {
    const POINTS: [(&str, usize); 3] = [
        (" failure=", " failure=".len()),
        (": Precondition \"", ": ".len()),
        (": Multiple precondition checks failed", ": ".len()),
    ];
    POINTS
        .iter()
        .filter_map(|(mark, skip)| text.find(mark).map(|at| at + skip))
        .min()
        .and_then(|at| text.get(at..))
        .filter(|rest| !rest.trim().is_empty())
        .unwrap_or(text)
}

/// Whether two versions are known to differ in major or minor.
fn crosses_minor(from: Option<&str>, to: &str) -> bool {
    matches!((from.and_then(minor), minor(to)), (Some(from), Some(to)) if from != to)
}

fn minor(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    parts.next().map(|_| (major, minor))
}

#[cfg(test)]
mod tests;
