//! Watches that tell nothing for a while, without an error.

use std::sync::Arc;

use chrono::TimeDelta;

use super::Scenario;
use crate::model::Step;

impl Scenario {
    /// Silences the watches of an upgrade's controller without an error, or ends the silence.
    pub fn deafen(&mut self, upgrade: usize, deaf: bool) {
        self.upgrades[upgrade].deaf = deaf.then(|| self.hub.clone());
    }

    /// Silences the watches of clusters and works for this time (seconds), unless they are silent. All upgrades have the same ones.
    pub fn deafen_for(&mut self, seconds: i64) {
        for upgrade in self.upgrades.iter_mut().filter(|upgrade| upgrade.deaf.is_none()) {
            upgrade.deaf = Some(self.hub.clone());
            upgrade.hears_at = Some(self.now + TimeDelta::seconds(seconds));
        }
    }

    /// Ends the silence that is over.
    pub(super) fn hear_watches(&mut self) {
        let now = self.now;
        for upgrade in &mut self.upgrades {
            if upgrade.hears_at.take_if(|at| *at <= now).is_some() {
                self.watch.something_happens();
                upgrade.deaf = None;
            }
        }
    }

    /// Ends all silence, because of what nobody can miss.
    pub(super) fn hear_at_once(&mut self) {
        for upgrade in &mut self.upgrades {
            (upgrade.deaf, upgrade.hears_at) = (None, None);
        }
    }

    /// Updates what the controllers know about a work from a response.
    pub(super) fn learn(&mut self, cluster: &Arc<str>, step: Step) {
        let Some(spoke) = self.hub.spokes.get(cluster) else {
            return;
        };
        let silent = self.upgrades.iter_mut();
        for hub in silent.filter_map(|upgrade| upgrade.deaf.as_mut()) {
            if let Some(known) = hub.spokes.get_mut(cluster) {
                known.works[step.index()].clone_from(&spoke.works[step.index()]);
            }
        }
    }
}
