//! Rules about what clusters are asked: nothing starts before its cluster would take the update, where that is required, probes
//! change nothing but what the spec says, and nobody is complete before the worker pools have followed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::names::{ANNOTATION_RELEASE_IMAGE, Step};
use hub_sim::{At as _, Change, ChangeKind};
use serde_json::Value;

use super::answers::Answer;
use super::asked::Asked;
use super::facts::{DEAF, Facts, Key, Record, UNHEARD, Upgrade};
use super::fields::{text, version};
use super::row::{Row, holds_slot};
use super::rule::Rule;
use super::said::Said;
use super::works::Work;
use crate::names::HUB;

/// A request by image follows from answers that were heard five minutes ago at most. The clock by which that was, and the one by which it
/// is sent, may each differ by 30 s from the hub's.
const FRESH: Duration = Duration::from_mins(6);
/// The role that goes with a probe.
const ROLE: &str = "open-cluster-management:mcu-preflight";

impl Upgrade {
    /// Whether every spec that may be in force at a time waits for worker pools.
    pub(super) fn awaits_pools(&self, at: Duration) -> bool {
        self.in_force(at).all(|spec| spec.asked.pools.is_some())
    }

    /// Whether the row of a cluster said that it was under way when something was sent. That row may be gone since.
    fn was_under_way_by_row(&self, cluster: &str, sent: Duration) -> bool {
        let removed = self.removed.get(cluster).filter(|(_, at)| sent <= *at);
        let record = removed.map_or_else(|| self.records.get(cluster), |(record, _)| Some(record));
        record.is_some_and(|record| holds_slot(record.phase_at(sent)))
    }
}

/// The strategy that the manifest of an object is applied with.
fn strategy<'a>(work: &'a Value, manifest: &Value) -> &'a Value {
    let configs = work.at("/spec/manifestConfigs").and_then(Value::as_array);
    let name = text(manifest, "/metadata/name");
    let mut configs = configs.into_iter().flatten();
    let config = configs.find(|config| {
        let plural = text(config, "/resourceIdentifier/resource");
        let kind = text(manifest, "/kind").to_lowercase();
        text(config, "/resourceIdentifier/name") == name && plural == format!("{kind}s")
    });
    config
        .and_then(|config| config.get("updateStrategy"))
        .unwrap_or(&Value::Null)
}

/// The keys that a work acknowledges.
fn acknowledged(work: &Value) -> Option<BTreeSet<String>> {
    let manifests = work.at("/spec/workload/manifests").and_then(Value::as_array);
    let mut manifests = manifests.into_iter().flatten();
    let acks = manifests.find(|one| text(one, "/metadata/name") == "admin-acks")?;
    let data = acks.get("data").and_then(Value::as_object);
    Some(data.into_iter().flatten().map(|(key, _)| key.clone()).collect())
}

/// What a probe would change that none of these specs asks for.
fn excess(probe: &Value, specs: &[Asked]) -> Option<String> {
    let manifests = probe.at("/spec/workload/manifests").and_then(Value::as_array);
    let mut manifests = manifests.into_iter().flatten();
    let is_excess = |manifest: &&Value| {
        let how = strategy(probe, manifest);
        let (kind, name) = (text(manifest, "/kind"), text(manifest, "/metadata/name"));
        let is_read = text(how, "/type") == "ReadOnly";
        let is_applied = text(how, "/type") == "ServerSideApply";
        let is_channel = |asked: &Asked| {
            let spec = manifest.get("spec").and_then(Value::as_object);
            let fields: Vec<&str> = spec
                .into_iter()
                .flatten()
                .map(|(field, _)| field.as_str())
                .collect();
            asked.sets_channel && fields == ["channel"] && text(manifest, "/spec/channel") == asked.channel
        };
        let is_meant = match (kind, name) {
            ("ClusterRole", ROLE) => true,
            ("ClusterVersion", "version") => is_applied && specs.iter().any(is_channel),
            // Which keys these are is a rule of its own.
            ("ConfigMap", "admin-acks") => is_applied,
            _ => false,
        };
        !is_read && !is_meant
    };
    manifests.find(is_excess).map(|manifest| {
        let (kind, name) = (text(manifest, "/kind"), text(manifest, "/metadata/name"));
        format!("{kind} {name}")
    })
}

