use std::time::Duration;

use api::names::Step as WireStep;
use api::views::ManifestWork;
use rollout::Phase;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use std::sync::Arc;

use api::ManagedClustersUpgradeStatus;
use api::mcu::UpgradeState;
use api::views::Upgrade;
use chrono::{TimeDelta, Utc};
use observe::index::Change;
use rollout::testing::first_attempt;
use rollout::{OperationKind, Reason};

use super::*;
use crate::apply::WriteResult;
use crate::apply::{Write, WriteJob};
use crate::apply::{WriteError, WriteErrorKind};
use crate::fixture::{Given, cluster, context, finished, upgrade};
use crate::lease;
use crate::reconcile::request::Task;
use crate::reconcile::result;
use api::names::{LABEL_MCU, LABEL_MCU_UID};
use serde_json::json;

/// The loop without its clock: the test decides when passes happen, and executes the writes.
struct TestHub {
    context: Context,
    events: Publisher,
    _sender: JoinHandle<()>,
    version: u64,
    /// The time of rows stands still: they are written when they are urgent or when the test asks for it.
    began: Instant,
}

fn hub(clusters: &[&str]) -> TestHub {
    let context = context(clusters);
    let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, std::io::Error>>()
    });
    let (events, sender) = Publisher::start(
        kube::Client::new(nobody, "default"),
        lease::Handle::always().fence(),
        Arc::clone(&context.metrics),
        "test".to_owned(),
        &crate::sources::Sources::system(),
        CancellationToken::new(),
    );
    TestHub {
        context,
        events,
        _sender: sender,
        version: 100,
        began: Instant::now(),
    }
}

impl TestHub {
    fn add_upgrade(&self, upgrade: &Given) {
        self.context.with(|state| state.apply_upgrade(upgrade.view()));
    }

    /// Reconciles every upgrade that is due, regardless of when it was last reconciled, and returns the jobs.
    fn reconcile(&self) -> Vec<WriteJob> {
        let now = self.context.now();
        let due = self.context.with(|state| {
            let later = Instant::now() + Duration::from_mins(1);
            state.compare(later);
            state.compare_at = Instant::now();
            state.due(now, later, false)
        });
        for uid in due {
            reconcile(&self.context, &self.events, &uid);
        }
        flush(&self.context, self.began);
        self.context.queue.drain()
    }

    fn pass(&self, uid: &str) -> Vec<WriteJob> {
        reconcile(&self.context, &self.events, uid);
        flush(&self.context, self.began);
        self.context.queue.drain()
    }

    fn answer(&self, job: WriteJob, outcome: &WriteResult) {
        self.context
            .with(|state| result::record_result(&self.context, state, job, outcome));
    }

    /// Executes a job like the hub. The works that it creates are stored for the test's hub.
    fn carry_out(&mut self, job: WriteJob) {
        self.version += 1;
        let outcome = match &job.write {
            Write::Create { cluster, step, .. } => {
                WriteResult::Work(Box::new(self.made(cluster, *step, &job)))
            }
            Write::CreateProbe {
                cluster,
                kind,
                spec,
                owner,
            } => {
                let body = spec.probe(*kind).unwrap().body(cluster, &job.upgrade, owner);
                let mut work: ManifestWork = serde_json::from_slice(&body).unwrap();
                work.metadata.uid = Some(format!("{cluster}-probe-{}", self.version));
                work.metadata.resource_version = Some(self.version.to_string());
                WriteResult::Work(Box::new(work))
            }
            Write::Delete { .. } | Write::DeleteProbe { .. } => WriteResult::DeletionAccepted { version: 0 },
            Write::Report { .. } => WriteResult::Report(crate::fixture::stored(self.version)),
            Write::Status { .. } | Write::Finalizers { .. } | Write::Annotate { .. } => {
                WriteResult::Upgrade(Box::new(self.written(&job)))
            }
            Write::Read { .. } => WriteResult::Gone,
            Write::Update { .. } | Write::Withdraw { .. } | Write::MarkSoak { .. } => {
                WriteResult::Failed(WriteError::new(WriteErrorKind::Broken, "not simulated"))
            }
        };
        self.answer(job, &outcome);
    }

