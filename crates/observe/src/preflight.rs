//! The preflight of an upgrade: which clusters are asked, and what their answers mean (`docs/design/preflight.md`).
//!
//! This is decided here and written elsewhere. All answers come from clusters, so a cluster that changes them all the time costs
//! only its own start.

mod again;
mod asked;
mod clock;
mod judged;
mod names;
mod newer;
mod question;
mod workers;
mod write_limit;

use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use api::names::LABEL_AGENT_VERSION;
use api::preflight::PreflightSummary;
use api::text::visible;
use chrono::{DateTime, TimeDelta, Utc};
use clusterversion::preflight::{PreflightReason, Verdict};
use rollout::{Cluster, Eligibility, Fleet, Plan, Policy, Preflight, Reason};

use self::asked::{is_barred, is_in_pre_action, is_kept, is_to_be_asked, is_waited_for, waits};
use self::judged::{Judged, known, unknown};
use self::names::KnownNames;
use self::newer::Newer;
use self::write_limit::WriteLimit;
pub use clusterversion::preflight::UpdatesTo;

pub use self::names::nearest;
pub use self::question::{ProbeKind, Question, Questions};
use crate::index::{Index, ProbeView, WorkRequest};

/// Probes that are created at once, while others of the same upgrade are being written.
const MAX_RUNNING: usize = 16;
/// The wait after a write that failed: the first one and the longest.
const BACKOFF: (TimeDelta, TimeDelta) = (TimeDelta::seconds(2), TimeDelta::minutes(5));

/// A write that the preflight needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeWrite {
    /// Ask a cluster.
    Create(Arc<str>, ProbeKind),
    /// Delete the probe with this UID.
    Delete(Arc<str>, Arc<str>),
}

/// How a write of a probe ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// It was carried out.
    Done,
    /// It was not sent, or its result is not known.
    Unknown,
    /// It failed, with this text.
    Failed(String),
}

/// The preflight of one upgrade.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a preflight")]
pub struct Preflights {
    questions: Questions,
    /// `namespace/name` of the upgrade.
    key: Arc<str>,
    agents_can_read: bool,
    clock_distrusted: bool,
    /// When the clock was trusted last.
    trusted_at: DateTime<Utc>,
    /// When the clock was not trusted last.
    distrusted_at: DateTime<Utc>,
    /// When the first pass of this term began.
    began: Option<DateTime<Utc>>,
    verdicts: AHashMap<Arc<str>, Judged>,
    names: KnownNames,
    /// Clusters that have told a newer version than the target, where the probe sets the channel.
    newer: Newer,
    running: AHashSet<Arc<str>>,
    limit: WriteLimit,
    /// Clusters that are asked again just before their start, and since when.
    asked_again: AHashMap<Arc<str>, DateTime<Utc>>,
    /// Since when it was unknown of clusters that are asked again whether they would take the update.
    unknown_before: AHashMap<Arc<str>, DateTime<Utc>>,
    failures: AHashMap<Arc<str>, Failure>,
    /// The second in which probes were created last, and how many.
    created: (DateTime<Utc>, u32),
    /// Clusters that are to be asked and cannot be, because the write fails or the name of the probe is taken, and since when.
    barred: AHashMap<Arc<str>, DateTime<Utc>>,
    /// Another upgrade asks a cluster that is to be asked.
    waits_for_another: bool,
    /// It has not seen when clusters answered, and takes them for having answered when they were asked.
    at_a_glance: bool,
    /// Of clusters whose worker pools are waited for: since when by the row, and since when as far as is known here.
    workers_since: AHashMap<Arc<str>, (DateTime<Utc>, DateTime<Utc>)>,
}

#[derive(Debug)]
struct Failure {
    until: DateTime<Utc>,
    text: Arc<str>,
    count: u32,
}

/// Whose preflight it is, and what may be asked.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// UID of the upgrade.
    pub uid: &'a str,
    /// `namespace/name` of the upgrade.
    pub key: &'a str,
    /// Whether all work agents are known to read objects without writing them.
    pub agents_can_read: bool,
    /// Whether the clock is trusted. By another one nobody knows how old an answer is, or for how long there was none.
    pub clock_trusted: bool,
    /// Largest number of probes that are created in a second.
    pub rate: u32,
}

impl Preflights {
    /// For who looks once at what is there, and takes clusters for having answered as soon as they were asked.
    #[must_use]
    pub fn at_a_glance() -> Self {
        Self {
            at_a_glance: true,
            ..Self::default()
        }
    }

