//! Reads the update graph while this replica leads.

use std::collections::BTreeSet;

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
fn wanted(state: &State) -> BTreeSet<Wanted> {
    let mut wanted = BTreeSet::new();
    for entry in state
        .upgrades
        .values()
        .filter(|entry| entry.archive.is_none() && !entry.is_deleting())
    {
        let questions = entry.in_force().map(|spec| spec.questions());
        if let Some((channel, version)) = questions.as_ref().and_then(|questions| questions.for_graph()) {
            wanted.insert((channel.to_owned(), version.to_owned()));
        }
    }
    wanted
}
