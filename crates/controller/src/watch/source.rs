//! Lists a kind and watches it from there, as long as the process runs.
//!
//! kube's watcher is not used because the controller must know when a kind is current and which resource
//! version a list has, and because one unreadable object must not affect the others. So objects are decoded
//! one by one, every request and every silence has a time limit, and any error of a watch leads to a new,
//! consistent list.

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
use observe::index::{Change, Key, key};
use resolve::decode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Watched;
use crate::sources::Sources;
use crate::state::context::Context;

/// Longest time of one page.
const PAGE_TIMEOUT: Duration = Duration::from_mins(1);
/// Longest time until a watch starts.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Seconds after which the server ends a watch, which is then renewed. Renewals are signs of life when
/// nothing changes. The random part spreads the renewals of the kinds.
const RENEWAL: (u32, u64) = (40, 6);
/// A watch that lasts this much longer than it was to last is dead if it has delivered nothing. Otherwise what it delivers may have come
/// to a standstill, so another watch goes on from there, which must start within this time.
const GRACE: Duration = Duration::from_secs(10);
/// A watch that has lasted this long does not count as a failed attempt.
const STEADY: Duration = Duration::from_secs(5);
/// Longest wait that the server may ask for.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// Why a kind must be listed again.
#[derive(Debug)]
enum WatchFailure {
    /// The server no longer has the version from which to continue.
    Expired,
    /// Any other error, with how long the server asks to wait.
    Failed { reason: String, wait: Duration },
}

impl WatchFailure {
    fn failed(reason: impl Into<String>) -> WatchFailure {
        WatchFailure::Failed {
            reason: reason.into(),
            wait: Duration::ZERO,
        }
    }
}

/// Growing pauses between attempts.
#[derive(Debug, Default)]
struct ReconnectBackoff {
    failures: u32,
}

impl ReconnectBackoff {
    const MIN: Duration = Duration::from_millis(200);
    const MAX: Duration = Duration::from_secs(10);

    /// The next pause. It doubles each time, and is shortened by up to a half at random.
    fn next(&mut self, random: u64) -> Duration {
        let full = (Self::MIN * (1 << self.failures.min(6))).min(Self::MAX);
        self.failures += 1;
        let half = full / 2;
        let millis = u64::try_from(half.as_millis()).unwrap_or(u64::MAX).max(1);
        half + Duration::from_millis(random % millis)
    }

    const fn reset(&mut self) {
        self.failures = 0;
    }
}

/// The result of a list, except for its objects.
#[derive(Debug, Default)]
struct Listing {
    seen: AHashSet<Key>,
    /// Newest version of the objects and of the list itself.
    newest: u64,
    /// One object had no readable name, so it may be any of those that seem to be missing.
    nameless: bool,
}

#[derive(Deserialize)]
struct ListPage<'a> {
    #[serde(default)]
    metadata: ListPageMeta,
    #[serde(default, borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListPageMeta {
    resource_version: String,
    #[serde(rename = "continue")]
    token: Option<String>,
}

#[derive(Deserialize)]
struct EventLine<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The response of a server that rejects a request.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    code: u16,
    reason: String,
    message: String,
}

impl Refusal {
    fn trouble(self, wait: Duration) -> WatchFailure {
        if self.code == 410 || self.reason == "Expired" || self.reason == "Gone" {
            return WatchFailure::Expired;
        }
        let (message, code) = (self.message, self.code);
        WatchFailure::Failed {
            reason: format!("the API server returned {code}: {message}"),
            wait,
        }
    }
}

/// Lists and watches one kind.
pub(super) struct Source<K> {
    context: Arc<Context>,
    client: Client,
    label: Option<&'static str>,
    backoff: ReconnectBackoff,
    sources: Sources,
    kind: PhantomData<fn() -> K>,
}