    /// Judges what has changed. `questions`: what the spec in force asks.
    pub fn refresh(&mut self, questions: &Questions, asker: Asker<'_>, index: &Index, now: DateTime<Utc>) {
        if self.questions.preflight != questions.preflight {
            self.forget_answers(questions.preflight.as_deref(), now);
        }
        if self.questions != *questions || *self.key != *asker.key {
            self.questions = questions.clone();
            self.key = Arc::from(asker.key);
        }
        self.agents_can_read = asker.agents_can_read;
        // Between two plans nobody looks, so the clocks have differed until now.
        if self.clock_distrusted || !asker.clock_trusted {
            self.distrusted_at = now;
        }
        if asker.clock_trusted {
            self.trusted_at = now;
        }
        self.clock_distrusted = !asker.clock_trusted;
        if !self.at_a_glance {
            self.began.get_or_insert(now);
        }
        let Some(question) = &self.questions.preflight else {
            return;
        };
        let awaits_graph = !self.at_a_glance && question.asks_graph && question.update.by_graph.is_none();
        let mut present = 0;
        for (cluster, probe) in index.probes_of(asker.uid) {
            if !is_answer(cluster, probe, &question.hash, asker.key, index) {
                continue;
            }
            present += 1;
            let before = self.verdicts.get_mut(cluster);
            if before
                .as_ref()
                .is_some_and(|before| Arc::ptr_eq(&before.probe, probe))
            {
                continue;
            }
            let created = probe.created.unwrap_or(now).min(now);
            let heard = if self.at_a_glance { created } else { now };
            // Where the clocks differ nobody knows how long ago that was.
            let began = if self.clock_distrusted { now } else { created };
            let mut judged = Judged::new(probe, question, before.as_deref(), (now, began, heard));
            // Nor by such a clock when the answer came.
            let is_dated = !self.clock_distrusted;
            judged.heard = judged.heard.filter(|at| is_dated || *at != heard);
            // The graph may not have been read yet, since this term or an edit has just begun to ask for it.
            if before.is_none() && awaits_graph && judged.is_in_other_channel() {
                judged.unknown_since = now;
            }
            // A question that is asked anew gives no more time.
            if !matches!(judged.verdict, Verdict::Unknown(_)) {
                self.unknown_before.remove(cluster);
            } else if let Some(since) = self.unknown_before.get(cluster) {
                judged.unknown_since = judged.unknown_since.min(*since);
            }
            self.names.add(cluster, &probe.facts, &question.update);
            if !before.is_some_and(|before| before.puts_off(&judged, now)) {
                self.newer.note(cluster, &judged, question, index);
                self.verdicts.insert(Arc::clone(cluster), judged);
            }
        }
        if self.verdicts.len() > present {
            let hash = Arc::clone(&question.hash);
            self.forget_newer(index);
            self.verdicts.retain(|cluster, _| {
                let probe = index.probe(cluster);
                let is_answer = probe.is_some_and(|probe| {
                    *probe.upgrade == *asker.uid && is_answer(cluster, probe, &hash, asker.key, index)
                });
                is_answer || self.newer.contains(cluster)
            });
        }
    }

    /// What is known of a cluster. `upgrade`: UID of the upgrade.
    #[must_use]
    pub fn of(&self, cluster: &str, upgrade: &str, index: &Index, now: DateTime<Utc>) -> Preflight {
        let Some(question) = &self.questions.preflight else {
            return Preflight::NotAsked;
        };
        let judged = self.verdicts.get(cluster);
        let says_enough = judged.is_some_and(|judged| judged.is_answered() && !judged.is_stale(now));
        if !self.can_be_asked(cluster, index) && !says_enough {
            let name = PreflightReason::PreflightUnsupported.accepted_as();
            if name.is_some_and(|name| question.update.ignore.contains(name)) {
                return Preflight::Ready;
            }
            return Preflight::Blocked {
                reason: Reason::PreflightUnsupported,
                message: Arc::from(unsupported()),
            };
        }
        if let Some(waiting) = self.while_asked_again(cluster, now) {
            return waiting;
        }
        if let Some(judged) = judged {
            let says = self.by_clock(judged, judged.preflight(question, (now, self.certain(now))));
            let work = index.work_of(cluster, rollout::Step::Platform);
            let refused = work.and_then(|work| judged.with_risks_taken_back(question, &work.request));
            if let Some(refused) = refused.filter(|_| matches!(says, Preflight::Ready | Preflight::Stale)) {
                return refused;
            }
            return match self.cannot_be_asked_again(cluster, now) {
                Some(refused) if says == Preflight::Stale => refused,
                _ => says,
            };
        }
        let probe = index.probe(cluster);
        let (own, other) = (
            probe.filter(|probe| probe.is_of(upgrade, &self.key)),
            probe.filter(|probe| !probe.is_of(upgrade, &self.key)),
        );
        let text = match (other, self.failures.get(cluster)) {
            (Some(probe), _) if probe.owner.is_empty() || *probe.upgrade == *upgrade => {
                "A ManifestWork that no upgrade manages has the name of the preflight's. Delete it."
                    .to_owned()
            }
            (Some(probe), _) => format!("Upgrade {} asks the cluster at the moment", probe.owner),
            (None, Some(failure)) => format!("The cluster cannot be asked: {}", failure.text),
            (None, None) if own.is_some_and(|probe| probe.is_ending) => {
                "The ManifestWork of an earlier preflight is being deleted, and the cluster's work agent has not let go of it yet"
                    .to_owned()
            }
            (None, None) => return Preflight::NotAsked,
        };
        let message = Arc::from(visible(&text));
        let since = self.barred.get(cluster).copied().unwrap_or(now);
        let certain = self.certain(now);
        let reason = Reason::PreflightPending;
        unknown(reason, message, since, question.timeout, certain)
    }

