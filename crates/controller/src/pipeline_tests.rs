use std::time::Duration;

use api::names::Step as WireStep;
use api::views::ManifestWork;
use rollout::Phase;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::answer;
use crate::apply::Outcome;
use crate::fixture::{Given, cluster, finished, hall, upgrade};
use crate::index::Change;
use crate::lease;
use crate::telemetry::labels::WriteOutcome;
use api::names::{LABEL_MCU, LABEL_MCU_UID};
use serde_json::json;

/// The loop's parts without its clock: looks happen when the test says so, writes are carried out by the test.
struct Desktop {
    hall: Hall,
    events: Publisher,
    _sender: JoinHandle<()>,
    version: u64,
    /// The time of rows stands still: they are written when they are urgent or the test says so.
    began: Instant,
}

fn desktop(clusters: &[&str]) -> Desktop {
    let hall = hall(clusters);
    let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
    });
    let (events, sender) = Publisher::start(
        kube::Client::new(nobody, "default"),
        lease::Handle::always().fence(),
        Arc::clone(&hall.metrics),
        "test".to_owned(),
        CancellationToken::new(),
    );
    Desktop {
        hall,
        events,
        _sender: sender,
        version: 100,
        began: Instant::now(),
    }
}

impl Desktop {
    fn knows(&self, upgrade: &Given) {
        self.hall.with(|state| state.apply_upgrade(upgrade.view()));
    }

    /// Looks at every upgrade that is due, however short ago it was looked at; returns the jobs.
    fn look(&self) -> Vec<Job> {
        let now = self.hall.now();
        let due = self.hall.with(|state| {
            let later = Instant::now() + Duration::from_mins(1);
            state.compare(later);
            state.compare_at = Instant::now();
            state.due(now, later, false)
        });
        for uid in due {
            look(&self.hall, &self.events, &uid);
        }
        flush(&self.hall, self.began);
        self.hall.lanes.drain()
    }

    /// Looks at one upgrade whether or not it is due.
    fn look_at(&self, uid: &str) -> Vec<Job> {
        look(&self.hall, &self.events, uid);
        flush(&self.hall, self.began);
        self.hall.lanes.drain()
    }

    fn answer(&self, job: Job, outcome: &Outcome) {
        self.hall
            .with(|state| answer::take(&self.hall, state, job, outcome));
    }

    /// Carries out a job as the hub would. The works it makes are returned for the test's own hub.
    fn carry_out(&mut self, job: Job) {
        self.version += 1;
        let outcome = match &job.effect {
            Effect::Create { cluster, step, .. } => Outcome::Work(Box::new(self.made(cluster, *step, &job))),
            Effect::Delete { .. } => Outcome::Doomed,
            Effect::Report { .. } => Outcome::Report(self.version),
            Effect::Status { .. } | Effect::Finalizers { .. } | Effect::Annotate { .. } => {
                Outcome::Upgrade(Box::new(self.written(&job)))
            }
            Effect::Read { .. } => Outcome::Gone,
            Effect::Update { .. } | Effect::MarkSoak { .. } => {
                Outcome::Failed("not played".to_owned(), WriteOutcome::Error)
            }
        };
        self.answer(job, &outcome);
    }

    fn made(&self, cluster: &str, step: WireStep, job: &Job) -> ManifestWork {
        let mut work = crate::fixture::work(cluster, step, "none", self.version);
        let Effect::Create { sheet, .. } = &job.effect else {
            return work;
        };
        let meta = &mut work.metadata;
        meta.labels
            .get_or_insert_default()
            .insert(LABEL_MCU_UID.to_owned(), job.upgrade.to_string());
        let notes = meta.annotations.get_or_insert_default();
        notes.insert(api::names::ANNOTATION_OWNER.to_owned(), sheet.owner.to_string());
        notes.insert(
            api::names::ANNOTATION_REVISION.to_owned(),
            sheet.attempt.revision.to_string(),
        );
        notes.insert(
            api::names::ANNOTATION_STARTED_AT.to_owned(),
            api::time::to_rfc3339(sheet.started),
        );
        let hash = sheet.brief.templates.step_hash(step).unwrap_or_default();
        notes.insert(api::names::ANNOTATION_STEP_HASH.to_owned(), hash.to_owned());
        meta.uid = Some(format!("{cluster}-{step}-{}", self.version));
        work
    }