    fn made(&self, cluster: &str, step: WireStep, job: &WriteJob) -> ManifestWork {
        let mut work = crate::fixture::work(cluster, step, "none", self.version);
        let Write::Create { params, .. } = &job.write else {
            return work;
        };
        let meta = &mut work.metadata;
        meta.labels
            .get_or_insert_default()
            .insert(LABEL_MCU_UID.to_owned(), job.upgrade.to_string());
        let notes = meta.annotations.get_or_insert_default();
        notes.insert(api::names::ANNOTATION_OWNER.to_owned(), params.owner.to_string());
        notes.insert(
            api::names::ANNOTATION_REVISION.to_owned(),
            params.attempt.revision.to_string(),
        );
        notes.insert(
            api::names::ANNOTATION_STARTED_AT.to_owned(),
            api::time::to_rfc3339(params.started),
        );
        let hash = params.spec.templates.step_hash(step).unwrap_or_default();
        notes.insert(api::names::ANNOTATION_STEP_HASH.to_owned(), hash.to_owned());
        meta.uid = Some(format!("{cluster}-{step}-{}", self.version));
        work
    }

    fn written(&self, job: &WriteJob) -> Upgrade {
        let mut view = self
            .context
            .with(|state| Upgrade::clone(&state.upgrades[&job.upgrade].object));
        view.metadata.resource_version = Some(self.version.to_string());
        match &job.write {
            Write::Finalizers {
                finalizers,
                recorded_uid,
                ..
            } => {
                view.metadata.finalizers = Some(finalizers.clone());
                if let Some(recorded_uid) = recorded_uid {
                    let key = api::names::ANNOTATION_UPGRADE_UID.to_owned();
                    let notes = view.metadata.annotations.get_or_insert_default();
                    notes.insert(key, recorded_uid.to_string());
                }
            }
            Write::Annotate { patch, .. } => {
                let notes = view.metadata.annotations.get_or_insert_default();
                for (key, value) in patch["metadata"]["annotations"].as_object().unwrap() {
                    notes.insert(key.clone(), value.as_str().unwrap().to_owned());
                }
            }
            Write::Status { status, .. } => view.status = api::lenient::Lenient::Good((**status).clone()),
            _ => {}
        }
        view
    }

    /// Reconciles and writes until nothing is left to write. Returns a description of each write.
    fn settle(&mut self) -> Vec<String> {
        let mut written = Vec::new();
        for _ in 0..50 {
            let jobs = self.reconcile();
            if jobs.is_empty() {
                return written;
            }
            for job in jobs {
                written.push(line(&job));
                self.carry_out(job);
            }
        }
        panic!("no end: {written:?}");
    }

    fn deliver(&mut self, change: &Change<ManifestWork>) {
        let now = self.context.now();
        self.context.with(|state| state.index.work(change, now));
    }

    fn phase(&self, uid: &str, cluster: &str) -> Option<Phase> {
        self.context.with(|state| {
            let row = state.upgrades.get(uid)?.rows.get(cluster)?;
            Some(row.record.phase)
        })
    }

    fn work(&self, cluster: &str, step: WireStep) -> Option<(String, bool)> {
        self.context.with(|state| {
            let view = state.index.work_of(cluster, step)?;
            Some((view.upgrade.to_string(), view.work.terminating))
        })
    }
}

