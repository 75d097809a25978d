//! Reads the update graph while this replica leads.

use std::collections::{BTreeMap, BTreeSet};

use super::{INTERVAL, Wanted};
use crate::clock;
use crate::state::context::{Context, State};

/// Reads the channels that upgrades need, and has the upgrades planned again when something has changed. Never ends.
pub async fn run(context: &Context) {
    let graphs = context.with(|state| state.settings.graphs.clone());
    let Some(shared) = graphs.0 else {
        return std::future::pending().await;
    };
    loop {
        let wanted = context.with(|state| wanted(state));
        if shared.refresh(wanted).await {
            context.update(|state| state.index.all_dirty = true);
        }
        context.metrics.set_graph_channels_missing(shared.missing());
        let next = shared.next().unwrap_or_else(|| clock::now() + INTERVAL);
        tokio::select! {
            biased;
            () = shared.news.notified() => {}
            () = tokio::time::sleep_until(next.into()) => {}
        }
    }
}

/// What open upgrades need to know.
fn wanted(state: &State) -> Vec<Wanted> {
    let mut wanted: BTreeMap<&str, BTreeSet<Wanted>> = BTreeMap::new();
    for entry in state
        .upgrades
        .values()
        .filter(|entry| entry.archive.is_none() && !entry.is_deleting())
        .filter(|entry| state.settings.serves(&entry.namespace))
    {
        let questions = entry.in_force().map(|spec| spec.questions());
        if let Some((channel, version)) = questions.as_ref().and_then(|questions| questions.for_graph()) {
            let namespace = entry.key.split_once('/').map_or("", |(namespace, _)| namespace);
            let of_namespace = wanted.entry(namespace).or_default();
            of_namespace.insert((channel.to_owned(), version.to_owned()));
        }
    }
    in_turn(wanted.into_values().collect())
}

/// The first of each, then the second of each, and so on: no namespace takes the places of another one.
fn in_turn(wanted: Vec<BTreeSet<Wanted>>) -> Vec<Wanted> {
    let mut lists: Vec<_> = wanted.into_iter().map(BTreeSet::into_iter).collect();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(lists.iter_mut().filter_map(Iterator::next));
        if all.len() == before {
            return all;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_with_many_channels_takes_no_place_of_another_one() {
        let of = |prefix: &str, count: usize| -> BTreeSet<Wanted> {
            let name = |number| (format!("{prefix}{number:02}"), "4.20.4".to_owned());
            (0..count).map(name).collect()
        };
        let all = in_turn(vec![of("a", 70), of("stable-", 2)]);
        let names: Vec<&str> = all.iter().take(5).map(|(channel, _)| channel.as_str()).collect();
        assert_eq!(names, ["a00", "stable-00", "a01", "stable-01", "a02"]);
        assert_eq!(all.len(), 72);
    }
}
