//! Clusters that are asked whether they would take the update, and answer later.

use std::sync::Arc;

use chrono::TimeDelta;

use super::Scenario;
use crate::model::{Plan, Preflight, Reason};

/// From then on it counts as unknown what a cluster says that does not answer.
const PREFLIGHT_TIMEOUT: TimeDelta = TimeDelta::seconds(30);

impl Scenario {
    /// Sets what a cluster says to the update. If it is still to answer, or must be asked again, it will say what it said
    /// last.
    pub fn preflight(&mut self, name: &str, preflight: Preflight) {
        self.spoke(name, |spoke, _| {
            if !preflight.is_pending() && preflight != Preflight::Stale {
                spoke.says = preflight.clone();
            }
            spoke.stale_image = preflight == Preflight::Stale;
            spoke.preflight = preflight;
            spoke.answers_at = None;
        });
    }

    /// Lets the image grow old by which a cluster must be asked for the update.
    pub fn stale_image(&mut self, name: &str) {
        self.spoke(name, |spoke, _| {
            spoke.stale_image = true;
            if spoke.preflight == Preflight::Ready {
                spoke.preflight = Preflight::Stale;
            }
        });
    }

    /// Has a cluster answer after this time (seconds).
    pub fn answers_after(&mut self, name: &str, seconds: i64) {
        self.spoke(name, |spoke, now| {
            spoke.answers_at = Some(now + TimeDelta::seconds(seconds));
        });
    }

    /// Asks the clusters that a plan wants to be asked again.
    pub(super) fn ask(&mut self, plan: &Plan) {
        for name in &plan.ask_again {
            let Some(spoke) = self.hub.spokes.get_mut(name) else {
                continue;
            };
            if spoke.answers_at.is_none() {
                let wait = if spoke.offline {
                    PREFLIGHT_TIMEOUT
                } else {
                    TimeDelta::seconds(1 + self.rng.below(4).cast_signed())
                };
                spoke.answers_at = Some(self.now + wait);
            }
        }
    }

    /// Takes the answers that are due. Returns true when there were any.
    pub(super) fn hear(&mut self) -> bool {
        let now = self.now;
        let mut has_heard = false;
        for spoke in self.hub.spokes.values_mut() {
            if spoke.answers_at.take_if(|at| *at <= now).is_none() {
                continue;
            }
            has_heard = true;
            self.watch.something_happens();
            if spoke.offline {
                spoke.preflight = Preflight::Unknown {
                    reason: Reason::PreflightUnknown,
                    message: Arc::from("The cluster does not answer"),
                };
            } else {
                spoke.preflight = spoke.says.clone();
                spoke.stale_image = false;
            }
        }
        has_heard
    }
}
