//! Lists a kind and watches it from there, for as long as the process lives.
//!
//! Not kube's watcher: the controller must know when a kind is up to date, which resource version a list has, and that
//! one object which cannot be read leaves the others alone. So objects are decoded one by one, every request and every
//! silence has a limit, and whatever breaks a watch leads to a new, consistent list.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use ahash::AHashSet;
use axum::body::Bytes;
use futures::stream::{StreamExt, TryStreamExt};
use futures::{AsyncBufReadExt, Stream};
use http::{Request, Response, header};
use http_body_util::BodyExt;
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::{Client, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout};

use super::Watched;
use crate::hall::Hall;
use crate::index::{Change, Key, key};
use crate::lease::random;

mod decode;

/// Longest time of one page.
const PAGE_LIMIT: Duration = Duration::from_mins(1);
/// Longest time until a watch begins.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Seconds after which the server ends a watch, which is then renewed: a sign of life where nothing happens. A random part
/// keeps the kinds apart.
const RENEWAL: (u32, u64) = (40, 6);
/// A watch that is silent for so much longer than that is dead.
const GRACE: Duration = Duration::from_secs(10);
/// A watch that has lasted so long was no failed attempt.
const STEADY: Duration = Duration::from_secs(5);
/// Longest pause that the server may ask for.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Why a kind must be listed anew.
#[derive(Debug)]
enum Trouble {
    /// The version to go on from is too old for the server.
    Expired,
    /// Anything else, with how long the server asks to be left alone.
    Failed { reason: String, wait: Duration },
}

impl Trouble {
    fn failed(reason: impl Into<String>) -> Trouble {
        Trouble::Failed {
            reason: reason.into(),
            wait: Duration::ZERO,
        }
    }
}

/// Growing pauses between attempts.
#[derive(Debug, Default)]
struct Backoff {
    failures: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(200);
    const MOST: Duration = Duration::from_secs(10);

    /// The next pause: doubling, and shortened by up to a half at random.
    fn next(&mut self) -> Duration {
        let full = (Self::FIRST * (1 << self.failures.min(6))).min(Self::MOST);
        self.failures += 1;
        let half = full / 2;
        let millis = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).max(1);
        half + Duration::from_millis(random() % millis)
    }

    const fn reset(&mut self) {
        self.failures = 0;
    }
}

/// What a list told beside its objects.
#[derive(Debug, Default)]
struct Listing {
    seen: AHashSet<Key>,
    /// Newest version among the objects and of the list itself.
    newest: u64,
    /// One object had no name that could be read: it may be any of those that seem to be missing.
    nameless: bool,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default, borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    token: Option<String>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// What a server says when it refuses.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    code: u16,
    reason: String,
    message: String,
}

impl Refusal {
    fn trouble(self, wait: Duration) -> Trouble {
        if self.code == 410 || self.reason == "Expired" || self.reason == "Gone" {
            return Trouble::Expired;
        }
        let (message, code) = (self.message, self.code);
        Trouble::Failed {
            reason: format!("the API server says {code}: {message}"),
            wait,
        }
    }
}

/// Lists and watches one kind.
pub(super) struct Source<K> {
    hall: Arc<Hall>,
    client: Client,
    label: Option<&'static str>,
    backoff: Backoff,
    kind: PhantomData<fn() -> K>,
}

