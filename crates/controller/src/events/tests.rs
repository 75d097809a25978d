use std::convert::Infallible;
use std::sync::Mutex;

use axum::body::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use super::queue::{CAPACITY, REPEAT_AFTER};
use super::*;
use crate::lease::Handle;

/// Stores the Events that it receives. Responds with the codes of a script first, then with 201. Code 0 means
/// no response.
#[derive(Clone, Default)]
struct Hub {
    events: Arc<Mutex<Vec<Value>>>,
    script: Arc<Mutex<Vec<u16>>>,
}

impl Hub {
    fn client(&self) -> kube::Client {
        let hub = self.clone();
        kube::Client::new(
            tower::service_fn(move |request| hub.clone().serve(request)),
            "default",
        )
    }

    async fn serve(self, request: Request<kube::client::Body>) -> Result<Response<Full<Bytes>>, Infallible> {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let event: Value = serde_json::from_slice(&body).unwrap();
        let code = {
            let mut script = self.script.lock().unwrap();
            if script.is_empty() { 201 } else { script.remove(0) }
        };
        if code == 0 || code == 201 {
            self.events.lock().unwrap().push(event.clone());
        }
        if code == 0 {
            std::future::pending::<()>().await;
        }
        let reason = if code == 409 { "AlreadyExists" } else { "Other" };
        let answer = if code == 201 {
            event
        } else {
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "no"})
        };
        let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
        *response.status_mut() = StatusCode::from_u16(code).unwrap();
        Ok(response)
    }

    fn sent(&self) -> Vec<Value> {
        self.events.lock().unwrap().clone()
    }
}

