//! What must hold, judged only by the hub's log: never by what the controller thinks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use api::names::{ANNOTATION_ATTEMPT, Step};
use hub_sim::{Change, ChangeKind, Kind, Object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::options::Options;
use crate::world::cluster;

/// A rule that can be violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Never more than `maxConcurrency` clusters are under way.
    Concurrency,
    /// A work is created once per cluster, step and attempt.
    Once,
    /// No other cluster starts before all canaries are complete.
    CanariesFirst,
    /// The platform work is deleted only when the row that ends it is written.
    RowFirst,
    /// Everything ends when faults end.
    Ends,
    /// Nothing changes and nothing is sent when all is done.
    Quiet,
    /// A replica's loop ended by itself.
    Ended,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Concurrency,
        Self::Once,
        Self::CanariesFirst,
        Self::RowFirst,
        Self::Ends,
        Self::Quiet,
        Self::Ended,
    ];

    /// Its name in outputs and stories.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::Once => "once",
            Self::CanariesFirst => "canaries-first",
            Self::RowFirst => "row-first",
            Self::Ends => "ends",
            Self::Quiet => "quiet",
            Self::Ended => "ended",
        }
    }
}

/// A rule that was violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// What happened.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule.as_str(), self.what)
    }
}

/// Follows the log of a hub. Clones are the same oracle.
#[derive(Clone, Debug)]
pub struct Oracle(Arc<Mutex<Facts>>);

#[derive(Debug)]
struct Facts {
    max_concurrency: usize,
    canaries: BTreeSet<String>,
    /// Clusters whose platform work exists and is not reported as done.
    under_way: BTreeSet<String>,
    /// Clusters whose agents have reported the end of the update.
    done: BTreeSet<String>,
    /// Phases as reports have them.
    phases: BTreeMap<String, String>,
    created: BTreeSet<(String, String, String)>,
    /// Changes that are not renewals of Leases.
    changes: u64,
    /// How often each rule was tried.
    checked: BTreeMap<Rule, u64>,
    violations: Vec<Violation>,
}

impl Oracle {
    /// An oracle for a run.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self(Arc::new(Mutex::new(Facts {
            max_concurrency: usize::try_from(options.max_concurrency).unwrap_or(usize::MAX),
            canaries: (0..options.canaries).map(cluster).collect(),
            under_way: BTreeSet::new(),
            done: BTreeSet::new(),
            phases: BTreeMap::new(),
            created: BTreeSet::new(),
            changes: 0,
            checked: BTreeMap::new(),
            violations: Vec::new(),
        })))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Facts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a change of the hub.
    pub fn observe(&self, kind: &Kind, change: &Change) {
        self.with(|facts| facts.observe(kind, change));
    }

    /// Adds a violation that the log alone does not show.
    pub fn add(&self, rule: Rule, what: impl Into<String>) {
        let what = what.into();
        self.with(|facts| facts.violations.push(Violation { rule, what }));
    }

    /// Counts that a rule was tried.
    pub fn tried(&self, rule: Rule) {
        self.with(|facts| facts.tried(rule));
    }

    /// The number of changes so far, without renewals of Leases.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.with(|facts| facts.changes)
    }

    /// The violations so far.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.with(|facts| facts.violations.clone())
    }

    /// How often each rule was tried.
    #[must_use]
    pub fn checked(&self) -> BTreeMap<Rule, u64> {
        self.with(|facts| facts.checked.clone())
    }
}

impl Facts {
    fn tried(&mut self, rule: Rule) {
        *self.checked.entry(rule).or_default() += 1;
    }

    fn violated(&mut self, rule: Rule, what: String) {
        self.violations.push(Violation { rule, what });
    }

    fn observe(&mut self, kind: &Kind, change: &Change) {
        if kind.plural != "leases" {
            self.changes += 1;
        }
        match kind.plural.as_str() {
            "manifestworks" => self.work(change),
            "managedclustersupgradereports" => self.report(change),
            _ => {}
        }
    }

    fn work(&mut self, change: &Change) {
        let object = &change.after;
        let cluster = object.namespace().to_owned();
        let is_platform = object.name() == Step::Platform.work_name(&cluster);
        match change.kind {
            ChangeKind::Added => {
                self.tried(Rule::Once);
                let attempt = annotation(object, ANNOTATION_ATTEMPT);
                let entry = (cluster.clone(), object.name().to_owned(), attempt.clone());
                if !self.created.insert(entry) {
                    let what = format!("{} was created again for attempt {attempt:?}", object.name());
                    self.violated(Rule::Once, what);
                }
                if is_platform {
                    self.started(cluster);
                }
            }
            ChangeKind::Modified if is_platform && is_done(object) => {
                self.under_way.remove(&cluster);
                self.done.insert(cluster);
            }
            ChangeKind::Deleted if is_platform => {
                self.tried(Rule::RowFirst);
                let phase = self.phases.get(&cluster).map_or("none", String::as_str);
                if !matches!(phase, "Complete" | "Failed") {
                    let what = format!(
                        "{} was deleted while the row of {cluster} says {phase}",
                        object.name()
                    );
                    self.violated(Rule::RowFirst, what);
                }
                self.under_way.remove(&cluster);
            }
            _ => {}
        }
    }

    fn started(&mut self, cluster: String) {
        self.tried(Rule::Concurrency);
        let is_canary = self.canaries.contains(&cluster);
        if !is_canary && !self.canaries.is_empty() {
            self.tried(Rule::CanariesFirst);
            let is_open = |name: &&String| !self.done.contains(*name);
            if let Some(open) = self.canaries.iter().find(is_open).cloned() {
                self.violated(
                    Rule::CanariesFirst,
                    format!(
                        "{cluster} started before the agent of canary {open} reported the end of its update"
                    ),
                );
            }
        }
        self.under_way.insert(cluster);
        if self.under_way.len() > self.max_concurrency {
            let names: Vec<&str> = self.under_way.iter().map(String::as_str).collect();
            let what = format!("{} are under way at the same time", names.join(", "));
            self.violated(Rule::Concurrency, what);
        }
    }

    fn report(&mut self, change: &Change) {
        if change.kind == ChangeKind::Deleted {
            return;
        }
        let value = change.after.value();
        let rows = value.get("rows").and_then(Value::as_array);
        for row in rows.into_iter().flatten() {
            let text = |name: &str| {
                row.get(name)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            self.phases.insert(text("cluster"), text("phase"));
        }
    }
}

/// Whether the agent reports that the update is done: `state` of the last history entry is Completed.
fn is_done(work: &Object) -> bool {
    let value = work.value();
    let feedback = value
        .pointer("/status/resourceStatus/manifests")
        .and_then(Value::as_array);
    feedback.into_iter().flatten().any(|manifest| {
        let values = manifest
            .pointer("/statusFeedback/values")
            .and_then(Value::as_array);
        values
            .into_iter()
            .flatten()
            .any(|value| value.pointer("/fieldValue/string").and_then(Value::as_str) == Some("Completed"))
    })
}

fn annotation(object: &Object, name: &str) -> String {
    let value = object.value();
    let found = value
        .pointer("/metadata/annotations")
        .and_then(|notes| notes.get(name));
    found.and_then(Value::as_str).unwrap_or_default().to_owned()
}