fn line(job: &WriteJob) -> String {
    let what = match &job.write {
        Write::Create { cluster, step, .. } => format!("create {cluster}-{step}"),
        Write::Update { cluster, .. } => format!("update {cluster}"),
        Write::Withdraw { cluster, .. } => format!("withdraw {cluster}"),
        Write::MarkSoak { cluster, .. } => format!("mark {cluster}"),
        Write::Delete { cluster, step, .. } => format!("delete {cluster}-{step}"),
        Write::Read { cluster, step, .. } => format!("read {cluster}-{step}"),
        Write::CreateProbe { cluster, .. } => format!("create {cluster}-probe"),
        Write::DeleteProbe { cluster, .. } => format!("delete {cluster}-probe"),
        Write::Report { due, .. } => format!("report {}", due.name),
        Write::Status { .. } => "status".to_owned(),
        Write::Annotate { .. } => "annotate".to_owned(),
        Write::Finalizers { finalizers, .. } => format!("finalizers {}", finalizers.len()),
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

/// A spec that upgrades only operators, whose Job the fixture can finish.
fn operators(clusters: &[&str]) -> Value {
    let mut spec = crate::fixture::spec(clusters);
    spec.as_object_mut().unwrap().remove("clusterVersion");
    spec["ocpOperators"] = json!({"approveAllUpgrades": true});
    spec
}

fn done(hub: &mut TestHub, cluster: &str, uid: &str) -> ManifestWork {
    hub.version += 1;
    let view = hub
        .context
        .with(|state| Arc::clone(state.index.work_of(cluster, WireStep::Operators).unwrap()));
    let mut work = finished(cluster, uid, hub.version);
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
    let mut hub = hub(&["c1"]);
    hub.add_upgrade(&Given {
        finalizer: false,
        ..upgrade("u1", &["c1"])
    });
    let jobs = hub.reconcile();
    let described: Vec<String> = jobs.iter().map(line).collect();
    assert_eq!(described, ["u1: finalizers 1"]);
    assert!(hub.pass("u1").is_empty(), "nothing more while it is under way");
    for job in jobs {
        hub.carry_out(job);
    }
    assert_eq!(works(&hub.settle()), ["u1: create c1-cluster-upgrade"]);
}

#[tokio::test]
async fn a_refused_finalizer_is_not_tried_again_at_once() {
    let hub = hub(&["c1"]);
    hub.add_upgrade(&Given {
        finalizer: false,
        ..upgrade("u1", &["c1"])
    });
    let job = hub.reconcile().remove(0);
    hub.answer(
        job,
        &WriteResult::Failed(WriteError::new(WriteErrorKind::Broken, "forbidden")),
    );
    assert!(hub.pass("u1").is_empty());
    hub.context
        .with(|state| assert!(state.upgrades["u1"].wake_at.is_some()));
}

#[tokio::test]
async fn an_invalid_spec_is_told_and_nothing_else_is_written() {
    let mut hub = hub(&["c1"]);
    let mut spec = crate::fixture::spec(&["c1"]);
    spec["clusterVersion"]["version"] = json!("v4");
    hub.add_upgrade(&Given {
        spec,
        finalizer: false,
        ..upgrade("u1", &["c1"])
    });
    assert_eq!(hub.settle(), ["u1: status"]);
}

#[tokio::test]
async fn a_step_that_ends_while_nothing_can_be_planned_counts_for_no_reaction() {
    let hub = hub(&["c1"]);
    let spec = json!({});
    hub.add_upgrade(&Given {
        spec,
        ..upgrade("u1", &["c1"])
    });
    hub.context.with(|state| {
        state.slots_released_at.insert(Arc::from("u1"), Instant::now());
    });
    hub.pass("u1");
    hub.context
        .with(|state| assert!(state.slots_released_at.is_empty()));
}

/// An upgrade of two clusters whose spec becomes invalid, with this generation, before the first cluster is done.
fn after_an_invalid_edit(generation: i64) -> TestHub {
    let mut hub = hub(&["c1", "c2"]);
    let mut spec = operators(&["c1", "c2"]);
    spec["upgradeStrategy"] = json!({"maxConcurrency": 1});
    let given = |spec: Value, version| Given {
        version,
        spec,
        ..upgrade("u1", &[])
    };
    hub.add_upgrade(&given(spec.clone(), 1));
    hub.settle();
    assert_eq!(hub.phase("u1", "c1"), Some(Phase::Operators));
    spec["clusterVersion"] = json!({"channel": "stable-4.12", "version": "v4"});
    let mut edited = given(spec, 1_000).view();
    edited.metadata.generation = Some(generation);
    hub.context.with(|state| state.apply_upgrade(edited));
    hub.version = 1_000;
    let work = done(&mut hub, "c1", "u1");
    hub.deliver(&Change::Applied(work));
    hub.settle();
    hub.context.with(|state| {
        let status = state.upgrades["u1"].status.previous();
        assert_eq!(status.state, Some(UpgradeState::Invalid));
        assert_eq!(stalled(&status).0, "InvalidSpec");
    });
    hub
}

#[tokio::test]
async fn after_an_invalid_edit_what_is_in_flight_ends_by_the_last_valid_spec_and_nothing_starts() {
    let hub = after_an_invalid_edit(2);
    assert_eq!(hub.phase("u1", "c1"), Some(Phase::Complete));
    hub.context.with(|state| {
        let row = state.upgrades["u1"].rows.get("c2").unwrap();
        assert_eq!(
            (row.record.phase, row.record.reason),
            (Phase::Pending, Reason::InvalidSpec)
        );
    });
    assert!(hub.work("c2", WireStep::Operators).is_none());
}

#[tokio::test]
async fn nothing_is_followed_by_a_spec_that_may_not_have_been_the_last_valid_one() {
    let hub = after_an_invalid_edit(3);
    assert_eq!(hub.phase("u1", "c1"), Some(Phase::Operators));
}

#[tokio::test]
async fn an_upgrade_runs_to_its_end_and_its_record_is_written_before_its_work_goes() {
    let mut hub = hub(&["c1"]);
    hub.add_upgrade(&Given {
        spec: operators(&["c1"]),
        ..upgrade("u1", &["c1"])
    });
    assert_eq!(works(&hub.settle()), ["u1: create c1-operators-upgrade"]);
    let finished = done(&mut hub, "c1", "u1");
    hub.deliver(&Change::Applied(finished.clone()));
    assert!(
        works(&hub.pass("u1").iter().map(line).collect::<Vec<_>>()).is_empty(),
        "its success is not written yet"
    );
    assert_eq!(hub.phase("u1", "c1"), Some(Phase::Complete));
    write_rows(&mut hub, "u1");
    let jobs = hub.reconcile();
    assert!(works(&jobs.iter().map(line).collect::<Vec<_>>()).contains(&"u1: delete c1-operators-upgrade"));
    assert_eq!(
        hub.work("c1", WireStep::Operators),
        Some(("u1".to_owned(), true)),
        "recorded before the response"
    );
}

fn write_rows(hub: &mut TestHub, uid: &str) {
    let later = Instant::now() + Duration::from_mins(1);
    hub.version += 1;
    let version = hub.version;
    hub.context.with(|state| {
        let entry = state.upgrades.get_mut(uid).unwrap();
        for due in entry.rows.due(later) {
            entry
                .rows
                .wrote(due, Some(crate::fixture::stored(version)), later);
        }
        entry.dirty = true;
    });
}

#[tokio::test]
async fn a_restarted_controller_creates_nothing_twice() {
    let first = hub(&["c1", "c2"]);
    let given = || {
        let mut spec = crate::fixture::spec(&["c1", "c2"]);
        spec["upgradeStrategy"] = json!({"maxConcurrency": 1});
        Given {
            spec,
            ..upgrade("u1", &[])
        }
    };
    first.add_upgrade(&given());
    // The process was killed right after the creation: neither row nor status was written.
    let jobs = first.reconcile();
    let create = jobs
        .into_iter()
        .find(|job| matches!(job.write, Write::Create { .. }))
        .unwrap();
    let made = first.made("c1", WireStep::Platform, &create);

    let mut second = hub(&["c1", "c2"]);
    second.add_upgrade(&given());
    second.context.with(|state| {
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
async fn an_operation_that_was_carried_out_too_often_is_tried_again_after_its_wait() {
    let mut hub = hub(&["c1"]);
    hub.add_upgrade(&Given {
        spec: operators(&["c1"]),
        ..upgrade("u1", &[])
    });
    hub.context.with(|state| {
        let limit = &mut state.upgrades.get_mut("u1").unwrap().operation_limit;
        let now = crate::clock::now();
        let mut take = || limit.take(&Arc::from("c1"), WireStep::Operators, OperationKind::Create, now);
        while take().is_none() {}
    });
    assert!(works(&hub.settle()).is_empty());
    let entry = |state: &mut State| {
        let entry = &state.upgrades["u1"];
        (
            entry.wake_at,
            entry.backoff.values().map(|backoff| backoff.until).max(),
        )
    };
    let (wakes, until) = hub.context.with(entry);
    assert!(until.is_some());
    assert_eq!(wakes, until);
}

#[tokio::test]
async fn a_cluster_that_leaves_before_it_starts_is_dropped_after_the_debounce_without_further_news() {
    let mut hub = hub(&["c1"]);
    hub.add_upgrade(&upgrade("u1", &["c1"]));
    hub.context.with(|state| {
        let entry = state.upgrades.get_mut("u1").unwrap();
        crate::fixture::note(entry, "c9", rollout::testing::record(Phase::Pending));
        state.index.cluster(&Change::Applied(cluster("c9")));
    });
    hub.settle();
    assert!(hub.phase("u1", "c9").is_some());
    hub.context.with(|state| {
        let entry = state.upgrades.get_mut("u1").unwrap();
        assert!(entry.wake_at.is_some());
        let since = entry.left.get_mut("c9").unwrap();
        *since -= TimeDelta::seconds(6);
    });
    hub.pass("u1");
    assert_eq!(hub.phase("u1", "c9"), None);
}

#[tokio::test]
async fn what_is_not_served_is_never_written() {
    let hub = hub(&["c1"]);
    hub.add_upgrade(&upgrade("u1", &["c1"]));
    hub.context.with(|state| {
        let entry = state.upgrades.get_mut("u1").unwrap();
        let status = ManagedClustersUpgradeStatus {
            progress: Some("1/1".to_owned()),
            ..ManagedClustersUpgradeStatus::default()
        };
        entry.status.set(status, rollout::testing::at(0));
        state.settings.namespaces = vec![Arc::from("elsewhere")];
    });
    assert!(hub.reconcile().is_empty());
}

#[tokio::test]
async fn a_rejected_report_that_somebody_deletes_is_no_longer_a_cause_once_its_rows_are_elsewhere() {
    let mut hub = hub(&["c1"]);
    hub.add_upgrade(&upgrade("u1", &["c1"]));
    hub.settle();
    let later = Instant::now() + Duration::from_mins(1);
    hub.context.with(|state| {
        let entry = state.upgrades.get_mut("u1").unwrap();
        crate::fixture::write(entry);
        crate::fixture::note(entry, "c1", rollout::testing::record(Phase::Failed));
        let due = entry.rows.due(later).remove(0);
        entry
            .rows
            .refused(&due, &[5], true, "rows[5]: Invalid value", later);
        assert_eq!(entry.rows.refused_count(), 1);
        let due = entry.rows.due(later + Duration::from_secs(10)).remove(0);
        assert_eq!(due.shard, 1);
        entry.rows.wrote(due, Some(crate::fixture::stored(2)), later);
        assert_eq!(entry.rows.refused_count(), 1);
        entry.dirty = false;
        let deleted = crate::fixture::report("u1-report-1", 3, &json!([]));
        assert!(entry.rows.observe(&deleted, true, true, later));
    });
    flush(&hub.context, later + Duration::from_mins(1));
    hub.context.with(|state| {
        let entry = &state.upgrades["u1"];
        assert_eq!(entry.rows.refused_count(), 0);
        assert!(entry.dirty);
    });
}

mod finalizer;
mod preflight;
mod restore;
mod scope;
mod target;
mod unsettled;

mod contest;
mod estimate;
