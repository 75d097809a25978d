//! What the controller knows of one upgrade between two looks at it: its spec, selection, records, and the writes that
//! are under way. All of it can be rebuilt from the hub.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::{AHashMap, AHashSet};
use api::names::Step;
use api::time::to_chrono;
use api::validate::Violation;
use api::views::Upgrade;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::{Attempt, Busy};

use crate::action_limit::ActionLimit;
use crate::apply::Outcome;
use crate::archive::Archive;
use crate::backoff::{
    BACKOFF, Backoff, Certainty, LastReading, OBSTACLE, Obstacle, ObstacleKind, SETTLED, Unsettled,
    certainty, doubled,
};
use crate::index::{Index, Uid};
use crate::observe::{self, Sight};
use crate::policy::Brief;
use crate::report::rows::Rows;
use crate::report::writer::StatusState;
use crate::restore::Origin;
use crate::selection::Selected;
use crate::telemetry::labels::{WriteKind, WriteOutcome};

/// Shortest time between two looks: what agents report at about the same time is gathered, and a freed slot is not empty
/// for long.
const INTERVAL: Duration = Duration::from_millis(25);
/// The same while writers are behind: what a look finds would only wait longer in the queue. Short enough for what must
/// be stopped.
const INTERVAL_BEHIND: Duration = Duration::from_millis(500);
/// How many times longer than a look the rest after it is: looking takes at most a third of the time.
const REST: u32 = 2;

/// So many creations in a row that are forbidden, over a minute, are no permission on its way any more, but one that a human
/// must give.
pub const LASTING: u32 = 7;
/// So many looks at a foreign work that is being deleted, over a minute, show that it does not go by itself.
const PATIENCE: u32 = 12;

/// So long the reading of a work may be taken for what is on the hub.
const FRESH: TimeDelta = TimeDelta::seconds(60);

/// How long a cluster whose namespace was found missing stays out before it is tried again.
pub const MISSING: TimeDelta = TimeDelta::seconds(60);

/// One upgrade.
#[derive(Debug)]
pub struct Desk {
    /// UID.
    pub uid: Uid,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// `namespace/name`.
    pub key: Arc<str>,
    /// Creation time; the older upgrade goes first.
    pub created: DateTime<Utc>,
    /// The object as last seen.
    pub view: Arc<Upgrade>,
    /// The spec, checked.
    pub brief: Result<Arc<Brief>, Arc<Vec<Violation>>>,
    /// The latest valid spec, unless a revision between it and an invalid one was not seen: that might have been in force.
    pub last_valid: Option<Arc<Brief>>,
    /// The selection, and the epoch of the index it was made at.
    pub selected: Selected,
    /// Epoch of `selected`; 0: never.
    pub selected_at: u64,
    /// Since when clusters of the fleet are not selected any more.
    pub left: AHashMap<Arc<str>, DateTime<Utc>>,
    /// Clusters that it let go of while this process looked: late works of it there go with the upgrade.
    pub former: AHashSet<Arc<str>>,
    /// What the Selected condition says beside the number of clusters.
    pub notes: Vec<String>,
    /// Versions that this upgrade has brought clusters to whose claims still tell the one before, with that claim.
    pub proven: AHashMap<Arc<str>, (Arc<str>, Arc<str>)>,
    /// Records.
    pub rows: Rows,
    /// Writes under way, by cluster.
    pub busy: AHashMap<Arc<str>, Writes>,
    /// Failed writes, by cluster.
    pub backoff: AHashMap<Arc<str>, Backoff>,
    /// Creations and changes of works that may have been carried out, or may be yet, by cluster: one per step, in order.
    pub unsettled: AHashMap<Arc<str>, Vec<Unsettled>>,
    /// The last readings of works, by cluster.
    readings: AHashMap<Arc<str>, LastReading>,
    /// What stands in the way of a step, found when its work was to be created.
    pub obstacles: AHashMap<(Arc<str>, Step), Obstacle>,
    /// Clusters whose namespace is gone or terminating, until they are looked at again.
    pub missing: AHashMap<Arc<str>, DateTime<Utc>>,
    /// The status and its writing.
    pub status: StatusState,
    /// Another upgrade concerns some of its clusters.
    pub contested: bool,
    /// Where it comes from, as last judged.
    pub origin: Origin,
    /// UID of an upgrade of the same name that is gone and whose reports were left, found when this one was taken up.
    pub earlier_life: Option<Uid>,
    /// What was noted on the object last: it is not written again and again should somebody take it away each time.
    pub noted: Option<String>,
    /// The finalizers, or annotations, are being written.
    pub finalizing: bool,
    /// The last writes of the finalizers, or annotations, failed.
    pub hurdle: Option<Backoff>,
    /// How often the same was done to the same cluster.
    pub taken: ActionLimit,
    /// How far the clock is ahead of the hub's, if that is too far.
    pub skew: Option<TimeDelta>,
    /// What is kept in place of almost all of the above while it is finished.
    pub archive: Option<Box<Archive>>,
    /// When it was put back to work from the archive.
    pub unarchived: Option<Instant>,
    /// A look is due.
    pub dirty: bool,
    /// When it was last looked at, and how long that took.
    pub looked: Option<(Instant, Duration)>,
    /// When to look again, if nothing happens before.
    pub wake_at: Option<DateTime<Utc>>,
}

