//! Names of risks and gates in the spec that clusters do not know: probably misspelled. Pure.

use std::collections::BTreeSet;

use api::text::visible;
use clusterversion::preflight::{Facts, Offer, OfferedRisk, PlannedUpdate};

/// Most names that are compared, of all clusters and of one.
const MAX_NAMES: (usize, usize) = (256, 16);
/// Longest name of a cluster that is compared, in bytes.
const MAX_COMPARED: usize = 128;

/// The names that clusters have told since the question was asked. They stay, so a cluster that changes its answers all the time changes
/// no note.
#[derive(Debug, Default)]
pub(super) struct KnownNames {
    /// All clusters that are asked have answered, or were waited for until the timeout. Before that, the next answer may tell a name
    /// that is not known yet. It stays true when a cluster is added later, so that the notes do not come and go.
    is_complete: bool,
    /// A cluster tells the risks of the update. One to which none applies does not.
    has_risks: bool,
    /// A cluster tells which gates it has.
    has_gates: bool,
    risks: BTreeSet<String>,
    gates: BTreeSet<String>,
}

impl KnownNames {
    /// Adds the names that a cluster tells. Those of the plan are always added; of others, one cluster adds only a few.
    pub(super) fn add(&mut self, facts: &Facts, update: &PlannedUpdate) {
        let offer = facts.offer.as_ref().ok();
        self.has_risks |= matches!(offer, Some(Offer::Conditional { .. }));
        let risks = offer.into_iter().flat_map(risks_of).map(|risk| &risk.name);
        add(&mut self.risks, risks, &update.accepted_risks);
        self.has_gates |= facts.gate_keys.is_ok();
        add(&mut self.gates, facts.gate_keys.iter().flatten(), &update.acks);
    }

    /// Notes whether all clusters that are asked have answered.
    pub(super) fn complete(&mut self, all_have_answered: impl FnOnce() -> bool) {
        self.is_complete = self.is_complete || all_have_answered();
    }

    /// A note for each name in the spec that no cluster tells: it is probably misspelled. Clusters tell their gates whether these
    /// are acknowledged or not.
    pub(super) fn notes(&self, update: &PlannedUpdate) -> Vec<String> {
        if !self.is_complete {
            return Vec::new();
        }
        let unknown = |named: &BTreeSet<String>, known: &BTreeSet<String>, what: &str, field: &str| {
            let unknown = named.difference(known);
            let note = |name: &String| {
                let like = nearest(name, known.difference(named));
                let hint = like.map_or_else(String::new, |like| format!("; do you mean {like}?"));
                format!("No cluster that has answered {what} {name} of spec.clusterVersion.{field}{hint}")
            };
            unknown.map(note).collect::<Vec<String>>()
        };
        let mut notes = Vec::new();
        if self.has_risks {
            let what = "is held back by the risk";
            notes.extend(unknown(&update.accepted_risks, &self.risks, what, "acceptRisks"));
        }
        if self.has_gates {
            notes.extend(unknown(&update.acks, &self.gates, "has the gate", "adminAcks"));
        }
        notes
    }
}

fn add<'a>(names: &mut BTreeSet<String>, told: impl Iterator<Item = &'a String>, planned: &BTreeSet<String>) {
    let (in_all, of_one) = MAX_NAMES;
    let mut more = 0;
    for name in told {
        let is_planned = planned.contains(name);
        let is_counted = name.len() <= MAX_COMPARED && names.len() < in_all && more < of_one;
        if (is_planned || is_counted) && !names.contains(name) {
            more += usize::from(!is_planned);
            names.insert(name.clone());
        }
    }
}

fn risks_of(offer: &Offer) -> &[OfferedRisk] {
    match offer {
        Offer::Conditional { risks, .. } => risks,
        Offer::NotListed | Offer::Ambiguous | Offer::Recommended { .. } => &[],
    }
}

/// The name of a cluster that is most like a name, if one is like it at all.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Option<String> {
    let most = name.len() / 4 + 1;
    let name = name.to_lowercase();
    let known = known.filter(|known| known.len() <= MAX_COMPARED);
    let distances = known.map(|known| (strsim::damerau_levenshtein(&name, &known.to_lowercase()), known));
    let near = distances.filter(|(distance, _)| *distance <= most).min();
    near.map(|(_, known)| visible(known).into_owned())
}

#[cfg(test)]
mod tests;
