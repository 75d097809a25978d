//! When clusters may start by a spec: windows that open every few minutes, and checkpoints.

use std::time::Duration;

use api::time::parse_rfc3339;
use hub_sim::At as _;
use serde_json::Value;

use super::fields::{duration, text};
use crate::time::begin;

/// A window that opens every few minutes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    every: Duration,
    open: Duration,
}

/// Where a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Canaries,
    Clusters(usize),
}

/// When clusters may start by a spec.
#[derive(Clone, Debug, Default)]
pub(super) struct Control {
    pub windows: Vec<Window>,
    remaining: Duration,
    exclusions: Vec<(Duration, Duration)>,
    pub checkpoints: Vec<(String, Place)>,
    /// What an approval covers of the spec; empty if none is asked for.
    pub covered: String,
}

/// An approval.
#[derive(Clone, Debug)]
pub(super) struct Approval {
    pub uid: String,
    /// `namespace/name` of the upgrade.
    pub upgrade: String,
    pub checkpoint: String,
    pub plan: String,
    pub since: Duration,
    pub expires: Option<Duration>,
    pub deleted: Option<Duration>,
}

pub(super) fn list<'a>(spec: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    spec.at(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// The time since the begin of the run.
pub(super) fn since_begin(time: &str) -> Option<Duration> {
    (parse_rfc3339(time)? - begin()).to_std().ok()
}

impl Control {
    pub(super) fn of(spec: &Value) -> Self {
        let windows = list(spec, "/maintenance/windows").filter_map(|window| {
            let minutes = text(window, "/schedule").strip_prefix("*/")?.split(' ').next()?;
            Some(Window {
                every: Duration::from_mins(minutes.parse().ok()?),
                open: duration(text(window, "/duration")),
            })
        });
        let exclusions = list(spec, "/maintenance/exclusions");
        let exclusions =
            exclusions.filter_map(|one| since_begin(text(one, "/start")).zip(since_begin(text(one, "/end"))));
        let checkpoints = list(spec, "/upgradeStrategy/approvals").map(|one| {
            let clusters = one.get("when").and_then(Value::as_u64);
            let clusters = clusters.and_then(|number| usize::try_from(number).ok());
            let place = clusters.map_or(Place::Canaries, Place::Clusters);
            (text(one, "/name").to_owned(), place)
        });
        let checkpoints: Vec<_> = checkpoints.collect();
        let mut covered = spec.clone();
        if let Some(fields) = covered.as_object_mut() {
            fields.remove("paused");
        }
        if let Some(strategy) = covered.get_mut("upgradeStrategy").and_then(Value::as_object_mut) {
            strategy.remove("retry");
            // A list that is empty says the same as none.
            strategy.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
        }
        Self {
            covered: if checkpoints.is_empty() {
                String::new()
            } else {
                covered.to_string()
            },
            windows: windows.collect(),
            remaining: duration(text(spec, "/maintenance/minimumRemaining")),
            exclusions: exclusions.collect(),
            checkpoints,
        }
    }

    /// Whether a cluster may start at a time, or could within this tolerance of it.
    pub(super) fn is_open(&self, at: Duration, tolerance: Duration) -> bool {
        let is_excluded = self.exclusions.iter().any(|(start, end)| {
            let last = start.saturating_sub(self.remaining) + tolerance;
            last <= at && at + tolerance < *end
        });
        let is_in = |window: &Window| {
            let every = window.every.as_millis().max(1);
            let open = window.open.saturating_sub(self.remaining).as_millis();
            let (first, last) = (at.saturating_sub(tolerance), at + tolerance);
            let has_opened = first.as_millis() / every < last.as_millis() / every;
            // Windows that overlap or touch are one span, which only an exclusion ends.
            window.open >= window.every || has_opened || first.as_millis() % every < open
        };
        self.windows.is_empty() && self.exclusions.is_empty()
            || (!is_excluded && (self.windows.is_empty() || self.windows.iter().any(is_in)))
    }
}