    /// True when a cluster evaluates another channel than the planned one, and no update graph has told what is served there, whatever else
    /// it has told.
    #[must_use]
    pub fn is_in_other_channel(&self, cluster: &str) -> bool {
        let judged = self.verdicts.get(cluster);
        judged.is_some_and(Judged::is_in_other_channel)
    }

    /// How a cluster must be asked for the update. By the image that it has told only if that was in the last minutes, by a clock that is
    /// trusted; otherwise the cluster itself checks the request.
    #[must_use]
    pub fn request(&self, cluster: &str, clock_trusted: bool, now: DateTime<Utc>) -> WorkRequest {
        let judged = self.verdicts.get(cluster);
        let judged =
            judged.filter(|judged| !judged.is_by_image() || (clock_trusted && !judged.is_stale(now)));
        judged.map_or(WorkRequest::AsPlanned, |judged| (&judged.request).into())
    }

    /// Counts the clusters that have not started. `None` if they are not asked.
    #[must_use]
    pub fn summary(&self, fleet: &Fleet) -> Option<PreflightSummary> {
        self.questions.preflight.as_ref()?;
        let mut summary = PreflightSummary::default();
        for cluster in fleet.clusters.iter().filter(|cluster| waits(cluster)) {
            // An agent that has read its probe could be asked, even if it cannot tell everything.
            let has_answered = |name| self.verdicts.get(name).is_some_and(Judged::is_answered);
            *match (&cluster.eligibility, &cluster.preflight) {
                // Nor can it be asked for its worker pools.
                (
                    Eligibility::Blocked {
                        reason: Reason::PreflightUnsupported,
                        ..
                    },
                    _,
                ) => &mut summary.unsupported,
                (Eligibility::Blocked { .. }, _) => continue,
                (_, Preflight::Ready | Preflight::Stale) => &mut summary.ready,
                (
                    _,
                    Preflight::Blocked {
                        reason: Reason::PreflightUnsupported,
                        ..
                    },
                ) if !has_answered(&cluster.name) => &mut summary.unsupported,
                (_, Preflight::Blocked { .. }) => &mut summary.blocked,
                // It is not even asked.
                (_, Preflight::NotAsked) if is_known_to_be_newer(cluster) => &mut summary.blocked,
                (_, Preflight::Unknown { .. } | Preflight::NotAsked) => &mut summary.unknown,
            } += 1;
        }
        Some(summary)
    }

    /// A note for each name of a risk or gate in the spec that is probably misspelled: from when all clusters have answered until the
    /// first one has started.
    #[must_use]
    pub fn notes(&mut self, fleet: &Fleet, now: DateTime<Utc>) -> Vec<String> {
        let Some(question) = &self.questions.preflight else {
            return Vec::new();
        };
        let has_names = !question.update.accepted_risks.is_empty() || !question.update.acks.is_empty();
        if !has_names || !fleet.clusters.iter().all(waits) {
            return Vec::new();
        }
        let (verdicts, certain) = (&self.verdicts, self.certain(now));
        let has_answered = |cluster: &Cluster| {
            if let Some(judged) = verdicts.get(&cluster.name) {
                return judged.has_told_names(question, certain);
            }
            // It is not asked, or it cannot be.
            let is_blocked = matches!(cluster.preflight, Preflight::Blocked { .. });
            is_barred(cluster) || is_blocked || is_known_to_be_newer(cluster)
        };
        self.names.complete(|| fleet.clusters.iter().all(has_answered));
        self.names.notes(&question.update)
    }

