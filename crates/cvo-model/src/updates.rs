//! The lists of updates in the operator's memory.
//!
//! This module decides when to fetch the graph, what happens to the lists when that fails, and how the risks are evaluated
//! (`docs/design/cvo.md#conditional-updates`). The caller fetches and queries, and passes the results in.

use std::collections::{BTreeMap, BTreeSet};

use chrono::TimeDelta;
use clusterversion::Era;
use clusterversion::risks::{Exposure, unknown_text};
use clusterversion::types::{
    APPLIES, ClusterOperatorCondition, ConditionStatus, ConditionalUpdate, MatchingRule, Release, Risk, Time,
};
use clusterversion::version::{parse, sort_releases};

use crate::cache::{Cache, CacheAnswer, Clocks};
use crate::diagnostic::Diagnostic;
use crate::era::Behavior as _;
use crate::promql;
use crate::recommended::{is_reason, recommend};
use crate::retrieval::{self, GraphQuery, GraphReply, RetrievalFailure};
use crate::risk;
use crate::sources::{self, SourcedRisk};

/// Age at which lists that could not be renewed are cleared.
pub const MAX_AGE: TimeDelta = TimeDelta::hours(24);
/// Timeout of a fetch.
pub const FETCH_TIMEOUT: TimeDelta = TimeDelta::minutes(60);
/// Timeout of a query.
pub const QUERY_TIMEOUT: TimeDelta = TimeDelta::minutes(5);

/// The schema allows this many conditional updates and this many risks.
pub const MAX_UPDATES: usize = 500;

/// What the caller must provide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NeededInput {
    /// GET this URL.
    Graph(String),
    /// Send this query to Prometheus.
    Query(String),
}

/// What the lists depend on, besides the graph.
#[derive(Clone, Debug)]
pub struct UpdatesContext<'a> {
    /// The query for the graph.
    pub question: GraphQuery,
    /// Release line.
    pub era: Era,
    /// Intervals of the cache.
    pub clocks: Clocks,
    /// Time between two fetches.
    pub interval: TimeDelta,
    /// Names of the accepted risks; `None` without the feature gate.
    pub accepted: Option<BTreeSet<String>>,
    /// Risks that the cluster itself finds; empty without the feature gate.
    pub sourced: &'a [SourcedRisk],
    /// Whether the cluster's id is put into queries.
    pub inject_cluster_id: bool,
}

/// The result of the last fetch.
#[derive(Clone, Debug, Default, PartialEq)]
struct LastFetch {
    question: GraphQuery,
    last_attempt: Option<Time>,
    last_change: Option<Time>,
    current: Release,
    upstream: Vec<Release>,
    upstream_conditional: Vec<ConditionalUpdate>,
    failure: Option<RetrievalFailure>,
    since: Option<Time>,
}

/// The published lists, and what they are computed from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Updates {
    known: Option<LastFetch>,
    fetching: Option<(Time, GraphQuery, bool)>,
    querying: Option<(Time, String)>,
    cache: Cache,
    /// The accepted risks and those of the cluster with which the lists were evaluated.
    evaluated_with: Option<(Option<BTreeSet<String>>, Vec<SourcedRisk>)>,
    /// Recommended updates, newest first.
    available: Vec<Release>,
    /// Conditional updates, newest first.
    conditional: Vec<ConditionalUpdate>,
    /// Condition `Applies` by risk.
    applies: BTreeMap<String, ClusterOperatorCondition>,
    /// Whether an evaluation waits for a query.
    unfinished: bool,
}

impl Updates {
    /// Takes over the conditions of a status when the operator starts, so that transition times are kept.
    pub fn resume(&mut self, conditional: &[ConditionalUpdate]) {
        if self.known.is_none() && self.conditional.is_empty() {
            self.conditional = conditional.to_vec();
        }
    }

    /// The recommended and the conditional updates, newest first. `None` until they are evaluated for the first time.
    #[must_use]
    pub fn lists(&self) -> Option<(&[Release], &[ConditionalUpdate])> {
        self.evaluated_with.as_ref()?;
        Some((&self.available, &self.conditional))
    }

