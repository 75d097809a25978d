//! The rules that a spec must obey. The controller, the admission tests and `kubectl mcu lint` share them.
//!
//! Admission (schema and CEL) rejects most bad input before it is stored. These rules repeat all of that, because an
//! object may have been stored under an older CRD. They also check what CEL cannot: the size of an action, duplicates
//! among its manifests, and names and labels that cannot exist (`docs/design/rules.md#one-set-of-spec-rules`).

mod approvals;
mod grammar;
mod left_out;
mod maintenance;
mod preflight;
mod retry;
mod selection;

use std::collections::BTreeSet;
use std::{fmt, io};

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;
use serde_json::Value;

use crate::lenient::measure;
use crate::mcu::{ManagedClustersUpgradeSpec, OperatorRef, UpgradeAction, UpgradeStrategy};
use crate::names::MAX_MCU_NAME;
use approvals::check_checkpoints;
use grammar::is_lower_case;
use left_out::check_left_out;
use maintenance::check_maintenance;
use preflight::check_preflight;
pub use preflight::is_ack_key;
use retry::check_retries;
use selection::{check_placements, check_selector};

pub use approvals::{CheckpointAt, parse_checkpoint};
pub use grammar::is_subdomain;

/// Largest total of an action's manifests as JSON, the limit of OCM's webhook. The other fields of the ManifestWork
/// count as well.
pub const MAX_MANIFESTS_BYTES: usize = 500 * 1024;
/// Largest spec as JSON: two actions of [`MAX_MANIFESTS_BYTES`], and room for everything else.
pub const MAX_SPEC_BYTES: usize = 1280 * 1024;
/// Largest number of lists, objects and values in a spec, because a text that is short may still need much memory.
pub const MAX_SPEC_VALUES: usize = 50_000;

/// A rule that a spec violates: the field and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpecViolation {
    /// Path of the field, such as `spec.clusterVersion.version`.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for SpecViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

fn violation(field: impl Into<String>, message: impl Into<String>) -> SpecViolation {
    SpecViolation {
        field: field.into(),
        message: message.into(),
    }
}

/// Checks the size of a spec as JSON, before it is parsed.
///
/// # Errors
/// The text says what is too large, the limit and the remedy.
pub fn check_size(spec: &str) -> Result<(), String> {
    const REMEDY: &str = "shorten its actions, for example by fetching their data on the cluster";
    let size = measure(spec);
    if size.bytes > MAX_SPEC_BYTES {
        return Err(format!(
            "has {} bytes of JSON, more than the {MAX_SPEC_BYTES} bytes a spec may have; {REMEDY}",
            size.bytes
        ));
    }
    if size.values > MAX_SPEC_VALUES {
        return Err(format!(
            "has {} lists, objects and values, more than the {MAX_SPEC_VALUES} a spec may have; {REMEDY}",
            size.values
        ));
    }
    Ok(())
}

/// Checks the name and the whole spec. Returns every violation in the order of the fields; an empty list means that
/// the spec is valid.
#[must_use]
pub fn validate(name: &str, spec: &ManagedClustersUpgradeSpec) -> Vec<SpecViolation> {
    let mut found = Vec::new();
    if name.len() > MAX_MCU_NAME {
        found.push(violation(
            "metadata.name",
            "must be at most 63 characters, because the labels of its reports contain the name",
        ));
    }
    check_placements(&spec.placement, &mut found);
    if let Some(selector) = &spec.cluster_selector {
        check_selector("spec.clusterSelector", selector, &mut found);
    }
    check_target(spec, &mut found);
    check_preflight(spec, &mut found);
    check_maintenance(spec.maintenance.as_ref(), &mut found);
    check_operators(spec, &mut found);
    check_strategy(&spec.upgrade_strategy, &mut found);
    for (field, action) in [
        ("spec.preUpgradeAction", &spec.pre_upgrade_action),
        ("spec.postUpgradeAction", &spec.post_upgrade_action),
    ] {
        if let Some(action) = action {
            check_action(field, action, &mut found);
        }
    }
    found
}

fn check_target(spec: &ManagedClustersUpgradeSpec, found: &mut Vec<SpecViolation>) {
    let Some(target) = &spec.cluster_version else {
        return;
    };
    if target.version.is_empty() && target.image.is_empty() {
        found.push(violation(
            "spec.clusterVersion",
            "set version (such as 4.20.0) or image",
        ));
    }
    if !target.version.is_empty() && semver::Version::parse(&target.version).is_err() {
        found.push(violation(
            "spec.clusterVersion.version",
            format!(
                "{:?} must be a full semantic version such as 4.20.0, without a leading v",
                target.version
            ),
        ));
    }
    // Channel and image are copied into annotations and messages, and the limits of works are in bytes.
    for (field, text, most, what) in [
        ("channel", &target.channel, 128, "a channel such as stable-4.20"),
        ("upstream", &target.upstream, 2048, "an http or https URL"),
        ("image", &target.image, 1024, "the pull spec of a release image"),
    ] {
        let is_url = || {
            let rest = text.strip_prefix("https://").or(text.strip_prefix("http://"));
            text.is_empty() || rest.is_some_and(|rest| !rest.is_empty())
        };
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !printable || text.len() > most || (field == "upstream" && !is_url()) {
            found.push(violation(
                format!("spec.clusterVersion.{field}"),
                format!(
                    "{text:?} must be {what}, in at most {most} printable ASCII characters without white space"
                ),
            ));
        }
    }
}

