//! The writers and the passes of a term on an overloaded hub, in real time.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use crate::controller::*;
use crate::fixture::{context, spec, upgrade};
use crate::health::Readiness;
use crate::state::freshness::KINDS;

/// What a 429 asks for.
const PAUSE: Duration = Duration::from_secs(1);
const WRITERS: usize = 32;

/// A hub that rejects every write with 429, or accepts all of them.
#[derive(Clone, Default)]
struct Hub {
    recovered: Arc<AtomicBool>,
    /// Time of each request that a writer sent while the hub was overloaded.
    rejected: Arc<Mutex<Vec<Instant>>>,
    /// Names of the works that were to be created, and of those that were.
    tried: Arc<Mutex<BTreeSet<String>>>,
    written: Arc<Mutex<BTreeSet<String>>>,
    /// Requests that the hub processes now, and the most at one time.
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    /// Resource versions.
    version: Arc<AtomicUsize>,
}

impl Hub {
    fn client(&self) -> Client {
        let hub = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let hub = hub.clone();
            async move { hub.answer(request).await }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
        // Requests for an upgrade contain no spec, so their response must not count as newer than the upgrade
        // itself.
        let is_upgrade = request.uri().path().contains("/managedclustersupgrades/");
        // Events are also created, and do not pass the gate of the writers.
        let is_event = request.uri().path().ends_with("/events");
        let creates =
            request.method() == http::Method::POST && request.uri().path().ends_with("manifestworks");
        let bytes = request
            .into_body()
            .collect()
            .await
            .map_err(std::io::Error::other)?;
        let mut body: Value = serde_json::from_slice(&bytes.to_bytes()).unwrap_or_default();
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if creates {
            self.tried.lock().unwrap().insert(name.clone());
        }
        if !self.recovered.load(Ordering::SeqCst) {
            if !is_event {
                self.rejected.lock().unwrap().push(Instant::now());
            }
            let busy = Response::builder()
                .status(429)
                .header("retry-after", PAUSE.as_secs());
            return busy
                .body(Body::from(b"Too many requests".to_vec()))
                .map_err(std::io::Error::other);
        }
        if creates {
            self.written.lock().unwrap().insert(name.clone());
        }
        body["metadata"]["uid"] = json!(if creates { name } else { "u1".to_owned() });
        let version = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        body["metadata"]["resourceVersion"] = json!(if is_upgrade { 0 } else { version }.to_string());
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        Ok(Response::new(Body::from(body.to_string().into_bytes())))
    }

    /// Number of rejected requests, and how often the next one came only after the pause that the hub asked for.
    fn rejections(&self) -> (usize, usize) {
        let rejected = self.rejected.lock().unwrap();
        let pauses = rejected.windows(2).filter(|pair| pair[1] - pair[0] >= PAUSE);
        (rejected.len(), pauses.count())
    }
}

#[tokio::test]
async fn an_overloaded_hub_is_asked_little_and_a_recovered_one_at_full_speed() {
    let names: Vec<String> = (0..2_500).map(|number| format!("c{number:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let context = Arc::new(context(&names));
    let mut given = upgrade("u1", &names);
    given.spec = spec(&names);
    given.spec["upgradeStrategy"] = json!({"maxConcurrency": 100});
    context.with(|state| state.apply_upgrade(given.view()));
    context.freshness.begin_term();
    for kind in KINDS {
        context.freshness.refreshed(kind, 1);
    }
    assert!(context.open());
    let hub = Hub::default();
    let (client, shutdown) = (hub.client(), CancellationToken::new());
    let leadership = lease::Handle::always();
    let (events, _sender) = events::Publisher::start(
        client.clone(),
        lease::Handle::always().fence(),
        Arc::clone(&context.metrics),
        "test".to_owned(),
        &crate::sources::Sources::system(),
        shutdown.clone(),
    );
    let parts = Parts {
        metrics: Arc::clone(&context.metrics),
        readiness: Arc::new(Readiness::new()),
        leadership: leadership.clone(),
        events,
        sources: crate::sources::Sources::system(),
        shutdown: shutdown.clone(),
    };
    context.queue.set_writers(WRITERS);
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let (context, client, leadership) = (Arc::clone(&context), client.clone(), leadership.clone());
        writers.spawn(write(
            context,
            client,
            leadership,
            shutdown.clone(),
            number % WRITERS_PER_CLEANER == 0,
        ));
    }
    let passes = async {
        loop {
            let due = context.with(|state| state.due(context.now(), Instant::now(), false));
            for uid in &due {
                reconcile::reconcile(&context, &parts.events, uid);
            }
            reconcile::flush(&context, Instant::now());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let scenario = async {
        // All writers may have sent a request before the first answer. From then on there is one after each pause.
        loop {
            let (asked, waits) = hub.rejections();
            assert!(asked <= WRITERS + waits, "{asked} requests with {waits} pauses");
            if waits >= 4 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(hub.tried.lock().unwrap().len() <= 100, "{:?}", hub.tried);
        hub.recovered.store(true, Ordering::SeqCst);
        while hub.written.lock().unwrap().len() < 100 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(hub.tried.lock().unwrap().len(), 100, "never more than slots");
        let most = hub.most.load(Ordering::SeqCst);
        assert!(most >= WRITERS / 4, "at most {most} requests at a time");
    };
    tokio::select! {
        () = passes => {}
        () = scenario => {}
    }
    shutdown.cancel();
}
