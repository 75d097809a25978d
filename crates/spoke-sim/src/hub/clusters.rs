//! All simulated clusters with their works: how they change with events and time, and which writes follow.
//!
//! This module has no I/O and no clock. The engine passes both in, and tests do without.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;

use super::options::Options;
use super::timers::Timers;
use super::view::{ClusterView, WorkView};
use super::work_state::{WorkState, Write, WriteKind, WriteState};
use crate::agent::{self, Settings};
use crate::cluster::Cluster;
use crate::fault::{ANNOTATION, Faults, Simulator};
use crate::fields::Time;
use crate::platform::cvo::Installation;
use crate::platform::scale;
use crate::seeded_rng::SeededRng;
use crate::store::ObjectKey;
use crate::work::status::{self, Condition, Status};
use crate::work::{Interner, WatchOrPoll};

/// Time between two applies of an unchanged work, times 1 to 1.5.
const RESYNC: Duration = Duration::from_mins(4);

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Simulated clusters.
    pub clusters: u64,
    /// Known works.
    pub works: u64,
    /// Passes over works that applied their manifests.
    pub applies: u64,
    /// Finalizers added.
    pub holds: u64,
    /// Status writes.
    pub statuses: u64,
    /// Finalizers removed.
    pub releases: u64,
    /// Writes that the hub refused with 409.
    pub conflicts: u64,
    /// Writes that failed for another reason.
    pub failures: u64,
}

/// All simulated clusters.
pub(super) struct Clusters {
    pub options: Options,
    pub stats: Stats,
    timers: Timers,
    ready: VecDeque<(Arc<str>, Arc<str>)>,
    signals: VecDeque<(Arc<str>, bool)>,
    interner: Interner,
    by_name: BTreeMap<Arc<str>, ClusterState>,
    rng: SeededRng,
}

pub(super) struct ClusterState {
    pub cluster: Cluster,
    works: BTreeMap<Arc<str>, WorkState>,
    /// When the cluster's controllers next act.
    due: Option<Time>,
    /// Counts changes of the faults.
    epoch: u64,
    faulty_since: Time,
    annotated: bool,
    /// Whether the agent was last reported as available.
    signalled: bool,
}

impl Clusters {
    pub fn new(options: Options) -> Self {
        let rng = SeededRng::new(options.seed);
        Self {
            options,
            stats: Stats::default(),
            timers: Timers::default(),
            ready: VecDeque::new(),
            signals: VecDeque::new(),
            interner: Interner::default(),
            by_name: BTreeMap::new(),
            rng,
        }
    }

    pub fn cluster(&self, name: &str) -> Option<&Cluster> {
        self.by_name.get(name).map(|entry| &entry.cluster)
    }

    pub fn cluster_mut(&mut self, name: &str) -> Option<&mut Cluster> {
        self.by_name.get_mut(name).map(|entry| &mut entry.cluster)
    }

    /// Takes whatever the hub delivers next for the present state of each work, even if it has an older resourceVersion.
    pub fn forget_versions(&mut self) {
        let works = self
            .by_name
            .values_mut()
            .flat_map(|cluster| cluster.works.values_mut());
        works.for_each(WorkState::forget_version);
    }

