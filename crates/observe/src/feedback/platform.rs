//! Reads the status of the platform work: converts the reported values of ClusterVersion `version` to
//! [`Feedback`], which the `clusterversion` crate evaluates.

use api::names::{ANNOTATION_TARGET_IMAGE, ANNOTATION_TARGET_VERSION};
use api::views::{FieldValue, ManifestStatus, condition};
use clusterversion::{
    Cause, Feedback, Progress, ReportedValue, Target, cause, is_unasked, progress, unhealthy,
};
use rollout::StepStatus;

use super::{WorkFeedback, WorkStatusView, is_a, reason};

/// Longest version that counts, in bytes.
const MAX_VERSION_BYTES: usize = 128;

pub(super) fn read(seen: &WorkStatusView<'_>, fallback: &Target<'_>) -> WorkFeedback {
    let own = Target {
        version: seen.annotation(ANNOTATION_TARGET_VERSION).unwrap_or_default(),
        image: seen.annotation(ANNOTATION_TARGET_IMAGE).unwrap_or_default(),
    };
    let target = if own.is_empty() { *fallback } else { own };
    let manifest = seen.manifests().iter().find(|manifest| {
        is_a(
            manifest,
            "config.openshift.io",
            "ClusterVersion",
            "clusterversions",
        ) && manifest.resource_meta.name == "version"
    });
    let feedback = manifest.map(feedback).unwrap_or_default();
    let current = seen.current();
    let (outcome, why) = match progress(&feedback, &target, current) {
        Progress::Completed => (StepStatus::Succeeded, None),
        Progress::Partial => (StepStatus::Running, cause(&feedback, &target)),
        Progress::Other { .. } => (
            StepStatus::OtherVersion,
            waiting(seen, manifest, &feedback, &target),
        ),
        Progress::NotYet => (StepStatus::NotYet, waiting(seen, manifest, &feedback, &target)),
    };
    // No release has a longer version.
    let is_told = |text: &&str| !text.is_empty() && text.len() <= MAX_VERSION_BYTES;
    let text = |value: Option<&str>| value.filter(is_told).map(str::to_owned);
    WorkFeedback {
        unhealthy: current.then(|| unhealthy(&feedback)).flatten(),
        version: text(feedback.version),
        desired: text(feedback.desired_version),
        is_unasked: is_unasked(&feedback, &target, current),
        ..WorkFeedback::of(outcome, why)
    }
}

fn waiting(
    seen: &WorkStatusView<'_>,
    manifest: Option<&ManifestStatus>,
    feedback: &Feedback<'_>,
    target: &Target<'_>,
) -> Option<Cause> {
    seen.unapplied()
        .or_else(|| cause(feedback, target))
        .or_else(|| seen.unavailable())
        .or_else(|| feedback.version.is_none().then(|| no_feedback(manifest)))
}

fn no_feedback(manifest: Option<&ManifestStatus>) -> Cause {
    let error = manifest
        .and_then(|manifest| condition(&manifest.conditions, "StatusFeedbackSynced"))
        .filter(|synced| synced.status == "False" && !synced.message.is_empty());
    match error {
        Some(synced) => Cause::new(
            reason::NO_FEEDBACK,
            &format!(
                "The work agent cannot report the version of the cluster: {}",
                synced.message
            ),
        ),
        None => Cause::new(
            reason::NO_FEEDBACK,
            "The work agent has not reported the version of the cluster yet",
        ),
    }
}

fn feedback(manifest: &ManifestStatus) -> Feedback<'_> {
    let values = manifest.status_feedback.values.iter();
    values
        .filter_map(|value| Some((value.name.as_str(), typed(&value.field_value)?)))
        .collect()
}

pub(super) fn typed(value: &FieldValue) -> Option<ReportedValue<'_>> {
    match value {
        FieldValue::String(text) => Some(ReportedValue::Text(text)),
        FieldValue::Integer(number) => Some(ReportedValue::Number(*number)),
        FieldValue::Boolean(flag) => Some(ReportedValue::Flag(*flag)),
        FieldValue::JsonRaw(text) => first(text),
        FieldValue::Other => None,
    }
}

/// The first result of a path that matched several values, in the form that agents with raw feedback report.
/// Texts with escapes are ignored rather than copied.
fn first(raw: &str) -> Option<ReportedValue<'_>> {
    if let Ok(texts) = serde_json::from_str::<Vec<&str>>(raw) {
        return texts.first().map(|text| ReportedValue::Text(text));
    }
    let numbers = serde_json::from_str::<Vec<i64>>(raw).ok()?;
    numbers.first().map(|number| ReportedValue::Number(*number))
}
