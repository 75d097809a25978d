//! Clocks of controllers that differ from the hub's.

use chrono::TimeDelta;

use super::Scenario;

impl Scenario {
    /// Sets how far the clock of the controllers is ahead of the hub's (seconds). It is trusted while both agree.
    pub fn set_clock(&mut self, ahead: i64) {
        let (now, ahead) = (self.now, TimeDelta::seconds(ahead));
        for upgrade in &mut self.upgrades {
            if ahead < upgrade.ahead {
                // A reading from before the clock was set back proves nothing.
                upgrade.read.clear();
            }
            upgrade.policy.clock_trusted = ahead == TimeDelta::zero();
            (upgrade.ahead, upgrade.clock_set) = (ahead, now);
        }
    }
}