struct UpgradeEntry {
    hub: Hub,
    publisher: Publisher,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl UpgradeEntry {
    fn new(script: &[u16]) -> Self {
        let hub = Hub {
            script: Arc::new(Mutex::new(script.to_vec())),
            ..Hub::default()
        };
        let metrics = Arc::new(Metrics::new());
        let stop = CancellationToken::new();
        let fence = Handle::always().fence();
        let instance = "pod-1_abc".to_owned();
        let (publisher, task) = Publisher::start(
            hub.client(),
            fence,
            Arc::clone(&metrics),
            instance,
            &crate::sources::Sources::system(),
            stop.clone(),
        );
        Self {
            hub,
            publisher,
            metrics,
            stop,
            task,
        }
    }

    /// Lets the sender finish and returns the received Events.
    async fn close(self) -> (Vec<Value>, Arc<Metrics>) {
        self.stop.cancel();
        self.task.await.unwrap();
        (self.hub.sent(), self.metrics)
    }
}

fn fleet() -> Regarding {
    Regarding {
        namespace: "fleet".to_owned(),
        name: "to-4-18".to_owned(),
        uid: "u-1".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_has_every_field_the_api_requires() {
    let entry = UpgradeEntry::new(&[]);
    entry
        .publisher
        .cluster(&fleet(), "c7", EventReason::ClusterFailed, "c7 failed: Failing");
    let (sent, metrics) = entry.close().await;
    let event = &sent[0];
    assert_eq!(event["apiVersion"], "events.k8s.io/v1");
    assert_eq!(event["metadata"]["namespace"], "fleet");
    assert!(
        event["metadata"]["name"]
            .as_str()
            .unwrap()
            .starts_with("to-4-18.")
    );
    assert_eq!(
        (event["reason"].as_str(), event["type"].as_str()),
        (Some("ClusterFailed"), Some("Warning"))
    );
    assert_eq!(
        (event["action"].as_str(), event["note"].as_str()),
        (Some("Upgrade"), Some("c7 failed: Failing"))
    );
    assert_eq!(event["regarding"]["uid"], "u-1");
    assert_eq!(
        event["regarding"]["apiVersion"],
        "cluster.open-cluster-management.io/v1beta1"
    );
    assert_eq!(event["related"]["name"], "c7");
    assert_eq!(event["reportingController"], REPORTING_CONTROLLER);
    assert_eq!(event["reportingInstance"], "pod-1_abc");
    let time = event["eventTime"].as_str().unwrap();
    assert_eq!(time.len(), "2026-01-01T00:00:00.000000Z".len(), "{time}");
    assert_eq!(metrics.writes(WriteKind::Event, WriteOutcome::Ok), 1);
}

#[tokio::test(start_paused = true)]
async fn the_same_event_is_sent_once_in_ten_minutes() {
    let entry = UpgradeEntry::new(&[]);
    entry
        .publisher
        .upgrade(&fleet(), EventReason::Stalled, "two clusters failed");
    entry
        .publisher
        .upgrade(&fleet(), EventReason::Stalled, "two clusters failed");
    entry
        .publisher
        .upgrade(&fleet(), EventReason::Stalled, "three clusters failed");
    entry
        .publisher
        .cluster(&fleet(), "a", EventReason::ClusterFailed, "Failing");
    entry
        .publisher
        .cluster(&fleet(), "b", EventReason::ClusterFailed, "Failing");
    tokio::time::sleep(REPEAT_AFTER).await;
    entry
        .publisher
        .upgrade(&fleet(), EventReason::Stalled, "two clusters failed");
    let (sent, metrics) = entry.close().await;
    assert_eq!(sent.len(), 5);
    assert_eq!(metrics.events_dropped(EventDrop::Duplicate), 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_its_oldest_and_counts_it() {
    let entry = UpgradeEntry::new(&[0]);
    for number in 0..CAPACITY + 10 {
        entry
            .publisher
            .cluster(&fleet(), "c", EventReason::ClusterFailed, format!("{number}"));
    }
    assert_eq!(entry.metrics.events_dropped(EventDrop::QueueFull), 10);
    let first = entry.publisher.queue.try_pop().unwrap();
    assert_eq!(first.note, "10");
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_sent_at_once_and_the_rest_at_ten_a_second() {
    let entry = UpgradeEntry::new(&[]);
    let burst = usize::try_from(BURST).unwrap();
    for number in 0..burst + 20 {
        entry
            .publisher
            .cluster(&fleet(), "c", EventReason::ClusterFailed, format!("{number}"));
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(entry.hub.sent().len(), burst);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(entry.hub.sent().len(), burst + 10);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(entry.hub.sent().len(), burst + 20);
}

#[tokio::test(start_paused = true)]
async fn a_start_is_sent_after_a_lull_and_names_its_cluster() {
    let entry = UpgradeEntry::new(&[]);
    entry.publisher.cluster(
        &fleet(),
        "c1",
        EventReason::ClusterStarted,
        "Cluster c1 has started",
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(entry.hub.sent().is_empty());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let sent = entry.hub.sent();
    assert_eq!(sent[0]["related"]["name"], "c1");
    assert_eq!(sent[0]["type"], "Normal");
}

#[tokio::test(start_paused = true)]
async fn what_is_held_back_is_sent_before_an_event_about_its_upgrade_and_at_shutdown() {
    let entry = UpgradeEntry::new(&[]);
    let completed = EventReason::ClusterCompleted;
    entry
        .publisher
        .cluster(&fleet(), "c1", completed, "Cluster c1 is complete");
    entry
        .publisher
        .upgrade(&fleet(), EventReason::Completed, "complete");
    entry
        .publisher
        .cluster(&fleet(), "c2", completed, "Cluster c2 is complete");
    let (sent, _) = entry.close().await;
    let reasons: Vec<_> = sent
        .iter()
        .map(|event| event["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["ClusterCompleted", "Completed", "ClusterCompleted"]);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_starts_are_a_handful_of_events() {
    let entry = UpgradeEntry::new(&[]);
    for number in 0..10_000 {
        let name = format!("c{number}");
        let note = format!("Cluster {name} has started");
        entry
            .publisher
            .cluster(&fleet(), &name, EventReason::ClusterStarted, note);
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(entry.hub.sent().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_starts_of_five_hundred_upgrades_within_a_second_are_an_event_each_within_the_rate() {
    let entry = UpgradeEntry::new(&[]);
    for number in 0..10_000 {
        if number % 10 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut upgrade = fleet();
        upgrade.uid = format!("u-{}", number % 500);
        let (name, started) = (format!("c{number}"), EventReason::ClusterStarted);
        entry.publisher.cluster(&upgrade, &name, started, "started");
    }
    assert!(entry.hub.sent().is_empty(), "all are held back");
    // Two seconds after the last one they are due; then the burst and ten a second.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let sent = entry.hub.sent().len();
    let burst = usize::try_from(BURST).unwrap();
    assert!((burst + 15..=burst + 25).contains(&sent), "{sent}");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let (sent, metrics) = entry.close().await;
    assert_eq!(sent.len(), 500);
    assert_eq!(metrics.events_dropped(EventDrop::QueueFull), 0);
    let note = sent[0]["note"].as_str().unwrap();
    assert!(note.starts_with("20 clusters have started, such as "), "{note}");
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_answer_is_lost_is_repeated_under_the_same_name() {
    let entry = UpgradeEntry::new(&[0, 409]);
    entry.publisher.upgrade(&fleet(), EventReason::Started, "started");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (sent, metrics) = entry.close().await;
    assert_eq!(sent.len(), 1);
    assert_eq!(metrics.events_dropped(EventDrop::Failed), 0);
    assert_eq!(metrics.writes(WriteKind::Event, WriteOutcome::Timeout), 1);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_was_refused_is_counted_and_may_be_published_again() {
    let entry = UpgradeEntry::new(&[403]);
    entry.publisher.upgrade(&fleet(), EventReason::Started, "started");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(entry.metrics.events_dropped(EventDrop::Failed), 1);
    entry.publisher.upgrade(&fleet(), EventReason::Started, "started");
    let (sent, _) = entry.close().await;
    assert_eq!(sent.len(), 1);
}

#[test]
fn a_long_note_is_cut_at_a_character_and_marked() {
    let mut note = "ü".repeat(2000);
    truncate(&mut note);
    assert!(note.len() <= MAX_NOTE && note.ends_with("ü..."), "{}", note.len());
    let mut short = "short".to_owned();
    truncate(&mut short);
    assert_eq!(short, "short");
}

#[test]
fn reasons_are_camel_case_documented_and_fit_the_api() {
    for (reason, meaning) in EventReason::ALL {
        let name = reason.as_str();
        assert!(
            name.starts_with(char::is_uppercase)
                && name.chars().all(char::is_alphanumeric)
                && name.len() <= 128
        );
        assert!(meaning.trim().ends_with('.'), "{name}");
        assert!(!reason.action().is_empty());
        let gathered = reason.scope() == Scope::Cluster && reason.severity() == Severity::Normal;
        let known = [EventReason::ClusterStarted, EventReason::ClusterCompleted];
        assert_eq!(
            gathered,
            known.contains(reason),
            "{name}: Events of clusters that go well are gathered"
        );
    }
}