    fn written(&self, job: &Job) -> Upgrade {
        let mut view = self
            .hall
            .with(|state| Upgrade::clone(&state.desks[&job.upgrade].view));
        view.metadata.resource_version = Some(self.version.to_string());
        match &job.effect {
            Effect::Finalizers { finalizers, life, .. } => {
                view.metadata.finalizers = Some(finalizers.clone());
                if let Some(life) = life {
                    let key = api::names::ANNOTATION_UPGRADE_UID.to_owned();
                    let notes = view.metadata.annotations.get_or_insert_default();
                    notes.insert(key, life.to_string());
                }
            }
            Effect::Annotate { patch, .. } => {
                let notes = view.metadata.annotations.get_or_insert_default();
                for (key, value) in patch["metadata"]["annotations"].as_object().unwrap() {
                    notes.insert(key.clone(), value.as_str().unwrap().to_owned());
                }
            }
            Effect::Status { status, .. } => view.status = api::lenient::Lenient::Good((**status).clone()),
            _ => {}
        }
        view
    }

    /// Looks and writes until nothing is left to write; returns what was written, in words.
    fn settle(&mut self) -> Vec<String> {
        let mut written = Vec::new();
        for _ in 0..50 {
            let jobs = self.look();
            if jobs.is_empty() {
                return written;
            }
            for job in jobs {
                written.push(told(&job));
                self.carry_out(job);
            }
        }
        panic!("no end: {written:?}");
    }

    /// The watch tells of a work.
    fn tells(&mut self, change: &Change<ManifestWork>) {
        let now = self.hall.now();
        self.hall.with(|state| state.index.work(change, now));
    }

    fn phase(&self, uid: &str, cluster: &str) -> Option<Phase> {
        self.hall.with(|state| {
            let row = state.desks.get(uid)?.rows.get(cluster)?;
            Some(row.record.phase)
        })
    }

    fn work(&self, cluster: &str, step: WireStep) -> Option<(String, bool)> {
        self.hall.with(|state| {
            let view = state.index.work_of(cluster, step)?;
            Some((view.upgrade.to_string(), view.work.terminating))
        })
    }
}

fn told(job: &Job) -> String {
    let what = match &job.effect {
        Effect::Create { cluster, step, .. } => format!("create {cluster}-{step}"),
        Effect::Update { cluster, .. } => format!("update {cluster}"),
        Effect::MarkSoak { cluster, .. } => format!("mark {cluster}"),
        Effect::Delete { cluster, step, .. } => format!("delete {cluster}-{step}"),
        Effect::Read { cluster, step, .. } => format!("read {cluster}-{step}"),
        Effect::Report { due, .. } => format!("report {}", due.name),
        Effect::Status { .. } => "status".to_owned(),
        Effect::Annotate { .. } => "annotate".to_owned(),
        Effect::Finalizers { finalizers, .. } => format!("finalizers {}", finalizers.len()),
    };
    format!("{}: {what}", job.upgrade)
}

fn stalled(status: &api::ManagedClustersUpgradeStatus) -> (&str, &str) {
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|condition| condition.type_ == api::conditions::STALLED);
    let found = found.filter(|condition| condition.status == "True").unwrap();
    (&found.reason, &found.message)
}

fn works(written: &[String]) -> Vec<&str> {
    written
        .iter()
        .map(String::as_str)
        .filter(|one| one.contains("create") || one.contains("delete"))
        .collect()
}

/// An operators-only spec, whose Job the fixture can finish.
fn operators(clusters: &[&str]) -> Value {
    let mut spec = crate::fixture::spec(clusters);
    spec.as_object_mut().unwrap().remove("clusterVersion");
    spec["ocpOperators"] = json!({"approveAllUpgrades": true});
    spec
}

/// The index's view of an operators work, as the agent would have it finished.
fn done(desktop: &mut Desktop, cluster: &str, uid: &str) -> ManifestWork {
    desktop.version += 1;
    let view = desktop
        .hall
        .with(|state| Arc::clone(state.index.work_of(cluster, WireStep::Operators).unwrap()));
    let mut work = finished(cluster, uid, desktop.version);
    let meta = &mut work.metadata;
    meta.uid = Some(view.uid.to_string());
    let notes = meta.annotations.get_or_insert_default();
    for (key, value) in [
        (api::names::ANNOTATION_OWNER, view.owner.to_string()),
        (
            api::names::ANNOTATION_REVISION,
            view.work.attempt.revision.to_string(),
        ),
        (api::names::ANNOTATION_STEP_HASH, view.work.hash.to_string()),
        (
            api::names::ANNOTATION_STARTED_AT,
            api::time::to_rfc3339(view.work.started),
        ),
    ] {
        notes.insert(key.to_owned(), value);
    }
    work
}

