//! The lists of updates in the operator's memory: fetched, kept or cleared, and evaluated.
//!
//! Owns when the update service is asked, what becomes of the lists when it fails, and the evaluation of all risks with
//! promotion and order (`docs/design/cvo.md#conditional-updates`). Refuses to fetch and to query: it asks, and takes
//! answers.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;

use crate::cache::{Ask, Cache, Clocks};
use crate::diagnostic::Diagnostic;
use crate::era::Era;
use crate::promql::{self, Verdict};
use crate::recommended::{is_reason, recommend, unknown_text};
use crate::retrieval::{self, Failure, GraphReply, Question};
use crate::risk;
use crate::sources::{self, Sourced};
use crate::types::{
    APPLIES, Condition, ConditionStatus, ConditionalUpdate, MatchingRule, Release, Risk, Time,
};
use crate::version::{parse, sort_conditional, sort_releases};

/// Age at which lists that could not be renewed are given up.
pub const MAX_AGE: TimeDelta = TimeDelta::hours(24);
/// Time limit of a fetch.
pub const FETCH_TIMEOUT: TimeDelta = TimeDelta::minutes(60);
/// Time limit of a query.
pub const QUERY_TIMEOUT: TimeDelta = TimeDelta::minutes(5);

/// Most updates with risks, and most risks, that the schema takes.
pub const MOST_UPDATES: usize = 500;

/// What is asked of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// GET this URL.
    Graph(String),
    /// Ask Prometheus this.
    Query(String),
}

/// What the lists depend on besides the graph.
#[derive(Clone, Debug)]
pub struct Circumstances<'a> {
    /// What would be asked.
    pub question: Question,
    /// Release line.
    pub era: Era,
    /// Clocks of the cache.
    pub clocks: Clocks,
    /// Between two fetches.
    pub interval: TimeDelta,
    /// Names of the risks that are accepted; `None` while the gate is closed.
    pub accepted: Option<BTreeSet<String>>,
    /// Risks that the cluster itself sees; empty while the gate is closed.
    pub sourced: &'a [Sourced],
    /// Whether the cluster's id is put into queries.
    pub inject_cluster_id: bool,
}

/// What the last fetch left.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    question: Question,
    last_attempt: Option<Time>,
    last_change: Option<Time>,
    current: Release,
    upstream: Vec<Release>,
    upstream_conditional: Vec<ConditionalUpdate>,
    failure: Option<Failure>,
    since: Option<Time>,
}

/// The lists that are published, and what they come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Updates {
    known: Option<Known>,
    fetching: Option<(Time, Question, bool)>,
    querying: Option<(Time, String)>,
    cache: Cache,
    /// What the evaluated lists were evaluated with.
    evaluated_with: Option<(Option<BTreeSet<String>>, Vec<Sourced>)>,
    /// Recommended updates, newest first.
    available: Vec<Release>,
    /// Updates with risks, newest first.
    conditional: Vec<ConditionalUpdate>,
    /// Condition `Applies` by risk.
    applies: BTreeMap<String, Condition>,
    /// An evaluation waits for a query.
    unfinished: bool,
}

impl Updates {
    /// Takes over from a status what an operator that starts knows of the one before: the conditions, so that their
    /// transition times last.
    pub fn resume(&mut self, conditional: &[ConditionalUpdate]) {
        if self.known.is_none() && self.conditional.is_empty() {
            self.conditional = conditional.to_vec();
        }
    }

    /// The recommended updates and those with risks, newest first; `None` until they are evaluated for the first time.
    #[must_use]
    pub fn lists(&self) -> Option<(&[Release], &[ConditionalUpdate])> {
        self.evaluated_with.as_ref()?;
        Some((&self.available, &self.conditional))
    }

    /// The running release as the graph knows it.
    #[must_use]
    pub fn current(&self) -> Option<&Release> {
        self.known.as_ref().map(|known| &known.current)
    }

    /// Whether the lists are those of a question, and evaluated: else they are not published.
    #[must_use]
    pub fn answers(&self, question: &Question) -> bool {
        let finished = !self.unfinished;
        self.known.as_ref().filter(|_| finished).is_some_and(|known| {
            known.question.channel == question.channel && known.question.service == question.service
        })
    }

    /// Condition `RetrievedUpdates`; `None` before the first attempt.
    #[must_use]
    pub fn condition(&self) -> Option<Condition> {
        let known = self.known.as_ref()?;
        Some(retrieval::condition(known.since?, known.failure.as_ref()))
    }