/// Writes of one cluster that are under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writes {
    /// How many.
    pub count: usize,
    /// One of them starts a step that holds a slot.
    pub starting: bool,
}

impl Writes {
    /// As the planner sees it.
    #[must_use]
    pub const fn busy(self) -> Busy {
        if self.starting {
            Busy::Starting
        } else {
            Busy::Other
        }
    }
}

impl Desk {
    /// Opens the desk of an upgrade. `None` for an object without name or UID.
    #[must_use]
    pub fn new(view: Arc<Upgrade>) -> Option<Desk> {
        let meta = &view.metadata;
        let namespace: Arc<str> = Arc::from(meta.namespace.as_deref()?);
        let name: Arc<str> = Arc::from(meta.name.as_deref()?);
        Some(Desk {
            uid: Arc::from(meta.uid.as_deref()?),
            key: Arc::from(format!("{namespace}/{name}")),
            created: meta
                .creation_timestamp
                .as_ref()
                .and_then(to_chrono)
                .unwrap_or_default(),
            rows: Rows::new(&name),
            namespace,
            name,
            view,
            brief: Err(Arc::default()),
            last_valid: None,
            selected: Selected::default(),
            selected_at: 0,
            left: AHashMap::new(),
            former: AHashSet::new(),
            notes: Vec::new(),
            proven: AHashMap::new(),
            busy: AHashMap::new(),
            backoff: AHashMap::new(),
            unsettled: AHashMap::new(),
            readings: AHashMap::new(),
            obstacles: AHashMap::new(),
            missing: AHashMap::new(),
            status: StatusState::default(),
            contested: false,
            origin: Origin::default(),
            earlier_life: None,
            noted: None,
            finalizing: false,
            hurdle: None,
            taken: ActionLimit::default(),
            skew: None,
            archive: None,
            unarchived: None,
            dirty: true,
            looked: None,
            wake_at: None,
        })
    }

