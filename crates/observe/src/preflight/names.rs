//! Names of risks and gates in the spec that clusters do not know: probably misspelled. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use ahash::AHashMap;
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
    risks: Told,
    gates: Told,
}

/// Names of risks or of gates.
#[derive(Debug, Default)]
struct Told {
    names: BTreeSet<String>,
    /// How many of them each cluster was the first to tell, whatever it has answered since then. Those of the plan do not count.
    by_cluster: AHashMap<Arc<str>, usize>,
}

impl KnownNames {
    /// Adds the names that a cluster tells. Those of the plan are always added; of others, one cluster adds only a few, in all its answers
    /// together.
    pub(super) fn add(&mut self, cluster: &Arc<str>, facts: &Facts, update: &PlannedUpdate) {
        let offer = facts.offer.as_ref().ok();
        self.has_risks |= matches!(offer, Some(Offer::Conditional { .. }));
        let risks = offer.into_iter().flat_map(risks_of).map(|risk| &risk.name);
        self.risks.add(cluster, risks, &update.accepted_risks);
        self.has_gates |= facts.all_gates.is_ok();
        let keys = facts.all_gates.iter().flatten().map(|gate| &gate.key);
        self.gates.add(cluster, keys, &update.acks);
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
            notes.extend(unknown(
                &update.accepted_risks,
                &self.risks.names,
                what,
                "acceptRisks",
            ));
        }
        if self.has_gates {
            let (what, field) = ("has the gate", "adminAcks");
            notes.extend(unknown(&update.acks, &self.gates.names, what, field));
        }
        notes
    }
}

impl Told {
    fn add<'a>(
        &mut self,
        cluster: &Arc<str>,
        told: impl Iterator<Item = &'a String>,
        planned: &BTreeSet<String>,
    ) {
        let (in_all, of_one) = MAX_NAMES;
        let before = self.by_cluster.get(cluster).copied().unwrap_or(0);
        let mut count = before;
        for name in told {
            let is_planned = planned.contains(name);
            let is_counted = name.len() <= MAX_COMPARED && self.names.len() < in_all && count < of_one;
            if (is_planned || is_counted) && !self.names.contains(name) {
                count += usize::from(!is_planned);
                self.names.insert(name.clone());
            }
        }
        if count > before {
            self.by_cluster.insert(Arc::clone(cluster), count);
        }
    }
}

fn risks_of(offer: &Offer) -> &[OfferedRisk] {
    match offer {
        Offer::Conditional { risks, .. } => risks,
        Offer::NotListed
        | Offer::Ambiguous
        | Offer::Recommended { .. }
        | Offer::Cleared { .. }
        | Offer::NotRecommended => &[],
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
