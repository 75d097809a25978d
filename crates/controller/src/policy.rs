//! Validation: from the spec as written to the policy as planned, or to the rules it breaks. Pure.

use std::sync::Arc;

use api::ManagedClustersUpgradeSpec;
use api::lenient::Lenient;
use api::names::{ANNOTATION_RETRY_FAILED, Step};
use api::validate::{self, Violation, parse_duration, parse_limit};
use api::views::{MAX_FINALIZERS, Upgrade};
use chrono::TimeDelta;
use rollout::{Hold, Limit, Policy};
use sha2::{Digest, Sha256};

use crate::report::line::is_not_yaml;
use crate::works::{Templates, WorkFlags};

/// The approval Job may take this much longer than operatorsUpgradeTimeout (its activeDeadlineSeconds).
const JOB_DEADLINE_MARGIN: TimeDelta = TimeDelta::seconds(90);

/// Most broken rules of one spec that are told, and the longest text of one, in bytes.
const MOST_VIOLATIONS: usize = 32;
const LONGEST_VIOLATION: usize = 512;

/// Longest retry token that is used as it is, in bytes; rows accept 256 characters.
const LONGEST_RETRY: usize = 128;

/// A valid spec, with what is derived from it once per generation.
#[derive(Debug)]
pub struct Brief {
    /// Generation of the spec.
    pub generation: i64,
    /// The spec without its actions, which only the templates keep.
    pub spec: ManagedClustersUpgradeSpec,
    /// The works it asks for.
    pub templates: Templates,
    /// The policy, but for what is not in the spec: retry and deletion.
    pub policy: Policy,
}

/// Checks and breaks down a spec. `operators_grace` is added to the operators' timeout.
///
/// # Errors
/// Every broken rule, when there is one.
pub fn brief(
    upgrade: &Upgrade,
    flags: &WorkFlags,
    operators_grace: TimeDelta,
) -> Result<Brief, Vec<Violation>> {
    let violation = |message: String| {
        vec![Violation {
            field: "spec".to_owned(),
            message,
        }]
    };
    let unread = |error: &str| violation(format!("cannot be read: {error}"));
    let mut spec = match &upgrade.spec {
        Lenient::Good(spec) => spec.parse().map_err(|error| unread(&error))?,
        Lenient::Absent => return Err(violation("must be set".to_owned())),
        Lenient::Broken(error) => return Err(unread(error)),
    };
    if upgrade.has_too_many_finalizers() {
        return Err(vec![Violation {
            field: "metadata.finalizers".to_owned(),
            message: format!("may be at most {MAX_FINALIZERS}; remove those that nobody needs"),
        }]);
    }
    let name = upgrade.metadata.name.as_deref().unwrap_or_default();
    let violations = validate::validate(name, &spec);
    if !violations.is_empty() {
        return Err(bounded(violations));
    }
    let strategy = &spec.upgrade_strategy;
    let unreadable = |field: &str| violation(format!("upgradeStrategy.{field} cannot be read"));
    let templates = Templates::new(&spec, flags);
    (spec.pre_upgrade_action, spec.post_upgrade_action) = (None, None);
    let policy = Policy {
        revision: Arc::from(templates.revision()),
        steps: Step::ALL.map(|step| templates.step_hash(step).map(Arc::from)),
        retry: None,
        hold: spec.paused.then_some(Hold::Paused),
        deleting: false,
        max_concurrency: limit(
            parse_limit(&strategy.max_concurrency, 1).ok_or_else(|| unreadable("maxConcurrency"))?,
        ),
        max_failures: strategy
            .max_failures
            .as_ref()
            .and_then(|value| parse_limit(value, 0))
            .map(limit),
        min_success_time: strategy.min_success_time.as_deref().and_then(parse_duration),
        cluster_timeout: parse_duration(&strategy.cluster_upgrade_timeout)
            .ok_or_else(|| unreadable("clusterUpgradeTimeout"))?,
        operators_timeout: parse_duration(&strategy.operators_upgrade_timeout)
            .ok_or_else(|| unreadable("operatorsUpgradeTimeout"))?
            + JOB_DEADLINE_MARGIN
            + operators_grace,
        canaries: strategy.canary_clusters.is_some(),
        clock_trusted: true,
        target: Arc::from(
            spec.cluster_version
                .as_ref()
                .map_or("", |target| target.version.as_str()),
        ),
        allow_downgrade: spec
            .cluster_version
            .as_ref()
            .is_some_and(|target| target.allow_downgrade),
    };
    Ok(Brief {
        generation: upgrade.metadata.generation.unwrap_or(0),
        spec,
        templates,
        policy,
    })
}

/// The first broken rules, in texts of bounded length: they repeat what the author wrote.
fn bounded(mut violations: Vec<Violation>) -> Vec<Violation> {
    let left_out = violations.len().saturating_sub(MOST_VIOLATIONS);
    violations.truncate(MOST_VIOLATIONS);
    for text in violations
        .iter_mut()
        .flat_map(|violation| [&mut violation.field, &mut violation.message])
        .filter(|text| text.len() > LONGEST_VIOLATION)
    {
        let end = (0..=LONGEST_VIOLATION)
            .rev()
            .find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push('\u{2026}');
        text.shrink_to_fit();
    }
    if left_out > 0 {
        violations.push(Violation {
            field: "spec".to_owned(),
            message: format!("{left_out} more rules are broken; kubectl mcu lint shows them all"),
        });
    }
    violations.shrink_to_fit();
    violations
}

/// The retry token to carry out: the annotation's value while it has not been observed. A value that is long, or cannot be
/// written in a server-side apply, is replaced by its beginning and its hash, for works, rows and the status carry it.
#[must_use]
pub fn pending_retry(upgrade: &Upgrade, observed: Option<&str>) -> Option<Arc<str>> {
    let value = upgrade
        .metadata
        .annotations
        .as_ref()?
        .get(ANNOTATION_RETRY_FAILED)?;
    let token = if value.len() > LONGEST_RETRY || value.chars().any(is_not_yaml) {
        let plain = value.chars().filter(|char| !is_not_yaml(*char));
        let start = plain.take(LONGEST_RETRY / 4).collect::<String>();
        let hash = Sha256::digest(value)
            .iter()
            .take(8)
            .fold(0, |hash: u64, byte| hash << 8 | u64::from(*byte));
        format!("{start}-{hash:016x}")
    } else {
        value.clone()
    };
    (!token.is_empty() && observed != Some(token.as_str())).then(|| Arc::from(token))
}

fn limit(value: validate::Limit) -> Limit {
    match value {
        validate::Limit::Count(count) => Limit::Count(count),
        validate::Limit::Percent(percent) => Limit::Percent(percent),
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
