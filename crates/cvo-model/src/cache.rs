//! The cache of evaluated queries (`docs/design/cvo.md#query-cache`).
//!
//! It evaluates one query at a time, the stalest first, and limits how often any query and each query is evaluated. Its key is
//! the query, so that a query shared by several risks and updates is evaluated once. Failures are cached too. The caller
//! evaluates: [`Cache::ask`] says what to evaluate, and [`Cache::record`] takes the result.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use clusterversion::Era;
use clusterversion::risks::Exposure;
use clusterversion::types::Time;

use crate::era::Behavior as _;

/// The intervals of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Minimum time between any two evaluations.
    pub between_queries: TimeDelta,
    /// Minimum time between two evaluations of the same query.
    pub per_query: TimeDelta,
    /// Time after which a result, or a request without a result, is forgotten.
    pub expiration: TimeDelta,
}

impl Clocks {
    /// The intervals of an era: a second (ten minutes before 4.12), an hour and a day.
    #[must_use]
    pub fn of(era: Era) -> Self {
        Self {
            between_queries: if era.has_slow_queries() {
                TimeDelta::minutes(10)
            } else {
                TimeDelta::seconds(1)
            },
            per_query: TimeDelta::hours(1),
            expiration: TimeDelta::hours(24),
        }
    }
}

/// The answer of the cache to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheAnswer {
    /// The cached result, or a failure that says that the request is throttled.
    Exposure(Exposure),
    /// This query is to be evaluated now. It may be another one that has waited longer.
    Evaluate(String),
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    /// When it was last evaluated, and the result.
    evaluated: Option<(Time, Exposure)>,
    /// When it was last requested.
    asked: Time,
}

impl Entry {
    /// Whether it was requested after it was last evaluated.
    fn is_wanted(&self) -> bool {
        self.evaluated.as_ref().is_none_or(|(at, _)| self.asked > *at)
    }
}

/// Results by query. They are lost when the operator restarts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cache {
    entries: BTreeMap<String, Entry>,
    last_query: Option<Time>,
}

impl Cache {
    /// Requests the result of a query.
    pub fn ask(&mut self, now: Time, query: &str, clocks: &Clocks, era: Era) -> CacheAnswer {
        self.expire(now, clocks);
        let answer = self.answer(now, query, clocks, era);
        self.entries
            .entry(query.to_owned())
            .or_insert(Entry {
                evaluated: None,
                asked: now,
            })
            .asked = now;
        answer
    }

    fn answer(&self, now: Time, query: &str, clocks: &Clocks, era: Era) -> CacheAnswer {
        let cached = self.entries.get(query).and_then(|entry| entry.evaluated.clone());
        if let Some(last) = self.last_query
            && now - last < clocks.between_queries
        {
            let throttled = || throttled(now, last, clocks, era);
            return CacheAnswer::Exposure(cached.map_or_else(throttled, |(_, exposure)| exposure));
        }
        let (stalest, evaluated) = self.stalest(query, now);
        match (evaluated, cached) {
            (Some(at), Some((_, exposure))) if now - at < clocks.per_query => CacheAnswer::Exposure(exposure),
            // The stalest query is fresh enough, and this one is new.
            (Some(at), None) if now - at < clocks.per_query => CacheAnswer::Evaluate(query.to_owned()),
            _ => CacheAnswer::Evaluate(stalest.to_owned()),
        }
    }

    /// The query that was evaluated longest ago, among the given one and those requested meanwhile. Queries that were never
    /// evaluated come first, and of several the one that has waited longest.
    fn stalest<'a>(&'a self, query: &'a str, now: Time) -> (&'a str, Option<Time>) {
        self.entries
            .iter()
            .filter(|(key, entry)| entry.is_wanted() || *key == query)
            .map(|(key, entry)| {
                (
                    entry.evaluated.as_ref().map(|(at, _)| *at),
                    entry.asked,
                    key.as_str(),
                )
            })
            .chain((!self.entries.contains_key(query)).then_some((None, now, query)))
            .min()
            .map_or((query, None), |(evaluated, _, key)| (key, evaluated))
    }

    /// Stores the result of a query.
    pub fn record(&mut self, now: Time, query: &str, exposure: Exposure) {
        self.last_query = Some(now);
        let asked = self.entries.get(query).map_or(now, |entry| entry.asked);
        self.entries.insert(
            query.to_owned(),
            Entry {
                evaluated: Some((now, exposure)),
                asked,
            },
        );
    }

    /// When a request for one of these queries may give a new result: now for one that was never evaluated and is not
    /// throttled, or else when its intervals have passed.
    #[must_use]
    pub fn wake_at<'q>(
        &self,
        now: Time,
        queries: impl IntoIterator<Item = &'q str>,
        clocks: &Clocks,
    ) -> Option<Time> {
        let throttle = self.last_query.map_or(now, |last| last + clocks.between_queries);
        queries
            .into_iter()
            .map(|query| {
                let evaluated = self.entries.get(query).and_then(|entry| entry.evaluated.as_ref());
                evaluated.map_or(throttle, |(at, _)| throttle.max(*at + clocks.per_query))
            })
            .min()
    }

    fn expire(&mut self, now: Time, clocks: &Clocks) {
        self.entries.retain(|_, entry| {
            let since = entry.evaluated.as_ref().map_or(entry.asked, |(at, _)| *at);
            now - since <= clocks.expiration
        });
    }
}

fn throttled(now: Time, last: Time, clocks: &Clocks, era: Era) -> Exposure {
    Err(if era.has_old_throttling_text() {
        format!(
            "client-side throttling: only {} has elapsed since the last match call completed for this cluster condition backend; this cached cluster condition request has been queued for later execution",
            go_duration(now - last)
        )
    } else {
        format!(
            "evaluation is throttled until {}",
            (last + clocks.between_queries).format("%H:%M:%SZ")
        )
    })
}

/// A duration in Go's format: `8m30.897651224s`, `1h0m0s`, `250ms`, `0s`.
fn go_duration(span: TimeDelta) -> String {
    let nanos = span.num_nanoseconds().unwrap_or(i64::MAX).unsigned_abs();
    let fraction = |unit: u64, digits: usize, suffix: &str| {
        let (whole, rest) = (nanos / unit, nanos % unit);
        let rest = format!("{rest:0digits$}");
        let rest = rest.trim_end_matches('0');
        if rest.is_empty() {
            format!("{whole}{suffix}")
        } else {
            format!("{whole}.{rest}{suffix}")
        }
    };
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => fraction(1_000, 3, "µs"),
        1_000_000..1_000_000_000 => fraction(1_000_000, 6, "ms"),
        _ => {
            let seconds = nanos / 1_000_000_000;
            let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
            let rest = format!("{:09}", nanos % 1_000_000_000);
            let rest = rest.trim_end_matches('0');
            let point = if rest.is_empty() { "" } else { "." };
            let tail = format!("{}{point}{rest}s", seconds % 60);
            match (hours, minutes) {
                (0, 0) => tail,
                (0, minutes) => format!("{minutes}m{tail}"),
                (hours, minutes) => format!("{hours}h{minutes}m{tail}"),
            }
        }
    }
}

#[cfg(test)]
mod tests;
