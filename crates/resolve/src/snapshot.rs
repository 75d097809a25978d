//! What the planner sees of one upgrade, given the lists of a hub: a controller that has just started would see the same.
//!
//! What only a running controller knows is missing: writes under way and their waits, and since when a cluster is no longer
//! selected.

mod answers;

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use api::mcu::UpgradeState;
use api::names::{ANNOTATION_UPGRADE_UID, LABEL_MCU, LABEL_MCU_UID, Step};
use api::time::to_chrono;
use api::validate::SpecViolation;
use api::views::{Report, Upgrade};
use chrono::{DateTime, TimeDelta, Utc};
use observe::fleet;
use observe::index::{Change, Index, Uid};
use observe::input::{OtherUpgrades, Standing, UpgradeInput};
use observe::preflight::{Asker, Preflights, Question};
use observe::record::{HubRow, HubRows, ReportRelation, relation_of};
use observe::selection::{self, Selected};
use observe::writes::{Backoff, LastReading, RunningWrites, StepBlocker, Unsettled};
use rollout::forecast::Profile;
use rollout::{Eligibility, Fleet, Hold, Policy, Preflight, Reason};

pub use self::answers::{Answers, KnownRefusal};
use crate::lists::HubLists;
use crate::origin::{Completed, Origin, OriginInput, annotation, is_unknown, origin_of};
use crate::retry;
use crate::spec::{ResolvedSpec, resolve_spec};
use crate::works::{SpokeRbac, WorkFlags};

/// Settings of the controller that planning depends on. The default is that of its flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSettings {
    /// Time that is added to the timeout of the operators.
    pub operators_grace: TimeDelta,
    /// A selector sees only clusters of sets that are bound.
    pub require_bindings: bool,
    /// The hub itself may be upgraded.
    pub allow_hub: bool,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        ControllerSettings {
            operators_grace: TimeDelta::seconds(30),
            require_bindings: true,
            allow_hub: false,
        }
    }
}

/// A hub at one time.
#[derive(Debug)]
pub struct Snapshot {
    index: Index,
    upgrades: BTreeMap<Uid, KnownUpgrade>,
    settings: ControllerSettings,
    now: DateTime<Utc>,
    forgotten: Forgotten,
}

/// An upgrade of a hub.
#[derive(Debug)]
struct KnownUpgrade {
    uid: Uid,
    name: Arc<str>,
    namespace: Arc<str>,
    key: Arc<str>,
    created: DateTime<Utc>,
    object: Upgrade,
    spec: Result<ResolvedSpec, Vec<SpecViolation>>,
    selected: Selected,
    rows: HubRows,
    has_earlier_reports: bool,
    /// What its clusters were asked by the spec on the hub, if this one is an edit that nobody has applied yet.
    asked_before: Option<Arc<Question>>,
}

/// What a controller remembers of its own writes, and a new one does not: nothing.
#[derive(Debug, Default)]
struct Forgotten {
    times: AHashMap<Arc<str>, DateTime<Utc>>,
    former: AHashSet<Arc<str>>,
    running: AHashMap<Arc<str>, RunningWrites>,
    backoff: AHashMap<Arc<str>, Backoff>,
    unsettled: AHashMap<Arc<str>, Vec<Unsettled>>,
    readings: AHashMap<Arc<str>, LastReading>,
    blockers: AHashMap<(Arc<str>, Step), StepBlocker>,
    preflights: Preflights,
}

/// What the planner sees of an upgrade.
#[derive(Clone, Debug)]
pub struct PlannerInput {
    /// What was requested.
    pub policy: Policy,
    /// What was observed.
    pub fleet: Fleet,
    /// What else is known of each cluster, in the order of the fleet.
    pub profiles: Vec<Profile>,
    /// Why the selection may be smaller than the author expects.
    pub notes: Vec<String>,
    /// What is known of the clusters that have not started.
    pub answers: Answers,
}

/// Why no plan is made for an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPlan {
    /// No upgrade has this UID.
    Unknown,
    /// The upgrade is being deleted.
    Deleting,
    /// The spec violates these rules.
    Invalid(Vec<SpecViolation>),
    /// The upgrade was complete before it was restored from a backup.
    CompletedBefore(Completed),
}