#[tokio::test]
async fn the_finalizer_is_written_before_anything_else() {
    let mut desktop = desktop(&["c1"]);
    desktop.knows(&Given {
        finalizer: false,
        ..upgrade("u1", &["c1"])
    });
    let jobs = desktop.look();
    let told: Vec<String> = jobs.iter().map(told).collect();
    assert_eq!(told, ["u1: finalizers 1"]);
    assert!(
        desktop.look_at("u1").is_empty(),
        "nothing more while it is under way"
    );
    for job in jobs {
        desktop.carry_out(job);
    }
    assert_eq!(works(&desktop.settle()), ["u1: create c1-cluster-upgrade"]);
}

#[tokio::test]
async fn a_refused_finalizer_is_not_tried_again_at_once() {
    let desktop = desktop(&["c1"]);
    desktop.knows(&Given {
        finalizer: false,
        ..upgrade("u1", &["c1"])
    });
    let job = desktop.look().remove(0);
    desktop.answer(job, &Outcome::Failed("forbidden".to_owned(), WriteOutcome::Error));
    assert!(desktop.look_at("u1").is_empty());
    desktop
        .hall
        .with(|state| assert!(state.desks["u1"].wake_at.is_some()));
}

#[tokio::test]
async fn an_invalid_spec_is_told_and_nothing_else_is_written() {
    let mut desktop = desktop(&["c1"]);
    let mut spec = crate::fixture::spec(&["c1"]);
    spec["clusterVersion"]["version"] = json!("v4");
    desktop.knows(&Given {
        spec,
        finalizer: false,
        ..upgrade("u1", &["c1"])
    });
    assert_eq!(desktop.settle(), ["u1: status"]);
}

#[tokio::test]
async fn a_step_that_ends_while_nothing_can_be_planned_counts_for_no_reaction() {
    let desktop = desktop(&["c1"]);
    let spec = json!({});
    desktop.knows(&Given {
        spec,
        ..upgrade("u1", &["c1"])
    });
    desktop.hall.with(|state| {
        state.index.ended.insert(Arc::from("u1"), Instant::now());
    });
    desktop.look_at("u1");
    desktop.hall.with(|state| assert!(state.index.ended.is_empty()));
}

/// An operators-only upgrade of two clusters, one at a time; the first one is done after the spec was edited into an
/// invalid one, of this generation.
fn after_an_invalid_edit(generation: i64) -> Desktop {
    let mut desktop = desktop(&["c1", "c2"]);
    let mut spec = operators(&["c1", "c2"]);
    spec["upgradeStrategy"] = json!({"maxConcurrency": 1});
    let given = |spec: Value, version| Given {
        version,
        spec,
        ..upgrade("u1", &[])
    };
    desktop.knows(&given(spec.clone(), 1));
    desktop.settle();
    assert_eq!(desktop.phase("u1", "c1"), Some(Phase::Operators));
    spec["clusterVersion"] = json!({"channel": "stable-4.12", "version": "v4"});
    let mut edited = given(spec, 1_000).view();
    edited.metadata.generation = Some(generation);
    desktop.hall.with(|state| state.apply_upgrade(edited));
    desktop.version = 1_000;
    let work = done(&mut desktop, "c1", "u1");
    desktop.tells(&Change::Applied(work));
    desktop.settle();
    desktop.hall.with(|state| {
        let status = state.desks["u1"].status.previous();
        assert_eq!(status.state, Some(UpgradeState::Invalid));
        assert_eq!(stalled(&status).0, "InvalidSpec");
    });
    desktop
}

#[tokio::test]
async fn after_an_invalid_edit_what_is_in_flight_ends_by_the_last_valid_spec_and_nothing_starts() {
    let desktop = after_an_invalid_edit(2);
    assert_eq!(desktop.phase("u1", "c1"), Some(Phase::Complete));
    desktop.hall.with(|state| {
        let row = state.desks["u1"].rows.get("c2").unwrap();
        assert_eq!(
            (row.record.phase, row.record.reason),
            (Phase::Pending, Reason::InvalidSpec)
        );
    });
    assert!(desktop.work("c2", WireStep::Operators).is_none());
}

#[tokio::test]
async fn nothing_is_followed_by_a_spec_that_may_not_have_been_the_last_valid_one() {
    let desktop = after_an_invalid_edit(3);
    assert_eq!(desktop.phase("u1", "c1"), Some(Phase::Operators));
}