    /// The running release with its metadata in the graph.
    #[must_use]
    pub fn current(&self) -> Option<&Release> {
        self.known.as_ref().map(|known| &known.current)
    }

    /// Whether the lists belong to a query and are evaluated. Otherwise they are not published.
    #[must_use]
    pub fn answers(&self, question: &GraphQuery) -> bool {
        let finished = !self.unfinished;
        self.known.as_ref().filter(|_| finished).is_some_and(|known| {
            known.question.channel == question.channel && known.question.service == question.service
        })
    }

    /// Condition `RetrievedUpdates`; `None` before the first attempt.
    #[must_use]
    pub fn condition(&self) -> Option<ClusterOperatorCondition> {
        let known = self.known.as_ref()?;
        Some(retrieval::condition(known.since?, known.failure.as_ref()))
    }

    /// When the updates were last retrieved, or when the service, channel or architecture last changed. This is the value of
    /// `cluster_version_operator_update_retrieval_timestamp_seconds`.
    #[must_use]
    pub fn last_change(&self) -> Option<Time> {
        self.known.as_ref().and_then(|known| known.last_change)
    }

    /// Processes a response to the last query. A response to an earlier query is dropped.
    pub fn take_graph(
        &mut self,
        now: Time,
        reply: &GraphReply,
        context: &UpdatesContext<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let answered = |question: &GraphQuery| question.url().is_ok_and(|url| url == reply.url);
        let Some((_, question, keep)) = self.fetching.take_if(|(_, asked, _)| answered(asked)) else {
            return;
        };
        if question != context.question {
            // The query has changed since, so this response does not answer it.
            return;
        }
        let outcome = retrieval::read(&question, &reply.answer);
        self.settle(now, question, outcome, keep, context, diagnostics);
    }

    /// Processes the result of a Prometheus query.
    pub fn take_query(&mut self, now: Time, query: &str, exposure: Exposure) {
        if self.querying.as_ref().is_some_and(|(_, asked)| asked == query) {
            self.querying = None;
        }
        self.cache.record(now, query, exposure);
    }

