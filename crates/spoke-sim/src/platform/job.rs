//! Jobs that run and end: active, then Complete or Failed, then deleted after their TTL.
//!
//! This simulates the Job controller and the pods of Jobs, without creating Pod objects.

use std::time::Duration;

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::controller::{Controller, ControllerContext};
use super::pace::scale;
use crate::fault::parse_duration;
use crate::fields::{self, Cond, Time, set_condition};
use crate::store::ObjectKey;
use crate::work::wildcard;

/// Annotation on a Job: how long its pods run, in wall-clock time, for example `3s`.
const DURATION: &str = "spoke-sim.mcu/duration";
/// Annotation on a Job: `Failed` makes it fail.
const RESULT: &str = "spoke-sim.mcu/result";

/// The Job controller.
#[derive(Clone, Debug, Default)]
pub struct Jobs(Vec<Known>);

#[derive(Clone, Debug)]
struct Known {
    key: ObjectKey,
    /// Revision of the object in the last pass.
    revision: u64,
    /// The exact start. `status.startTime` has only whole seconds.
    started: Time,
    due: Option<Time>,
}

impl Controller for Jobs {
    fn advance(&mut self, context: &mut ControllerContext<'_>, now: Time) -> Option<Time> {
        let keys: Vec<ObjectKey> = context.store.keys_of("batch", "jobs").cloned().collect();
        self.0.retain(|known| keys.contains(&known.key));
        for key in keys {
            let revision = context.store.revision_of(&key).unwrap_or(0);
            let at = self
                .0
                .iter()
                .position(|known| known.key == key)
                .unwrap_or_else(|| {
                    self.0.push(Known {
                        key,
                        revision: 0,
                        started: now,
                        due: None,
                    });
                    self.0.len() - 1
                });
            let known = &mut self.0[at];
            let idle = known.revision == revision && known.due.is_some_and(|due| due > now);
            // Faults stop and resume running Jobs, so they are checked again if there are faults or no due time.
            if !idle || !context.faults.is_empty() {
                known.due = run(known, context, now);
                known.revision = context.store.revision_of(&known.key).unwrap_or(0);
            }
        }
        self.0.iter().filter_map(|known| known.due).min()
    }
}

/// Brings one Job up to `now`. Returns when it is next due.
fn run(known: &mut Known, context: &mut ControllerContext<'_>, now: Time) -> Option<Time> {
    let live = context.store.get(&known.key)?;
    if let Some(ended) = end_time(&live) {
        let ttl = fields::integer(&live, &["spec", "ttlSecondsAfterFinished"])?;
        let due = ended + seconds(ttl, context.pace.time_scale);
        if due > now {
            return Some(due);
        }
        context.store.delete(&known.key, now);
        return None;
    }
    let mut job = live.clone();
    let due = progress(&mut job, &mut known.started, context, now);
    if job == live {
        return due;
    }
    context.store.amend(&known.key, |object| *object = job);
    // A Job that has just ended may have a TTL.
    due.or_else(|| run(known, context, now))
}

fn end_time(job: &Value) -> Option<Time> {
    let ended = fields::list(job, &["status", "conditions"]).iter().find(|c| {
        matches!(fields::text(c, &["type"]), "Complete" | "Failed") && fields::text(c, &["status"]) == "True"
    })?;
    fields::parse_timestamp(fields::text(ended, &["lastTransitionTime"]))
}

