//! Which specs of an upgrade may be in force, and what the storage of the hub takes back.

use std::time::Duration;

use super::facts::{DEAF, UNHEARD, Upgrade};
use super::generation::Generation;

impl Upgrade {
    /// The specs that may be in force at a time: the one that the status tells, and those that came since. What came long ago is
    /// in force even if no status tells so. Those that the storage of the hub has lost are, as long as a replica may not have heard
    /// of that.
    pub fn in_force(&self, at: Duration) -> impl Iterator<Item = &Generation> {
        let lost = self.lost_specs.iter();
        let unheard = lost.filter(move |(since, _)| at < *since + DEAF);
        self.stored_in_force(at).chain(unheard.map(|(_, spec)| spec))
    }

    fn stored_in_force(&self, at: Duration) -> impl Iterator<Item = &Generation> {
        let told = self.acknowledged.iter().filter(|(since, _)| *since <= at);
        let heard = self.generations.iter().filter(|one| one.since + UNHEARD <= at);
        let told = told.map(|(_, number)| *number).chain(heard.map(|one| one.number));
        let told = told.max().unwrap_or_default();
        let least = self
            .generations
            .iter()
            .map(|one| one.number)
            .filter(|number| *number <= told)
            .max();
        self.generations
            .iter()
            .filter(move |one| one.number >= least.unwrap_or_default())
    }

    /// The specs that may be in force at a time for clusters that have started: while the last one is invalid, also those before it.
    pub(super) fn valid_in_force(&self, at: Duration) -> impl Iterator<Item = &Generation> {
        let is_invalid = self.in_force(at).any(|spec| spec.is_invalid);
        let earlier = self.generations.iter().filter(move |_| is_invalid);
        self.in_force(at).chain(earlier)
    }

    /// The specs by which a cluster may have been skipped or aborted until whoever plans heard that it had left the selection, at a
    /// time.
    pub(super) fn valid_until_left(&self, left: Duration) -> impl Iterator<Item = &Generation> {
        let specs = self.valid_in_force(left);
        specs.filter(move |spec| spec.since < left + DEAF)
    }

    /// The storage of the hub goes back, and loses specs that were in force.
    pub(super) fn note_lost_specs(&mut self, known: &Self, now: Duration) {
        let newest = self.generations.iter().map(|spec| spec.number).max();
        let is_invalid = known.stored_in_force(now).any(|spec| spec.is_invalid);
        let earlier = known.generations.iter().filter(|_| is_invalid);
        let lost = known.stored_in_force(now).chain(earlier);
        let lost = lost.filter(|spec| Some(spec.number) > newest);
        self.lost_specs.extend(lost.map(|spec| (now, spec.clone())));
    }

    /// The storage of the hub goes back. If that takes an edit of what is asked for back, whoever has not heard of that may still
    /// write one row of each cluster for that edit.
    pub(super) fn note_undone(&mut self, known: &Upgrade, now: Duration) {
        let asks = self.generations.last().map(|spec| &spec.asks);
        let edit = known.generations.last().map(|spec| &spec.asks);
        if edit.is_some() && edit != asks {
            for record in self.records.values_mut() {
                record.undone = Some(now);
            }
        }
    }

    /// The storage of the hub goes back, and clusters hold slots again that held none any more: agents had reported the ends of their
    /// updates, for example. Of an upgrade that was gone nobody has started another one.
    pub(super) fn note_freed(&mut self, known: &Self, now: Duration) {
        if known.is_gone {
            return;
        }
        let holds_slot = |name: &String| {
            let is_under_way = known.flights.contains_key(name) || known.suspended.contains_key(name);
            is_under_way || known.kept_by_row(name, now).is_some()
        };
        let holders = self.holders().into_iter();
        let freed = holders.filter(|name| !holds_slot(name));
        let freed: Vec<_> = freed.map(|name| (name.clone(), now)).collect();
        self.freed.extend(freed);
    }

    /// Whether a cluster holds a slot only because the storage of the hub went back, and whoever sent a start may not have heard of that.
    pub(super) fn is_freed(&self, cluster: &str, sent: Duration) -> bool {
        let began = self.flights.get(cluster).or_else(|| self.suspended.get(cluster));
        let freed = self.freed.get(cluster).zip(began);
        freed.is_some_and(|(at, began)| began < at && sent < *at + DEAF)
    }
}
