//! A hub that has one upgrade and its reports, and tells watches of their changes. It knows nothing else of Kubernetes.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

const GROUP: &str = "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/upgrades";
/// Rows per report, and how soon the controller writes a report that has changed.
const ROWS: usize = 250;
const GATHERED: Duration = Duration::from_secs(2);

pub struct Hub {
    world: Arc<World>,
    address: SocketAddr,
    runtime: tokio::runtime::Runtime,
}

struct World {
    rows: Mutex<Vec<Value>>,
    /// Revision, state, and the revision of each report.
    news: watch::Sender<News>,
    changes: AtomicUsize,
    /// True while every watch ends and every request fails.
    fails: AtomicBool,
}

#[derive(Clone)]
struct News {
    revision: u64,
    state: &'static str,
    state_revision: u64,
    reports: Vec<u64>,
}

#[derive(Deserialize)]
struct Params {
    #[serde(default)]
    watch: bool,
    #[serde(default, rename = "resourceVersion")]
    revision: String,
}

impl Hub {
    /// Serves an upgrade of this many clusters: two are canaries, and of the others one in ten runs.
    pub fn start(clusters: usize) -> Hub {
        let rows: Vec<Value> = (0..clusters).map(row).collect();
        let news = News {
            revision: 1,
            state: "Upgrading",
            state_revision: 1,
            reports: vec![1; clusters.div_ceil(ROWS)],
        };
        let world = Arc::new(World {
            rows: Mutex::new(rows),
            news: watch::Sender::new(news),
            changes: AtomicUsize::new(0),
            fails: AtomicBool::new(false),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let router = Router::new()
            .route(&format!("{GROUP}/managedclustersupgrades/spring"), get(one))
            .route(&format!("{GROUP}/managedclustersupgrades"), get(upgrades))
            .route(&format!("{GROUP}/managedclustersupgradereports"), get(reports))
            .with_state(Arc::clone(&world));
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, router).await });
        Hub {
            world,
            address,
            runtime,
        }
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes one cluster.
    pub fn change(&self, cluster: usize, phase: &str, reason: &str, message: &str) {
        self.world.change(cluster, phase, reason, message);
        self.world.publish(&BTreeSet::from([cluster / ROWS]));
    }

    /// Changes this many clusters a second from now on. As the controller does, it gathers the changes of each report.
    pub fn change_steadily(&self, per_second: usize) {
        let world = Arc::clone(&self.world);
        self.runtime.spawn(async move {
            let mut tick = tokio::time::interval(GATHERED);
            let mut next = 0;
            loop {
                tick.tick().await;
                let count = world.rows.lock().unwrap().len();
                let mut changed = BTreeSet::new();
                for _ in 0..per_second * 2 {
                    // Neighbours are in the same report, so this touches every report.
                    next = (next + 83) % count;
                    let message = format!(
                        "Working towards 4.18.20: {} of 860 done (1% complete)",
                        next % 860
                    );
                    world.change(next, "Partial", "Progressing", &message);
                    changed.insert(next / ROWS);
                }
                for report in changed {
                    world.publish(&BTreeSet::from([report]));
                    tokio::time::sleep(GATHERED / 60).await;
                }
            }
        });
    }

    /// Number of changes so far.
    pub fn changes(&self) -> usize {
        self.world.changes.load(Ordering::Relaxed)
    }

    /// Ends all watches and fails, or answers again. Nothing of the upgrade changes.
    pub fn fail(&self, fails: bool) {
        self.world.fails.store(fails, Ordering::Relaxed);
        self.world.news.send_modify(|_| ());
    }

    /// Completes the upgrade.
    pub fn complete(&self) {
        self.world.news.send_modify(|news| {
            news.revision += 1;
            (news.state, news.state_revision) = ("Complete", news.revision);
        });
    }
}

impl World {
    fn change(&self, cluster: usize, phase: &str, reason: &str, message: &str) {
        let mut rows = self.rows.lock().unwrap();
        let row = &mut rows[cluster];
        row["phase"] = json!(phase);
        row["reason"] = json!(reason);
        row["message"] = json!(message);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    fn publish(&self, reports: &BTreeSet<usize>) {
        self.news.send_modify(|news| {
            news.revision += 1;
            for report in reports {
                news.reports[*report] = news.revision;
            }
        });
    }

    fn report(&self, number: usize, revision: u64) -> Value {
        let rows = self.rows.lock().unwrap();
        let end = rows.len().min((number + 1) * ROWS);
        json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgradeReport",
            "metadata": {
                "name": format!("spring-report-{}", number + 1), "namespace": "upgrades", "uid": format!("r{number}"),
                "resourceVersion": revision.to_string(),
                "labels": {"cluster.open-cluster-management.io/managedclustersupgrade": "spring"},
                "ownerReferences": [{"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
                    "name": "spring", "uid": "u1", "controller": true}],
            },
            "rows": rows[number * ROWS..end],
        })
    }
}

