//! What is known of a cluster that says how long its update takes.

use rollout::forecast::Profile;

use crate::index::Index;

/// The profile of a cluster.
#[must_use]
pub fn of(index: &Index, cluster: &str) -> Profile {
    let view = index.clusters.get(cluster);
    Profile {
        class: view.map(|view| view.class).unwrap_or_default(),
        history: index.past_updates(cluster),
    }
}

#[cfg(test)]
mod tests;