impl Snapshot {
    /// Puts the lists of a hub together. `now` is when they were read.
    #[must_use]
    pub fn new(lists: HubLists, settings: ControllerSettings, now: DateTime<Utc>) -> Snapshot {
        let HubLists {
            clusters,
            sets,
            bindings,
            placements,
            decisions,
            upgrades,
            reports,
            works,
            replaced,
            ..
        } = lists;
        let mut index = Index::default();
        for object in clusters {
            index.cluster(&Change::Applied(object));
        }
        for object in sets {
            index.set(&Change::Applied(object));
        }
        for object in bindings {
            index.binding(&Change::Applied(object));
        }
        for object in placements {
            index.placement(&Change::Applied(object));
        }
        for object in decisions {
            index.decision(&Change::Applied(object));
        }
        for object in works {
            index.listed_work(&object, now);
        }
        let uids: AHashSet<String> = upgrades
            .iter()
            .filter_map(|object| object.metadata.uid.clone())
            .collect();
        let known = upgrades
            .into_iter()
            .filter_map(|object| KnownUpgrade::new(object, &reports, &uids, &index, &settings));
        let mut upgrades: BTreeMap<Uid, KnownUpgrade> =
            known.map(|upgrade| (Arc::clone(&upgrade.uid), upgrade)).collect();
        if let Some(before) = replaced
            && let Some(edited) = before
                .metadata
                .uid
                .as_deref()
                .and_then(|uid| upgrades.get_mut(uid))
            && let Ok(spec) = resolve_as_asked(&before, &edited.uid, &index, &settings)
        {
            edited.asked_before = spec.questions().preflight;
        }
        for report in upgrades.values().flat_map(|upgrade| upgrade.own(&reports)) {
            index.note_rows(report, now);
        }
        Snapshot {
            upgrades,
            index,
            settings,
            now,
            forgotten: Forgotten::default(),
        }
    }

    /// UID of the upgrade with this name.
    #[must_use]
    pub fn uid_of(&self, namespace: &str, name: &str) -> Option<&str> {
        self.upgrades
            .values()
            .find(|upgrade| *upgrade.namespace == *namespace && *upgrade.name == *name)
            .map(|upgrade| &*upgrade.uid)
    }

    /// What the planner sees of an upgrade: the controller's way from resolve to observe.
    ///
    /// # Errors
    /// The controller would make no plan for it.
    pub fn planner_input(&mut self, uid: &str) -> Result<PlannerInput, NoPlan> {
        let with_works = self.index.clusters_of(uid);
        let upgrade = self.upgrades.get(uid).ok_or(NoPlan::Unknown)?;
        if upgrade.is_deleting() {
            return Err(NoPlan::Deleting);
        }
        let origin = upgrade.origin(with_works.is_empty());
        if let Origin::CompletedBefore(completed) = origin {
            return Err(NoPlan::CompletedBefore(completed));
        }
        let spec = upgrade
            .spec
            .as_ref()
            .map_err(|violations| NoPlan::Invalid(violations.clone()))?;
        let status = upgrade.object.status.good();
        let policy = Policy {
            retry: retry::pending(&upgrade.object, &spec.fields, status),
            hold: match origin {
                Origin::Restored(_) => Some(Hold::Restored),
                Origin::Own | Origin::CompletedBefore(_) => spec.policy.hold,
            },
            ..spec.policy.clone()
        };
        let others = OtherKnown {
            snapshot: self,
            observed: &upgrade.uid,
        };
        let observation = fleet::observe(
            &self.input(upgrade),
            &others,
            &self.index,
            &with_works,
            self.settings.allow_hub,
            self.now,
        );
        let mut fleet = observation.fleet;
        let answers = self.judge(upgrade, spec, &mut fleet);
        let clusters = fleet.clusters.iter();
        let profiles = clusters.map(|cluster| observe::profile::of(&self.index, &cluster.name));
        Ok(PlannerInput {
            policy,
            profiles: profiles.collect(),
            fleet,
            notes: upgrade.selected.notes.clone(),
            answers,
        })
    }