    /// When the updates were last retrieved, or the service, channel or architecture changed: what
    /// `cluster_version_operator_update_retrieval_timestamp_seconds` says.
    #[must_use]
    pub fn last_change(&self) -> Option<Time> {
        self.known.as_ref().and_then(|known| known.last_change)
    }

    /// Takes the answer of the update service to what was asked last; one to an earlier question is dropped, and the answer
    /// to the last one is still waited for.
    pub fn take_graph(
        &mut self,
        now: Time,
        reply: &GraphReply,
        around: &Circumstances<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let answered = |question: &Question| question.url().is_ok_and(|url| url == reply.url);
        let Some((_, question, keep)) = self.fetching.take_if(|(_, asked, _)| answered(asked)) else {
            return;
        };
        if question != around.question {
            // The question has changed meanwhile: this is no answer to it.
            return;
        }
        let outcome = retrieval::read(&question, &reply.answer);
        self.settle(now, question, outcome, keep, around, diagnostics);
    }

    /// Takes the answer of Prometheus to a query.
    pub fn take_query(&mut self, now: Time, query: &str, verdict: Verdict) {
        if self.querying.as_ref().is_some_and(|(_, asked)| asked == query) {
            self.querying = None;
        }
        self.cache.record(now, query, verdict);
    }

    /// Goes on: asks for the graph when it is due, evaluates the risks, and says what is wanted of the caller.
    pub fn advance(
        &mut self,
        now: Time,
        around: &Circumstances<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        if let Some(keep) = self.is_fetch_due(now, around) {
            match around.question.url() {
                Ok(url) => {
                    self.fetching = Some((now, around.question.clone(), keep));
                    wanted.push(Wanted::Graph(url));
                }
                Err(failure) => {
                    self.fetching = None;
                    let question = around.question.clone();
                    self.settle(now, question, Err(failure), keep, around, diagnostics);
                }
            }
        }
        if self.is_evaluation_due(now, around) {
            wanted.extend(self.evaluate(now, around, diagnostics));
        }
        wanted
    }

    /// Whether a fetch is due, and if so whether the lists may be kept should it fail.
    fn is_fetch_due(&self, now: Time, around: &Circumstances<'_>) -> Option<bool> {
        if let Some((since, question, _)) = &self.fetching
            && *question == around.question
            && now < *since + FETCH_TIMEOUT
        {
            return None;
        }
        let Some(known) = &self.known else {
            return Some(false);
        };
        if known.question != around.question {
            return Some(false);
        }
        if known.last_change.is_none_or(|at| now - at >= MAX_AGE) && self.is_past_interval(now, around) {
            return Some(false);
        }
        self.is_past_interval(now, around)
            .then_some(around.era.keeps_lists())
    }

    fn is_past_interval(&self, now: Time, around: &Circumstances<'_>) -> bool {
        let last = self.known.as_ref().and_then(|known| known.last_attempt);
        last.is_none_or(|at| now - at >= around.interval)
    }

    fn settle(
        &mut self,
        now: Time,
        question: Question,
        outcome: Result<retrieval::Retrieved, Failure>,
        keep: bool,
        around: &Circumstances<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let before = self.known.take().unwrap_or_default();
        let changed = before.question != question;
        let success = outcome.is_ok();
        let mut known = Known {
            question,
            last_attempt: Some(now),
            last_change: if success || changed {
                Some(now)
            } else {
                before.last_change
            },
            since: if before.since.is_some() && before.failure.is_none() == success {
                before.since
            } else {
                Some(now)
            },
            ..Known::default()
        };
        match outcome {
            Ok(mut retrieved) => {
                diagnostics.append(&mut retrieved.diagnostics);
                if !around.era.checks_risk_names() {
                    keep_reasonable(&mut retrieved.conditional, diagnostics);
                }
                if around.inject_cluster_id {
                    inject(&mut retrieved.conditional, &around.question.cluster_id);
                }
                known.current = retrieved.current;
                known.upstream = retrieved.updates;
                known.upstream_conditional = retrieved.conditional;
            }
            Err(failure) => {
                if keep && failure.is_of_service() {
                    known.current = before.current;
                    known.upstream = before.upstream;
                    known.upstream_conditional = before.upstream_conditional;
                }
                known.failure = Some(failure);
            }
        }
        self.known = Some(known);
        self.unfinished = true;
    }

