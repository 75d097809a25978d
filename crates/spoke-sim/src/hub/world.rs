//! All played clusters with their works: what changes when news or time comes in, and which writes follow.
//!
//! No I/O and no clock: the engine passes both in, tests do without.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;

use super::agenda::Agenda;
use super::options::Options;
use super::slot::{Turn, WorkSlot, Write, WriteKind};
use super::view::{ClusterView, WorkView};
use crate::agent::{self, Settings};
use crate::cluster::Cluster;
use crate::dice::Dice;
use crate::fault::{ANNOTATION, Faults};
use crate::fields::Time;
use crate::platform::clusterversion::Birth;
use crate::platform::scale;
use crate::store::ObjectKey;
use crate::work::status::{self, Condition, Status};
use crate::work::{Library, WatchOrPoll};

/// Between two applies of an unchanged work, times 1–1.5.
const RESYNC: Duration = Duration::from_mins(4);

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Clusters played.
    pub clusters: u64,
    /// Works known.
    pub works: u64,
    /// Passes over works that applied their manifests.
    pub applies: u64,
    /// Finalizers added.
    pub holds: u64,
    /// Status writes.
    pub statuses: u64,
    /// Finalizers removed.
    pub releases: u64,
    /// Writes the hub refused with 409.
    pub conflicts: u64,
    /// Writes that failed otherwise.
    pub failures: u64,
}

/// All played clusters.
pub(super) struct World {
    pub options: Options,
    pub stats: Stats,
    agenda: Agenda,
    ready: VecDeque<(Arc<str>, Arc<str>)>,
    signals: VecDeque<(Arc<str>, bool)>,
    library: Library,
    clusters: HashMap<Arc<str>, ClusterSlot>,
    dice: Dice,
}

pub(super) struct ClusterSlot {
    pub cluster: Cluster,
    works: BTreeMap<Arc<str>, WorkSlot>,
    /// When the cluster's controllers next act.
    due: Option<Time>,
    /// Counts changes of the faults.
    epoch: u64,
    faulty_since: Time,
    annotated: bool,
    /// What was last said of the agent being there.
    signalled: bool,
}

impl World {
    pub fn new(options: Options) -> Self {
        let dice = Dice::new(options.seed);
        Self {
            options,
            stats: Stats::default(),
            agenda: Agenda::default(),
            ready: VecDeque::new(),
            signals: VecDeque::new(),
            library: Library::default(),
            clusters: HashMap::new(),
            dice,
        }
    }

    pub fn cluster(&self, name: &str) -> Option<&Cluster> {
        self.clusters.get(name).map(|slot| &slot.cluster)
    }

    pub fn cluster_mut(&mut self, name: &str) -> Option<&mut Cluster> {
        self.clusters.get_mut(name).map(|slot| &mut slot.cluster)
    }