fn check_operators(spec: &ManagedClustersUpgradeSpec, found: &mut Vec<SpecViolation>) {
    let approves = spec
        .ocp_operators
        .as_ref()
        .is_some_and(|operators| operators.approve_all_upgrades || !operators.include.is_empty());
    if spec.cluster_version.is_none() && !approves {
        found.push(violation(
            "spec",
            "nothing to do: set spec.clusterVersion, or spec.ocpOperators.approveAllUpgrades, or name operators in spec.ocpOperators.include",
        ));
    }
    let Some(operators) = &spec.ocp_operators else {
        return;
    };
    for (list, refs) in [("include", &operators.include), ("exclude", &operators.exclude)] {
        let mut seen = BTreeSet::new();
        for (index, operator) in refs.iter().enumerate() {
            check_operator(&format!("spec.ocpOperators.{list}[{index}]"), operator, found);
            if !seen.insert((&operator.namespace, &operator.name)) {
                found.push(violation(
                    format!("spec.ocpOperators.{list}[{index}]"),
                    format!(
                        "{}/{} is named twice; remove one",
                        operator.namespace, operator.name
                    ),
                ));
            }
        }
    }
}

fn check_operator(field: &str, operator: &OperatorRef, found: &mut Vec<SpecViolation>) {
    if !is_lower_case(&operator.name, "-.") {
        found.push(violation(
            format!("{field}.name"),
            "must be the name of a Subscription: lower-case letters, digits, - and .",
        ));
    }
    if !is_lower_case(&operator.namespace, "-") {
        found.push(violation(
            format!("{field}.namespace"),
            "must be the namespace of a Subscription: lower-case letters, digits and -",
        ));
    }
}

fn check_strategy(strategy: &UpgradeStrategy, found: &mut Vec<SpecViolation>) {
    check_checkpoints(strategy, found);
    check_retries(&strategy.retry, found);
    check_left_out(strategy, found);
    if let Some(canaries) = &strategy.canary_clusters {
        check_selector(
            "spec.upgradeStrategy.canaryClusters.clusterSelector",
            &canaries.cluster_selector,
            found,
        );
    }
    for (field, text) in [
        ("actionTimeout", strategy.action_timeout.as_ref()),
        ("clusterUpgradeTimeout", Some(&strategy.cluster_upgrade_timeout)),
        (
            "operatorsUpgradeTimeout",
            Some(&strategy.operators_upgrade_timeout),
        ),
        ("workerPoolsTimeout", strategy.worker_pools_timeout.as_ref()),
    ] {
        let Some(text) = text else { continue };
        if parse_duration(text).is_none_or(|length| length < chrono::TimeDelta::seconds(1)) {
            found.push(violation(
                format!("spec.upgradeStrategy.{field}"),
                format!("{text:?} must be a duration of at least 1s and at most 8760h in hours, minutes and seconds, such as 90m, 2h or 1h30m (days are not a unit)"),
            ));
        }
    }
    if let Some(text) = &strategy.min_success_time
        && parse_duration(text).is_none()
    {
        found.push(violation(
            "spec.upgradeStrategy.minSuccessTime",
            format!("{text:?} must be a duration of at most 8760h in hours, minutes and seconds, such as 10m or 1h30m (days are not a unit)"),
        ));
    }
    if parse_limit(&strategy.max_concurrency, 1).is_none() {
        found.push(violation(
            "spec.upgradeStrategy.maxConcurrency",
            "must be a number of clusters of at least 1, or a percentage from 1% to 100% such as 25%",
        ));
    }
    if strategy
        .max_failures
        .as_ref()
        .is_some_and(|limit| parse_limit(limit, 0).is_none())
    {
        found.push(violation(
            "spec.upgradeStrategy.maxFailures",
            "must be a number of clusters of at least 0, or a percentage from 0% to 100% such as 5%",
        ));
    }
}

/// Checks the name of a cluster.
fn check_cluster(field: &str, name: &str, found: &mut Vec<SpecViolation>) {
    if !is_subdomain(name) {
        found.push(violation(
            field,
            format!("{name:?} must be the name of a ManagedCluster"),
        ));
    }
}