impl Facts {
    /// A work with the name of a probe has changed.
    pub(super) fn probe(&mut self, change: &Change, work: &Work) {
        let (now, uid) = (self.now, change.after.uid.to_string());
        let is_gone = change.kind == ChangeKind::Deleted || change.after.is_deleting;
        if change.kind == ChangeKind::Added {
            self.probes.created.insert(uid.clone(), now);
            if self.by_controller() {
                self.judge_probe(work);
            }
        }
        let said = Said::of(&work.value);
        let upgrade = self.upgrades.get(&work.uid);
        let is_ours = upgrade.is_some_and(|upgrade| upgrade.key == work.owner);
        let is_answer = is_ours && !is_gone && work.is_current();
        if is_answer && said.is_told() {
            self.probes.answered.entry(uid.clone()).or_insert(now);
        }
        let answers = self.probes.answers.entry(work.cluster.clone()).or_default();
        let open = answers.iter_mut().filter(|answer| answer.until.is_none());
        let mut is_known = false;
        for answer in open {
            let is_same = answer.upgrade == work.uid && answer.said == said;
            if is_answer && is_same {
                is_known = true;
            } else {
                answer.until = Some(now);
            }
        }
        if is_answer && !is_known {
            answers.push(Answer {
                upgrade: work.uid.clone(),
                created: self.probes.created.get(&uid).copied().unwrap_or(now),
                answered: self.probes.answered.get(&uid).copied(),
                since: now,
                until: None,
                said,
            });
        }
        answers.retain(|answer| answer.until.is_none_or(|until| until + 2 * UNHEARD > now));
    }

    /// A work of a step is about to change.
    pub(super) fn note_asked_for(&mut self, work: &Work) {
        let platform = Step::Platform.work_name(&work.cluster);
        let mut works = self.works.values();
        let known = works.find(|one| one.owner == work.uid && one.name == platform);
        self.probes.asked_for = known.map(|one| one.target.clone());
    }

    /// Whether whoever sent something may not have heard yet that a cluster is called otherwise or is gone, which its upgrade would
    /// select but for that. The upgrade may be younger than those news.
    fn may_seem_selected(&self, upgrade: &Upgrade, name: &str, sent: Duration) -> bool {
        let Some(cluster) = self.clusters.get(name).filter(|_| name != HUB) else {
            return false;
        };
        let is_named = |called: &str| upgrade.selectors.iter().any(|names| names.contains(called));
        let is_unheard = |at: Option<Duration>| at.is_some_and(|at| sent < at + DEAF);
        let was_called = is_named(name) && is_unheard(cluster.left);
        let was_there = is_named(cluster.called(name)) && is_unheard(cluster.deleted);
        was_called || was_there
    }

    /// The controller asks a cluster.
    fn judge_probe(&mut self, work: &Work) {
        let sent = self.sent();
        let Some(upgrade) = self.upgrades.get(&work.uid) else {
            return;
        };
        let specs: Vec<Asked> = upgrade.goes_on_by(sent).map(|spec| spec.asked.clone()).collect();
        let excess = excess(&work.value, &specs);
        let name = &work.cluster;
        let is_selected = upgrade.selected.contains(name) || self.may_seem_selected(upgrade, name, sent);
        // Nobody starts beside an invalid spec, so only clusters that are under way are asked. One that comes late may be that of a
        // cluster that has ended since.
        let is_valid = upgrade.in_force(sent).any(|spec| !spec.is_invalid);
        let is_under_way = upgrade.has_under_way(name) || upgrade.was_under_way_by_row(name, sent);
        let may_go_on = is_under_way || self.went_back_before(sent, UNHEARD);
        let is_due = is_selected && (is_valid || may_go_on);
        self.check(Rule::Probes, excess.is_none() && is_due, || {
            let excess = excess.unwrap_or_default();
            format!(
                "{} was created (selected: {is_selected}, valid spec: {is_valid}) and changes {excess}",
                work.name
            )
        });
        self.judge_acks(work);
    }

