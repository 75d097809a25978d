//! What the controller knows of one upgrade between two looks at it: its spec, selection, records, and the writes that
//! are under way. All of it can be rebuilt from the hub.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::AHashMap;
use api::names::Step;
use api::time::to_chrono;
use api::validate::Violation;
use api::views::Upgrade;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::Busy;

use crate::apply::Outcome;
use crate::index::{Index, Uid};
use crate::park::Parked;
use crate::policy::Brief;
use crate::report::rows::Rows;
use crate::report::writer::StatusState;
use crate::selection::Selected;
use crate::telemetry::labels::WriteOutcome;

/// Shortest time between two looks: what agents report at about the same time is gathered, and a freed slot is not empty
/// for long.
const INTERVAL: Duration = Duration::from_millis(25);
/// The same while writers are behind: what a look finds would only wait longer in the queue. Short enough for what must
/// be stopped.
const INTERVAL_BEHIND: Duration = Duration::from_millis(500);
/// How many times longer than a look the rest after it is: looking takes at most a third of the time.
const REST: u32 = 2;
/// First and longest wait after a failed write.
const BACKOFF: (TimeDelta, TimeDelta) = (TimeDelta::seconds(1), TimeDelta::seconds(60));
/// First and longest wait before a step with an obstacle is tried again (`reference/mcu.md` §4, Creation).
const OBSTACLE: (TimeDelta, TimeDelta) = (TimeDelta::seconds(30), TimeDelta::seconds(300));

/// So many creations in a row that are forbidden, over a minute, are no permission on its way any more, but one that a human
/// must give.
pub const LASTING: u32 = 7;
/// So many looks at a foreign work that is being deleted, over a minute, show that it does not go by itself.
const PATIENCE: u32 = 12;

/// How long a cluster whose namespace was found missing stays out before it is tried again.
pub const MISSING: TimeDelta = TimeDelta::seconds(60);

/// One upgrade.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, set and read in different places"
)]
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
    /// Records.
    pub rows: Rows,
    /// Writes under way, by cluster.
    pub busy: AHashMap<Arc<str>, Writes>,
    /// Failed writes, by cluster.
    pub backoff: AHashMap<Arc<str>, Backoff>,
    /// What stands in the way of a step, found when its work was to be created.
    pub obstacles: AHashMap<(Arc<str>, Step), Obstacle>,
    /// Clusters whose namespace is gone or terminating, until they are looked at again.
    pub missing: AHashMap<Arc<str>, DateTime<Utc>>,
    /// It is complete and parked: spec, selection and records are not held.
    pub parked: Option<Box<Parked>>,
    /// The last look found it complete, and nothing to do or to wait for.
    pub at_rest: bool,
    /// The status and its writing.
    pub status: StatusState,
    /// Another upgrade concerns some of its clusters.
    pub contested: bool,
    /// The finalizers are being written.
    pub finalizing: bool,
    /// The last writes of the finalizers failed.
    pub hurdle: Option<Backoff>,
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

/// A wait after failed writes.
#[derive(Clone, Debug)]
pub struct Backoff {
    /// Not again before.
    pub until: DateTime<Utc>,
    /// Failures in a row.
    pub failures: u32,
    /// The last error.
    pub text: Arc<str>,
    /// One of the failed writes may have been carried out all the same.
    pub uncertain: bool,
    /// Creations in a row that were forbidden.
    pub forbidden: u32,
}

impl Backoff {
    fn after(before: Option<&Backoff>, now: DateTime<Utc>, text: &str, counted: WriteOutcome) -> Backoff {
        let failures = before.map_or(0, |backoff| backoff.failures);
        Backoff {
            until: now + doubled(BACKOFF, failures),
            failures: failures + 1,
            text: Arc::from(text),
            uncertain: !counted.is_refusal() || before.is_some_and(|backoff| backoff.uncertain),
            forbidden: 0,
        }
    }
}

/// What stands in the way of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObstacleKind {
    /// Somebody else's work has the name.
    Foreign,
    /// The same, but that work is being deleted.
    ForeignTerminating,
    /// The hub refused the work; what it said.
    Refused(Arc<str>),
}

/// A work that is not ours, or the hub's refusal of ours.
#[derive(Clone, Debug)]
pub struct Obstacle {
    /// What it is.
    pub kind: ObstacleKind,
    /// Look again then.
    pub retry_at: DateTime<Utc>,
    /// Looks so far.
    pub looks: u32,
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
            busy: AHashMap::new(),
            backoff: AHashMap::new(),
            obstacles: AHashMap::new(),
            missing: AHashMap::new(),
            parked: None,
            at_rest: false,
            status: StatusState::default(),
            contested: false,
            finalizing: false,
            hurdle: None,
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
        self.backoff.retain(|_, backoff| backoff.uncertain);
        self.obstacles
            .retain(|_, obstacle| !matches!(obstacle.kind, ObstacleKind::Refused(_)));
        self.dirty = true;
    }

    /// True when the cluster is one of those that a look sees.
    #[must_use]
    pub fn holds(&self, cluster: &str, index: &Index) -> bool {
        let owns = || {
            let works = index.works(cluster).into_iter().flatten().flatten();
            works.into_iter().any(|view| view.upgrade == self.uid)
        };
        self.selected.clusters.contains_key(cluster) || self.rows.get(cluster).is_some() || owns()
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

    /// Starts a term: records come from the hub, nothing is under way.
    pub fn begin_term(&mut self) {
        self.rows.restart();
        self.left.clear();
        self.obstacles.clear();
        self.selected_at = 0;
        self.status.reset();
        self.status.observe(self.view.status.good());
        self.finalizing = false;
        self.dirty = true;
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

    /// Order among upgrades: the older goes first, then by namespace and name.
    #[must_use]
    pub fn order(&self) -> (DateTime<Utc>, &str) {
        (self.created, &self.key)
    }

    /// When the next cluster whose namespace was missing is to be looked at again; those that are due are forgotten.
    pub fn look_for_missing(&mut self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.missing.retain(|_, since| now < *since + MISSING);
        self.missing.values().min().map(|since| *since + MISSING)
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

    /// Until when a write whose answer was lost may still show, if that lies ahead.
    #[must_use]
    pub fn uncertain_until(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let uncertain = self.backoff.values().filter(|backoff| backoff.uncertain);
        let until = uncertain.map(|backoff| backoff.until).max()?;
        (until > now).then_some(until)
    }

    /// Notes that the namespace of a cluster is gone or going.
    pub fn miss(&mut self, cluster: &Arc<str>, now: DateTime<Utc>) {
        self.missing.insert(Arc::clone(cluster), now);
    }

    /// Notes how a write of the finalizers ended.
    pub fn finalized(&mut self, now: DateTime<Utc>, outcome: &Outcome) {
        self.finalizing = false;
        self.dirty = true;
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

fn doubled((first, most): (TimeDelta, TimeDelta), times: u32) -> TimeDelta {
    first.checked_mul(1 << times.min(10)).unwrap_or(most).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_bound() {
        let waits: Vec<i64> = (0..9)
            .map(|times| doubled(BACKOFF, times).num_seconds())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(doubled(OBSTACLE, 40), TimeDelta::seconds(300));
    }
}