    /// Names of the played clusters, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.clusters.keys().map(ToString::to_string).collect();
        names.sort_unstable();
        names
    }

    /// Bytes of all simulated objects.
    pub fn bytes(&self) -> usize {
        self.clusters
            .values()
            .map(|slot| slot.cluster.store.bytes())
            .sum()
    }

    /// The next instant at which something is to happen without news.
    pub fn next(&self) -> Option<Time> {
        self.agenda.next()
    }

    /// News of a ManagedCluster.
    pub fn observe_cluster(&mut self, view: &ClusterView, now: Time) {
        let Some(name) = view
            .metadata
            .name
            .as_deref()
            .filter(|name| self.options.clusters.admits(name))
        else {
            return;
        };
        let annotation = view
            .metadata
            .annotations
            .as_ref()
            .and_then(|map| map.get(ANNOTATION));
        self.ensure(name, Some(view), now);
        let Some(slot) = self.clusters.get_mut(name) else {
            return;
        };
        let faults = match annotation.map(|text| text.parse::<Faults>()) {
            Some(Ok(faults)) => Some(faults),
            Some(Err(error)) => {
                tracing::warn!(cluster = name, %error, "annotation {ANNOTATION} is ignored");
                None
            }
            None => slot.annotated.then(Faults::default),
        };
        slot.annotated = annotation.is_some();
        if let Some(faults) = faults {
            self.set_faults(name, faults, now);
        }
    }

    /// A ManagedCluster is gone; its works keep the simulated cluster until they are gone too.
    pub fn forget_cluster(&mut self, name: &str) {
        if self.clusters.get(name).is_some_and(|slot| slot.works.is_empty()) {
            self.clusters.remove(name);
        }
    }

    /// Sets the faults of a cluster. Returns false for a cluster that is not played.
    pub fn set_faults(&mut self, name: &str, faults: Faults, now: Time) -> bool {
        let Some(slot) = self.clusters.get_mut(name) else {
            return false;
        };
        if slot.cluster.faults != faults {
            tracing::info!(cluster = name, %faults, "faults changed");
            slot.cluster.faults = faults;
            slot.faulty_since = now;
            self.touch(name, now);
        }
        true
    }

    /// Something about a cluster changed from outside: its controllers and agent look again.
    pub fn touch(&mut self, name: &str, now: Time) {
        if let Some(slot) = self.clusters.get_mut(name) {
            slot.epoch += 1;
            slot.due = Some(now);
            self.tick(name, now);
        }
    }

    /// News of a ManifestWork.
    pub fn observe_work(&mut self, view: &WorkView, now: Time) {
        let (Some(namespace), Some(name)) =
            (view.metadata.namespace.as_deref(), view.metadata.name.as_deref())
        else {
            return;
        };
        if !self.options.clusters.admits(namespace) {
            return;
        }
        self.ensure(namespace, None, now);
        let uid = view.metadata.uid.as_deref().unwrap_or_default();
        let known = self.clusters.get(namespace).and_then(|slot| slot.works.get(name));
        if known.is_some_and(|work| *work.uid != *uid) {
            self.forget_work(namespace, name, now);
        }
        let Some(slot) = self.clusters.get_mut(namespace) else {
            return;
        };
        let work = slot.works.entry(name.into()).or_insert_with(|| {
            self.stats.works += 1;
            WorkSlot::new(view)
        });
        if work.update(view, &mut self.library, now) {
            self.tick(namespace, now);
        }
    }

    /// A ManifestWork is gone from the hub: what it owned goes too.
    pub fn forget_work(&mut self, namespace: &str, name: &str, now: Time) {
        let Some(slot) = self.clusters.get_mut(namespace) else {
            return;
        };
        if slot.works.remove(name).is_some() {
            self.stats.works -= 1;
            agent::finalize(name, &mut slot.cluster, now);
            self.tick(namespace, now);
        }
    }

    /// Works of which a full list said nothing are gone.
    pub fn retain_works(&mut self, is_there: impl Fn(&str, &str) -> bool, now: Time) {
        let gone: Vec<(Arc<str>, Arc<str>)> = self
            .clusters
            .iter()
            .flat_map(|(cluster, slot)| {
                slot.works
                    .keys()
                    .map(move |work| (Arc::clone(cluster), Arc::clone(work)))
            })
            .filter(|(cluster, work)| !is_there(cluster, work))
            .collect();
        for (cluster, work) in gone {
            self.forget_work(&cluster, &work, now);
        }
    }

    /// Lets everything happen that is due.
    pub fn run_due(&mut self, now: Time) {
        while let Some(cluster) = self.agenda.pop_due(now) {
            self.tick(&cluster, now);
        }
    }

    /// The next write to the hub.
    pub fn next_write(&mut self) -> Option<Write> {
        while let Some((cluster, work)) = self.ready.pop_front() {
            let Some(slot) = self.clusters.get_mut(&cluster) else {
                continue;
            };
            let Some(found) = slot.works.get_mut(&work) else {
                continue;
            };
            found.turn = Turn::Idle;
            let Some(kind) = found.wants() else {
                continue;
            };
            let Ok(body) = found.body(kind) else { continue };
            found.turn = Turn::Writing;
            if kind == WriteKind::Status {
                found.unpublished = false;
            }
            let uid = found.uid.clone();
            return Some(Write {
                cluster,
                work,
                uid,
                kind,
                body,
            });
        }
        None
    }

    /// The next cluster whose agent came (true) or went (false).
    pub fn next_signal(&mut self) -> Option<(Arc<str>, bool)> {
        self.signals.pop_front()
    }

    /// How a write ended: the object as the hub now has it, or the HTTP status of the refusal (0 for none).
    pub fn written(&mut self, write: &Write, result: Result<WorkView, u16>, now: Time) {
        let counter = match (&result, write.kind) {
            (Ok(_), WriteKind::Hold) => Some(&mut self.stats.holds),
            (Ok(_), WriteKind::Status) => Some(&mut self.stats.statuses),
            (Ok(_), WriteKind::Release) => Some(&mut self.stats.releases),
            (Err(409), _) => Some(&mut self.stats.conflicts),
            // The work is gone. A watch that lags behind our own release shows it once more, and it is let go again.
            (Err(404), WriteKind::Release) => None,
            (Err(_), _) => Some(&mut self.stats.failures),
        };
        if let Some(counter) = counter {
            *counter += 1;
        }
        let slot = self.clusters.get_mut(&write.cluster);
        let work = slot.and_then(|slot| slot.works.get_mut(&write.work));
        // The watch may have told already that the work is gone, or that another has its name.
        let Some(work) = work.filter(|work| work.uid == write.uid) else {
            return;
        };
        work.turn = Turn::Idle;
        if let Ok(view) = result {
            work.refused = 0;
            self.observe_work(&view, now);
        } else {
            work.unpublished |= write.kind == WriteKind::Status;
            // A 404 or a conflict is cleared up by the watch; the delay is for when it is late.
            let delay = TimeDelta::milliseconds(100 << work.refused.min(8));
            work.refused += 1;
            work.hold_until = Some(now + delay);
        }
        self.tick(&write.cluster, now);
    }

    fn ensure(&mut self, name: &str, view: Option<&ClusterView>, now: Time) {
        if self.clusters.contains_key(name) {
            return;
        }
        let index = self.clusters.len();
        let dice = self.dice.of(name);
        let labels = view
            .and_then(|view| view.metadata.labels.clone())
            .unwrap_or_default();
        let character = self.options.scenario.character(self.dice, name, index, &labels);
        let version = character
            .version
            .or_else(|| view?.claim("version.openshift.io").map(ToOwned::to_owned))
            .or_else(|| view?.label("openshiftVersion").map(ToOwned::to_owned))
            .filter(|version| !version.is_empty())
            .unwrap_or_else(|| self.options.scenario.version.clone());
        let told_id = view.and_then(|view| view.claim("id.openshift.io").or_else(|| view.label("clusterID")));
        let birth = Birth {
            cluster_id: told_id.map_or_else(|| dice.of("clusterID").uuid(), ToOwned::to_owned),
            channel: character.channel.unwrap_or_else(|| stable_channel(&version)),
            updates: character.updates,
            version,
        };
        let mut cluster = Cluster::new(name, character.openshift.then_some(&birth), dice, now);
        cluster.faults = character.faults;
        let name = Arc::clone(&cluster.name);
        let slot = ClusterSlot {
            cluster,
            works: BTreeMap::new(),
            due: Some(now),
            epoch: 0,
            faulty_since: now,
            annotated: false,
            signalled: true,
        };
        self.clusters.insert(Arc::clone(&name), slot);
        self.stats.clusters += 1;
        self.tick(&name, now);
    }

    /// Brings one cluster and its works up to `now`, queues writes, arms the next wake-up.
    fn tick(&mut self, name: &str, now: Time) {
        let Some(slot) = self.clusters.get_mut(name) else {
            return;
        };
        let key = Arc::clone(&slot.cluster.name);
        let presence = Presence::of(&slot.cluster.faults, slot.faulty_since, now);
        let mut wake = presence.until;
        let mut run_controllers = slot.due.is_some_and(|due| due <= now);
        if presence.agent {
            for (name, work) in slot
                .works
                .iter_mut()
                .filter(|(_, work)| work.hold_until.is_none_or(|at| at <= now))
            {
                work.hold_until = None;
                if apply_due(name, work, &mut slot.cluster, &self.options, now) {
                    self.stats.applies += 1;
                    run_controllers = true;
                }
            }
        } else {
            // Time away is not time the cluster worked on it.
            slot.works.values_mut().for_each(|work| work.asked = None);
        }
        if run_controllers && self.options.still {
            slot.due = None;
        } else if run_controllers {
            slot.due = slot.cluster.advance(&self.options.pace, now);
        }
        wake = earliest(wake, slot.due);
        let state = (slot.cluster.store.revision(), slot.epoch + presence.cycle);
        for (name, work) in &mut slot.works {
            if presence.agent {
                observe_due(
                    name,
                    work,
                    &slot.cluster,
                    state,
                    presence.reads_fail,
                    &self.options,
                    now,
                );
                let may_write = work.turn == Turn::Idle && work.hold_until.is_none();
                if may_write && work.wants().is_some() {
                    work.turn = Turn::Queued;
                    self.ready.push_back((Arc::clone(&key), Arc::clone(name)));
                }
                wake = earliest(wake, work.wake());
            }
        }
        if self.options.heartbeat && slot.signalled != presence.agent {
            slot.signalled = presence.agent;
            self.signals.push_back((Arc::clone(&key), presence.agent));
        }
        if let Some(at) = wake {
            self.agenda.arm(&key, at.max(now + TimeDelta::milliseconds(1)));
        }
    }
}

fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn stable_channel(version: &str) -> String {
    let mut parts = version.split('.');
    format!(
        "stable-{}.{}",
        parts.next().unwrap_or("4"),
        parts.next().unwrap_or("0")
    )
}

/// Whether the agent is there, and whether its reads work.
struct Presence {
    agent: bool,
    reads_fail: bool,
    until: Option<Time>,
    cycle: u64,
}

impl Presence {
    fn of(faults: &Faults, since: Time, now: Time) -> Self {
        let mut presence = Self {
            agent: !faults.offline(),
            reads_fail: false,
            until: None,
            cycle: 0,
        };
        if let Some((period, available)) = faults.flapping() {
            let period_ms = i64::try_from(period.as_millis()).unwrap_or(i64::MAX).max(1);
            let cycle = (now - since).num_milliseconds().max(0) / period_ms;
            let away = cycle % 2 == 1;
            presence.agent &= available || !away;
            presence.reads_fail = available && away;
            presence.cycle = if available { cycle.unsigned_abs() } else { 0 };
            presence.until = Some(since + TimeDelta::milliseconds(period_ms.saturating_mul(cycle + 1)));
        }
        presence
    }
}

/// Applies a work, or finishes its deletion, if that is due. Returns whether the cluster may have changed.
fn apply_due(
    name: &Arc<str>,
    work: &mut WorkSlot,
    cluster: &mut Cluster,
    options: &Options,
    now: Time,
) -> bool {
    if work.deleting && work.is_held() && !work.finalized {
        work.finalized = agent::finalize(name, cluster, now);
        if !work.finalized {
            // The agent always writes this; here only where anybody could see it before the work is gone.
            let message = "ManifestWork is being deleted";
            let deleting = Condition::new(
                "Deleting",
                Status::True,
                "WorkDeleting",
                message,
                work.generation,
                now,
            );
            work.unpublished |= status::set(&mut work.status.conditions, deleting);
            work.apply_at = Some(now + TimeDelta::seconds(5));
        }
        return true;
    }
    if !work.is_active() || work.apply_at.is_none_or(|at| at > now) {
        return false;
    }
    cluster.asked = work.asked.take();
    let mut status = std::mem::take(&mut work.status);
    let applied = work
        .work(name)
        .map(|view| agent::apply(view, cluster, &mut status, now))
        .unwrap_or_default();
    work.status = status;
    work.unpublished |= applied.changed;
    work.apply_at = Some(if applied.retry {
        now + work.back_off()
    } else {
        work.failures = 0;
        let draw = cluster.dice().of(name).nth(now.timestamp().unsigned_abs());
        now + scale(RESYNC, options.pace.time_scale * draw.between(1.0, 1.5)).max(TimeDelta::seconds(1))
    });
    true
}