    fn is_evaluation_due(&self, now: Time, around: &Circumstances<'_>) -> bool {
        if self.known.is_none() {
            return false;
        }
        let stale = self.evaluated_with.as_ref().is_none_or(|(accepted, sourced)| {
            *accepted != around.accepted || sourced.as_slice() != around.sourced
        });
        self.unfinished
            || stale
            || self.is_in_doubt() && self.query_wake(now, around).is_some_and(|at| at <= now)
    }

    /// Whether an update is neither recommended nor not.
    fn is_in_doubt(&self) -> bool {
        self.conditional.iter().any(is_unknown)
    }

    /// When asking the cache again may end a doubt.
    fn query_wake(&self, now: Time, around: &Circumstances<'_>) -> Option<Time> {
        let doubtful = self.conditional.iter().filter(|update| is_unknown(update));
        let unknown = doubtful.flat_map(|update| &update.risks).filter(|risk| {
            self.applies
                .get(&risk.name)
                .is_none_or(|applies| applies.status == ConditionStatus::Unknown)
        });
        self.cache
            .wake_at(now, unknown.flat_map(risk::queries), &around.clocks)
    }

    /// Evaluates all risks and publishes the lists, unless a query has to be asked first.
    fn evaluate(
        &mut self,
        now: Time,
        around: &Circumstances<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Wanted> {
        if let Some((since, query)) = &self.querying {
            if now < *since + QUERY_TIMEOUT {
                return None;
            }
            let query = query.clone();
            let late = format!(
                "executing PromQL query: no answer within {} minutes",
                QUERY_TIMEOUT.num_minutes()
            );
            self.take_query(now, &query, Err(late));
        }
        let known = self.known.as_ref()?;
        let mut available = known.upstream.clone();
        let mut conditional = known.upstream_conditional.clone();
        let mut told = Vec::new();
        sources::merge(
            &around.question.version,
            &mut available,
            &mut conditional,
            around.sourced,
            &mut told,
        );
        // What the cluster sees itself may be too much for a target of the graph.
        retrieval::keep_publishable(&mut conditional, &mut told);
        // A pass that has to wait for a query leaves no trace but the query.
        let mut cache = self.cache.clone();
        let mut verdicts: BTreeMap<String, Verdict> = BTreeMap::new();
        for risk in in_order(&conditional) {
            let mut query_first = None;
            let verdict = risk::matches(&risk.matching_rules, |query| {
                match cache.ask(now, query, &around.clocks, around.era) {
                    Ask::Verdict(verdict) => verdict,
                    Ask::Evaluate(query) => {
                        query_first.get_or_insert(query);
                        Err(String::new())
                    }
                }
            });
            if let Some(query) = query_first {
                self.querying = Some((now, query.clone()));
                self.unfinished = true;
                return Some(Wanted::Query(query));
            }
            verdicts.insert(risk::identity(risk), verdict);
        }
        self.cache = cache;
        diagnostics.append(&mut told);
        self.publish(now, available, conditional, &verdicts, around);
        None
    }

    fn publish(
        &mut self,
        now: Time,
        mut available: Vec<Release>,
        mut conditional: Vec<ConditionalUpdate>,
        verdicts: &BTreeMap<String, Verdict>,
        around: &Circumstances<'_>,
    ) {
        let nobody = BTreeSet::new();
        let accepted = around.accepted.as_ref().unwrap_or(&nobody);
        let verdict_of = |risk: &Risk| verdicts.get(&risk::identity(risk)).cloned().unwrap_or(Ok(false));
        self.applies = self.applies(now, &conditional, verdicts, around);
        for update in &mut conditional {
            let before = self
                .conditional
                .iter()
                .find(|old| old.release.image == update.release.image);
            if let Some(before) = before {
                update.conditions = before.conditions.clone();
            }
            let recommendation = recommend(&update.risks, verdict_of, accepted, around.era);
            promote(&mut available, update, recommendation.status);
            update.conditions.set(recommendation.condition(now));
            if around.accepted.is_some() {
                let names: BTreeSet<&String> = update.risks.iter().map(|risk| &risk.name).collect();
                update.risk_names = names.into_iter().cloned().collect();
                for risk in &mut update.risks {
                    risk.conditions.0 = self.applies.get(&risk.name).cloned().into_iter().collect();
                }
            }
        }
        sort_releases(&mut available);
        sort_conditional(&mut conditional);
        conditional.truncate(MOST_UPDATES);
        self.available = available;
        self.conditional = conditional;
        self.evaluated_with = Some((around.accepted.clone(), around.sourced.to_vec()));
        self.unfinished = false;
    }

    /// Condition `Applies` of each risk; one that a source gave, or that was there, keeps its transition time.
    fn applies(
        &self,
        now: Time,
        conditional: &[ConditionalUpdate],
        verdicts: &BTreeMap<String, Verdict>,
        around: &Circumstances<'_>,
    ) -> BTreeMap<String, Condition> {
        let mut all = BTreeMap::new();
        for risk in conditional.iter().flat_map(|update| &update.risks) {
            let (status, reason, message) = match verdicts.get(&risk::identity(risk)) {
                Some(Ok(true)) => (ConditionStatus::True, "Match", String::new()),
                Some(Err(error)) => (
                    ConditionStatus::Unknown,
                    "EvaluationFailed",
                    unknown_text(risk, error, around.era),
                ),
                Some(Ok(false)) | None => (ConditionStatus::False, "NotMatch", String::new()),
            };
            let mut condition = Condition::new(now, APPLIES, status, reason, message);
            let given = risk
                .conditions
                .get(APPLIES)
                .filter(|given| given.status == status);
            if let Some(given) = given {
                condition = given.clone();
            } else if let Some(before) = self.applies.get(&risk.name).filter(|old| old.status == status) {
                condition.last_transition_time = before.last_transition_time;
            }
            all.entry(risk.name.clone()).or_insert(condition);
        }
        all
    }

    /// When something is due, besides when something changes.
    #[must_use]
    pub fn wake_at(&self, now: Time, around: &Circumstances<'_>) -> Option<Time> {
        let fetch = match (&self.fetching, &self.known) {
            (Some((since, ..)), _) => Some(*since + FETCH_TIMEOUT),
            (None, Some(known)) => known.last_attempt.map(|at| at + around.interval),
            (None, None) => Some(now),
        };
        let query = match &self.querying {
            Some((since, _)) => Some(*since + QUERY_TIMEOUT),
            None if self.evaluated_with.is_some() && self.is_in_doubt() => self.query_wake(now, around),
            None => None,
        };
        [fetch, query].into_iter().flatten().min()
    }
}

fn is_unknown(update: &ConditionalUpdate) -> bool {
    update
        .recommended()
        .is_none_or(|condition| !condition.is_true() && !condition.is_false())
}

/// Puts a recommended update among the available ones, and takes any other out.
pub fn promote(available: &mut Vec<Release>, update: &ConditionalUpdate, status: ConditionStatus) {
    let image = &update.release.image;
    let is_there = available.iter().any(|release| release.image == *image);
    match status {
        ConditionStatus::True if is_there => {}
        ConditionStatus::True => available.push(update.release.clone()),
        _ => available.retain(|release| release.image != *image),
    }
}

/// Each set of rules once, in the order in which they are evaluated: those of newer updates first, then by name.
fn in_order(conditional: &[ConditionalUpdate]) -> Vec<&Risk> {
    let mut newest: BTreeMap<String, (Option<update_graph::Version>, &Risk)> = BTreeMap::new();
    for update in conditional {
        let version = parse(&update.release.version);
        for risk in &update.risks {
            let entry = newest
                .entry(risk::identity(risk))
                .or_insert_with(|| (version.clone(), risk));
            if version > entry.0 {
                *entry = (version.clone(), risk);
            }
        }
    }
    let mut risks: Vec<_> = newest.into_values().collect();
    risks.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name)));
    risks.into_iter().map(|(_, risk)| risk).collect()
}

/// Takes out targets whose risks' names cannot stand as a reason, where the raw name is the reason: the schema would refuse
/// the whole status.
fn keep_reasonable(conditional: &mut Vec<ConditionalUpdate>, diagnostics: &mut Vec<Diagnostic>) {
    conditional.retain(|update| {
        let odd = update.risks.iter().find(|risk| !is_reason(&risk.name));
        diagnostics.extend(odd.map(|risk| Diagnostic::TargetRefused {
            version: update.release.version.clone(),
            why: format!(
                "has the risk {:?}, whose name is no reason of a condition",
                risk.name
            ),
        }));
        odd.is_none()
    });
}

fn inject(conditional: &mut [ConditionalUpdate], cluster_id: &str) {
    let risks = conditional.iter_mut().flat_map(|update| &mut update.risks);
    for rule in risks.flat_map(|risk| &mut risk.matching_rules) {
        if let Some(query) = &rule.promql {
            *rule = MatchingRule::promql(promql::inject_cluster_id(&query.promql, cluster_id));
        }
    }
}

#[cfg(test)]
mod tests;
