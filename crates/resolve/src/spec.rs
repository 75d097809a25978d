//! Validates a spec: converts it to the policy that the planner uses, or to the rules that it violates. Pure.

use std::sync::Arc;

use api::ManagedClustersUpgradeSpec;
use api::lenient::Lenient;
use api::maintenance::ESTIMATE;
use api::mcu::{WORKER_POOLS_TIMEOUT, WorkerPoolsMode};
use api::names::Step;
use api::preflight::{PreflightMode, UnknownRisks};
use api::validate::{self, CheckpointAt, SpecViolation, parse_checkpoint, parse_duration, parse_limit};
use api::views::{MAX_FINALIZERS, Upgrade};
use chrono::TimeDelta;
use clusterversion::preflight::PlannedUpdate;
use observe::KnownCalendars;
use observe::preflight::{ProbeKind, Question, Questions};
use rollout::forecast::sum_of_time_limits;
use rollout::{Checkpoint, CheckpointPlace, Hold, KnownApprovals, Policy};
use sha2::{Digest, Sha256};

use crate::works::probe::ProbeTemplate;
use crate::works::{Templates, WorkFlags};

/// How much longer than operatorsUpgradeTimeout the approval Job may run (its activeDeadlineSeconds).
const JOB_DEADLINE_MARGIN: TimeDelta = TimeDelta::seconds(90);

/// When the updates that a cluster tells are those of a channel that was just set: agents read once a minute by default, and with
/// their jitter up to 114 s apart. The first reading may be of the moment before the cluster has retrieved the updates.
const CHANNEL_SETTLES_IN: TimeDelta = TimeDelta::seconds(120);

/// Largest number of reported violations, and the longest text of one in bytes.
const MAX_VIOLATIONS: usize = 32;
const MAX_VIOLATION_BYTES: usize = 512;

/// A valid spec with everything that is derived from it, once per generation.
#[derive(Debug)]
pub struct ResolvedSpec {
    /// Generation of the spec.
    pub generation: i64,
    /// The spec without its actions, which are kept only in the templates.
    pub fields: ManagedClustersUpgradeSpec,
    /// Templates of the works that the spec requires.
    pub templates: Templates,
    /// The policy, except for retry and deletion, which do not come from the spec.
    pub policy: Policy,
    /// What clusters are asked before they start, if anything.
    pub preflight: Option<ResolvedPreflight>,
    /// Renders the probes that ask for worker pools, if the upgrade waits for them.
    pub workers: Option<ProbeTemplate>,
    /// The calendars of its maintenance windows.
    pub calendars: KnownCalendars,
}

/// What clusters are asked before they start.
#[derive(Debug)]
pub struct ResolvedPreflight {
    /// Renders the probes.
    pub probe: ProbeTemplate,
    /// How the answers are judged.
    pub question: Arc<Question>,
}

/// Validates a spec and derives policy and templates from it. `operators_grace` is added to the timeout of
/// the operators.
///
/// # Errors
/// Returns every violated rule.
pub fn resolve_spec(
    upgrade: &Upgrade,
    flags: &WorkFlags,
    operators_grace: TimeDelta,
) -> Result<ResolvedSpec, Vec<SpecViolation>> {
    let mut spec = read_spec(upgrade)?;
    if upgrade.has_too_many_finalizers() {
        return Err(vec![SpecViolation {
            field: "metadata.finalizers".to_owned(),
            message: format!("may be at most {MAX_FINALIZERS}; remove those that are no longer needed"),
        }]);
    }
    let name = upgrade.metadata.name.as_deref().unwrap_or_default();
    let violations = validate::validate(name, &spec);
    if !violations.is_empty() {
        return Err(bounded(violations));
    }
    let strategy = &spec.upgrade_strategy;
    let unreadable = |field: &str| of_whole_spec(format!("upgradeStrategy.{field} cannot be read"));
    let templates = Templates::new(&spec, flags);
    let preflight = preflight(&spec, flags);
    let workers = waits_for_pools(&spec).then(|| ProbeTemplate::workers(flags.spoke_rbac));
    let (checkpoints, spec_hash) = (checkpoints(&spec), approved_hash(upgrade, &spec));
    (spec.pre_upgrade_action, spec.post_upgrade_action) = (None, None);
    let policy = Policy {
        revision: Arc::from(templates.revision()),
        steps: Step::ALL.map(|step| templates.step_hash(step).map(Arc::from)),
        retry: None,
        hold: spec.paused.then_some(Hold::Paused),
        deleting: false,
        max_concurrency: parse_limit(&strategy.max_concurrency, 1)
            .ok_or_else(|| unreadable("maxConcurrency"))?,
        max_failures: strategy
            .max_failures
            .as_ref()
            .and_then(|value| parse_limit(value, 0)),
        min_success_time: strategy.min_success_time.as_deref().and_then(parse_duration),
        cluster_timeout: parse_duration(&strategy.cluster_upgrade_timeout)
            .ok_or_else(|| unreadable("clusterUpgradeTimeout"))?,
        action_timeout: strategy.action_timeout.as_deref().and_then(parse_duration),
        worker_pools_timeout: worker_pools_timeout(&spec),
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
        requires_preflight: spec
            .preflight
            .as_ref()
            .is_some_and(|preflight| preflight.mode == PreflightMode::Require),
        awaits_answers: awaits_answers(&spec),
        checkpoints,
        approvals: KnownApprovals::Current,
        spec_hash,
    };
    let calendars = KnownCalendars::new(minimum_to_begin_with(upgrade, &policy));
    Ok(ResolvedSpec {
        generation: upgrade.metadata.generation.unwrap_or(0),
        fields: spec,
        templates,
        policy,
        preflight,
        workers,
        calendars,
    })
}