/// Collects feedback if something changed and its time has come.
fn observe_due(
    name: &Arc<str>,
    work: &mut WorkSlot,
    cluster: &Cluster,
    state: (u64, u64),
    reads_fail: bool,
    options: &Options,
    now: Time,
) {
    if !work.is_active() || work.observed == Some(state) {
        return;
    }
    let interval = options.status_sync_interval;
    let at_once = interval.is_zero() || work.observed.is_none() || watches(work);
    if !at_once {
        let draw = cluster.dice().of(name).nth(state.0).unit();
        let at = *work
            .observe_at
            .get_or_insert_with(|| now + scale(interval, 1.9 * draw));
        if at > now {
            return;
        }
    }
    work.observe_at = None;
    let mut status = std::mem::take(&mut work.status);
    if let Some(view) = work.work(name) {
        let settings = Settings {
            raw_json: options.raw_json,
            reads_fail,
        };
        work.unpublished |= agent::observe(view, cluster, &mut status, settings, now);
        work.observed = Some(state);
    }
    work.status = status;
}

/// Whether any resource of the work has `feedbackScrapeType: Watch`.
fn watches(work: &WorkSlot) -> bool {
    let Some(spec) = &work.spec else {
        return false;
    };
    work.status.resource_status.manifests.iter().any(|manifest| {
        let meta = &manifest.resource_meta;
        let key = ObjectKey::new(
            meta.group.clone(),
            meta.resource.clone(),
            &meta.namespace,
            &meta.name,
        );
        spec.configs.of(&key).scrape == WatchOrPoll::Watch
    })
}