impl<K> Source<K>
where
    K: Watched + Resource<DynamicType = ()> + DeserializeOwned,
{
    /// All objects of the kind, or those with a label.
    pub(super) fn new(context: Arc<Context>, client: Client, label: Option<&'static str>) -> Source<K> {
        let sources = if K::OWN_SEQUENCE {
            context.sources.with_own_sequence()
        } else {
            context.sources.clone()
        };
        Source {
            context,
            client,
            label,
            backoff: ReconnectBackoff::default(),
            sources,
            kind: PhantomData,
        }
    }

    /// Lists and watches until the task is aborted. Lists again after an error, or when a new view is wanted.
    pub(super) async fn run(mut self) {
        let mut wanted = self.context.freshness.wanted();
        loop {
            let generation = wanted.see();
            let trouble = tokio::select! {
                biased;
                _ = wanted.changed() => continue,
                trouble = self.follow(generation) => trouble,
            };
            let (reason, outage, wait) = match trouble {
                WatchFailure::Expired => (
                    "the API server no longer has the resource version at which the watch would continue"
                        .to_owned(),
                    false,
                    Duration::ZERO,
                ),
                WatchFailure::Failed { reason, wait } => (reason, true, wait.min(MAX_WAIT)),
            };
            self.context.watch_lost(K::KIND, outage, &reason);
            let pause = self.backoff.next(self.sources.random());
            sleep(wait).await;
            // A request for a new view does not wait for the backoff of an old one.
            tokio::select! {
                biased;
                _ = wanted.wait_for(|now| *now != generation) => {}
                () = sleep(pause.saturating_sub(wait)) => {}
            }
        }
    }

    /// Lists and watches until an error occurs.
    async fn follow(&mut self, generation: u64) -> WatchFailure {
        if let Some(kind) = K::AFTER {
            self.context.freshness.until_fresh(kind, generation).await;
        }
        let mut version = match self.list(generation).await {
            Ok(version) => version,
            Err(trouble) => return trouble,
        };
        let mut start = START_TIMEOUT;
        loop {
            start = match self.watch(generation, &mut version, start).await {
                Ok(next) => next,
                Err(trouble) => return trouble,
            };
        }
    }

    /// Reads all current objects and returns the version from which to watch.
    async fn list(&self, generation: u64) -> Result<String, WatchFailure> {
        let mut params = ListParams::default().limit(K::PAGE);
        params.label_selector = self.label.map(str::to_owned);
        let mut listing = Listing::default();
        let mut version = None;
        self.context.update_if_current(generation, |state| {
            // The list is not older than what is known before it is requested.
            self.context.freshness.saw(K::KIND, generation, K::newest(state));
            self.context.freshness.requested(K::KIND);
            K::begin_list(state);
        });
        loop {
            let body = timeout(PAGE_TIMEOUT, self.page(&params));
            let body = body.await.map_err(|_| {
                silent(
                    "the API server did not respond to a list request within",
                    PAGE_TIMEOUT,
                )
            })??;
            let page: ListPage<'_> = serde_json::from_slice(&body)
                .map_err(|error| WatchFailure::failed(format!("the list cannot be parsed: {error}")))?;
            let listed = self.accept(generation, page.metadata.resource_version, &mut version)?;
            listing.newest = listing.newest.max(listed);
            for item in page.items.unwrap_or_default() {
                self.take_listed(generation, item.get(), listed, &mut listing)?;
            }
            params.continue_token = page.metadata.token.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                break;
            }
        }
        if !listing.nameless {
            self.context.update_if_current(generation, |state| {
                K::retain(state, &self.context, &listing.seen, listing.newest);
            });
        }
        Ok(version.unwrap_or_default())
    }

    async fn page(&self, params: &ListParams) -> Result<Bytes, WatchFailure> {
        let request = kube::core::Request::new(K::url_path(&(), None))
            .list(params)
            .map_err(|error| WatchFailure::failed(error.to_string()))?;
        let body = self.send(request).await?.into_body();
        let body = body.collect().await;
        let body =
            body.map_err(|error| WatchFailure::failed(format!("the list was interrupted: {error}")))?;
        Ok(body.to_bytes())
    }

    /// Sends a request and returns the response if it is successful.
    async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Body>, WatchFailure> {
        let answer = self.client.send(request.map(Body::from)).await;
        let answer = answer.map_err(|error| WatchFailure::failed(describe(&error)))?;
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

    /// Checks the version of a page and returns it as a number, or 0 if it is not a number. If it is older
    /// than a known version, the list is from an older storage, and everything is read again.
    fn accept(
        &self,
        generation: u64,
        page: String,
        version: &mut Option<String>,
    ) -> Result<u64, WatchFailure> {
        let number = page.parse().unwrap_or(0);
        if version.is_some() {
            return Ok(number);
        }
        if page.is_empty() {
            return Err(WatchFailure::failed("the list has no resource version"));
        }
        if number > 0
            && let Some(known) = self.context.freshness.newer_than(K::KIND, number)
        {
            self.context.discard_all(K::KIND, number, known);
            return Err(WatchFailure::Expired);
        }
        self.context.freshness.saw(K::KIND, generation, number);
        *version = Some(page);
        Ok(number)
    }

    /// Handles an object of a list of version `listed`. A consistent list has each object at least at the version at which it was
    /// seen before, unless that version is newer than the list, and none that was deleted before. Otherwise the list is from an
    /// older storage that has grown beyond all versions that were seen, and everything is read again.
    fn take_listed(
        &self,
        generation: u64,
        text: &str,
        listed: u64,
        listing: &mut Listing,
    ) -> Result<(), WatchFailure> {
        let Some(object) = self.decode(text) else {
            listing.nameless = true;
            return Ok(());
        };
        let number = number(&object);
        listing.newest = listing.newest.max(number);
        let mut newer = None;
        self.context.update_if_current(generation, |state| {
            let known = K::known(state, &object);
            let is_older = number < known && known <= listed;
            if is_older || K::is_ended(state, &object) {
                newer = Some(known);
                return;
            }
            listing.seen.insert(key(&object, &mut state.index.pool));
            K::listed(state, &self.context, object);
        });
        if let Some(known) = newer {
            self.context.discard_all(K::KIND, number, known);
            return Err(WatchFailure::Expired);
        }
        Ok(())
    }

    /// Decodes as much of an object as possible. `None` if it has no name.
    fn decode(&self, text: &str) -> Option<K> {
        let (object, readable) = decode::object::<K>(text);
        let name = object.as_ref().and_then(|object| object.meta().name.as_deref());
        if !readable {
            // Objects that contain their own error are counted when they are added to the state.
            if object.as_ref().is_none_or(|object| object.unreadable().is_none()) {
                self.context.count_unreadable(Some(K::KIND));
            }
            let namespace = object
                .as_ref()
                .and_then(|object| object.meta().namespace.as_deref());
            // The error's text is never logged, because it may quote the content of the object.
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

    /// Watches until the server ends the watch, or should have ended it. `version` is where to continue, `start` the longest time until
    /// the watch starts. Returns that time for the next watch.
    async fn watch(
        &mut self,
        generation: u64,
        version: &mut String,
        start: Duration,
    ) -> Result<Duration, WatchFailure> {
        let seconds = RENEWAL.0 + u32::try_from(self.sources.random() % RENEWAL.1).unwrap_or(0);
        let lines = timeout(start, self.open(seconds, version));
        let lines = lines
            .await
            .map_err(|_| silent("the API server did not respond to a watch request within", start))??;
        let mut lines = std::pin::pin!(lines);
        let is_renewal = self.context.freshness.is_fresh(K::KIND, generation);
        self.context.refreshed(K::KIND, generation);
        if !is_renewal {
            self.context.update(K::became_fresh);
        }
        let begun = Instant::now();
        let limit = Duration::from_secs(seconds.into()) + GRACE;
        let mut received = false;
        let ended = loop {
            match timeout_at(begun + limit, lines.next()).await {
                Ok(Some(Ok(line))) if line.trim().is_empty() => {}
                Ok(Some(Ok(line))) => {
                    received = true;
                    self.context.watch_alive(K::KIND);
                    if let Err(trouble) = self.event(generation, &line, version) {
                        break Err(trouble);
                    }
                }
                Ok(Some(Err(error))) => {
                    break Err(WatchFailure::failed(format!(
                        "the watch was interrupted: {error}"
                    )));
                }
                Ok(None) => break Ok(START_TIMEOUT),
                Err(_) if received => break Ok(GRACE),
                Err(_) => break Err(silent("the watch delivered nothing for", limit)),
            }
        };
        if begun.elapsed() >= STEADY || (received && ended.is_ok()) {
            self.backoff.reset();
        } else if ended.is_ok() {
            // If a server ends every watch at once, the next request waits.
            sleep(self.backoff.next(self.sources.random())).await;
        }
        ended
    }

    async fn open(
        &self,
        seconds: u32,
        version: &str,
    ) -> Result<impl Stream<Item = std::io::Result<String>> + use<K>, WatchFailure> {
        let params = WatchParams {
            label_selector: self.label.map(str::to_owned),
            ..WatchParams::default().timeout(seconds)
        };
        let request = kube::core::Request::new(K::url_path(&(), None))
            .watch(&params, version)
            .map_err(|error| WatchFailure::failed(error.to_string()))?;
        let body = self.send(request).await?.into_body();
        let data = body.into_data_stream().map_err(std::io::Error::other);
        Ok(data.into_async_read().lines())
    }

    fn event(&self, generation: u64, line: &str, version: &mut String) -> Result<(), WatchFailure> {
        let line: EventLine<'_> = serde_json::from_str(line).map_err(|error| {
            WatchFailure::failed(format!("the watch delivered an invalid event: {error}"))
        })?;
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
                return Err(WatchFailure::failed(format!(
                    "the watch delivered an unknown event {other:?}"
                )));
            }
        }
        Ok(())
    }

    fn changed(&self, generation: u64, text: &str, version: &mut String, change: fn(K) -> Change<K>) {
        let Some(object) = self.decode(text) else { return };
        self.advance(generation, object.meta().resource_version.clone(), version);
        self.context.update_if_current(generation, |state| {
            K::change(state, &self.context, change(object));
        });
    }

    fn advance(&self, generation: u64, new_version: Option<String>, version: &mut String) {
        let Some(new_version) = new_version.filter(|new_version| !new_version.is_empty()) else {
            return;
        };
        let number = new_version.parse().unwrap_or(0);
        self.context.freshness.saw(K::KIND, generation, number);
        *version = new_version;
    }
}

fn number<K: Resource>(object: &K) -> u64 {
    let version = object.meta().resource_version.as_deref();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A timeout. `what` is the beginning of the text, which the number of seconds completes.
fn silent(what: &str, limit: Duration) -> WatchFailure {
    WatchFailure::failed(format!("{what} {} s", limit.as_secs()))
}

/// An error with its causes, which kube's own text omits.
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
