mod overload;
mod whole;

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};

use api::names::Step;
use observe::index::Change;
use rollout::Phase;
use rollout::testing::{at, record};
use serde_json::json;

use super::*;
use crate::fixture::{context, note, report, upgrade, work};
use crate::metrics::labels::WatchKind;
use crate::state::freshness::KINDS;

/// A writer that has ended, and a loop that requests shutdown while it is polled.
async fn supervised(requests_shutdown: bool) -> anyhow::Result<()> {
    let shutdown = CancellationToken::new();
    let mut writers = JoinSet::new();
    writers.spawn(async {});
    tokio::task::yield_now().await;
    let looping = async {
        if requests_shutdown {
            shutdown.cancel();
        }
        std::future::pending::<()>().await;
    };
    supervise(&shutdown, looping, JoinSet::new(), writers).await
}

#[tokio::test]
async fn a_writer_that_ends_because_of_a_shutdown_is_no_failure_whoever_is_seen_first() {
    supervised(true).await.unwrap();
    let error = supervised(false).await.unwrap_err();
    assert_eq!(error.to_string(), "a writer ended");
}
fn tasks(task: impl Future<Output = ()> + Send + 'static) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(task);
    tasks
}

fn panics() -> impl Future<Output = ()> + Send + 'static {
    std::future::poll_fn(|_| panic!("it broke"))
}

#[tokio::test]
async fn a_watch_or_writer_that_panics_ends_the_process_with_an_error() {
    for (watches, writers, who) in [
        (tasks(panics()), tasks(pending()), "watch"),
        (tasks(pending()), tasks(panics()), "writer"),
    ] {
        let shutdown = CancellationToken::new();
        let error = supervise(&shutdown, pending(), watches, writers)
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), format!("a {who} ended"));
        assert!(shutdown.is_cancelled(), "the other writers are notified");
    }
}

#[tokio::test]
async fn at_shutdown_the_writers_finish_what_they_have_begun() {
    let shutdown = CancellationToken::new();
    let finished = Arc::new(AtomicBool::new(false));
    let (stop, done) = (shutdown.clone(), Arc::clone(&finished));
    let writer = async move {
        stop.cancelled().await;
        tokio::task::yield_now().await;
        done.store(true, Ordering::SeqCst);
    };
    shutdown.cancel();
    let outcome = supervise(&shutdown, pending(), tasks(pending()), tasks(writer)).await;
    assert!(outcome.is_ok() && finished.load(Ordering::SeqCst));
}

/// The watch of approvals has broken, and one of them may have been taken back since.
#[tokio::test]
async fn a_queued_start_for_which_approvals_counted_is_not_sent_while_it_is_not_known_which_there_are_still()
{
    let context = context(&["c1"]);
    context.freshness.begin_term();
    for kind in KINDS {
        context.freshness.refreshed(kind, 1);
    }
    assert!(context.open());
    let given = json!({
        "metadata": {"name": "half", "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"upgrade": "u1", "checkpoint": "half", "planHash": "h", "approver": "anna"},
    });
    let approval: api::views::Approval = serde_json::from_value(given).unwrap();
    let params = context.with(|state| {
        state.apply_upgrade(upgrade("u1", &["c1"]).view());
        state.index.approval(&Change::Applied(approval));
        apply::WorkParams {
            spec: Arc::clone(state.upgrades["u1"].in_force().unwrap()),
            violations: None,
            owner: Arc::from("ns/u1"),
            cluster_uid: Arc::from(""),
            cluster_id: None,
            request: observe::index::WorkRequest::AsPlanned,
            attempt: rollout::testing::first_attempt(),
            started: at(0),
            starts: false,
            until: None,
            approvals: state.index.approvals.of("ns/u1").into(),
        }
    });
    assert_eq!(params.approvals.len(), 1);
    let job = WriteJob {
        upgrade: Arc::from("u1"),
        write: Write::Create {
            cluster: Arc::from("c1"),
            step: Step::Platform,
            params,
            slot_released_at: None,
        },
    };
    let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("no hub"))
    });
    let (client, leadership) = (Client::new(nobody, "default"), lease::Handle::always());
    for is_known in [false, true] {
        if is_known {
            context.freshness.refreshed(WatchKind::Approval, 1);
        }
        let (outcome, _) = carry_out_while_leading(&context, &client, &leadership, &job).await;
        let is_sent = matches!(outcome, WriteResult::Failed(_));
        assert_eq!(is_sent, is_known, "{outcome:?}");
    }
}

/// Somebody sets a row back, or a report of a former leader arrives late.
#[test]
fn a_deletion_that_waits_is_called_back_when_the_row_that_permits_it_is_set_back() {
    let context = context(&["c1"]);
    let (cluster, uid): (Arc<str>, Arc<str>) = (Arc::from("c1"), Arc::from("c1-cluster-upgrade-u1"));
    let deletion = |upgrade: &str| WriteJob {
        upgrade: Arc::from(upgrade),
        write: Write::Delete {
            cluster: Arc::clone(&cluster),
            step: Step::Platform,
            uid: Arc::clone(&uid),
            version: None,
            halt: false,
        },
    };
    context.with(|state| {
        state.apply_upgrade(upgrade("u1", &["c1"]).view());
        let done = work("c1", Step::Platform, "u1", 5);
        state.index.work(&Change::Applied(done), at(0));
        state.index.mark_deleting("c1", Step::Platform, &uid, None);
        let entry = state.upgrades.get_mut("u1").unwrap();
        note(entry, "c1", record(Phase::Complete));
        crate::fixture::write(entry);
        entry.begin(&cluster, None);
    });
    let withdrawal = context.with(|state| WriteJob {
        upgrade: Arc::from("u1"),
        write: Write::Withdraw {
            cluster: Arc::clone(&cluster),
            uid: Arc::clone(&uid),
            version: 5,
            spec: Arc::clone(state.upgrades["u1"].in_force().unwrap()),
            violations: None,
        },
    });
    context.queue.push([deletion("u1"), deletion("u2"), withdrawal]);
    let is_asked_for = || {
        context.with(|state| {
            let view = state.index.work_of("c1", Step::Platform).unwrap();
            let is_busy = !state.upgrades["u1"].running.is_empty();
            (view.deletion_requested, is_busy)
        })
    };
    call_back(&context);
    assert_eq!(is_asked_for(), (true, true));
    let row = json!({"cluster": "c1", "phase": "Partial", "since": "2026-03-01T10:00:00Z", "revision": "r1"});
    let set_back = report("u1-report-1", 9, &json!([row]));
    context.with(|state| state.observe_report(&set_back, false, true, at(1)));
    call_back(&context);
    assert_eq!(is_asked_for(), (false, false));
    let left = context.queue.drain();
    let left: Vec<&str> = left.iter().map(|job| &*job.upgrade).collect();
    assert_eq!(left, ["u2"], "those of others stay");
}
