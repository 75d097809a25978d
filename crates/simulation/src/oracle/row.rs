//! A row of a report, as the rules read it.

use api::names::Step as WorkStep;
use api::time::parse_rfc3339;
use serde_json::Value;

use super::clocks::is_recorded_as_now;
use super::fields::{Version, text, version};
use crate::words;

/// The steps of [`WorkStep::ALL`], as rows name them.
const STEPS: [&str; 4] = ["PreAction", "Platform", "Operators", "PostAction"];

/// A row of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    pub phase: String,
    pub reason: String,
    pub revision: String,
    pub retry: String,
    pub from: String,
    pub to: String,
    pub is_canary: bool,
    pub has_left: bool,
    /// The older build cannot read it.
    pub is_newer: bool,
    pub steps: Vec<Step>,
}

/// Whether a phase holds a slot.
pub(super) fn holds_slot(phase: &str) -> bool {
    matches!(
        phase,
        "PreAction" | "Initialized" | "Partial" | "Workers" | "Operators"
    )
}

/// A step of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Step {
    pub name: String,
    pub started: String,
    pub finished: String,
    pub outcome: String,
}

/// The steps, with their names in rows.
pub(super) fn steps() -> impl Iterator<Item = (WorkStep, &'static str)> {
    WorkStep::ALL.into_iter().zip(STEPS)
}

impl Row {
    pub(super) fn of(value: &Value) -> Self {
        let steps = value.get("steps").and_then(Value::as_array);
        let flag = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or_default();
        let texts = ["/phase", "/reason"].map(|pointer| text(value, pointer));
        let names = steps.into_iter().flatten().map(|step| text(step, "/name"));
        Self {
            phase: words::old(text(value, "/phase")).to_owned(),
            reason: words::old(text(value, "/reason")).to_owned(),
            revision: text(value, "/revision").to_owned(),
            retry: text(value, "/retry").to_owned(),
            from: text(value, "/fromVersion").to_owned(),
            to: text(value, "/toVersion").to_owned(),
            is_canary: flag("canary"),
            has_left: flag("leftSelection"),
            is_newer: texts.into_iter().chain(names).any(words::is_newer),
            steps: steps
                .into_iter()
                .flatten()
                .map(|step| Step {
                    name: words::old(text(step, "/name")).to_owned(),
                    started: text(step, "/startedAt").to_owned(),
                    finished: text(step, "/finishedAt").to_owned(),
                    outcome: text(step, "/outcome").to_owned(),
                })
                .collect(),
        }
    }

    pub(super) fn attempt(&self) -> (String, String) {
        (self.revision.clone(), self.retry.clone())
    }

    pub(super) fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// Whether the row of a cluster names this start of the step of a work, or none.
    pub(super) fn may_have_start(&self, work: &str, cluster: &str, started: &str) -> bool {
        let named = steps().find(|(step, _)| step.work_name(cluster) == work);
        let named = named.and_then(|(_, name)| self.step(name));
        named.is_none_or(|step| step.started == started)
    }

    /// Whether the row says that the update has not ended. A cluster stays Partial after that end, until the work of its next step
    /// is there.
    pub(super) fn is_updating(&self) -> bool {
        let step = self.step("Platform");
        let has_ended = step.is_some_and(|step| step.outcome == "Succeeded");
        matches!(self.phase.as_str(), "Initialized" | "Partial") && !has_ended
    }

    /// Whether the row says that the update succeeded.
    pub(super) fn tells_update(&self) -> bool {
        self.step("Platform")
            .is_some_and(|step| step.outcome == "Succeeded")
    }

    /// The versions before and after the update, if the row says that it succeeded.
    pub(super) fn update(&self) -> Option<(Version, Version)> {
        let step = self.step("Platform").filter(|step| step.outcome == "Succeeded");
        step.and_then(|_| Some((version(&self.from)?, version(&self.to)?)))
    }

    /// Why this row cannot follow another one, if it cannot. `begun`: the steps whose works were created. `was_blocked`: the
    /// controller has sent a row between them that said Blocked, and the hub has refused it, or a status that said so, or a
    /// creation that blocked the cluster. `ended`: the start of an update of an earlier spec that has ended instead of the one that
    /// the row before tells of.
    pub(super) fn contradicts(
        &self,
        before: &Row,
        begun: &[&str],
        was_blocked: bool,
        ended: Option<&str>,
    ) -> Option<String> {
        if self.attempt() != before.attempt() {
            return None;
        }
        let has_checked = before.step("PostAction").is_some();
        match before.phase.as_str() {
            "Complete" if self.phase != "Complete" => return Some(format!("Complete became {}", self.phase)),
            "Failed" if !matches!(self.phase.as_str(), "Failed" | "Skipped" | "Aborted") && !has_checked => {
                return Some(format!("Failed became {}", self.phase));
            }
            _ => {}
        }
        // What may have been requested after the pre-action was not, and the window has closed.
        let gives_back =
            before.phase == "PreAction" && self.phase == "Pending" && self.reason == "WaitingForWindow";
        for step in &before.steps {
            let was_unasked = step.name == "Platform" && ended.is_some_and(|started| started != step.started);
            // A cluster that is blocked before the end of a step begins that step anew.
            if (was_blocked || gives_back || was_unasked) && step.outcome.is_empty() {
                continue;
            }
            let Some(now) = self.step(&step.name) else {
                // Somebody else's work was in its place, so it had never begun.
                if self.phase == "Blocked" && step.outcome.is_empty() {
                    continue;
                }
                return Some(format!("step {} is gone", step.name));
            };
            // Somebody else's work was in its place at the first time.
            let is_begun = !step.outcome.is_empty() || begun.contains(&step.name.as_str());
            // Whoever told of it before had a clock that was ahead.
            let starts = parse_rfc3339(&step.started).zip(parse_rfc3339(&now.started));
            let is_corrected =
                starts.is_some_and(|(named, started)| is_recorded_as_now(named, started, started));
            if now.started != step.started && is_begun && !is_corrected {
                return Some(format!(
                    "step {} began at {} and now at {}",
                    step.name, step.started, now.started
                ));
            }
            let may_recover = matches!(step.name.as_str(), "PreAction" | "PostAction");
            if step.outcome == "Succeeded" && now.outcome != step.outcome && !may_recover {
                return Some(format!(
                    "step {} had succeeded and now says {:?}",
                    step.name, now.outcome
                ));
            }
        }
        None
    }

    /// Whether its phase holds a slot.
    pub(super) fn is_under_way(&self) -> bool {
        holds_slot(&self.phase)
    }
}