fn row(number: usize) -> Value {
    let runs = number < 2 || number.is_multiple_of(10);
    let (phase, reason) = if runs {
        ("Partial", "Progressing")
    } else {
        ("Pending", "WaitingForSlot")
    };
    let mut row = json!({
        "cluster": format!("edge-{number:05}"), "phase": phase, "reason": reason,
        "message": "Working towards 4.18.20: 106 of 860 done (12% complete), waiting on etcd, kube-apiserver",
        "fromVersion": "4.17.30", "toVersion": "4.18.20", "since": "2026-03-01T10:00:00Z",
        "revision": "5f9d1c0e8a7b4c3d", "canary": number < 2,
    });
    if runs {
        row["steps"] = json!([
            {"name": "PreAction", "startedAt": "2026-03-01T09:40:00Z", "appliedAt": "2026-03-01T09:40:03Z",
             "finishedAt": "2026-03-01T09:50:00Z", "outcome": "Succeeded"},
            {"name": "Platform", "startedAt": "2026-03-01T09:50:00Z", "appliedAt": "2026-03-01T09:50:03Z"},
        ]);
    }
    row
}

fn upgrade(news: &News) -> Value {
    let complete = news.state == "Complete";
    let ready = if complete { "True" } else { "False" };
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "UpgradeRunning", "message": "",
               "lastTransitionTime": "2026-03-01T10:00:00Z"})
    };
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
        "metadata": {
            "name": "spring", "namespace": "upgrades", "uid": "u1", "generation": 1,
            "resourceVersion": news.state_revision.to_string(), "creationTimestamp": "2026-03-01T09:30:00Z",
        },
        "spec": {"clusterVersion": {"version": "4.18.20"}},
        "status": {
            "observedGeneration": 1, "state": news.state, "inFlight": 10, "effectiveMaxConcurrency": 10,
            "clustersSummery": {"total": 30, "initialized": 5, "partialUpgrade": 5, "complete": 0, "failed": 0, "pending": 25},
            "conditions": [condition("Ready", ready), condition("Stalled", "False")],
        },
    })
}

async fn one(State(world): State<Arc<World>>) -> Response {
    let news = world.news.borrow().clone();
    axum::Json(upgrade(&news)).into_response()
}

async fn upgrades(State(world): State<Arc<World>>, Query(params): Query<Params>) -> Response {
    let changed = |news: &News, seen: u64| {
        (news.state_revision > seen)
            .then(|| upgrade(news))
            .into_iter()
            .collect()
    };
    answer(&world, &params, move |_, news, seen| changed(news, seen))
}

async fn reports(State(world): State<Arc<World>>, Query(params): Query<Params>) -> Response {
    let changed = |world: &World, news: &News, seen: u64| {
        let newer = news
            .reports
            .iter()
            .enumerate()
            .filter(|(_, revision)| **revision > seen);
        newer
            .map(|(number, revision)| world.report(number, *revision))
            .collect()
    };
    answer(&world, &params, changed)
}

/// A list of all objects, or a stream of those that change.
fn answer(
    world: &Arc<World>,
    params: &Params,
    changed: impl Fn(&World, &News, u64) -> Vec<Value> + Send + 'static,
) -> Response {
    if world.fails.load(Ordering::Relaxed) {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    let news = world.news.borrow().clone();
    if !params.watch {
        let items = changed(world, &news, 0);
        let metadata = json!({"resourceVersion": news.revision.to_string()});
        return axum::Json(json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items}))
            .into_response();
    }
    let seen: u64 = params.revision.parse().unwrap_or_default();
    let (world, receiver) = (Arc::clone(world), world.news.subscribe());
    let events = stream::unfold(
        (world, receiver, seen, changed),
        |(world, mut receiver, seen, changed)| async move {
            loop {
                let news = receiver.borrow_and_update().clone();
                if world.fails.load(Ordering::Relaxed) {
                    return None;
                }
                let lines: Vec<String> = changed(&world, &news, seen)
                    .into_iter()
                    .map(|object| format!("{}\n", json!({"type": "MODIFIED", "object": object})))
                    .collect();
                if !lines.is_empty() {
                    let text: Result<String, std::convert::Infallible> = Ok(lines.concat());
                    return Some((text, (world, receiver, news.revision, changed)));
                }
                receiver.changed().await.ok()?;
            }
        },
    );
    Body::from_stream(events).into_response()
}
