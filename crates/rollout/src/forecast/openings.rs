//! When clusters may start by their maintenance windows, looked up many times in order.

use std::cell::RefCell;
use std::collections::VecDeque;

use chrono::{DateTime, Utc};

use crate::maintenance::{Calendar, Span};

/// Most spans that are kept of a calendar.
const MAX_KNOWN: usize = 1000;

/// The spans of each calendar, as far as somebody has asked for them.
pub(super) struct KnownOpenings<'a> {
    from: DateTime<Utc>,
    calendars: &'a [Calendar],
    known: RefCell<Vec<KnownSpans>>,
}

#[derive(Clone, Default)]
struct KnownSpans {
    spans: Vec<Span>,
    /// There are no more.
    all: bool,
}

impl<'a> KnownOpenings<'a> {
    /// The openings from an instant on.
    pub(super) fn new(from: DateTime<Utc>, calendars: &'a [Calendar]) -> Self {
        Self {
            from,
            calendars,
            known: RefCell::new(vec![KnownSpans::default(); calendars.len()]),
        }
    }

    /// The first instant from `at` on at which clusters with this calendar may start; `None`: never.
    pub(super) fn next(&self, calendar: Option<usize>, at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let Some(position) = calendar else {
            return Some(at);
        };
        let calendar = self.calendars.get(position)?;
        let mut known = self.known.borrow_mut();
        let known = &mut known[position];
        loop {
            let is_over = |span: &Span| span.end.is_some_and(|end| end <= at);
            let index = known.spans.partition_point(is_over);
            if let Some(span) = known.spans.get(index) {
                return Some(span.start.max(at));
            }
            if known.all {
                return None;
            }
            if known.spans.len() >= MAX_KNOWN {
                return calendar.spans(at).next().map(|span| span.start.max(at));
            }
            // After a gap as long as the horizon nothing opens.
            let last = known.spans.last();
            let next = match last.map(|span| span.end) {
                None => calendar.spans(self.from).next(),
                Some(Some(end)) => calendar.spans(end).next(),
                Some(None) => None,
            };
            known.all = next.is_none();
            known.spans.extend(next);
        }
    }
}

/// Clusters that wait, by calendar, each in its order.
pub(super) struct WaitingByCalendar(Vec<WaitingQueue>);

/// Clusters with one calendar: its position, and of each cluster its turn and its index.
type WaitingQueue = (Option<usize>, VecDeque<(usize, usize)>);

impl WaitingByCalendar {
    /// `clusters`: index and calendar, in the order in which they start if all windows are open.
    pub(super) fn new(clusters: impl Iterator<Item = (usize, Option<usize>)>) -> Self {
        let mut queues: Vec<WaitingQueue> = Vec::new();
        for (turn, (index, calendar)) in clusters.enumerate() {
            match queues.iter_mut().find(|(known, _)| *known == calendar) {
                Some((_, queue)) => queue.push_back((turn, index)),
                None => queues.push((calendar, VecDeque::from([(turn, index)]))),
            }
        }
        Self(queues)
    }

    /// True when all have started.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, queue)| queue.is_empty())
    }

    /// The cluster that starts next on a slot that is free from then on, and when. A cluster whose windows never open again does not
    /// start.
    pub(super) fn next(
        &mut self,
        openings: &KnownOpenings<'_>,
        free: DateTime<Utc>,
    ) -> Option<(usize, DateTime<Utc>)> {
        let heads = self
            .0
            .iter()
            .enumerate()
            .filter_map(|(position, (calendar, queue))| {
                let (turn, _) = queue.front()?;
                Some((openings.next(*calendar, free)?, *turn, position))
            });
        let (start, _, position) = heads.min()?;
        let (_, index) = self.0[position].1.pop_front()?;
        Some((index, start))
    }
}