#[tokio::test]
async fn an_upgrade_runs_to_its_end_and_its_record_is_written_before_its_work_goes() {
    let mut desktop = desktop(&["c1"]);
    desktop.knows(&Given {
        spec: operators(&["c1"]),
        ..upgrade("u1", &["c1"])
    });
    assert_eq!(works(&desktop.settle()), ["u1: create c1-operators-upgrade"]);
    let finished = done(&mut desktop, "c1", "u1");
    desktop.tells(&Change::Applied(finished.clone()));
    assert!(
        works(&desktop.look_at("u1").iter().map(told).collect::<Vec<_>>()).is_empty(),
        "its success is not written yet"
    );
    assert_eq!(desktop.phase("u1", "c1"), Some(Phase::Complete));
    write_rows(&mut desktop, "u1");
    let jobs = desktop.look();
    assert!(works(&jobs.iter().map(told).collect::<Vec<_>>()).contains(&"u1: delete c1-operators-upgrade"));
    assert_eq!(
        desktop.work("c1", WireStep::Operators),
        Some(("u1".to_owned(), true)),
        "noted before the answer"
    );
}

/// Writes the rows of an upgrade now, however young their changes are.
fn write_rows(desktop: &mut Desktop, uid: &str) {
    let later = Instant::now() + Duration::from_mins(1);
    desktop.version += 1;
    let version = desktop.version;
    desktop.hall.with(|state| {
        let desk = state.desks.get_mut(uid).unwrap();
        for due in desk.rows.due(later) {
            desk.rows.wrote(due, Some(version), later);
        }
        desk.dirty = true;
    });
}

#[tokio::test]
async fn a_restarted_controller_creates_nothing_twice() {
    let first = desktop(&["c1", "c2"]);
    let given = || {
        let mut spec = crate::fixture::spec(&["c1", "c2"]);
        spec["upgradeStrategy"] = json!({"maxConcurrency": 1});
        Given {
            spec,
            ..upgrade("u1", &[])
        }
    };
    first.knows(&given());
    // Killed right after the creation: neither row nor status was written.
    let jobs = first.look();
    let create = jobs
        .into_iter()
        .find(|job| matches!(job.effect, Effect::Create { .. }))
        .unwrap();
    let made = first.made("c1", WireStep::Platform, &create);

    let mut second = desktop(&["c1", "c2"]);
    second.knows(&given());
    second.hall.with(|state| {
        state.index.listed_work(&made, Utc::now());
        state.begin_term();
    });
    assert!(
        works(&second.settle()).is_empty(),
        "the slot is held by the work that was found"
    );
    assert_eq!(second.phase("u1", "c1"), Some(Phase::Initialized));
    assert_eq!(second.phase("u1", "c2"), Some(Phase::Pending));
}

#[tokio::test]
async fn a_plan_for_a_spec_that_has_changed_meanwhile_is_let_go() {
    let desktop = desktop(&["c1"]);
    desktop.knows(&upgrade("u1", &["c1"]));
    let hall = &desktop.hall;
    let observed = hall
        .with(|state| observe(hall, state, "u1", &desktop.events))
        .unwrap();
    let plan = rollout::plan(observed.now, &observed.policy, &observed.fleet);
    let mut paused = upgrade("u1", &["c1"]).view();
    paused.metadata.generation = Some(2);
    paused.metadata.resource_version = Some("2".to_owned());
    hall.with(|state| {
        state.apply_upgrade(paused);
        let taken = take(state, "u1", &observed, &plan, Instant::now());
        assert!(taken.jobs.is_empty());
        let desk = &state.desks["u1"];
        assert!(desk.dirty && desk.rows.all().is_empty());
    });
}

/// An older and a newer upgrade of cluster `c1`, operators only; the older one runs.
fn contest() -> Desktop {
    let mut desktop = desktop(&["c1"]);
    for (uid, created) in [("old", "2026-05-28T09:00:00Z"), ("new", "2026-05-28T11:00:00Z")] {
        desktop.knows(&Given {
            spec: operators(&["c1"]),
            created,
            ..upgrade(uid, &[])
        });
    }
    assert_eq!(works(&desktop.settle()), ["old: create c1-operators-upgrade"]);
    assert_eq!(desktop.phase("new", "c1"), Some(Phase::Blocked));
    desktop
}

