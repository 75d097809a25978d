//! Jobs that run and end: active, then Complete or Failed, then gone after their TTL.
//!
//! Plays the Job controller and the pods behind it; no Pod object is made.

use std::time::Duration;

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::{Controller, Ground, scale};
use crate::fault::parse_duration;
use crate::fields::{self, Cond, Time, set_condition};
use crate::store::ObjectKey;
use crate::work::wildcard;

/// Annotation on a Job: how long its pods run, wall-clock, e.g. `3s`.
const DURATION: &str = "spoke-sim.mcu/duration";
/// Annotation on a Job: `Failed` makes it fail.
const RESULT: &str = "spoke-sim.mcu/result";

/// What Jobs of certain names do.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRule {
    /// Pattern for the Job's name; `*` stands for any run of characters.
    pub name: String,
    /// How long the pods run, wall-clock.
    pub duration: Option<Duration>,
    /// Share of the Jobs that fail, 0–100.
    pub fail_percent: f64,
}

/// The Job controller.
#[derive(Clone, Debug, Default)]
pub struct Jobs(Vec<Known>);

#[derive(Clone, Debug)]
struct Known {
    key: ObjectKey,
    /// Of the object when last looked at.
    revision: u64,
    /// The exact start; `status.startTime` has whole seconds only.
    started: Time,
    due: Option<Time>,
}

impl Controller for Jobs {
    fn advance(&mut self, ground: &mut Ground<'_>, now: Time) -> Option<Time> {
        let keys: Vec<ObjectKey> = ground.store.keys_of("batch", "jobs").cloned().collect();
        self.0.retain(|known| keys.contains(&known.key));
        for key in keys {
            let revision = ground.store.revision_of(&key).unwrap_or(0);
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
            // Faults stop and release running Jobs: with any, or without a due time, look again.
            if !idle || !ground.faults.is_empty() {
                known.due = run(known, ground, now);
                known.revision = ground.store.revision_of(&known.key).unwrap_or(0);
            }
        }
        self.0.iter().filter_map(|known| known.due).min()
    }
}

/// Brings one Job up to `now`; returns when it is next due.
fn run(known: &mut Known, ground: &mut Ground<'_>, now: Time) -> Option<Time> {
    let live = ground.store.get(&known.key)?;
    if let Some(ended) = end_time(&live) {
        let ttl = fields::integer(&live, &["spec", "ttlSecondsAfterFinished"])?;
        let due = ended + seconds(ttl, ground.pace.time_scale);
        if due > now {
            return Some(due);
        }
        ground.store.delete(&known.key, now);
        return None;
    }
    let mut job = live.clone();
    let due = progress(&mut job, &mut known.started, ground, now);
    if job == live {
        return due;
    }
    ground.store.amend(&known.key, |object| *object = job);
    // What just ended may have a TTL.
    due.or_else(|| run(known, ground, now))
}

fn end_time(job: &Value) -> Option<Time> {
    let ended = fields::list(job, &["status", "conditions"]).iter().find(|c| {
        matches!(fields::text(c, &["type"]), "Complete" | "Failed") && fields::text(c, &["status"]) == "True"
    })?;
    fields::parse_timestamp(fields::text(ended, &["lastTransitionTime"]))
}

/// Starts, runs or ends a Job that has not ended.
fn progress(job: &mut Value, started: &mut Time, ground: &Ground<'_>, now: Time) -> Option<Time> {
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
        *started = ground.asked;
        let status = fields::object_at(job, &["status"]);
        status.insert("startTime".into(), fields::timestamp(now).into());
        status.insert("active".into(), json!(completions.min(parallelism)));
        status.insert("ready".into(), json!(completions.min(parallelism)));
    }
    let plan = Plan::of(job, completions.div_ceil(parallelism), ground);
    let end = *started + plan.takes;
    let deadline = fields::integer(job, &["spec", "activeDeadlineSeconds"])
        .map(|limit| *started + seconds(limit, ground.pace.time_scale));
    let stuck = ground.faults.stuck().is_some();
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

/// What a Job's pods will do.
struct Plan {
    takes: TimeDelta,
    fails: Option<String>,
}

impl Plan {
    fn of(job: &Value, rounds: u64, ground: &Ground<'_>) -> Self {
        let annotation = |name: &str| fields::text(job, &["metadata", "annotations", name]);
        let name = fields::text(job, &["metadata", "name"]);
        let rule = ground.pace.jobs.iter().find(|rule| wildcard(&rule.name, name));
        let round = parse_duration(annotation(DURATION))
            .or_else(|| rule.and_then(|rule| rule.duration))
            .unwrap_or(ground.pace.job);
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX).max(1);
        // Drawn per Job, not per name: the Job of a retry has another chance.
        let draw = ground.dice.of(fields::text(job, &["metadata", "uid"])).unit() * 100.0;
        let unlucky = rule.is_some_and(|rule| draw < rule.fail_percent) || annotation(RESULT) == "Failed";
        let fails = ground
            .faults
            .job_fails()
            .or(unlucky.then_some("Job has reached the specified backoff limit"));
        Self {
            takes: scale(round.saturating_mul(rounds), ground.faults.slowness()),
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
    set_condition(
        job,
        Cond {
            kind: "FailureTarget",
            status: "True",
            reason,
            message,
        },
        now,
    );
    set_condition(
        job,
        Cond {
            kind: "Failed",
            status: "True",
            reason,
            message,
        },
        now,
    );
}

fn succeed(job: &mut Value, completions: u64, now: Time) {
    let status = fields::object_at(job, &["status"]);
    status.remove("active");
    status.insert("ready".into(), json!(0));
    status.insert("succeeded".into(), json!(completions));
    status.insert("completionTime".into(), fields::timestamp(now).into());
    let (reason, message) = ("CompletionsReached", "Reached expected number of succeeded pods");
    set_condition(
        job,
        Cond {
            kind: "SuccessCriteriaMet",
            status: "True",
            reason,
            message,
        },
        now,
    );
    set_condition(
        job,
        Cond {
            kind: "Complete",
            status: "True",
            reason,
            message,
        },
        now,
    );
}

#[cfg(test)]
mod tests;