fn read_spec(upgrade: &Upgrade) -> Result<ManagedClustersUpgradeSpec, Vec<SpecViolation>> {
    let unread = |error: &str| of_whole_spec(format!("cannot be read: {error}"));
    match &upgrade.spec {
        Lenient::Good(spec) => spec.parse().map_err(|error| unread(&error)),
        Lenient::Absent => Err(of_whole_spec("must be set".to_owned())),
        Lenient::Broken(error) => Err(unread(error)),
    }
}

fn of_whole_spec(message: String) -> Vec<SpecViolation> {
    vec![SpecViolation {
        field: "spec".to_owned(),
        message,
    }]
}

impl ResolvedSpec {
    /// How much of a maintenance window must remain for a start, if the spec leaves that to the estimate.
    #[must_use]
    pub fn estimated_minimum(&self) -> Option<TimeDelta> {
        let maintenance = self.fields.maintenance.as_ref()?;
        let minimum = maintenance.minimum_remaining.as_deref();
        (minimum == Some(ESTIMATE)).then(|| self.calendars.estimated_minimum())
    }

    /// What renders a probe.
    #[must_use]
    pub fn probe(&self, kind: ProbeKind) -> Option<&ProbeTemplate> {
        match kind {
            ProbeKind::Preflight => self.preflight.as_ref().map(|preflight| &preflight.probe),
            ProbeKind::Workers => self.workers.as_ref(),
        }
    }

    /// What clusters are asked.
    #[must_use]
    pub fn questions(&self) -> Questions {
        let preflight = self.preflight.as_ref();
        let workers = self.workers.as_ref();
        Questions {
            preflight: preflight.map(|preflight| Arc::clone(&preflight.question)),
            workers: workers.map(|probe| Arc::from(probe.hash())),
        }
    }
}

/// How much of a maintenance window must remain for a start until that is estimated, if the spec leaves it to the estimate: what the
/// status tells, which only the controller writes, or else the sum of the time limits.
#[must_use]
pub fn minimum_to_begin_with(upgrade: &Upgrade, policy: &Policy) -> TimeDelta {
    let told = || {
        let maintenance = upgrade.status.good()?.maintenance.as_ref()?;
        maintenance.minimum_remaining.as_deref().and_then(parse_duration)
    };
    told().unwrap_or_else(|| sum_of_time_limits(policy))
}

/// The checkpoints of a valid spec.
fn checkpoints(spec: &ManagedClustersUpgradeSpec) -> Vec<Checkpoint> {
    let all = spec.upgrade_strategy.approvals.iter();
    all.filter_map(|checkpoint| {
        Some(Checkpoint {
            name: Arc::from(checkpoint.name.as_str()),
            at: match parse_checkpoint(&checkpoint.when)? {
                CheckpointAt::CanariesComplete => CheckpointPlace::CanariesComplete,
                CheckpointAt::Clusters(limit) => CheckpointPlace::Started(limit),
            },
        })
    })
    .collect()
}