    /// Names of the simulated clusters, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.by_name.keys().map(ToString::to_string).collect();
        names.sort_unstable();
        names
    }

    /// Bytes of all simulated objects.
    pub fn bytes(&self) -> usize {
        self.by_name
            .values()
            .map(|entry| entry.cluster.store.bytes())
            .sum()
    }

    /// The next time at which something happens without an event.
    pub fn next(&self) -> Option<Time> {
        self.timers.next()
    }

    /// A ManagedCluster was listed or changed.
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
        let Some(entry) = self.by_name.get_mut(name) else {
            return;
        };
        let faults = match annotation.map(|text| Faults::parse(text, Simulator::Agents)) {
            Some(Ok(faults)) => Some(faults),
            Some(Err(error)) => {
                tracing::warn!(cluster = name, %error, "annotation {ANNOTATION} is ignored");
                None
            }
            None => entry.annotated.then(Faults::default),
        };
        entry.annotated = annotation.is_some();
        if let Some(faults) = faults {
            self.set_faults(name, faults, now);
        }
    }

    /// A ManagedCluster is gone. The simulated cluster stays until its works are gone too.
    pub fn forget_cluster(&mut self, name: &str) {
        if self.by_name.get(name).is_some_and(|entry| entry.works.is_empty()) {
            self.by_name.remove(name);
        }
    }

    /// Sets the faults of a cluster. Returns false if the cluster is not simulated.
    pub fn set_faults(&mut self, name: &str, faults: Faults, now: Time) -> bool {
        let Some(entry) = self.by_name.get_mut(name) else {
            return false;
        };
        if entry.cluster.faults != faults {
            tracing::info!(cluster = name, %faults, "faults changed");
            entry.cluster.faults = faults;
            entry.faulty_since = now;
            self.touch(name, now);
        }
        true
    }

    /// Something about a cluster changed from outside, so its controllers and agent run again.
    pub fn touch(&mut self, name: &str, now: Time) {
        if let Some(entry) = self.by_name.get_mut(name) {
            entry.epoch += 1;
            entry.due = Some(now);
            self.tick(name, now);
        }
    }

    /// A ManifestWork was listed or changed.
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
        let known = self
            .by_name
            .get(namespace)
            .and_then(|entry| entry.works.get(name));
        if known.is_some_and(|work| *work.uid != *uid) {
            self.forget_work(namespace, name, now);
        }
        let Some(entry) = self.by_name.get_mut(namespace) else {
            return;
        };
        let work = entry.works.entry(name.into()).or_insert_with(|| {
            self.stats.works += 1;
            WorkState::new(view)
        });
        if work.update(view, &mut self.interner, now) {
            self.tick(namespace, now);
        }
    }

    /// A ManifestWork is gone from the hub, so what it owned is deleted.
    pub fn forget_work(&mut self, namespace: &str, name: &str, now: Time) {
        let Some(entry) = self.by_name.get_mut(namespace) else {
            return;
        };
        if entry.works.remove(name).is_some() {
            self.stats.works -= 1;
            agent::finalize(name, &mut entry.cluster, now);
            self.tick(namespace, now);
        }
    }

    /// Forgets the works that a complete list did not contain.
    pub fn retain_works(&mut self, is_there: impl Fn(&str, &str) -> bool, now: Time) {
        let gone: Vec<(Arc<str>, Arc<str>)> = self
            .by_name
            .iter()
            .flat_map(|(cluster, entry)| {
                entry
                    .works
                    .keys()
                    .map(move |work| (Arc::clone(cluster), Arc::clone(work)))
            })
            .filter(|(cluster, work)| !is_there(cluster, work))
            .collect();
        for (cluster, work) in gone {
            self.forget_work(&cluster, &work, now);
        }
    }

    /// Runs everything that is due.
    pub fn run_due(&mut self, now: Time) {
        while let Some(cluster) = self.timers.pop_due(now) {
            self.tick(&cluster, now);
        }
    }

    /// The next write to the hub.
    pub fn next_write(&mut self) -> Option<Write> {
        while let Some((cluster, work)) = self.ready.pop_front() {
            let Some(entry) = self.by_name.get_mut(&cluster) else {
                continue;
            };
            let Some(found) = entry.works.get_mut(&work) else {
                continue;
            };
            found.turn = WriteState::Idle;
            let Some(kind) = found.wants() else {
                continue;
            };
            let Ok(body) = found.body(kind) else { continue };
            found.turn = WriteState::Writing;
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

    /// The next cluster whose agent became available (true) or went away (false).
    pub fn next_signal(&mut self) -> Option<(Arc<str>, bool)> {
        self.signals.pop_front()
    }

    /// Records the result of a write: the object as the hub now has it, or the HTTP status of the refusal (0 without a response).
    pub fn written(&mut self, write: &Write, result: Result<WorkView, u16>, now: Time) {
        let counter = match (&result, write.kind) {
            (Ok(_), WriteKind::Hold) => Some(&mut self.stats.holds),
            (Ok(_), WriteKind::Status) => Some(&mut self.stats.statuses),
            (Ok(_), WriteKind::Release) => Some(&mut self.stats.releases),
            (Err(409), _) => Some(&mut self.stats.conflicts),
            // The work is already gone. A watch that lags behind our own write showed it once more.
            (Err(404), WriteKind::Release) => None,
            (Err(_), _) => Some(&mut self.stats.failures),
        };
        if let Some(counter) = counter {
            *counter += 1;
        }
        let entry = self.by_name.get_mut(&write.cluster);
        let work = entry.and_then(|entry| entry.works.get_mut(&write.work));
        // The watch may already have reported that the work is gone, or that a new one has its name.
        let Some(work) = work.filter(|work| work.uid == write.uid) else {
            return;
        };
        work.turn = WriteState::Idle;
        if let Ok(view) = result {
            work.refused = 0;
            if write.kind == WriteKind::Status {
                work.status_written(&view);
            }
            self.observe_work(&view, now);
            // The response is older than what the watch has shown if another write came in between.
            let entry = self.by_name.get_mut(&write.cluster);
            if let Some(work) = entry.and_then(|entry| entry.works.get_mut(&write.work)) {
                work.check_hub_copy();
            }
        } else {
            work.unpublished |= write.kind == WriteKind::Status;
            // The status may have been overwritten since the write was sent.
            work.check_hub_copy();
            // The watch resolves a 404 or a conflict. The delay is for the case that it lags.
            let delay = TimeDelta::milliseconds(100 << work.refused.min(8));
            work.refused += 1;
            work.hold_until = Some(now + delay);
        }
        self.tick(&write.cluster, now);
    }

    fn ensure(&mut self, name: &str, view: Option<&ClusterView>, now: Time) {
        if self.by_name.contains_key(name) {
            return;
        }
        let index = self.by_name.len();
        let rng = self.rng.of(name);
        let labels = view
            .and_then(|view| view.metadata.labels.clone())
            .unwrap_or_default();
        let profile = self.options.scenario.profile(self.rng, name, index, &labels);
        // A claim that is no version tells nothing of what is installed.
        let is_version = |claim: &&str| semver::Version::parse(claim).is_ok();
        let claimed = view.and_then(|view| view.claim("version.openshift.io"));
        let version = profile
            .version
            .or_else(|| claimed.filter(is_version).map(ToOwned::to_owned))
            .or_else(|| view?.label("openshiftVersion").map(ToOwned::to_owned))
            .filter(|version| !version.is_empty())
            .unwrap_or_else(|| self.options.scenario.version.clone());
        let told_id = view.and_then(|view| view.claim("id.openshift.io").or_else(|| view.label("clusterID")));
        let installation = Installation {
            cluster_id: told_id.map_or_else(|| rng.of("clusterID").uuid(), ToOwned::to_owned),
            channel: profile.channel.unwrap_or_else(|| stable_channel(&version)),
            updates: profile.updates,
            version,
        };
        let mut cluster = Cluster::new(name, profile.openshift.then_some(&installation), rng, now);
        cluster.faults = profile.faults;
        let name = Arc::clone(&cluster.name);
        let entry = ClusterState {
            cluster,
            works: BTreeMap::new(),
            due: Some(now),
            epoch: 0,
            faulty_since: now,
            annotated: false,
            signalled: true,
        };
        self.by_name.insert(Arc::clone(&name), entry);
        self.stats.clusters += 1;
        self.tick(&name, now);
    }

    /// Brings one cluster and its works up to `now`, queues writes, and sets the next timer.
    fn tick(&mut self, name: &str, now: Time) {
        let Some(entry) = self.by_name.get_mut(name) else {
            return;
        };
        let key = Arc::clone(&entry.cluster.name);
        let presence = Presence::of(&entry.cluster.faults, entry.faulty_since, now);
        let is_old = entry.cluster.faults.old_agent();
        let mut wake = presence.until;
        let mut run_controllers = entry.due.is_some_and(|due| due <= now);
        if presence.agent {
            for (name, work) in entry
                .works
                .iter_mut()
                .filter(|(_, work)| work.hold_until.is_none_or(|at| at <= now))
                .filter(|(_, work)| !(is_old && work.reads()))
            {
                work.hold_until = None;
                if apply_due(name, work, &mut entry.cluster, &self.options, now) {
                    self.stats.applies += 1;
                    run_controllers = true;
                }
            }
        } else {
            // The cluster did not work on it while its agent was away.
            entry.works.values_mut().for_each(|work| work.asked = None);
        }
        if run_controllers && self.options.still {
            entry.due = None;
        } else if run_controllers {
            entry.due = entry.cluster.advance(&self.options.pace, now);
        }
        wake = earliest(wake, entry.due);
        let state = (entry.cluster.store.revision(), entry.epoch, presence.cycle);
        for (name, work) in &mut entry.works {
            if presence.agent {
                let (cluster, fails) = (&entry.cluster, presence.reads_fail);
                if is_old && work.reads() {
                    work.misread(now);
                } else {
                    observe_due(name, work, cluster, state, fails, &self.options, now);
                }
                let may_write = work.turn == WriteState::Idle && work.hold_until.is_none();
                if may_write && work.wants().is_some() {
                    work.turn = WriteState::Queued;
                    self.ready.push_back((Arc::clone(&key), Arc::clone(name)));
                }
                wake = earliest(wake, work.wake());
            }
        }
        if self.options.heartbeat && entry.signalled != presence.agent {
            entry.signalled = presence.agent;
            self.signals.push_back((Arc::clone(&key), presence.agent));
        }
        if let Some(at) = wake {
            self.timers.arm(&key, at.max(now + TimeDelta::milliseconds(1)));
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

/// Whether the agent is available, and whether it can read objects.
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

/// Applies a work or continues its deletion, if that is due. Returns whether the cluster may have changed.
fn apply_due(
    name: &Arc<str>,
    work: &mut WorkState,
    cluster: &mut Cluster,
    options: &Options,
    now: Time,
) -> bool {
    if work.deleting && work.is_held() && !work.finalized {
        work.finalized = agent::finalize(name, cluster, now);
        if !work.finalized {
            // The real agent always writes this. Here it is written only if the work still exists afterwards.
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
        let draw = cluster.rng().of(name).nth(now.timestamp().unsigned_abs());
        now + scale(RESYNC, options.pace.time_scale * draw.between(1.0, 1.5)).max(TimeDelta::seconds(1))
    });
    true
}

/// Collects feedback if something changed and collection is due.
fn observe_due(
    name: &Arc<str>,
    work: &mut WorkState,
    cluster: &Cluster,
    state: (u64, u64, u64),
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
        let draw = cluster.rng().of(name).nth(state.0).unit();
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
fn watches(work: &WorkState) -> bool {
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
