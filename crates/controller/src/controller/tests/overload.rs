//! The writers and the passes of a term on an overloaded hub, in real time.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use crate::controller::*;
use crate::fixture::{context, spec, upgrade};
use crate::health::Readiness;
use crate::state::freshness::KINDS;

type Asked = (Instant, Option<String>);

/// A hub that rejects every write with 429, or accepts all of them.
#[derive(Clone, Default)]
struct Hub {
    recovered: Arc<AtomicBool>,
    /// Time of each request and, for creations, the name.
    asked: Arc<Mutex<Vec<Asked>>>,
    written: Arc<Mutex<BTreeSet<String>>>,
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
        let echoes = request.uri().path().contains("/managedclustersupgrades/");
        // Events are also created.
        let creates =
            request.method() == http::Method::POST && request.uri().path().ends_with("manifestworks");
        let bytes = request
            .into_body()
            .collect()
            .await
            .map_err(std::io::Error::other)?;
        let mut body: Value = serde_json::from_slice(&bytes.to_bytes()).unwrap_or_default();
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let number = {
            let mut asked = self.asked.lock().unwrap();
            asked.push((Instant::now(), creates.then(|| name.clone())));
            asked.len()
        };
        if !self.recovered.load(Ordering::SeqCst) {
            let busy = Response::builder().status(429).header("retry-after", "1");
            return busy
                .body(Body::from(b"Too many requests".to_vec()))
                .map_err(std::io::Error::other);
        }
        if creates {
            self.written.lock().unwrap().insert(name.clone());
        }
        body["metadata"]["uid"] = json!(if creates { name } else { "u1".to_owned() });
        body["metadata"]["resourceVersion"] = json!(if echoes { 0 } else { number }.to_string());
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok(Response::new(Body::from(body.to_string().into_bytes())))
    }

    fn asked_since(&self, begun: Instant) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(at, _)| *at >= begun).count()
    }

    fn tried(&self) -> BTreeSet<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter_map(|(_, name)| name.clone()).collect()
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
    context.queue.set_writers(32);
    let mut writers = JoinSet::new();
    for number in 0..32 {
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
    let story = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let begun = Instant::now();
        tokio::time::sleep(Duration::from_secs(4)).await;
        let asked = hub.asked_since(begun);
        assert!((1..=12).contains(&asked), "{asked} requests in four seconds");
        assert!(hub.tried().len() <= 100, "{} creations", hub.tried().len());
        hub.recovered.store(true, Ordering::SeqCst);
        let recovered = Instant::now();
        while hub.written.lock().unwrap().len() < 100 {
            assert!(recovered.elapsed() < Duration::from_secs(20), "{:?}", hub.written);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(hub.tried().len(), 100, "never more than slots");
    };
    tokio::select! {
        () = passes => {}
        () = story => {}
    }
    shutdown.cancel();
}
