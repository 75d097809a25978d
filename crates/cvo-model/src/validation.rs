//! Validation of the spec: what the operator refuses with condition Invalid, besides what the schema refuses
//! (`docs/design/cvo.md#update-requests`).
//! This module defines the field errors and their texts.

use std::fmt::{self, Write as _};

use clusterversion::types::{
    ClusterOperatorCondition, ClusterVersion, ConditionStatus, INVALID, Time, Update,
};
use clusterversion::version;

/// A field and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path, such as `spec.desiredUpdate.version`.
    pub field: &'static str,
    kind: FieldErrorKind,
    detail: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum FieldErrorKind {
    Required,
    Forbidden,
    Invalid(String),
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, detail, .. } = self;
        match &self.kind {
            FieldErrorKind::Required => write!(f, "{field}: Required value: {detail}"),
            FieldErrorKind::Forbidden => write!(f, "{field}: Forbidden: {detail}"),
            FieldErrorKind::Invalid(value) => write!(f, "{field}: Invalid value: {value:?}: {detail}"),
        }
    }
}

impl FieldError {
    fn invalid(field: &'static str, value: &str, detail: &'static str) -> Self {
        Self {
            field,
            kind: FieldErrorKind::Invalid(value.to_owned()),
            detail,
        }
    }
}

/// What is wrong with the spec, given the status. `accepts_risks`: the feature gate of `acceptRisks` is on.
#[must_use]
pub fn validate(object: &ClusterVersion, accepts_risks: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &object.spec;
    if !spec.upstream.is_empty() && !is_url(&spec.upstream) {
        errors.push(FieldError::invalid(
            "spec.upstream",
            &spec.upstream,
            "must be a valid URL or empty",
        ));
    }
    if !spec.cluster_id.is_empty() {
        let detail = match uuid(&spec.cluster_id) {
            Ok(Uuid { rfc4122: false, .. }) | Err(_) => Some("must be an RFC4122-variant UUID"),
            Ok(Uuid { version, .. }) => (version != 4).then_some("must be a version-4 UUID"),
        };
        errors.extend(detail.map(|detail| FieldError::invalid("spec.clusterID", &spec.cluster_id, detail)));
    }
    if let Some(update) = &spec.desired_update {
        errors.extend(request(object, update, accepts_risks));
    }
    errors
}

fn request(object: &ClusterVersion, update: &Update, accepts_risks: bool) -> Option<FieldError> {
    const FIELD: &str = "spec.desiredUpdate";
    const VERSION: &str = "spec.desiredUpdate.version";
    let is_empty = update.architecture.is_empty() && update.version.is_empty() && update.image.is_empty();
    let error = |field, kind, detail| Some(FieldError { field, kind, detail });
    if !accepts_risks && !update.accept_risks.is_empty() {
        return error(
            "spec.desiredUpdate.acceptRisks",
            FieldErrorKind::Forbidden,
            "acceptRisks must not be specified",
        );
    }
    if is_empty && !accepts_risks {
        return error(
            FIELD,
            FieldErrorKind::Required,
            "must specify architecture, version, or image",
        );
    }
    if is_empty && update.accept_risks.is_empty() {
        return error(
            FIELD,
            FieldErrorKind::Required,
            "must specify architecture, version, image, or acceptRisks",
        );
    }
    if !update.version.is_empty() && version::parse(&update.version).is_none() {
        let invalid = FieldErrorKind::Invalid(update.version.clone());
        return error(VERSION, invalid, "must be a semantic version (1.2.3[-...])");
    }
    if update.version.is_empty() || !update.image.is_empty() {
        return None;
    }
    let invalid = FieldErrorKind::Invalid(update.version.clone());
    match payloads(object, &update.version) {
        0 => error(
            VERSION,
            invalid,
            "when image is empty the update must be an available update",
        ),
        1 => None,
        _ => error(
            VERSION,
            invalid,
            "there are multiple possible payloads for this version, specify the exact image",
        ),
    }
}

/// How many payloads a version may refer to: those of the recommended updates, or else one of the history.
fn payloads(object: &ClusterVersion, version: &str) -> usize {
    let status = &object.status;
    let available = status
        .available_updates
        .iter()
        .filter(|release| release.version == version && !release.image.is_empty())
        .count();
    let known = || {
        status
            .history
            .iter()
            .any(|entry| entry.version == version && !entry.image.is_empty())
    };
    if available == 0 && known() { 1 } else { available }
}

/// Whether a text can be a URL. As in the operator, a text without a scheme can be one and only fails when it is used.
fn is_url(text: &str) -> bool {
    matches!(
        url::Url::parse(text),
        Ok(_) | Err(url::ParseError::RelativeUrlWithoutBase)
    ) && !text.starts_with("://")
        && !text.chars().any(char::is_control)
}

/// The relevant properties of a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uuid {
    rfc4122: bool,
    version: u8,
}

/// Parses a UUID in its usual form, in braces, as a URN, or without hyphens.
pub(crate) fn uuid(text: &str) -> Result<Uuid, String> {
    let bare = match text.len() {
        32 | 36 => text,
        45 => text
            .strip_prefix("urn:uuid:")
            .ok_or_else(|| format!("invalid urn prefix: {:?}", text.get(..9).unwrap_or(text)))?,
        38 => text.get(1..37).ok_or("invalid UUID format")?,
        other => return Err(format!("invalid UUID length: {other}")),
    };
    let hyphens = bare.len() == 32
        || [8, 13, 18, 23]
            .iter()
            .all(|at| bare.as_bytes().get(*at) == Some(&b'-'));
    let digits: Vec<u8> = bare.bytes().filter(|byte| *byte != b'-').collect();
    if !hyphens || digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err("invalid UUID format".to_owned());
    }
    let digit = |at: usize| {
        let byte = digits.get(at).copied().unwrap_or(b'0');
        (byte as char)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
            .unwrap_or(0)
    };
    Ok(Uuid {
        rfc4122: (8..=11).contains(&digit(16)),
        version: digit(12),
    })
}

/// Condition Invalid. `None` if there are no errors; the condition is removed then.
#[must_use]
pub fn condition(now: Time, errors: &[FieldError]) -> Option<ClusterOperatorCondition> {
    let message = match errors {
        [] => return None,
        [one] => format!("The cluster version is invalid: {one}"),
        several => {
            let mut text = "The cluster version is invalid:\n".to_owned();
            for error in several {
                let _ = writeln!(text, "* {error}");
            }
            text
        }
    };
    let reason = "InvalidClusterVersion";
    Some(ClusterOperatorCondition::new(
        now,
        INVALID,
        ConditionStatus::True,
        reason,
        message,
    ))
}

/// The object without its invalid parts, as the operator continues with it.
#[must_use]
pub fn cleared(object: &ClusterVersion, errors: &[FieldError]) -> ClusterVersion {
    let mut object = object.clone();
    for error in errors {
        match error.field {
            "spec.upstream" => object.spec.upstream.clear(),
            "spec.clusterID" => object.spec.cluster_id.clear(),
            // An invalid request is removed as a whole.
            _ => object.spec.desired_update = None,
        }
    }
    object
}

#[cfg(test)]
mod tests;
