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
    /// A cluster tells the risks of the update. One to which none applies does not.
    has_risks: bool,
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
        let gates = facts.gates.iter().flatten().map(|gate| &gate.key);
        add(&mut self.gates, gates, &update.acks);
    }

    /// A note for each name in the spec that is probably misspelled. A gate that is acknowledged is not told by clusters any more, so
    /// a key counts as misspelled only if it is like that of a gate which no key answers.
    pub(super) fn notes(&self, update: &PlannedUpdate) -> Vec<String> {
        let mut notes = Vec::new();
        let accepted = update.accepted_risks.iter().filter(|_| self.has_risks);
        for name in accepted.filter(|name| !self.risks.contains(*name)) {
            let like = nearest(name, self.risks.iter());
            let hint = like.map_or_else(String::new, |like| format!("; do you mean {like}?"));
            notes.push(format!(
                "No cluster that has answered is held back by the risk {name} of spec.clusterVersion.acceptRisks{hint}"
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

fn add<'a>(names: &mut BTreeSet<String>, told: impl Iterator<Item = &'a String>, planned: &BTreeSet<String>) {
    let (in_all, of_one) = MAX_NAMES;
    let mut more = 0;
    for name in told.filter(|name| name.len() <= MAX_COMPARED) {
        let is_planned = planned.contains(name);
        if (is_planned || (names.len() < in_all && more < of_one)) && !names.contains(name) {
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
