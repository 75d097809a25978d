//! Stories: runs whose faults are named one by one. A seed that violates a rule is reduced to the shortest story that still does,
//! which is then kept and replayed by every test run.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use crate::fault::{Faults, Occasion};
use crate::options::Options;
use crate::oracle::Rule;
use crate::run::{Outcome, run};
use crate::trace::Trace;

/// A story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Story {
    /// What it shows, for people.
    #[serde(default)]
    pub about: String,
    /// The rule that was violated when the story was found.
    pub rule: Rule,
    /// Sizes and times.
    pub options: Options,
    /// The faults that happen.
    pub faults: BTreeSet<Occasion>,
}

impl Story {
    /// Reads a story.
    ///
    /// # Errors
    /// The file cannot be read or is not a story.
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let story: Self =
            serde_json::from_str(&text).with_context(|| format!("{} is not a story", path.display()))?;
        let options = &story.options;
        if options.replicas == 0 || options.clusters == 0 || options.chaos_seconds < 10 {
            bail!(
                "{}: options needs replicas and clusters of at least 1 and chaosSeconds of at least 10",
                path.display()
            );
        }
        Ok(story)
    }

    /// What of it does not happen any more: faults, or that its rule is tried.
    #[must_use]
    pub fn lacks(&self, outcome: &Outcome) -> Vec<String> {
        let happened: BTreeSet<&Occasion> = outcome.faults.iter().collect();
        let lost = self.faults.iter().filter(|fault| !happened.contains(fault));
        let lost = lost.map(|one| format!("{} of {} #{}", one.fault.as_str(), one.name, one.count));
        let is_tried = outcome.checked.contains_key(&self.rule);
        let untried = (!is_tried).then(|| format!("rule {}", self.rule.as_str()));
        lost.chain(untried).collect()
    }

    /// Runs it.
    ///
    /// # Errors
    /// The simulated world cannot be built.
    pub fn play(&self, trace: Trace) -> Result<Outcome> {
        run(&self.options, &Faults::Only(self.faults.clone()), trace)
    }

    fn violates(&self) -> Result<bool> {
        let faults = Faults::Only(self.faults.clone());
        let outcome = run(&self.options, &faults, Trace::default())?;
        Ok(outcome
            .violations
            .iter()
            .any(|violation| violation.rule == self.rule))
    }
}

/// Reduces a run that violated a rule to a short story that still violates it: fewer faults first, then a smaller world.
/// `None` if the faults alone do not repeat the violation.
///
/// # Errors
/// The simulated world of the run cannot be built with these faults alone.
pub fn shrink(options: &Options, outcome: &Outcome, rule: Rule) -> Result<Option<Story>> {
    let mut story = Story {
        about: String::new(),
        rule,
        options: options.clone(),
        faults: outcome.faults.iter().cloned().collect(),
    };
    if !story.violates()? {
        return Ok(None);
    }
    reduce(&mut story, Story::violates);
    Ok(Some(story))
}

/// Leaves out whatever a story does not need. A smaller world that cannot be built shows nothing.
fn reduce(story: &mut Story, run: impl Fn(&Story) -> Result<bool>) {
    let violates = |smaller: &Story| run(smaller).unwrap_or(false);
    fewer_faults(story, violates);
    smaller_world(story, violates);
    fewer_faults(story, violates);
}

/// Leaves faults out, first many at once, then one by one.
fn fewer_faults(story: &mut Story, violates: impl Fn(&Story) -> bool) {
    let mut size = story.faults.len().div_ceil(2);
    while size > 0 {
        let all: Vec<Occasion> = story.faults.iter().cloned().collect();
        for part in all.chunks(size) {
            let mut shorter = story.clone();
            shorter.faults.retain(|fault| !part.contains(fault));
            if violates(&shorter) {
                *story = shorter;
            }
        }
        size = if size == 1 { 0 } else { size.div_ceil(2) };
    }
}

/// Tries smaller sizes and times, one after the other.
fn smaller_world(story: &mut Story, violates: impl Fn(&Story) -> bool) {
    const CHANGES: [fn(&mut Options); 24] = [
        |options| options.preflight = None,
        |options| options.worker_pools = false,
        |options| options.gates = false,
        |options| options.mixed_offers = false,
        |options| options.set_channel = false,
        |options| options.ignore_failing = false,
        |options| options.pools_timeout_seconds = 21_600,
        |options| options.newer_build = false,
        |options| options.small_pages = false,
        |options| options.replicas = 1,
        |options| options.rival = false,
        |options| options.restart = false,
        |options| options.operators_timeout_seconds = None,
        |options| options.action_timeout_seconds = None,
        |options| options.operators = false,
        |options| options.placement = false,
        |options| options.max_failures = None,
        |options| options.max_latency_millis = 1,
        |options| options.soak_seconds = 0,
        |options| options.claim_seconds = 0,
        |options| options.actions = false,
        |options| options.canaries = 0,
        |options| options.clusters = options.clusters.saturating_sub(1).max(options.canaries).max(1),
        |options| options.chaos_seconds = (options.chaos_seconds / 2).max(10),
    ];
    for change in CHANGES {
        loop {
            let mut smaller = story.clone();
            change(&mut smaller.options);
            if smaller.options == story.options || !violates(&smaller) {
                break;
            }
            *story = smaller;
        }
    }
}

#[cfg(test)]
mod tests;