/// Starts, runs or ends a Job that has not ended.
fn progress(job: &mut Value, started: &mut Time, context: &ControllerContext<'_>, now: Time) -> Option<Time> {
    if fields::get(job, &["spec", "suspend"]).and_then(Value::as_bool) == Some(true) {
        let status = fields::object_at(job, &["status"]);
        status.remove("active");
        status.remove("startTime");
        let cond = Cond {
            kind: "Suspended",
            status: "True",
            reason: "JobSuspended",
            message: "Job suspended",
        };
        set_condition(job, cond, now);
        return None;
    }
    let count = |field| fields::integer(job, &["spec", field]).unwrap_or(1).unsigned_abs();
    let (completions, parallelism) = (count("completions"), count("parallelism").max(1));
    if fields::text(job, &["status", "startTime"]).is_empty() {
        *started = context.asked;
        let status = fields::object_at(job, &["status"]);
        status.insert("startTime".into(), fields::timestamp(now).into());
        status.insert("active".into(), json!(completions.min(parallelism)));
        status.insert("ready".into(), json!(completions.min(parallelism)));
    }
    let plan = Plan::of(job, completions.div_ceil(parallelism), context);
    let end = *started + plan.takes;
    let deadline = fields::integer(job, &["spec", "activeDeadlineSeconds"])
        .map(|limit| *started + seconds(limit, context.pace.time_scale));
    let stuck = context.faults.stuck().is_some();
    if let Some(deadline) = deadline.filter(|deadline| stuck || *deadline < end) {
        if deadline > now {
            return Some(deadline);
        }
        fail(
            job,
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
            now,
        );
    } else if stuck {
        return None;
    } else if end > now {
        return Some(end);
    } else if let Some(message) = plan.fails {
        fail(job, "BackoffLimitExceeded", &message, now);
    } else {
        succeed(job, completions, now);
    }
    None
}

/// What the pods of a Job will do.
struct Plan {
    takes: TimeDelta,
    fails: Option<String>,
}

impl Plan {
    fn of(job: &Value, rounds: u64, context: &ControllerContext<'_>) -> Self {
        let annotation = |name: &str| fields::text(job, &["metadata", "annotations", name]);
        let name = fields::text(job, &["metadata", "name"]);
        let rule = context.pace.jobs.iter().find(|rule| wildcard(&rule.name, name));
        let round = parse_duration(annotation(DURATION))
            .or_else(|| rule.and_then(|rule| rule.duration))
            .unwrap_or(context.pace.job);
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX).max(1);
        // The number depends on the Job and not on its name, so that the Job of a retry may succeed.
        let draw = context.rng.of(fields::text(job, &["metadata", "uid"])).unit() * 100.0;
        let unlucky = rule.is_some_and(|rule| draw < rule.fail_percent) || annotation(RESULT) == "Failed";
        let fails = context
            .faults
            .job_fails()
            .or(unlucky.then_some("Job has reached the specified backoff limit"));
        Self {
            takes: scale(round.saturating_mul(rounds), context.faults.slowness()),
            fails: fails.map(ToOwned::to_owned),
        }
    }
}

fn seconds(seconds: i64, time_scale: f64) -> TimeDelta {
    scale(Duration::from_secs(seconds.unsigned_abs()), time_scale)
}

fn fail(job: &mut Value, reason: &str, message: &str, now: Time) {
    let failures = fields::integer(job, &["spec", "backoffLimit"]).unwrap_or(6) + 1;
    let status = fields::object_at(job, &["status"]);
    status.remove("active");
    status.insert("ready".into(), json!(0));
    status.insert(
        "failed".into(),
        json!(if reason == "DeadlineExceeded" { 1 } else { failures }),
    );
    end(job, ["FailureTarget", "Failed"], reason, message, now);
}

fn succeed(job: &mut Value, completions: u64, now: Time) {
    let status = fields::object_at(job, &["status"]);
    status.remove("active");
    status.insert("ready".into(), json!(0));
    status.insert("succeeded".into(), json!(completions));
    status.insert("completionTime".into(), fields::timestamp(now).into());
    let (reason, message) = ("CompletionsReached", "Reached expected number of succeeded pods");
    end(job, ["SuccessCriteriaMet", "Complete"], reason, message, now);
}

/// Sets the two conditions of a Job that has ended.
fn end(job: &mut Value, kinds: [&'static str; 2], reason: &str, message: &str, now: Time) {
    for kind in kinds {
        set_condition(
            job,
            Cond {
                kind,
                status: "True",
                reason,
                message,
            },
            now,
        );
    }
}

#[cfg(test)]
mod tests;