impl<K> Source<K>
where
    K: Watched + Resource<DynamicType = ()> + DeserializeOwned,
{
    /// All objects of the kind, or those with a label.
    pub(super) fn new(hall: Arc<Hall>, client: Client, label: Option<&'static str>) -> Source<K> {
        Source {
            hall,
            client,
            label,
            backoff: Backoff::default(),
            kind: PhantomData,
        }
    }

    /// Lists and watches for ever; lists anew when that fails, or when a new view is wanted.
    pub(super) async fn run(mut self) {
        let mut wanted = self.hall.freshness.wanted();
        loop {
            let generation = *wanted.borrow_and_update();
            let trouble = tokio::select! {
                biased;
                _ = wanted.changed() => continue,
                trouble = self.follow(generation) => trouble,
            };
            let (reason, outage, wait) = match trouble {
                Trouble::Expired => (
                    "the server has forgotten its version".to_owned(),
                    false,
                    Duration::ZERO,
                ),
                Trouble::Failed { reason, wait } => (reason, true, wait.min(LONGEST_WAIT)),
            };
            self.hall.watch_lost(K::KIND, outage, &reason);
            let pause = self.backoff.next();
            sleep(wait).await;
            // What a new view wants does not wait for what an old one has met.
            tokio::select! {
                _ = wanted.wait_for(|now| *now != generation) => {}
                () = sleep(pause.saturating_sub(wait)) => {}
            }
        }
    }

    /// Lists and watches until that fails.
    async fn follow(&mut self, generation: u64) -> Trouble {
        if let Some(kind) = K::AFTER {
            self.hall.freshness.until_fresh(kind, generation).await;
        }
        let mut version = match self.list(generation).await {
            Ok(version) => version,
            Err(trouble) => return trouble,
        };
        loop {
            if let Err(trouble) = self.watch(generation, &mut version).await {
                return trouble;
            }
        }
    }

    /// Reads all objects as they are now; the version to watch from.
    async fn list(&self, generation: u64) -> Result<String, Trouble> {
        let mut params = ListParams::default().limit(K::PAGE);
        params.label_selector = self.label.map(str::to_owned);
        let mut listing = Listing::default();
        let mut version = None;
        self.hall.tell_of(generation, K::begin_list);
        loop {
            let body = timeout(PAGE_LIMIT, self.page(&params));
            let body = body.await.map_err(|_| silent("a list", PAGE_LIMIT))??;
            let page: Page<'_> = serde_json::from_slice(&body)
                .map_err(|error| Trouble::failed(format!("the list is none: {error}")))?;
            let listed = self.accept(generation, page.metadata.resource_version, &mut version)?;
            listing.newest = listing.newest.max(listed);
            for item in page.items.unwrap_or_default() {
                self.take_listed(generation, item.get(), &mut listing);
            }
            params.continue_token = page.metadata.token.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                break;
            }
        }
        if !listing.nameless {
            self.hall.tell_of(generation, |state| {
                K::retain(state, &self.hall, &listing.seen, listing.newest);
            });
        }
        Ok(version.unwrap_or_default())
    }

    async fn page(&self, params: &ListParams) -> Result<Bytes, Trouble> {
        let request = kube::core::Request::new(K::url_path(&(), None))
            .list(params)
            .map_err(|error| Trouble::failed(error.to_string()))?;
        let body = self.send(request).await?.into_body();
        let body = body.collect().await;
        let body = body.map_err(|error| Trouble::failed(format!("the list broke off: {error}")))?;
        Ok(body.to_bytes())
    }

    /// Sends a request, which succeeds.
    async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Body>, Trouble> {
        let answer = self.client.send(request.map(Body::from)).await;
        let answer = answer.map_err(|error| Trouble::failed(describe(&error)))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let wait = answer
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok())
            .map_or(Duration::ZERO, Duration::from_secs);
        let body = answer.into_body().collect().await;
        let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let refusal: Refusal = serde_json::from_slice(&body).unwrap_or_default();
        let code = status.as_u16();
        Err(Refusal { code, ..refusal }.trouble(wait))
    }

    /// Takes the version of a page; as a number, 0 when it is none. What is older than what was told before is no list of
    /// the same hub: everything is read anew then.
    fn accept(&self, generation: u64, page: String, version: &mut Option<String>) -> Result<u64, Trouble> {
        let number = page.parse().unwrap_or(0);
        if version.is_some() {
            return Ok(number);
        }
        if page.is_empty() {
            return Err(Trouble::failed("the list has no resource version"));
        }
        if number > 0
            && let Some(known) = self.hall.freshness.went_back(K::KIND, number)
        {
            self.hall.start_anew(K::KIND, number, known);
            return Err(Trouble::Expired);
        }
        self.hall.freshness.saw(K::KIND, generation, number);
        *version = Some(page);
        Ok(number)
    }

    fn take_listed(&self, generation: u64, text: &str, listing: &mut Listing) {
        let Some(object) = self.decode(text) else {
            listing.nameless = true;
            return;
        };
        listing.newest = listing.newest.max(number(&object));
        self.hall.tell_of(generation, |state| {
            listing.seen.insert(key(&object, &mut state.index.pool));
            K::listed(state, &self.hall, object);
        });
    }

    /// An object as far as it can be read; none for one that has no name.
    fn decode(&self, text: &str) -> Option<K> {
        let (object, readable) = decode::object::<K>(text);
        let name = object.as_ref().and_then(|object| object.meta().name.as_deref());
        if !readable {
            // Those that say so themselves are counted when they are taken.
            if object.as_ref().is_none_or(|object| object.unreadable().is_none()) {
                self.hall.count_unreadable(Some(K::KIND));
            }
            let namespace = object
                .as_ref()
                .and_then(|object| object.meta().namespace.as_deref());
            // Never the error's text: it may quote what the object holds.
            tracing::warn!(
                kind = K::KIND.as_str(),
                namespace,
                name,
                "an object cannot be read"
            );
        }
        name.is_some().then_some(())?;
        object
    }

    /// Watches until the server ends it in order; `version` is where to go on.
    async fn watch(&mut self, generation: u64, version: &mut String) -> Result<(), Trouble> {
        let seconds = RENEWAL.0 + u32::try_from(random() % RENEWAL.1).unwrap_or(0);
        let lines = timeout(START_LIMIT, self.open(seconds, version));
        let lines = lines
            .await
            .map_err(|_| silent("the start of a watch", START_LIMIT))??;
        let mut lines = std::pin::pin!(lines);
        self.hall.refreshed(K::KIND, generation);
        let begun = Instant::now();
        let limit = Duration::from_secs(seconds.into()) + GRACE;
        let mut heard = false;
        let ended = loop {
            match timeout(limit, lines.next()).await {
                Ok(Some(Ok(line))) if line.trim().is_empty() => {}
                Ok(Some(Ok(line))) => {
                    heard = true;
                    self.hall.heard(K::KIND);
                    if let Err(trouble) = self.event(generation, &line, version) {
                        break Err(trouble);
                    }
                }
                Ok(Some(Err(error))) => break Err(Trouble::failed(format!("the watch broke off: {error}"))),
                Ok(None) => break Ok(()),
                Err(_) => break Err(silent("the watch", limit)),
            }
        };
        if begun.elapsed() >= STEADY || (heard && ended.is_ok()) {
            self.backoff.reset();
        } else if ended.is_ok() {
            // A server that ends every watch at once is not asked again at once.
            sleep(self.backoff.next()).await;
        }
        ended
    }

    async fn open(
        &self,
        seconds: u32,
        version: &str,
    ) -> Result<impl Stream<Item = std::io::Result<String>> + use<K>, Trouble> {
        let params = WatchParams {
            label_selector: self.label.map(str::to_owned),
            ..WatchParams::default().timeout(seconds)
        };
        let request = kube::core::Request::new(K::url_path(&(), None))
            .watch(&params, version)
            .map_err(|error| Trouble::failed(error.to_string()))?;
        let body = self.send(request).await?.into_body();
        let data = body.into_data_stream().map_err(std::io::Error::other);
        Ok(data.into_async_read().lines())
    }

    fn event(&self, generation: u64, line: &str, version: &mut String) -> Result<(), Trouble> {
        let line: Line<'_> = serde_json::from_str(line)
            .map_err(|error| Trouble::failed(format!("the watch told what is no event: {error}")))?;
        let text = line.object.get();
        match line.kind.as_str() {
            "ADDED" | "MODIFIED" => self.changed(generation, text, version, Change::Applied),
            "DELETED" => self.changed(generation, text, version, Change::Deleted),
            "BOOKMARK" => self.advance(generation, decode::version(text), version),
            "ERROR" => {
                let refusal: Refusal = serde_json::from_str(text).unwrap_or_default();
                return Err(refusal.trouble(Duration::ZERO));
            }
            other => {
                return Err(Trouble::failed(format!(
                    "the watch told an unknown event {other:?}"
                )));
            }
        }
        Ok(())
    }

    fn changed(&self, generation: u64, text: &str, version: &mut String, change: fn(K) -> Change<K>) {
        let Some(object) = self.decode(text) else { return };
        self.advance(generation, object.meta().resource_version.clone(), version);
        self.hall
            .tell_of(generation, |state| K::change(state, &self.hall, change(object)));
    }

    fn advance(&self, generation: u64, told: Option<String>, version: &mut String) {
        let Some(told) = told.filter(|told| !told.is_empty()) else {
            return;
        };
        let number = told.parse().unwrap_or(0);
        self.hall.freshness.saw(K::KIND, generation, number);
        *version = told;
    }
}

fn number<K: Resource>(object: &K) -> u64 {
    let version = object.meta().resource_version.as_deref();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn silent(what: &str, limit: Duration) -> Trouble {
    Trouble::failed(format!("{what} told nothing for {} s", limit.as_secs()))
}

/// An error with its causes, which kube's own text leaves out.
fn describe(error: &kube::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = next.source();
    }
    text
}
