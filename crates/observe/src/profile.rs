//! What is known of a cluster that says how long its update takes.

use rollout::forecast::{PastUpdate, Profile, VersionChange};

use crate::index::Index;

/// The profile of a cluster.
#[must_use]
pub fn of(index: &Index, cluster: &str) -> Profile {
    let probe = index.probe(cluster);
    let history = probe.and_then(|probe| probe.facts.history.as_ref().ok());
    let updates = history.into_iter().flatten();
    let view = index.clusters.get(cluster);
    Profile {
        class: view.map(|view| view.class).unwrap_or_default(),
        history: updates
            .map(|update| PastUpdate {
                change: VersionChange::of(&update.from, &update.to),
                took: update.took,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests;
