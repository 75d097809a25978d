//! Failures that a retry takes back before their rows say so.

use std::time::Duration;

use super::facts::{DEAF, Upgrade};
use super::generation::Generation;
use super::memory::Told;
use super::row::Row;

impl Upgrade {
    /// Whether a retry takes back the failure that the row of a cluster tells, when a start was sent: that of the annotation, or an
    /// entry of a spec in force. It is heard of late, and also takes back what has failed until then.
    pub(super) fn takes_back(&self, cluster: &str, row: &Row, told: &Told, sent: Duration) -> bool {
        // When a spec first had the entry.
        let came = |id: &str| {
            let mut specs = self.generations.iter();
            let first = specs.find(|spec| spec.retries.iter().any(|retry| retry.id == id));
            first.map(|spec| spec.since).filter(|since| *since <= sent)
        };
        // An attempt shows that the entry that caused it was carried out, and so were those before.
        let cause = row.retry.trim_end_matches('~');
        let open = |spec: &Generation| {
            let last = spec.retries.iter().position(|retry| retry.id == cause);
            let open = spec.retries.iter().skip(last.map_or(0, |last| last + 1));
            let concerned = open.filter(|retry| retry.concerns(cluster, &row.reason));
            concerned
                .filter_map(|retry| came(&retry.id))
                .collect::<Vec<Duration>>()
        };
        let of_specs = self.in_force(sent).flat_map(open);
        let mut retries = self.retried.into_iter().chain(of_specs);
        retries.any(|since| told.is_from_before(since + DEAF))
    }
}

#[cfg(test)]
mod tests;