#[tokio::test]
async fn of_two_upgrades_of_one_cluster_the_second_starts_when_the_first_is_done() {
    let mut desktop = contest();
    let finished = done(&mut desktop, "c1", "old");
    desktop.tells(&Change::Applied(finished.clone()));
    assert_eq!(works(&desktop.settle()), Vec::<String>::new());
    write_rows(&mut desktop, "old");
    let written = desktop.settle();
    assert_eq!(works(&written), ["old: delete c1-operators-upgrade"]);
    desktop.version += 1;
    let mut gone = finished;
    gone.metadata.resource_version = Some(desktop.version.to_string());
    // The only news is about the other upgrade's work.
    desktop.tells(&Change::Deleted(gone));
    assert_eq!(works(&desktop.settle()), ["new: create c1-operators-upgrade"]);
}

#[tokio::test]
async fn an_upgrade_that_lets_go_of_a_cluster_wakes_the_one_that_waits_for_it() {
    let mut desktop = desktop(&["c1", "c2"]);
    let mut paused = operators(&["c1"]);
    paused["paused"] = json!(true);
    desktop.knows(&Given {
        spec: paused,
        created: "2026-05-28T09:00:00Z",
        ..upgrade("old", &[])
    });
    desktop.knows(&Given {
        spec: operators(&["c1"]),
        created: "2026-05-28T11:00:00Z",
        ..upgrade("new", &[])
    });
    assert!(works(&desktop.settle()).is_empty());
    assert_eq!(desktop.phase("new", "c1"), Some(Phase::Blocked));
    let mut other = Given {
        spec: operators(&["c2"]),
        created: "2026-05-28T09:00:00Z",
        version: 1_000,
        ..upgrade("old", &[])
    }
    .view();
    other.metadata.generation = Some(2);
    desktop.hall.with(|state| state.apply_upgrade(other));
    let written = desktop.settle();
    assert!(
        works(&written).contains(&"new: create c1-operators-upgrade"),
        "{written:?}"
    );
}

#[tokio::test]
async fn an_upgrade_that_goes_leaves_its_clusters_to_whoever_waits() {
    let mut desktop = contest();
    desktop.hall.with(|state| state.delete_upgrade("old"));
    let written = desktop.settle();
    assert_eq!(works(&written), ["new: delete c1-operators-upgrade"]);
}

#[tokio::test]
async fn a_cluster_that_leaves_before_it_starts_is_dropped_after_the_debounce_without_further_news() {
    let mut desktop = desktop(&["c1"]);
    desktop.knows(&upgrade("u1", &["c1"]));
    desktop.hall.with(|state| {
        let desk = state.desks.get_mut("u1").unwrap();
        crate::fixture::note(desk, "c9", rollout::testing::record(Phase::Pending));
        state.index.cluster(&Change::Applied(cluster("c9")));
    });
    desktop.settle();
    assert!(desktop.phase("u1", "c9").is_some());
    desktop.hall.with(|state| {
        let desk = state.desks.get_mut("u1").unwrap();
        assert!(desk.wake_at.is_some());
        let since = desk.left.get_mut("c9").unwrap();
        *since -= TimeDelta::seconds(6);
    });
    desktop.look_at("u1");
    assert_eq!(desktop.phase("u1", "c9"), None);
}

#[tokio::test]
async fn what_is_not_served_is_never_written() {
    let desktop = desktop(&["c1"]);
    desktop.knows(&upgrade("u1", &["c1"]));
    desktop.hall.with(|state| {
        let desk = state.desks.get_mut("u1").unwrap();
        desk.status.set(ManagedClustersUpgradeStatus {
            progress: Some("1/1".to_owned()),
            ..ManagedClustersUpgradeStatus::default()
        });
        state.settings.namespaces = vec![Arc::from("elsewhere")];
    });
    assert!(desktop.look().is_empty());
}

#[tokio::test]
async fn a_quiet_upgrade_writes_nothing() {
    let mut desktop = desktop(&["c1"]);
    desktop.knows(&upgrade("u1", &["c1"]));
    desktop.settle();
    write_rows(&mut desktop, "u1");
    desktop.settle();
    for _ in 0..3 {
        assert!(desktop.look_at("u1").is_empty());
    }
}

#[path = "deletion_tests.rs"]
mod deletion;

#[path = "borders_tests.rs"]
mod borders;
#[path = "pipeline_restore_tests.rs"]
mod restored;
#[path = "pipeline_unsettled_tests.rs"]
mod unsettled;
