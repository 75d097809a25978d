//! Gathers Events about clusters that go well. Each change of a large fleet as an Event of its own would double the
//! controller's requests, so those of one upgrade that come close together become one Event with their number.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::notice::{Notice, Regarding};
use super::reason::EventReason;

/// Events that come within this time of each other are gathered.
const LULL: Duration = Duration::from_secs(2);
/// Longest time for which an Event is held back.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Up to this number of clusters, each has an Event of its own.
pub(super) const MAX_SINGLE: usize = 5;

/// Events that are held back, by upgrade and reason.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    groups: BTreeMap<(String, EventReason), Group>,
}

#[derive(Debug)]
struct Group {
    regarding: Regarding,
    /// The first clusters with their notes.
    first: Vec<(String, String)>,
    clusters: usize,
    begun: Instant,
    last: Instant,
}

impl Group {
    fn due_at(&self) -> Instant {
        (self.last + LULL).min(self.begun + MAX_WAIT)
    }

    /// An Event for each cluster, or one for all if they are many.
    fn into_notices(self, reason: EventReason) -> Vec<Notice> {
        let Self {
            regarding,
            first,
            clusters,
            ..
        } = self;
        if clusters <= MAX_SINGLE {
            let notice = |(cluster, note)| Notice {
                regarding: regarding.clone(),
                cluster: Some(cluster),
                reason,
                note,
            };
            return first.into_iter().map(notice).collect();
        }
        let names: Vec<String> = first.into_iter().map(|(cluster, _)| cluster).collect();
        let what = match reason {
            EventReason::ClusterStarted => "have started",
            _ => "are complete",
        };
        vec![Notice {
            regarding,
            cluster: None,
            reason,
            note: format!("{clusters} clusters {what}, such as {}", names.join(", ")),
        }]
    }
}

impl Gathered {
    /// Holds an Event about a cluster back.
    pub(super) fn add(&mut self, notice: Notice, now: Instant) {
        let Notice {
            regarding,
            cluster,
            reason,
            note,
        } = notice;
        let group = self
            .groups
            .entry((regarding.uid.clone(), reason))
            .or_insert_with(|| Group {
                regarding,
                first: Vec::new(),
                clusters: 0,
                begun: now,
                last: now,
            });
        group.clusters += 1;
        group.last = now;
        if group.first.len() < MAX_SINGLE {
            group.first.push((cluster.unwrap_or_default(), note));
        }
    }

    /// When the next Event is due.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.groups.values().map(Group::due_at).min()
    }

    /// The Events that are due.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Notice> {
        self.take(|_, group| group.due_at() <= now)
    }

    /// All Events.
    pub(super) fn take_all(&mut self) -> Vec<Notice> {
        self.take(|_, _| true)
    }

    /// The Events of an upgrade, so that they are sent before one about the upgrade itself.
    pub(super) fn take_of(&mut self, uid: &str) -> Vec<Notice> {
        self.take(|known, _| known == uid)
    }

    fn take(&mut self, is_wanted: impl Fn(&str, &Group) -> bool) -> Vec<Notice> {
        let wanted = self
            .groups
            .extract_if(.., |(uid, _), group| is_wanted(uid, group));
        wanted
            .flat_map(|((_, reason), group)| group.into_notices(reason))
            .collect()
    }
}

#[cfg(test)]
mod tests;