    /// Adds what clusters have answered before their start, as far as a plan may rely on it; see [`Answers`].
    fn judge(&self, upgrade: &KnownUpgrade, spec: &ResolvedSpec, fleet: &mut Fleet) -> Answers {
        let asker = Asker {
            uid: &upgrade.uid,
            key: &upgrade.key,
            agents_can_read: self.may_ask_all_agents(),
            clock_trusted: true,
            rate: 0,
        };
        let mut questions = spec.questions();
        if let Some((question, before)) = questions.preflight.as_mut().zip(upgrade.asked_before.as_ref())
            && before.tells(question)
        {
            Arc::make_mut(question).hash = Arc::clone(&before.hash);
        }
        let mut answers = Answers {
            required: spec.policy.requires_preflight,
            ..Answers::default()
        };
        let mut preflights = Preflights::at_a_glance();
        preflights.refresh(&questions, asker, &self.index, self.now);
        for cluster in &mut fleet.clusters {
            let name = &cluster.name;
            if !matches!(cluster.eligibility, Eligibility::Blocked { .. })
                && let Some(barred) = preflights.cannot_tell_pools(name, &self.index)
            {
                cluster.eligibility = barred;
            }
            if questions.workers.is_some()
                && answers::is_asked(cluster)
                && self.index.probe(name).is_none()
                && !self.has_reading_agent(name)
            {
                answers.unknown_for_pools += 1;
            }
            let answer = preflights.of(name, &upgrade.uid, &self.index, self.now);
            let is_in_other_channel = preflights.is_in_other_channel(name);
            let answer = answers::by_graph(cluster, &spec.policy, answer, is_in_other_channel);
            if let Some(refusal) = answers::refusal_of_request(cluster, &spec.policy, self.now) {
                answers.refused.insert(Arc::clone(name), refusal);
            }
            let newer = preflights
                .newer_version(name)
                .filter(|_| !spec.policy.allow_downgrade);
            cluster.preflight = if let Some(told) = newer {
                // In no mode is it asked to go back.
                cluster.newest_version = told;
                answer
            } else if questions.preflight.is_some() && answers::is_asked(cluster) {
                answers.take(name, answer, self.has_reading_agent(name))
            } else if matches!(answer, Preflight::Blocked { .. }) {
                answer
            } else {
                Preflight::Ready
            };
        }
        answers
    }

    /// False if a row tells that the controller does not ask clusters whose work agents it does not know. Only the controller knows its
    /// flag --agents-support-read-only, so without such a row it is assumed that every cluster can be asked.
    fn may_ask_all_agents(&self) -> bool {
        let mut rows = self.upgrades.values().flat_map(|known| &known.rows.by_cluster);
        !rows.any(|(cluster, row)| {
            row.record.reason == Reason::PreflightUnsupported
                && self.index.probe(cluster).is_none()
                && !self.has_reading_agent(cluster)
        })
    }

    fn has_reading_agent(&self, cluster: &str) -> bool {
        let cluster = self.index.clusters.get(cluster);
        cluster.is_some_and(|cluster| cluster.has_reading_agent())
    }

    fn input<'a>(&'a self, upgrade: &'a KnownUpgrade) -> UpgradeInput<'a, HubRow> {
        let forgotten = &self.forgotten;
        UpgradeInput {
            uid: &upgrade.uid,
            key: &upgrade.key,
            created: upgrade.created,
            is_deleting: upgrade.is_deleting(),
            standing: Standing::of(upgrade.spec.is_ok(), upgrade.is_stalled()),
            in_force: upgrade.spec.as_ref().ok().map(|spec| &spec.fields),
            calendars: upgrade.spec.as_ref().ok().map(|spec| &spec.calendars),
            selected: &upgrade.selected,
            rows: &upgrade.rows.by_cluster,
            unreleased: Vec::new(),
            unremoved: Vec::new(),
            is_incomplete: upgrade.rows.is_incomplete,
            left: &forgotten.times,
            former: &forgotten.former,
            running: &forgotten.running,
            backoff: &forgotten.backoff,
            unsettled: &forgotten.unsettled,
            readings: &forgotten.readings,
            blockers: &forgotten.blockers,
            missing: &forgotten.times,
            preflights: &forgotten.preflights,
        }
    }
}

/// All upgrades except the observed one.
struct OtherKnown<'a> {
    snapshot: &'a Snapshot,
    observed: &'a Uid,
}

impl<'a> OtherUpgrades<'a, HubRow> for OtherKnown<'a> {
    fn all(&self) -> impl Iterator<Item = UpgradeInput<'a, HubRow>> {
        let snapshot = self.snapshot;
        let others = snapshot.upgrades.values();
        others
            .filter(|other| other.uid != *self.observed)
            .map(|other| snapshot.input(other))
    }

    fn get(&self, uid: &str) -> Option<UpgradeInput<'a, HubRow>> {
        let other = self.snapshot.upgrades.get(uid);
        other
            .filter(|other| other.uid != *self.observed)
            .map(|other| self.snapshot.input(other))
    }
}