    /// A work acknowledges what a valid spec says. A probe that does not look at acknowledgments has no manifest for them. Beside an
    /// invalid spec, clusters in flight are asked and updated by the last valid one.
    pub(super) fn judge_acks(&mut self, work: &Work) {
        let sent = self.sent();
        let Some(upgrade) = self.upgrades.get(&work.uid) else {
            return;
        };
        let is_platform = work.is_of(Step::Platform);
        let known = acknowledged(&work.value);
        let Some(keys) = known.or_else(|| is_platform.then(BTreeSet::new)) else {
            return;
        };
        let is_meant = upgrade.goes_on_by(sent).any(|spec| spec.asked.acks == keys);
        let went_back = self.went_back_before(sent, UNHEARD);
        self.check(Rule::Acks, is_meant || went_back, || {
            format!("{} acknowledges {keys:?}, and no spec says so", work.name)
        });
    }

    /// Whether a cluster whose steps begin had said that it would take the update. `None` if it need not.
    fn has_agreed(&self, work: &Work, sent: Duration) -> Option<bool> {
        let upgrade = self.upgrades.get(&work.uid)?;
        let leads_to_update = work.is_of(Step::PreAction) || work.is_of(Step::Platform);
        let specs: Vec<&Asked> = upgrade.in_force(sent).map(|spec| &spec.asked).collect();
        let is_required = specs.iter().all(|asked| asked.is_required);
        // A cluster whose work asks for this very update already need not be asked what it would say to it.
        let is_wanted = |target: &String| specs.iter().any(|asked| asked.target == *target);
        let is_asked_for = self.probes.asked_for.as_ref().is_some_and(is_wanted);
        if !leads_to_update || !is_required || is_asked_for || self.went_back_before(sent, UNHEARD) {
            return None;
        }
        let mut answers = self.answers(work, sent);
        Some(answers.any(|answer| specs.iter().any(|asked| asked.is_ready(&answer.said))))
    }

    /// The steps of a cluster begin, unless they go on.
    pub(super) fn judge_asked(&mut self, work: &Work, goes_on: bool) {
        let Some(has_agreed) = self.has_agreed(work, self.sent()).filter(|_| !goes_on) else {
            return;
        };
        self.check(Rule::Preflight, has_agreed, || {
            let cluster = &work.cluster;
            format!("{cluster} started, and has not said that it would take the update")
        });
    }

    /// What a cluster has said to an upgrade, as far as whoever sent something could know it.
    fn answers<'a>(&'a self, work: &'a Work, sent: Duration) -> impl Iterator<Item = &'a Answer> {
        let registered = self
            .clusters
            .get(&work.cluster)
            .map_or(Duration::ZERO, |one| one.registered);
        let answers = self.probes.answers.get(&work.cluster);
        answers.into_iter().flatten().filter(move |answer| {
            let is_heard = answer.since <= sent && answer.until.is_none_or(|until| sent <= until + DEAF);
            // Whoever sent it may not have heard yet that it is another cluster.
            let is_of_it = registered <= answer.created || sent < registered + DEAF;
            answer.upgrade == work.uid && is_heard && is_of_it
        })
    }

    /// An update is requested by an image: the cluster has told that one, and has first answered not long ago. An agent may take longer
    /// to answer than answers are good for.
    pub(super) fn judge_image(&mut self, work: &Work) {
        let notes = work.value.at("/metadata/annotations");
        let image = notes.and_then(|notes| notes.get(ANNOTATION_RELEASE_IMAGE)?.as_str());
        let Some(image) = image.filter(|_| work.is_of(Step::Platform)) else {
            return;
        };
        let sent = self.sent();
        let is_fresh = |answer: &Answer| {
            let heard = answer.answered.map(|at| at + DEAF);
            answer.said.tells_image(image) && heard.is_some_and(|heard| sent < heard + FRESH)
        };
        let is_told = self.answers(work, sent).any(is_fresh);
        let record = self.upgrades.get(&work.uid);
        let record = record.and_then(|upgrade| upgrade.records.get(&work.cluster));
        let is_edited = record.is_some_and(|record| record.is_edited);
        let went_back = self.went_back_before(sent, UNHEARD);
        self.check(Rule::Preflight, is_told || is_edited || went_back, || {
            let name = &work.name;
            format!("{name} asks for image {image}, which its cluster has not told in the last minutes")
        });
    }

