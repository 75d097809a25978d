//! What a spec asks clusters before their update, and what its author accepts.

use std::collections::BTreeSet;
use std::time::Duration;

use hub_sim::At as _;
use serde_json::Value;

use super::fields::{duration, text, version};
use super::said::Said;

/// `workerPoolsTimeout`, if a spec does not say it.
const POOLS_TIMEOUT: Duration = Duration::from_hours(6);

/// What a spec asks clusters before their update, and what its author accepts.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// Only clusters that would take the update may start.
    pub is_required: bool,
    pub target: String,
    pub channel: String,
    pub sets_channel: bool,
    pub risks: BTreeSet<String>,
    pub acks: BTreeSet<String>,
    pub ignored: BTreeSet<String>,
    /// How long worker pools may take after an update; `None` if nobody waits for them.
    pub pools: Option<Duration>,
}

/// The texts in a list, or those of a field of its entries.
pub(super) fn names(spec: &Value, pointer: &str, field: &str) -> BTreeSet<String> {
    let list = spec.at(pointer).and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(|one| {
        let text = if field.is_empty() { one } else { one.get(field)? };
        text.as_str()
    });
    texts.map(ToOwned::to_owned).collect()
}

impl Asked {
    pub(super) fn of(spec: &Value) -> Self {
        let flag = |pointer: &str| spec.at(pointer).and_then(Value::as_bool).unwrap_or_default();
        let timeout = duration(text(spec, "/upgradeStrategy/workerPoolsTimeout"));
        let timeout = if timeout.is_zero() { POOLS_TIMEOUT } else { timeout };
        Self {
            is_required: text(spec, "/preflight/mode") == "Require",
            target: text(spec, "/clusterVersion/version").to_owned(),
            channel: text(spec, "/clusterVersion/channel").to_owned(),
            sets_channel: flag("/preflight/setChannel"),
            risks: names(spec, "/clusterVersion/acceptRisks", "name"),
            acks: names(spec, "/clusterVersion/adminAcks", "key"),
            ignored: names(spec, "/preflight/ignore", ""),
            pools: (text(spec, "/upgradeStrategy/workerPools") == "Wait").then_some(timeout),
        }
    }

    /// Whether a cluster that says this would take the update.
    pub(super) fn is_ready(&self, said: &Said) -> bool {
        if said.target != self.target || said.value("desiredVersion").is_empty() {
            return false;
        }
        let runs = said.value("desiredVersion");
        if runs == self.target && said.value("progressing") != "True" {
            return true;
        }
        let is = |name: &str, wanted: &str, ignored: &str| {
            said.value(name) == wanted || self.ignored.contains(ignored)
        };
        let (from, to) = (version(runs), version(&self.target));
        let is_healthy = is("progressing", "False", "Progressing")
            && is("failing", "False", "Failing")
            && is("retrievedUpdates", "True", "CannotRetrieveUpdates");
        let is_other_minor =
            from.map(|(major, minor, _)| (major, minor)) != to.map(|(major, minor, _)| (major, minor));
        from <= to
            && is_healthy
            && said.value("channel") == self.channel
            && self.takes(said)
            && (!is_other_minor || self.passes_gates(said))
            && (self.pools.is_none() || said.has_sound_pools())
    }

    /// Whether the target is offered, and its risks are accepted.
    fn takes(&self, said: &Said) -> bool {
        let risks = said.risks();
        let is_accepted = |name: &str| self.risks.contains(name);
        if said.recommends() {
            return true;
        }
        let mut open = risks.iter().filter(|(state, name)| {
            // A cluster that recommends the update for no reason that it tells contradicts itself.
            (*state != "F" || risks.iter().all(|(state, _)| *state == "F")) && !is_accepted(name)
        });
        !risks.is_empty() && open.next().is_none()
    }

    fn passes_gates(&self, said: &Said) -> bool {
        let reason = said.value("upgradeableReason");
        let is_barred = match said.value("upgradeable") {
            "" | "True" => false,
            "False" => reason != "AdminAckRequired",
            _ => true,
        };
        let open = said.open_gates();
        !is_barred && open.is_some_and(|open| open.is_subset(&self.acks))
    }
}