/// The spec with the probe that clusters have. Its hash depends on `--spoke-rbac`, a flag that only the controller knows.
fn resolve_as_asked(
    object: &Upgrade,
    uid: &str,
    index: &Index,
    settings: &ControllerSettings,
) -> Result<ResolvedSpec, Vec<SpecViolation>> {
    let with = |spoke_rbac| {
        let flags = WorkFlags {
            spoke_rbac,
            ..WorkFlags::default()
        };
        resolve_spec(object, &flags, settings.operators_grace)
    };
    let is_asked = |spec: &ResolvedSpec| {
        let questions = spec.questions();
        let preflight = questions.preflight.as_ref().map(|question| &question.hash);
        let hashes = [preflight, questions.workers.as_ref()];
        let mut probes = index.probes_of(uid);
        probes.any(|(_, probe)| hashes.into_iter().flatten().any(|hash| *hash == probe.hash))
    };
    let without_role = with(SpokeRbac::None);
    match &without_role {
        Ok(spec) if is_asked(spec) => without_role,
        _ => with(SpokeRbac::default()),
    }
}

impl KnownUpgrade {
    fn new(
        object: Upgrade,
        reports: &[Report],
        uids: &AHashSet<String>,
        index: &Index,
        settings: &ControllerSettings,
    ) -> Option<KnownUpgrade> {
        let meta = &object.metadata;
        let namespace: Arc<str> = Arc::from(meta.namespace.as_deref()?);
        let name: Arc<str> = Arc::from(meta.name.as_deref()?);
        let uid: Uid = Arc::from(meta.uid.as_deref()?);
        let own = |report: &&Report| relation_of(report, &namespace, &name, &uid) == ReportRelation::Own;
        let rows = HubRows::read(&name, reports.iter().filter(own));
        let spec = resolve_as_asked(&object, &uid, index, settings);
        let mut selected = Selected::default();
        if let Ok(spec) = &spec {
            let (clusters, placements) = (&index.clusters, &index.placements);
            selected = selection::select(
                &spec.fields,
                &namespace,
                clusters,
                placements,
                settings.require_bindings,
            );
        }
        let earlier = |report: &Report| is_of_unknown_upgrade(report, &namespace, &name, uids);
        Some(KnownUpgrade {
            key: Arc::from(format!("{namespace}/{name}")),
            created: meta
                .creation_timestamp
                .as_ref()
                .and_then(to_chrono)
                .unwrap_or_default(),
            has_earlier_reports: reports.iter().any(earlier),
            uid,
            name,
            namespace,
            object,
            spec,
            selected,
            rows,
            asked_before: None,
        })
    }

    /// The reports that belong to the upgrade.
    fn own<'r>(&self, reports: &'r [Report]) -> impl Iterator<Item = &'r Report> {
        let relation = |report| relation_of(report, &self.namespace, &self.name, &self.uid);
        reports
            .iter()
            .filter(move |report| relation(report) == ReportRelation::Own)
    }

    fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    fn is_stalled(&self) -> bool {
        let status = self.object.status.good();
        status.is_some_and(|status| status.state == Some(UpgradeState::Stalled))
    }

    fn origin(&self, is_idle: bool) -> Origin {
        origin_of(&OriginInput {
            object: &self.object,
            uid: &self.uid,
            key: &self.key,
            has_earlier_reports: self.has_earlier_reports && is_unmarked(&self.object),
            is_idle,
            has_rows: !self.rows.by_cluster.is_empty(),
            revision: self.spec.as_ref().ok().map(|spec| &*spec.policy.revision),
            status: self.object.status.good(),
        })
    }
}

/// True when nothing on the object shows that a controller processed it before.
fn is_unmarked(object: &Upgrade) -> bool {
    annotation(object, ANNOTATION_UPGRADE_UID).is_none() && object.status.good().is_none_or(is_unknown)
}

/// True for a report of an upgrade with this name that does not exist any more.
fn is_of_unknown_upgrade(report: &Report, namespace: &str, name: &str, uids: &AHashSet<String>) -> bool {
    let labels = report.metadata.labels.as_ref();
    let label = |key| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    report.metadata.namespace.as_deref() == Some(namespace)
        && label(LABEL_MCU) == Some(name)
        && label(LABEL_MCU_UID).is_some_and(|uid| !uids.contains(uid))
}

#[cfg(test)]
mod tests;