    /// A row says that the platform step of a cluster is over: its worker pools have followed. A cluster that itself knows nothing of
    /// an update to that version has reported a wrong end. So has one that had not ended that update when its row began to say that it
    /// waits for its pools: they are asked two minutes after that word, which may be before they begin to follow.
    pub(super) fn judge_pools(&mut self, owner: &str, name: &str, row: &Row, was: &str) {
        let is_over = |phase: &str| matches!(phase, "Operators" | "Soaking" | "PostAction" | "Complete");
        let sent = self.sent();
        let Some(upgrade) = self.upgrades.get(owner) else {
            return;
        };
        let is_waited_for = upgrade.awaits_pools(sent);
        let phases = upgrade.records.get(name).map(|record| &record.phases);
        let mut phases = phases.into_iter().flatten().rev();
        let waits = phases.find(|told| told.phase == "Workers").map(|told| told.since);
        let ended = upgrade.end_of_row(name, Step::Platform, row).map(|end| end.first);
        if !is_over(&row.phase) || is_over(was) || !is_waited_for || row.to.is_empty() {
            return;
        }
        let Some(past) = self.probes.truth.0.as_ref().and_then(|truth| truth(name)) else {
            return;
        };
        let to = version(&row.to);
        let since = |times: &BTreeMap<String, Duration>| {
            let times = times.iter().filter(|(one, _)| version(one) >= to);
            times.map(|(_, at)| *at).min()
        };
        let updated = since(&past.updated).filter(|at| *at <= sent);
        let is_told_early = |at: Duration| {
            let told = ended.zip(waits);
            told.is_some_and(|(ended, waits)| ended <= waits && waits < at && sent < at + UNHEARD)
        };
        let updated = updated.filter(|at| !is_told_early(*at));
        let followed = since(&past.followed);
        // The times of clusters have whole seconds.
        let is_told = followed.is_some_and(|at| at <= sent + Duration::from_secs(1));
        self.check(Rule::WorkerPools, updated.is_none() || is_told, || {
            format!(
                "the update of {name} to {} is over by its row, and its worker pools followed at {followed:?}",
                row.to
            )
        });
    }

    /// Clusters whose worker pools had followed when something was sent hold no slots any more, unless operators are still to come.
    pub(super) fn release_followed(&mut self, owner: &str, sent: Duration) {
        let truth = self.probes.truth.0.clone();
        let upgrade = self.upgrades.get(owner);
        let waits = upgrade.is_some_and(|upgrade| upgrade.awaits_pools(sent));
        let Some((truth, upgrade)) = truth.zip(upgrade).filter(|_| waits) else {
            return;
        };
        let mut followed = Vec::new();
        for name in upgrade.flights.keys() {
            let Some((key, target)) = self.updated(owner, upgrade, name) else {
                continue;
            };
            let since = truth(name).and_then(|past| past.followed.get(&target).copied());
            let since = since.filter(|at| *at <= sent);
            if let Some(at) = since.filter(|_| !upgrade.lacks_operators(&key, sent)) {
                followed.push((name.clone(), at));
            }
        }
        if let Some(upgrade) = self.upgrades.get_mut(owner) {
            for (name, at) in followed {
                upgrade.release(&name);
                upgrade.finished.insert(name, at);
            }
        }
    }

    /// The update of a cluster whose end agents have reported, and its version: by its work, or, if somebody has deleted that, by its
    /// row.
    fn updated(&self, owner: &str, upgrade: &Upgrade, name: &str) -> Option<(Key, String)> {
        if let Some(work) = self.untold_update(owner, name) {
            return Some((work.key(), work.target.clone()));
        }
        let row = upgrade.records.get(name).and_then(Record::row)?;
        let end = upgrade.end_of_row(name, Step::Platform, row)?;
        let work = Step::Platform.work_name(name);
        let (owner, name) = (owner.to_owned(), name.to_owned());
        let key = (owner, name, work, row.revision.clone(), row.retry.clone());
        (end.retry == row.retry).then(|| (key, end.target.clone()))
    }

    /// Whether any spec has ever acknowledged a key.
    pub(super) fn has_ever_acknowledged(&self, key: &str) -> bool {
        let mut specs = self.upgrades.values().flat_map(|upgrade| &upgrade.generations);
        specs.any(|spec| spec.asked.acks.contains(key))
    }
}

#[cfg(test)]
mod tests;