/// Checks that a name is not among those before.
fn check_twice<'a>(seen: &mut BTreeSet<&'a str>, name: &'a str, field: &str, found: &mut Vec<SpecViolation>) {
    if !seen.insert(name) {
        found.push(violation(field, format!("{name} is named twice; remove one")));
    }
}

/// False for white space alone, whether it can be seen or not.
fn says_something(reason: &str) -> bool {
    reason.chars().any(char::is_alphanumeric)
}

fn check_action(action_field: &str, action: &UpgradeAction, found: &mut Vec<SpecViolation>) {
    let field = format!("{action_field}.manifestWork.workload.manifests");
    let manifests = &action.manifest_work.workload.manifests;
    if manifests.is_empty() {
        found.push(violation(&field, "must name at least one manifest"));
    }
    let mut seen = BTreeSet::new();
    let mut bytes = 0;
    for (index, manifest) in manifests.iter().enumerate() {
        bytes += bytes_of(manifest);
        let at = format!("{field}[{index}]");
        let text = |pointer: &str| {
            manifest
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        for (key, value) in [("apiVersion", text("/apiVersion")), ("kind", text("/kind"))] {
            if value.is_empty() {
                found.push(violation(format!("{at}.{key}"), "must be set"));
            }
        }
        if text("/metadata/name").is_empty() {
            found.push(violation(
                format!("{at}.metadata.name"),
                "must be set; generateName is not supported in a ManifestWork",
            ));
        }
        let identity = (
            text("/apiVersion"),
            text("/kind"),
            text("/metadata/namespace"),
            text("/metadata/name"),
        );
        if !seen.insert(identity) {
            found.push(violation(
                &at,
                format!("{} {} appears twice; remove one", identity.1, identity.3),
            ));
        }
    }
    let rest = bytes_of(&action.manifest_work.rest);
    let (field, bytes) = if bytes > MAX_MANIFESTS_BYTES {
        (field, bytes)
    } else {
        (format!("{action_field}.manifestWork"), bytes + rest)
    };
    if bytes > MAX_MANIFESTS_BYTES {
        found.push(violation(
            &field,
            format!("{bytes} bytes exceed the {MAX_MANIFESTS_BYTES} bytes a ManifestWork may carry; split the action or fetch its data on the cluster"),
        ));
    }
}

/// Length as JSON, without building the text.
fn bytes_of(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Writing a JSON value to a counter cannot fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Reads a Go duration (`1h30m`) from zero to a year. Anything else is `None`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<chrono::TimeDelta> {
    if !is_sum_of_short_numbers(text) {
        return None;
    }
    let duration: kube::core::Duration = text.parse().ok()?;
    let length = chrono::TimeDelta::from_std(std::time::Duration::from(duration)).ok()?;
    (!duration.is_negative() && length <= chrono::TimeDelta::hours(8760)).then_some(length)
}

/// Guards the parser, which panics on signs inside a duration and on numbers that are too large.
fn is_sum_of_short_numbers(text: &str) -> bool {
    const MAX_TOTAL_LENGTH: usize = 64;
    const MAX_DIGITS: usize = 12;
    let allowed = |c: char| c.is_ascii_digit() || "hmsnu.\u{b5}\u{3bc}".contains(c);
    let sum = text.strip_prefix('+').unwrap_or(text);
    (1..=MAX_TOTAL_LENGTH).contains(&sum.len())
        && sum.chars().all(allowed)
        && sum
            .split(|c: char| !c.is_ascii_digit())
            .all(|digits| digits.len() <= MAX_DIGITS)
}

/// A number of clusters, or a percentage of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Clusters.
    Count(u32),
    /// Percent, 0 to 100.
    Percent(u32),
}

impl Limit {
    /// The number of clusters out of `total`; a percentage is rounded up.
    #[must_use]
    pub fn of(self, total: usize) -> usize {
        match self {
            Limit::Count(count) => count as usize,
            Limit::Percent(percent) => (total * percent as usize).div_ceil(100),
        }
    }
}

/// Reads an int-or-percent field whose number must be at least `least`. Anything else is `None`.
#[must_use]
pub fn parse_limit(value: &IntOrString, least: u32) -> Option<Limit> {
    match value {
        IntOrString::Int(number) => u32::try_from(*number)
            .ok()
            .filter(|n| *n >= least)
            .map(Limit::Count),
        IntOrString::String(text) => {
            let digits = text.strip_suffix('%')?;
            let plain = !digits.is_empty() && digits.len() <= 3 && digits.chars().all(|c| c.is_ascii_digit());
            let percent: u32 = plain.then(|| digits.parse().ok())??;
            (percent >= least && percent <= 100).then_some(Limit::Percent(percent))
        }
    }
}

#[cfg(test)]
mod tests;