/// Hash of what an approval covers: the whole spec, except that somebody pauses the upgrade or retries failed clusters. It is long,
/// because the author of a spec could find another one with the same short hash. Specs without checkpoints have one, too: the hash of a
/// plan that `kubectl mcu plan` prints is made of it.
fn approved_hash(upgrade: &Upgrade, spec: &ManagedClustersUpgradeSpec) -> Arc<str> {
    let mut covered = spec.clone();
    covered.paused = false;
    covered.upgrade_strategy.retry.clear();
    // Another upgrade of the same name is another plan.
    let uid = upgrade.metadata.uid.as_deref().unwrap_or_default();
    let text = serde_json::to_string(&covered).unwrap_or_default();
    Arc::from(format!("{:x}", Sha256::digest(format!("{uid} {text}"))))
}

fn worker_pools_timeout(spec: &ManagedClustersUpgradeSpec) -> Option<TimeDelta> {
    let timeout = spec.upgrade_strategy.worker_pools_timeout.as_deref();
    let timeout = parse_duration(timeout.unwrap_or(WORKER_POOLS_TIMEOUT));
    timeout.filter(|_| waits_for_pools(spec))
}

fn waits_for_pools(spec: &ManagedClustersUpgradeSpec) -> bool {
    spec.cluster_version.is_some() && spec.upgrade_strategy.worker_pools == WorkerPoolsMode::Wait
}

/// True when the form of a request follows from the answers of its cluster, although these hold nothing back.
fn awaits_answers(spec: &ManagedClustersUpgradeSpec) -> bool {
    let asked = spec.cluster_version.as_ref().zip(spec.preflight.as_ref());
    asked.is_some_and(|(target, preflight)| {
        let accepts = !target.accept_risks.is_empty() || preflight.unknown_risks == UnknownRisks::Accept;
        preflight.mode == PreflightMode::Report && target.image.is_empty() && accepts
    })
}

/// What a valid spec asks clusters before they start.
fn preflight(spec: &ManagedClustersUpgradeSpec, flags: &WorkFlags) -> Option<ResolvedPreflight> {
    let target = spec.cluster_version.as_ref()?;
    let preflight = spec.preflight.as_ref()?;
    if preflight.mode == PreflightMode::Off {
        return None;
    }
    let probe = ProbeTemplate::new(
        target,
        preflight.set_channel,
        waits_for_pools(spec),
        flags.spoke_rbac,
    );
    let update = PlannedUpdate {
        version: target.version.clone(),
        image: target.image.clone(),
        channel: target.channel.clone(),
        accepted_risks: target.accept_risks.iter().map(|risk| risk.name.clone()).collect(),
        accept_unknown_risks: preflight.unknown_risks == UnknownRisks::Accept,
        acks: target.admin_acks.iter().map(|ack| ack.key.clone()).collect(),
        ignore: preflight
            .ignore
            .iter()
            .map(|finding| finding.as_str().to_owned())
            .collect(),
        with_pools: waits_for_pools(spec),
        allow_downgrade: target.allow_downgrade,
        by_graph: None,
    };
    let question = Question {
        hash: Arc::from(probe.hash()),
        update,
        timeout: parse_duration(&preflight.timeout)?,
        counts_after: if preflight.set_channel {
            CHANNEL_SETTLES_IN
        } else {
            TimeDelta::zero()
        },
        // With setChannel the cluster itself tells it, soon after.
        asks_graph: !preflight.set_channel && target.image.is_empty() && !target.channel.is_empty(),
    };
    Some(ResolvedPreflight {
        probe,
        question: Arc::new(question),
    })
}

/// The first violations, with texts of limited length, because they quote the author's input.
fn bounded(mut violations: Vec<SpecViolation>) -> Vec<SpecViolation> {
    let left_out = violations.len().saturating_sub(MAX_VIOLATIONS);
    violations.truncate(MAX_VIOLATIONS);
    for text in violations
        .iter_mut()
        .flat_map(|violation| [&mut violation.field, &mut violation.message])
        .filter(|text| text.len() > MAX_VIOLATION_BYTES)
    {
        let end = (0..=MAX_VIOLATION_BYTES)
            .rev()
            .find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push('\u{2026}');
        text.shrink_to_fit();
    }
    if left_out > 0 {
        violations.push(SpecViolation {
            field: "spec".to_owned(),
            message: format!("{left_out} more rules are violated; kubectl mcu lint shows them all"),
        });
    }
    violations.shrink_to_fit();
    violations
}

/// The beginning of the SHA-256 hash of a text, as 16 hexadecimal digits.
#[must_use]
pub fn short_hash(text: &str) -> String {
    let bytes = Sha256::digest(text);
    let hash = bytes
        .iter()
        .take(8)
        .fold(0, |hash: u64, byte| hash << 8 | u64::from(*byte));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests;