    /// True while the object is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.view.metadata.deletion_timestamp.is_some()
    }

    /// Takes the spec, checked. `followed`: it is the object's next revision after the one known until now.
    pub fn take_spec(&mut self, brief: Result<Brief, Vec<Violation>>, followed: bool) {
        self.brief = brief.map(Arc::new).map_err(Arc::new);
        match &self.brief {
            Ok(brief) => self.last_valid = Some(Arc::clone(brief)),
            Err(_) if followed => {}
            Err(_) => self.last_valid = None,
        }
        self.forget_refusals();
        self.selected_at = 0;
        self.dirty = true;
    }

    /// What was refused is not waited for any more: another spec was, somebody says that it is mended, or the upgrade is being
    /// deleted and does not want it.
    pub fn forget_refusals(&mut self) {
        let unsettled = &self.unsettled;
        self.backoff
            .retain(|cluster, backoff| backoff.uncertain || unsettled.contains_key(cluster));
        self.obstacles
            .retain(|_, obstacle| !matches!(obstacle.kind, ObstacleKind::Refused(_)));
        self.dirty = true;
    }

    /// True when somebody else's work stands in the way of a step.
    #[must_use]
    pub fn has_foreign(&self, cluster: &Arc<str>, step: Step) -> bool {
        let obstacle = self.obstacles.get(&(Arc::clone(cluster), step));
        obstacle.is_some_and(|obstacle| obstacle.kind == ObstacleKind::Foreign)
    }

    /// True when this is the spec in force.
    #[must_use]
    pub fn goes_by(&self, brief: &Arc<Brief>) -> bool {
        self.in_force().is_some_and(|present| Arc::ptr_eq(present, brief))
    }

    /// The spec that clusters in flight go on by: the present one, or after an invalid edit the last valid one.
    #[must_use]
    pub fn in_force(&self) -> Option<&Arc<Brief>> {
        self.brief.as_ref().ok().or(self.last_valid.as_ref())
    }

    /// Notes what was seen of the fleet: who is leaving, and where works carry the upgrade's UID that are none of its own.
    pub fn take_sight(&mut self, sight: &Sight) {
        self.left = observe::leavers(&sight.fleet);
        for name in self.left.keys() {
            if !self.former.contains(name) {
                self.former.insert(Arc::clone(name));
            }
        }
        self.contested = sight.fleet.clusters.iter().any(|cluster| cluster.rival.is_some());
        let unaccounted = sight.unaccounted.first().map(|first| {
            format!(
                "ManifestWorks with this upgrade's UID are left alone in clusters that it neither selects nor has a record of: {}, such as {first}; whoever made them is to delete them",
                sight.unaccounted.len()
            )
        });
        if let Some(note) = unaccounted.as_ref().filter(|note| !self.notes.contains(note)) {
            tracing::warn!(upgrade = &*self.key, note, "works that do not count");
        }
        self.notes.clone_from(&self.selected.notes);
        self.notes.extend(unaccounted);
    }

    /// Starts a term: records come from the hub, nothing is under way. What an earlier term has sent without an answer may still
    /// come about, so that is kept.
    pub fn begin_term(&mut self) {
        self.rows.restart();
        if let Some(archive) = &mut self.archive {
            archive.begin_term();
        }
        self.left.clear();
        self.readings.clear();
        self.obstacles.clear();
        self.selected_at = 0;
        self.status.reset();
        self.status.observe(self.view.status.good());
        self.finalizing = false;
        self.noted = None;
        self.dirty = self.archive.is_none();
    }

    /// True when there is something to do for it.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.dirty || self.archive.as_ref().is_some_and(|archive| archive.is_due())
    }

    /// True when something of it is under way, or waits to be tried again.
    #[must_use]
    pub fn has_open_matters(&self) -> bool {
        let idle = self.busy.is_empty() && self.unsettled.is_empty();
        let clear = self.backoff.is_empty() && self.obstacles.is_empty() && self.missing.is_empty();
        !idle || !clear || self.skew.is_some()
    }

    /// When the upgrade may be looked at again: news that come in a burst are gathered, the more so while writers are
    /// `behind`.
    #[must_use]
    pub fn rested_at(&self, now: Instant, behind: bool) -> Instant {
        let interval = if behind { INTERVAL_BEHIND } else { INTERVAL };
        self.looked
            .map_or(now, |(at, took)| at + interval.max(took * REST))
    }

    /// True when it may be looked at now.
    #[must_use]
    pub fn rested(&self, now: Instant, behind: bool) -> bool {
        self.rested_at(now, behind) <= now
    }

    /// True when it comes after this order.
    #[must_use]
    pub fn is_younger_than(&self, older: Option<&(DateTime<Utc>, Arc<str>)>) -> bool {
        older.is_some_and(|(created, key)| self.order() > (*created, &**key))
    }

    /// Order among upgrades: the older goes first, then by namespace and name.
    #[must_use]
    pub fn order(&self) -> (DateTime<Utc>, &str) {
        (self.created, &self.key)
    }

    /// When something is due that no plan tells of: the next cluster whose namespace was missing is to be looked at again (those
    /// that are due are forgotten), or a doubt ends by time alone.
    pub fn due_at(&mut self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.missing.retain(|_, since| now < *since + MISSING);
        let missing = self.missing.values().min().map(|since| *since + MISSING);
        missing.into_iter().chain(self.settles_at(now)).min()
    }

    /// Notes that writes for a cluster begin.
    pub fn begin(&mut self, cluster: &Arc<str>, starting: bool) {
        let writes = self.busy.entry(Arc::clone(cluster)).or_default();
        writes.count += 1;
        writes.starting |= starting;
    }

    /// Notes that a write for a cluster ended.
    pub fn end(&mut self, cluster: &Arc<str>) {
        if let Some(writes) = self.busy.get_mut(cluster) {
            writes.count -= 1;
            if writes.count == 0 {
                self.busy.remove(cluster);
            }
        }
        self.dirty = true;
    }

    /// Notes a success: the next failure starts with a short wait again.
    pub fn succeed(&mut self, cluster: &str) {
        self.backoff.remove(cluster);
    }

    /// Notes a failure and how long to wait: doubling, from a second to a minute.
    pub fn fail(&mut self, cluster: &Arc<str>, now: DateTime<Utc>, text: &str, counted: WriteOutcome) {
        let entry = Backoff::after(self.backoff.get(cluster), now, text, counted);
        self.backoff.insert(Arc::clone(cluster), entry);
    }

    /// Notes that an action was asked for too often: the cluster waits.
    pub fn hold_off(&mut self, cluster: &Arc<str>, now: DateTime<Utc>, kind: WriteKind, wait: Duration) {
        let text = format!(
            "the same write ({}) was asked for too often within a minute; it waits",
            kind.as_str()
        );
        tracing::warn!(
            upgrade = &*self.key,
            cluster = &**cluster,
            text,
            "a loop was stopped"
        );
        let before = self.backoff.get(cluster);
        let entry = Backoff::held_off(before, now, &text, wait);
        self.backoff.insert(Arc::clone(cluster), entry);
    }

    /// Shortens waits that a clock which was set back has made long.
    pub fn clamp_waits(&mut self, now: DateTime<Utc>) {
        let waits = self.backoff.values_mut().chain(self.hurdle.as_mut());
        for backoff in waits {
            backoff.clamp(now);
        }
        for obstacle in self.obstacles.values_mut() {
            obstacle.retry_at = obstacle.retry_at.min(now + OBSTACLE.1);
        }
        for unsettled in self.unsettled.values_mut().flatten() {
            unsettled.given_up = unsettled.given_up.map(|at| at.min(now));
        }
        for since in self.missing.values_mut().chain(self.left.values_mut()) {
            *since = (*since).min(now);
        }
    }

    /// Notes the failure of a creation. One that is forbidden time after time waits for a human.
    pub fn fail_to_create(
        &mut self,
        cluster: &Arc<str>,
        now: DateTime<Utc>,
        text: &str,
        counted: WriteOutcome,
    ) {
        let forbidden = self.backoff.get(cluster).map_or(0, |backoff| backoff.forbidden);
        self.fail(cluster, now, text, counted);
        if counted == WriteOutcome::Forbidden
            && let Some(backoff) = self.backoff.get_mut(cluster)
        {
            backoff.forbidden = forbidden + 1;
        }
    }

    /// Takes what the answer to a creation or change says of whether it was carried out.
    pub fn weigh(
        &mut self,
        cluster: &Arc<str>,
        step: Step,
        attempt: &Attempt,
        outcome: &Outcome,
        now: DateTime<Utc>,
    ) {
        let given_up = match certainty(outcome) {
            Certainty::Unsent => return,
            // An earlier try may come about yet, should this work go.
            Certainty::Done => {
                let mut known = self.unsettled.get_mut(cluster).into_iter().flatten();
                if let Some(before) = known.find(|unsettled| unsettled.step == step) {
                    before.attempt = attempt.clone();
                }
                return self.rule_out(cluster, step, now);
            }
            Certainty::Refused => return self.rule_out(cluster, step, now),
            Certainty::PutOff => None,
            Certainty::Unknown => Some(now),
        };
        let known = self.unsettled.entry(Arc::clone(cluster)).or_default();
        let before = known.extract_if(.., |unsettled| unsettled.step == step).last();
        known.push(Unsettled {
            step,
            attempt: attempt.clone(),
            given_up: given_up.or(before.and_then(|before| before.given_up)),
        });
        known.sort_by_key(|unsettled| unsettled.step);
    }

    /// The hub did it, said no, or has no such work: earlier tries may still come about for a while.
    fn rule_out(&mut self, cluster: &str, step: Step, now: DateTime<Utc>) {
        // By a clock that has jumped nothing is over.
        if self.skew.is_some() {
            return;
        }
        if let Some(known) = self.unsettled.get_mut(cluster) {
            known.retain(|unsettled| unsettled.step != step || !unsettled.is_over(now));
            if known.is_empty() {
                self.unsettled.remove(cluster);
            }
        }
    }

    /// What turns out to have been carried out is settled as soon as no earlier try of it can come about any more. True when
    /// something was settled.
    pub fn settle(&mut self, index: &Index, now: DateTime<Utc>) -> bool {
        let uid = &self.uid;
        let mut settled = false;
        self.unsettled.retain(|cluster, known| {
            let before = known.len();
            known.retain(|unsettled| !unsettled.is_over(now) || !unsettled.has_landed(cluster, uid, index));
            settled |= known.len() < before;
            !known.is_empty()
        });
        settled
    }

    /// The step of which it is not known whether its work was created or changed, and another of which a creation may come
    /// about yet should its work go.
    #[must_use]
    pub fn doubts(&self, cluster: &str, index: &Index) -> (Option<Step>, Option<Step>) {
        let known = || self.unsettled.get(cluster).into_iter().flatten();
        let open = known().find(|unsettled| !unsettled.has_landed(cluster, &self.uid, index));
        let open = open.map(|unsettled| unsettled.step);
        let late = known()
            .map(|unsettled| unsettled.step)
            .find(|step| Some(*step) != open);
        (open, late)
    }

    /// When time alone settles something next.
    fn settles_at(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let given_up = self
            .unsettled
            .values()
            .flatten()
            .filter_map(|unsettled| unsettled.given_up);
        given_up.map(|at| at + SETTLED).filter(|over| *over > now).min()
    }

    /// Notes that a work was read: what was found the index knows already.
    pub fn note_reading(
        &mut self,
        cluster: &Arc<str>,
        step: Step,
        asked: DateTime<Utc>,
        now: DateTime<Utc>,
        index: &Index,
    ) {
        let reading = LastReading {
            step,
            asked,
            answered: now,
        };
        self.readings.insert(Arc::clone(cluster), reading);
        self.rule_out(cluster, step, now);
        let mut known = self.unsettled.get(cluster).into_iter().flatten();
        let Some(open) = known.find(|unsettled| !unsettled.has_landed(cluster, &self.uid, index)) else {
            return self.succeed(cluster);
        };
        let over = open.given_up.map_or(now, |at| at + SETTLED);
        let text = self.backoff.get(cluster).map_or_else(
            || Arc::from("the answer to a write was lost"),
            |backoff| Arc::clone(&backoff.text),
        );
        self.fail(cluster, now, &text, WriteOutcome::NotFound);
        if let Some(backoff) = self.backoff.get_mut(cluster) {
            backoff.until = backoff.until.min(over.max(now + BACKOFF.0));
        }
    }

    /// The step whose work was read a moment ago, and when that was asked for.
    #[must_use]
    pub fn reading(&self, cluster: &str, now: DateTime<Utc>) -> Option<(Step, DateTime<Utc>)> {
        let reading = self.readings.get(cluster)?;
        (now <= reading.answered + FRESH).then_some((reading.step, reading.asked))
    }

    /// Notes that the namespace of a cluster is gone or going.
    pub fn miss(&mut self, cluster: &Arc<str>, now: DateTime<Utc>) {
        self.missing.insert(Arc::clone(cluster), now);
    }

    /// Notes how a write of the finalizers, or annotations, ended.
    pub fn finalized(&mut self, now: DateTime<Utc>, outcome: &Outcome) {
        self.finalizing = false;
        self.dirty = true;
        if !matches!(outcome, Outcome::Upgrade(_)) {
            self.noted = None;
        }
        self.hurdle = match outcome {
            Outcome::Failed(text, counted) => Some(Backoff::after(self.hurdle.as_ref(), now, text, *counted)),
            _ => None,
        };
    }

    /// Notes somebody else's work that is being deleted: looked at again soon, unless it does not go for long.
    pub fn await_end(&mut self, cluster: &Arc<str>, step: Step, now: DateTime<Utc>, retry_at: DateTime<Utc>) {
        let key = (Arc::clone(cluster), step);
        let looks = self.obstacles.get(&key).map_or(0, |obstacle| obstacle.looks);
        if looks >= PATIENCE {
            return self.obstruct(cluster, step, now, ObstacleKind::Foreign);
        }
        let obstacle = Obstacle {
            kind: ObstacleKind::ForeignTerminating,
            retry_at,
            looks: looks + 1,
        };
        self.obstacles.insert(key, obstacle);
    }

    /// Notes what stands in the way: tried again after 30 s to 5 min.
    pub fn obstruct(&mut self, cluster: &Arc<str>, step: Step, now: DateTime<Utc>, kind: ObstacleKind) {
        let key = (Arc::clone(cluster), step);
        let looks = self.obstacles.get(&key).map_or(0, |obstacle| obstacle.looks);
        self.obstacles.insert(
            key,
            Obstacle {
                kind,
                retry_at: now + doubled(OBSTACLE, looks),
                looks: looks + 1,
            },
        );
    }
}
