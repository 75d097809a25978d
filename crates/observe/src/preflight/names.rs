//! Names of risks and gates in the spec that clusters do not know: probably misspelled. Pure.

use std::collections::BTreeSet;

use api::text::visible;
use clusterversion::preflight::{Facts, Offer, OfferedRisk, PlannedUpdate};

/// Most names of clusters that are compared.
const MAX_NAMES: usize = 64;
/// Longest name of a cluster that is compared, in bytes.
const MAX_COMPARED: usize = 128;

/// The names that clusters have told since the question was asked. They stay, so a cluster that changes its answers all the time changes
/// no note.
#[derive(Debug, Default)]
pub(super) struct KnownNames {
    has_offer: bool,
    risks: BTreeSet<String>,
    gates: BTreeSet<String>,
}

impl KnownNames {
    /// Adds the names that a cluster tells.
    pub(super) fn add(&mut self, facts: &Facts) {
        let offer = facts.offer.as_ref().ok();
        self.has_offer |= offer.is_some();
        let risks = offer.into_iter().flat_map(risks_of);
        risks.for_each(|risk| add(&mut self.risks, &risk.name));
        let gates = facts.gates.iter().flatten();
        gates.for_each(|gate| add(&mut self.gates, &gate.key));
    }

    /// A note for each name in the spec that is probably misspelled. A gate that is acknowledged is not told by clusters any more, so
    /// a key counts as misspelled only if it is like that of a gate which no key answers.
    pub(super) fn notes(&self, update: &PlannedUpdate) -> Vec<String> {
        let mut notes = Vec::new();
        let accepted = update.accepted_risks.iter().filter(|_| self.has_offer);
        for name in accepted.filter(|name| !self.risks.contains(*name)) {
            let like = nearest(name, self.risks.iter());
            let hint = like.map_or_else(String::new, |like| format!("; do you mean {like}?"));
            notes.push(format!(
                "No cluster that has answered knows the risk {name} of spec.clusterVersion.acceptRisks{hint}"
            ));
        }
        for key in &update.acks {
            let open = self.gates.iter().filter(|gate| !update.acks.contains(*gate));
            if let Some(like) = nearest(key, open) {
                notes.push(format!(
                    "A gate of the clusters is like {key} of spec.clusterVersion.adminAcks, but it has another key; do you mean {like}?"
                ));
            }
        }
        notes
    }
}

fn add(names: &mut BTreeSet<String>, name: &str) {
    if names.len() < MAX_NAMES && name.len() <= MAX_COMPARED && !names.contains(name) {
        names.insert(name.to_owned());
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