    /// Requests the graph when it is due, evaluates the risks, and returns what the caller must provide.
    pub fn advance(
        &mut self,
        now: Time,
        context: &UpdatesContext<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<NeededInput> {
        let mut wanted = Vec::new();
        if let Some(keep) = self.is_fetch_due(now, context) {
            match context.question.url() {
                Ok(url) => {
                    self.fetching = Some((now, context.question.clone(), keep));
                    wanted.push(NeededInput::Graph(url));
                }
                Err(failure) => {
                    self.fetching = None;
                    let question = context.question.clone();
                    self.settle(now, question, Err(failure), keep, context, diagnostics);
                }
            }
        }
        if self.is_evaluation_due(now, context) {
            wanted.extend(self.evaluate(now, context, diagnostics));
        }
        wanted
    }

    /// Whether a fetch is due, and if so, whether the lists may be kept if it fails.
    fn is_fetch_due(&self, now: Time, context: &UpdatesContext<'_>) -> Option<bool> {
        if let Some((since, question, _)) = &self.fetching
            && *question == context.question
            && now < *since + FETCH_TIMEOUT
        {
            return None;
        }
        let Some(known) = &self.known else {
            return Some(false);
        };
        if known.question != context.question {
            return Some(false);
        }
        if known.last_change.is_none_or(|at| now - at >= MAX_AGE) && self.is_past_interval(now, context) {
            return Some(false);
        }
        self.is_past_interval(now, context)
            .then_some(context.era.keeps_lists())
    }

    fn is_past_interval(&self, now: Time, context: &UpdatesContext<'_>) -> bool {
        let last = self.known.as_ref().and_then(|known| known.last_attempt);
        last.is_none_or(|at| now - at >= context.interval)
    }

    fn settle(
        &mut self,
        now: Time,
        question: GraphQuery,
        outcome: Result<retrieval::Retrieved, RetrievalFailure>,
        keep: bool,
        context: &UpdatesContext<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        let before = self.known.take().unwrap_or_default();
        let changed = before.question != question;
        let success = outcome.is_ok();
        let mut known = LastFetch {
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
            ..LastFetch::default()
        };
        match outcome {
            Ok(mut retrieved) => {
                diagnostics.append(&mut retrieved.diagnostics);
                if !context.era.checks_risk_names() {
                    keep_reasonable(&mut retrieved.conditional, diagnostics);
                }
                if context.inject_cluster_id {
                    inject(&mut retrieved.conditional, &context.question.cluster_id);
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

    fn is_evaluation_due(&self, now: Time, context: &UpdatesContext<'_>) -> bool {
        if self.known.is_none() {
            return false;
        }
        let stale = self.evaluated_with.as_ref().is_none_or(|(accepted, sourced)| {
            *accepted != context.accepted || sourced.as_slice() != context.sourced
        });
        self.unfinished
            || stale
            || self.is_in_doubt() && self.query_wake(now, context).is_some_and(|at| at <= now)
    }

    /// Whether it is unknown for some update whether it is recommended.
    fn is_in_doubt(&self) -> bool {
        self.conditional.iter().any(is_unknown)
    }

    /// When another evaluation may resolve an unknown recommendation.
    fn query_wake(&self, now: Time, context: &UpdatesContext<'_>) -> Option<Time> {
        let undecided = self.conditional.iter().filter(|update| is_unknown(update));
        let unknown = undecided.flat_map(|update| &update.risks).filter(|risk| {
            self.applies
                .get(&risk.name)
                .is_none_or(|applies| applies.status == ConditionStatus::Unknown)
        });
        self.cache
            .wake_at(now, unknown.flat_map(risk::queries), &context.clocks)
    }

    /// Evaluates all risks and publishes the lists, or returns a query that must be answered first.
    fn evaluate(
        &mut self,
        now: Time,
        context: &UpdatesContext<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<NeededInput> {
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
            &context.question.version,
            &mut available,
            &mut conditional,
            context.sourced,
            &mut told,
        );
        // With the risks of the cluster itself, an update of the graph may have too many.
        retrieval::keep_publishable(&mut conditional, &mut told);
        // A pass that has to wait for a query changes nothing else.
        let mut cache = self.cache.clone();
        let mut exposures: BTreeMap<String, Exposure> = BTreeMap::new();
        for risk in in_order(&conditional) {
            let mut query_first = None;
            let exposure = risk::matches(&risk.matching_rules, |query| {
                match cache.ask(now, query, &context.clocks, context.era) {
                    CacheAnswer::Exposure(exposure) => exposure,
                    CacheAnswer::Evaluate(query) => {
                        query_first.get_or_insert(query);
                        Err(String::new())
                    }
                }
            });
            if let Some(query) = query_first {
                self.querying = Some((now, query.clone()));
                self.unfinished = true;
                return Some(NeededInput::Query(query));
            }
            exposures.insert(risk::identity(risk), exposure);
        }
        self.cache = cache;
        diagnostics.append(&mut told);
        self.publish(now, available, conditional, &exposures, context);
        None
    }

    fn publish(
        &mut self,
        now: Time,
        mut available: Vec<Release>,
        mut conditional: Vec<ConditionalUpdate>,
        exposures: &BTreeMap<String, Exposure>,
        context: &UpdatesContext<'_>,
    ) {
        let nobody = BTreeSet::new();
        let accepted = context.accepted.as_ref().unwrap_or(&nobody);
        let exposure_of = |risk: &Risk| exposures.get(&risk::identity(risk)).cloned().unwrap_or(Ok(false));
        self.applies = self.applies(now, &conditional, exposures, context);
        for update in &mut conditional {
            let before = self
                .conditional
                .iter()
                .find(|old| old.release.image == update.release.image);
            if let Some(before) = before {
                update.conditions = before.conditions.clone();
            }
            let recommendation = recommend(&update.risks, exposure_of, accepted, context.era);
            promote(&mut available, update, recommendation.status);
            update.conditions.set(recommendation.condition(now));
            if context.accepted.is_some() {
                let names: BTreeSet<&String> = update.risks.iter().map(|risk| &risk.name).collect();
                update.risk_names = names.into_iter().cloned().collect();
                for risk in &mut update.risks {
                    risk.conditions.0 = self.applies.get(&risk.name).cloned().into_iter().collect();
                }
            }
        }
        sort_releases(&mut available);
        sort_conditional(&mut conditional);
        conditional.truncate(MAX_UPDATES);
        self.available = available;
        self.conditional = conditional;
        self.evaluated_with = Some((context.accepted.clone(), context.sourced.to_vec()));
        self.unfinished = false;
    }

    /// Condition `Applies` of each risk. A condition given by the source of the risk, or an earlier one, keeps its transition time.
    fn applies(
        &self,
        now: Time,
        conditional: &[ConditionalUpdate],
        exposures: &BTreeMap<String, Exposure>,
        context: &UpdatesContext<'_>,
    ) -> BTreeMap<String, ClusterOperatorCondition> {
        let mut all = BTreeMap::new();
        for risk in conditional.iter().flat_map(|update| &update.risks) {
            let (status, reason, message) = match exposures.get(&risk::identity(risk)) {
                Some(Ok(true)) => (ConditionStatus::True, "Match", String::new()),
                Some(Err(error)) => (
                    ConditionStatus::Unknown,
                    "EvaluationFailed",
                    unknown_text(risk, error, context.era),
                ),
                Some(Ok(false)) | None => (ConditionStatus::False, "NotMatch", String::new()),
            };
            let mut condition = ClusterOperatorCondition::new(now, APPLIES, status, reason, message);
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

    /// When to advance again if nothing changes earlier.
    #[must_use]
    pub fn wake_at(&self, now: Time, context: &UpdatesContext<'_>) -> Option<Time> {
        let fetch = match (&self.fetching, &self.known) {
            (Some((since, ..)), _) => Some(*since + FETCH_TIMEOUT),
            (None, Some(known)) => known.last_attempt.map(|at| at + context.interval),
            (None, None) => Some(now),
        };
        let query = match &self.querying {
            Some((since, _)) => Some(*since + QUERY_TIMEOUT),
            None if self.evaluated_with.is_some() && self.is_in_doubt() => self.query_wake(now, context),
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

/// Sorts conditional updates as the status lists them: newest first. Those without a valid version come last.
pub fn sort_conditional(updates: &mut [ConditionalUpdate]) {
    updates.sort_by_key(|update| std::cmp::Reverse(parse(&update.release.version)));
}

/// Adds a recommended update to the available ones, and removes one that is not recommended.
pub fn promote(available: &mut Vec<Release>, update: &ConditionalUpdate, status: ConditionStatus) {
    let image = &update.release.image;
    let is_there = available.iter().any(|release| release.image == *image);
    match status {
        ConditionStatus::True if is_there => {}
        ConditionStatus::True => available.push(update.release.clone()),
        _ => available.retain(|release| release.image != *image),
    }
}

/// The risks to evaluate, one for each set of rules: those of newer updates first, then by name.
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

/// Removes targets with a risk whose name is not a valid reason. In release lines that use the name as the reason, the schema
/// would refuse the whole status.
fn keep_reasonable(conditional: &mut Vec<ConditionalUpdate>, diagnostics: &mut Vec<Diagnostic>) {
    conditional.retain(|update| {
        let odd = update.risks.iter().find(|risk| !is_reason(&risk.name));
        diagnostics.extend(odd.map(|risk| Diagnostic::TargetRefused {
            version: update.release.version.clone(),
            why: format!(
                "has the risk {:?}, whose name is not a valid reason of a condition",
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
