//! Which plans somebody is asked to approve, by Events. Pure.

use std::collections::BTreeMap;

use api::mcu::CheckpointStatus;
use chrono::{DateTime, TimeDelta, Utc};

use crate::events::EventReason;

/// Somebody is asked again for the same checkpoint after this time. The plan of a selection that flaps is another one each time.
const AGAIN_AFTER: TimeDelta = TimeDelta::minutes(1);

/// What Events have asked for, by checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    checkpoints: BTreeMap<String, AskedFor>,
    due_at: Option<DateTime<Utc>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct AskedFor {
    /// The hash of the plan; `None` if the checkpoint has not waited since.
    plan: Option<String>,
    /// The plan that somebody was asked for last, also if it was approved since.
    last: Option<String>,
    /// `None` if another leader has asked.
    at: Option<DateTime<Utc>>,
}

impl Asked {
    /// The Events about checkpoints that wait for an approval of another plan than the one that somebody was asked for.
    pub fn requests(
        &mut self,
        previous: &[CheckpointStatus],
        next: &[CheckpointStatus],
        now: DateTime<Utc>,
    ) -> Vec<(EventReason, String)> {
        self.due_at = None;
        self.checkpoints
            .retain(|name, _| next.iter().any(|checkpoint| checkpoint.name == *name));
        let mut events = Vec::new();
        for checkpoint in next {
            let waited = || {
                let mut previous = previous.iter();
                let before = previous.find(|before| before.name == checkpoint.name && before.is_waiting());
                let plan = before.map(|before| before.plan_hash.clone());
                AskedFor {
                    last: plan.clone(),
                    plan,
                    at: None,
                }
            };
            let known = self.checkpoints.entry(checkpoint.name.clone());
            let known = known.or_insert_with(waited);
            match known.next(checkpoint, now) {
                NextEvent::Nothing => {}
                NextEvent::At(due) => self.due_at = self.due_at.into_iter().chain([due]).min(),
                NextEvent::Ask(text) => events.push((EventReason::ApprovalRequested, text)),
            }
        }
        events
    }

    /// When the next Event is due that was held back.
    #[must_use]
    pub const fn due_at(&self) -> Option<DateTime<Utc>> {
        self.due_at
    }
}

enum NextEvent {
    Nothing,
    At(DateTime<Utc>),
    Ask(String),
}

impl AskedFor {
    fn next(&mut self, checkpoint: &CheckpointStatus, now: DateTime<Utc>) -> NextEvent {
        let CheckpointStatus { name, plan_hash, .. } = checkpoint;
        if !checkpoint.is_waiting() {
            self.plan = None;
            return NextEvent::Nothing;
        }
        if self.plan.as_ref() == Some(plan_hash) {
            return NextEvent::Nothing;
        }
        // The clock may have been set back.
        self.at = self.at.map(|at| at.min(now));
        if let Some(due) = self.at.map(|at| at + AGAIN_AFTER).filter(|due| now < *due) {
            return NextEvent::At(due);
        }
        self.at = Some(now);
        let before = self.plan.replace(plan_hash.clone());
        // The same text would not be sent twice in ten minutes.
        let is_again = before.is_none() && self.last.as_ref() == Some(plan_hash);
        let again = if is_again {
            format!(" again since {}", now.format("%H:%M:%SZ"))
        } else {
            String::new()
        };
        self.last = Some(plan_hash.clone());
        let instead = before.map_or_else(String::new, |before| format!(" and no longer of {before}"));
        NextEvent::Ask(format!(
            "Checkpoint {name} waits{again} for an approval of plan {plan_hash}{instead}"
        ))
    }
}

#[cfg(test)]
mod tests;