    /// The writes that are due, and when to look again if nothing happens before. Canaries are asked first, then the others by name.
    pub fn due(
        &mut self,
        fleet: &Fleet,
        (policy, plan): (&Policy, &Plan),
        asker: Asker<'_>,
        index: &Index,
        now: DateTime<Utc>,
    ) -> (Vec<ProbeWrite>, Option<DateTime<Utc>>) {
        let is_in_fleet = |name: &Arc<str>| fleet.find(name).is_some();
        self.forget_failures(fleet, policy, asker, index, now);
        self.asked_again.retain(|name, _| is_in_fleet(name));
        self.unknown_before.retain(|name, _| is_in_fleet(name));
        self.newer.keep(is_in_fleet);
        self.limit.forget(now);
        self.note_workers(fleet, policy, now);
        let mut writes = self.deletions(fleet, policy, asker, index, now);
        writes.extend(self.leftovers(fleet, policy, asker, index, now));
        writes.extend(self.ask_again(&plan.ask_again, index, now));
        self.note_barred(fleet, policy, asker, index, now);
        let mut wake = earliest(self.next_change(now), self.next_workers(now));
        if !policy.deleting {
            let (questions, newer) = (self.questions.clone(), self.newer.clone());
            let can_read = asker.agents_can_read;
            let is_free = |cluster: &Cluster| {
                index.probe(&cluster.name).is_none() && (can_read || has_reading_agent(&cluster.name, index))
            };
            let to_ask = |cluster: &'_ Cluster| {
                let due = questions.due(cluster, policy, newer.contains(&cluster.name));
                due.filter(|_| is_free(cluster))
            };
            // A cluster whose pools are waited for holds a slot.
            for (kind, canaries) in [
                (ProbeKind::Workers, true),
                (ProbeKind::Workers, false),
                (ProbeKind::Preflight, true),
                (ProbeKind::Preflight, false),
            ] {
                if !questions.ask(kind) {
                    continue;
                }
                let wanted = fleet
                    .clusters
                    .iter()
                    .filter(|cluster| to_ask(cluster) == Some(kind));
                for cluster in wanted.filter(|cluster| cluster.canary == canaries) {
                    if !self.may_ask(cluster, kind, now) {
                        continue;
                    }
                    if self.running.len() >= MAX_RUNNING {
                        return (writes, wake);
                    }
                    if !self.may_create(asker.rate, now) {
                        return (writes, earliest(wake, Some(now + TimeDelta::seconds(1))));
                    }
                    self.begin(&cluster.name, now);
                    writes.push(ProbeWrite::Create(Arc::clone(&cluster.name), kind));
                }
            }
        }
        wake = earliest(wake, self.next_place(now));
        wake = earliest(wake, self.next_ahead(plan.summary.next_opening, now));
        let waits = self.failures.values().map(|failure| failure.until);
        wake = earliest(wake, waits.filter(|until| *until > now).min());
        (writes, earliest(wake, self.limit.next()))
    }

    /// The probes of this upgrade that are not needed, or ask something else.
    fn deletions(
        &mut self,
        fleet: &Fleet,
        policy: &Policy,
        asker: Asker<'_>,
        index: &Index,
        now: DateTime<Utc>,
    ) -> Vec<ProbeWrite> {
        let mut writes = Vec::new();
        for (name, probe) in index.probes_of(asker.uid) {
            // Without our annotation, someone else created the work or took it over, whatever else it says.
            let is_ours = *probe.owner == *asker.key;
            if !is_ours || probe.is_ending || !self.may_write(name, now) {
                continue;
            }
            let cluster = fleet.find(name);
            let needed = cluster.and_then(|cluster| {
                self.questions
                    .needed(cluster, policy, self.newer.contains(&cluster.name))
            });
            let is_kept = needed.is_some_and(|hash| *hash == probe.hash)
                && !index.is_former_probe(name, probe)
                && self.cannot_be_asked_again(name, now).is_none();
            let is_early = cluster.is_some_and(|cluster| self.was_asked_early(cluster, policy, probe, now));
            if !is_kept || is_early {
                self.begin(name, now);
                writes.push(ProbeWrite::Delete(Arc::clone(name), Arc::clone(&probe.uid)));
            }
        }
        writes
    }

    /// Records the end of a write.
    pub fn ended(&mut self, cluster: &Arc<str>, result: ProbeResult, now: DateTime<Utc>) {
        self.running.remove(cluster);
        match result {
            ProbeResult::Done => {
                self.failures.remove(cluster);
            }
            ProbeResult::Unknown => {}
            ProbeResult::Failed(text) => {
                let count = self.failures.get(cluster).map_or(0, |failure| failure.count);
                let wait = (BACKOFF.0 * 2_i32.pow(count.min(10))).min(BACKOFF.1);
                let failure = Failure {
                    until: now + wait,
                    text: Arc::from(text),
                    count: count + 1,
                };
                self.failures.insert(Arc::clone(cluster), failure);
            }
        }
    }

    /// True while a probe of this upgrade is being written, or exists and is not being deleted.
    #[must_use]
    pub fn holds(&self, asker: Asker<'_>, index: &Index) -> bool {
        let mut probes = index.probes_of(asker.uid);
        !self.running.is_empty() || probes.any(|(_, probe)| *probe.owner == *asker.key && !probe.is_ending)
    }

    /// True when no write is running or waits to be repeated.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.running.is_empty() && self.failures.is_empty()
    }

    /// The first write that keeps failing, as cluster and text.
    #[must_use]
    pub fn failure(&self) -> Option<(&Arc<str>, &str)> {
        let failures = self.failures.iter();
        failures.map(|(cluster, failure)| (cluster, &*failure.text)).min()
    }

    fn can_be_asked(&self, cluster: &str, index: &Index) -> bool {
        self.agents_can_read || has_reading_agent(cluster, index)
    }

    fn may_write(&self, cluster: &str, now: DateTime<Utc>) -> bool {
        let is_waiting = |failure: &Failure| now < failure.until;
        !self.running.contains(cluster)
            && !self.failures.get(cluster).is_some_and(is_waiting)
            && self.limit.allows(cluster, now)
    }

    /// Counts a write that begins.
    fn begin(&mut self, cluster: &Arc<str>, now: DateTime<Utc>) {
        self.running.insert(Arc::clone(cluster));
        self.limit.take(cluster, now);
    }

    /// Counts a creation, unless there were enough in this second.
    fn may_create(&mut self, rate: u32, now: DateTime<Utc>) -> bool {
        let (begun, count) = &mut self.created;
        let passed = now.signed_duration_since(*begun);
        // The clock may have gone back.
        if passed >= TimeDelta::seconds(1) || passed < TimeDelta::zero() {
            (*begun, *count) = (now, 0);
        }
        *count += 1;
        *count <= rate
    }

    /// When a verdict changes by time alone.
    fn next_change(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let question = self.questions.preflight.as_ref()?;
        let counts = self
            .verdicts
            .values()
            .filter_map(|judged| judged.counts_at(question, now));
        let changes = self.verdicts.values().filter_map(|judged| match judged.verdict {
            Verdict::Unknown(_) => Some(judged.unknown_since + question.timeout),
            Verdict::Ready(_) => judged.settles(),
            Verdict::Blocked(_) => None,
        });
        let held = self.verdicts.values().filter_map(|judged| judged.held_until);
        let barred = self.barred.values().map(|since| *since + question.timeout);
        let times = changes.chain(counts).chain(held).chain(barred);
        times.filter(|at| *at > now).min()
    }
}

fn is_known_to_be_newer(cluster: &Cluster) -> bool {
    let record = cluster.record.as_ref();
    record.is_some_and(|record| record.reason == Reason::NewerThanTarget)
}

/// Why a cluster whose work agent is not known cannot be asked.
fn unsupported() -> String {
    format!(
        "It is not known whether the cluster's work agent is of OCM v0.14 or newer and can be asked. If so, set label {LABEL_AGENT_VERSION}; if all agents are, start the controller with --agents-support-read-only."
    )
}

/// True when a probe of the upgrade with this key asks what has this hash, of the cluster that is registered now.
fn is_answer(cluster: &str, probe: &ProbeView, hash: &str, key: &str, index: &Index) -> bool {
    let asks_this = *probe.owner == *key && *probe.hash == *hash && !probe.is_ending;
    asks_this && !index.is_former_probe(cluster, probe)
}

fn has_reading_agent(cluster: &str, index: &Index) -> bool {
    let cluster = index.clusters.get(cluster);
    cluster.is_some_and(|cluster| cluster.has_reading_agent())
}

fn earliest(a: Option<DateTime<Utc>>, b: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    a.into_iter().chain(b).min()
}

#[cfg(test)]
mod tests;
