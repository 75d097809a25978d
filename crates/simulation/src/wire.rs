//! The network between one client and the hub: latency, and the faults of the way and of the API server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream;
use http::header::CONTENT_TYPE;
use http::{Request, Response, Uri};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hub_sim::Hub;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::actor::{Role, Sender, sent_by};
use crate::admin::upgrades_of;
use crate::answers::{Body, expired, refusal, refusal_about, reset, revision_of};
use crate::fault::Fault;
use crate::letter::{Letter, is_further_page, with_small_page};
use crate::mutation::Mutation;
use crate::names::{RIVAL, TEAM};
use crate::network::{Network, works_of};
use crate::oracle::Sent;
use crate::reading::{Reading, nothing_new};
use crate::words;

/// An API server waits so long for its storage before it answers with 504.
const STORAGE_TIMEOUT: Duration = Duration::from_secs(7);

/// A row, in names of what lasts, as far as reports are rejected that are created with it.
fn in_creations(row: &str) -> String {
    format!("{row} in creations")
}

/// The way of one client to the hub.
#[derive(Clone, Debug)]
pub struct Wire {
    network: Network,
    hub: Hub,
    service: hub_sim::Service,
    /// The client, in names of choices and in the trace.
    client: Arc<str>,
    role: Role,
    identity: Arc<str>,
    /// Whether the client is a newer build of the controller.
    is_newer: bool,
}

impl Wire {
    /// The way of a client. `client` is its name in choices, `identity` is unique to its start.
    #[must_use]
    pub fn new(network: &Network, hub: &Hub, role: Role, client: &str, identity: &str) -> Self {
        Self {
            network: network.clone(),
            hub: hub.clone(),
            service: hub_sim::Service::new(hub, client),
            client: Arc::from(client),
            role,
            identity: Arc::from(identity),
            is_newer: false,
        }
    }

    /// The same for a newer build of the controller.
    #[must_use]
    pub fn newer(self, is_newer: bool) -> Self {
        Self { is_newer, ..self }
    }

    pub(crate) const fn network(&self) -> &Network {
        &self.network
    }

    pub(crate) const fn hub(&self) -> &Hub {
        &self.hub
    }

    pub(crate) const fn service(&self) -> &hub_sim::Service {
        &self.service
    }

    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    async fn letter(&self, request: Request<kube::client::Body>) -> Letter {
        let (mut parts, body) = request.into_parts();
        // The body is there already.
        let mut body = body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default();
        let query = parts.uri.query().unwrap_or_default();
        let verb = if query.contains("watch=true") {
            "WATCH"
        } else {
            parts.method.as_str()
        };
        let name = format!("{} {verb} {}", self.client, parts.uri.path());
        if self.is_newer && name.contains("/managedclustersupgradereports") {
            body = Bytes::from(words::newer(&String::from_utf8_lossy(&body)));
        }
        let count = self.network.next(&name);
        self.shorten(&mut parts.uri, &name, count);
        Letter {
            verb: verb.to_owned(),
            count,
            hub: self.network.hubs(),
            name,
            parts,
            body,
            sender: Sender {
                role: self.role,
                identity: Arc::clone(&self.identity),
                at: self.network.ground.clock.elapsed(),
            },
        }
    }

    /// Makes the page small that a list asks for, if pages are small. Of further pages only every other one is, so that long lists
    /// come to their end soon.
    fn shorten(&self, uri: &mut Uri, name: &str, count: u64) {
        if self.role == Role::People || !self.network.ground.options.small_pages {
            return;
        }
        let is_small = !is_further_page(uri) || self.network.choice("small page", name, count).happens(500);
        if let Some(small) = with_small_page(uri).filter(|_| is_small) {
            *uri = small;
        }
    }

    /// Whether a fault strikes a request. Further pages of a list have a fault of their own, and no others: a list of many pages
    /// fails as often as one of a single page.
    fn strikes(&self, fault: Fault, letter: &Letter) -> bool {
        let is_meant = !letter.is_further_page() || fault == Fault::PageExpired;
        let may_strike = self.role != Role::People && is_meant;
        may_strike && self.network.strikes(fault, &letter.name, letter.count)
    }

    async fn send(self, request: Request<kube::client::Body>) -> Result<Response<Body>, std::io::Error> {
        let mut letter = self.letter(request).await;
        if let Some(body) = self
            .mutation()
            .and_then(|mutation| mutation.writes(letter.seen()))
        {
            letter.body = Bytes::from(body);
        }
        match self.mutation() {
            Some(Mutation::Lacks(protection)) => Box::pin(self.send_without(protection, letter)).await,
            _ => self.deliver(letter).await,
        }
    }

    /// The same request once more.
    pub(crate) fn again(&self, letter: Letter) -> Letter {
        Letter {
            count: self.network.next(&letter.name),
            sender: Sender {
                at: self.network.ground.clock.elapsed(),
                ..letter.sender
            },
            ..letter
        }
    }

    /// Brings a request to the hub, and its answer back.
    pub(crate) async fn deliver(self, letter: Letter) -> Result<Response<Body>, std::io::Error> {
        let network = &self.network;
        network.ground.trace.count_request();
        if self.role == Role::Controller {
            let oracle = &network.ground.oracle;
            oracle.send(&letter.sender, &letter.verb, letter.path(), &letter.body);
        }
        let (there, back) = (
            network.latency("there", &letter.name, letter.count),
            network.latency("back", &letter.name, letter.count),
        );
        tokio::time::sleep(there).await;
        if network.lasts(Fault::Partition, &self.client) {
            network.tell(&format!("{} unreachable", letter.name));
            return Err(reset());
        }
        if let Some(refusal) = self.before(&letter).await? {
            self.judge(&letter, refusal.status().as_u16(), None);
            tokio::time::sleep(back).await;
            return Ok(refusal);
        }
        let (is_watch, name, count) = (letter.is_watch(), letter.name.clone(), letter.count);
        let reading = self.reading(&letter);
        let is_lost = !is_watch && self.strikes(Fault::AnswerLost, &letter);
        let is_slow = self.role != Role::People && !is_watch && self.strikes(Fault::Slow, &letter);
        let is_timed_out = letter.is_write() && self.strikes(Fault::TimedOut, &letter);
        let rewinds = network.rewinds();
        let (sender, answer) = oneshot::channel();
        let late = self.lateness(&letter, is_timed_out);
        // The hub carries a request out whatever becomes of its sender.
        tokio::spawn(Box::pin(self.clone().carry_out(letter, late, sender)));
        if is_timed_out {
            tokio::time::sleep(STORAGE_TIMEOUT).await;
            network.tell(&format!("{name} answered with 504"));
            return Ok(refusal(504));
        }
        let response = answer.await.map_err(|_| reset())?;
        if is_lost {
            network.tell(&format!("{name} answer lost"));
            return Err(reset());
        }
        if is_slow {
            let seconds = network.choice("slow for", &name, count).between(5, 40);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
        tokio::time::sleep(back).await;
        if self.role != Role::People && rewinds < network.rewinds() {
            network.tell(&format!("{name} answered by a hub that went back"));
            return Err(reset());
        }
        Ok(if is_watch {
            self.watch(response, &name, count, reading)
        } else {
            reading.whole(response).await
        })
    }

    /// What is wrong with the client, if it is the controller.
    fn mutation(&self) -> Option<Mutation> {
        self.network
            .ground
            .mutation
            .filter(|_| self.role == Role::Controller)
    }

    fn reading(&self, letter: &Letter) -> Reading {
        match self.mutation().and_then(Mutation::reads) {
            Some((from, to)) => Reading::Instead(from, to),
            None if self.is_newer && letter.is_about_reports() => Reading::Newer,
            None => Reading::Plain,
        }
    }

    /// Sends what a mutation adds to a request.
    async fn add(&self, letter: &Letter) {
        let Some(mutation) = self.mutation() else { return };
        let seen = letter.seen();
        let count = self
            .network
            .next(&format!("{} {} {}", self.identity, letter.verb, letter.path()));
        let is_event = seen.is("POST", "/events");
        assert!(
            !is_event || count > 1 || mutation != Mutation::Panic,
            "a mutation"
        );
        if is_event && mutation == Mutation::Circle {
            loop {
                self.network.note("again");
                tokio::task::yield_now().await;
            }
        }
        if letter.verb == "PATCH" && letter.is_about_reports() {
            self.network.keep(seen.body);
        }
        let first = self.network.kept();
        for (method, path, media_type, body) in mutation.adds(seen, first.as_deref(), &self.identity, count) {
            let rival = self
                .network
                .uid_at(&self.hub, &format!("{}/{RIVAL}", upgrades_of(TEAM)))
                .unwrap_or_default();
            let body = body.to_string().replace(&format!("<{RIVAL}>"), &rival);
            let request = Request::builder()
                .method(method)
                .uri(&path)
                .header(CONTENT_TYPE, media_type);
            let Ok(request) = request.body(Full::new(Bytes::from(body.clone()))) else {
                continue;
            };
            let path = path.split('?').next().unwrap_or_default();
            let met = self.network.uid_at(&self.hub, path);
            let sender = Sender {
                at: self.network.ground.clock.elapsed(),
                ..letter.sender.clone()
            };
            let response = sent_by(sender.clone(), self.service.handle(request)).await;
            let sent = Sent {
                verb: method,
                path,
                body: body.as_bytes(),
                code: response.status().as_u16(),
                met: met.as_deref(),
                is_further_page: false,
            };
            self.network.ground.oracle.request(&sender, &sent);
        }
    }

    /// The faults that end a request before the hub sees it.
    async fn before(&self, letter: &Letter) -> Result<Option<Response<Body>>, std::io::Error> {
        let network = &self.network;
        if self.strikes(Fault::Lost, letter) {
            network.tell(&format!("{} lost", letter.name));
            return Err(reset());
        }
        if self.role == Role::Controller {
            let hang = if letter.is_lease() {
                Fault::LeaseHang
            } else {
                Fault::Hang
            };
            if self.strikes(hang, letter) {
                network.tell(&format!("{} hangs", letter.name));
                std::future::pending::<()>().await;
            }
        }
        let is_replica = self.role == Role::Controller;
        let is_ours = is_replica && letter.is_write() && !letter.is_lease();
        let is_work = letter.path().contains("/manifestworks");
        let may_not = |whom: &str| network.lasts(Fault::Forbidden, whom);
        let is_forbidden =
            is_ours && (may_not(&self.client) || (is_work && may_not(&works_of(&self.client))));
        let is_overloaded = is_ours && network.lasts(Fault::Overload, &self.client);
        let may_conflict = is_ours && matches!(letter.verb.as_str(), "PATCH" | "DELETE" | "PUT");
        let is_refused = self
            .mutation()
            .is_some_and(|mutation| mutation.is_refused(letter.seen()));
        let may_be_invalid = is_replica && letter.may_be_invalid();
        if self.is_outdated(letter) {
            network.tell(&format!("{} expired", letter.name));
            return Ok(Some(expired()));
        }
        let code = if is_forbidden {
            403
        } else if is_overloaded || self.strikes(Fault::TooManyRequests, letter) {
            429
        } else if self.strikes(Fault::InternalError, letter) {
            500
        } else if self.strikes(Fault::Unavailable, letter) {
            503
        } else if may_conflict && self.strikes(Fault::Conflict, letter) {
            409
        } else if is_refused || (may_be_invalid && self.strikes(Fault::Invalid, letter)) {
            422
        } else if is_replica && self.strikes(Fault::BadRequest, letter) {
            400
        } else if letter.is_further_page() && self.strikes(Fault::PageExpired, letter) {
            410
        } else if let Some(refusal) = self.invalid_row(letter) {
            network.tell(&format!("{} refused because of a row", letter.name));
            return Ok(Some(refusal));
        } else {
            return Ok(None);
        };
        network.tell(&format!("{} refused with {code}", letter.name));
        Ok(Some(refusal(code)))
    }

    /// Whether an agent watches on although the storage of the hub has gone back. Its client begins anew only when it is told
    /// that its revision has expired.
    fn is_outdated(&self, letter: &Letter) -> bool {
        if self.role != Role::Agents {
            return false;
        }
        if letter.verb == "GET" && !letter.is_further_page() {
            self.network.listed(letter.path());
        }
        letter.is_watch() && self.network.is_outdated(letter.path())
    }

    /// Refuses a report that has a row which the hub does not accept at present. Half of the refusals name the row.
    fn invalid_row(&self, letter: &Letter) -> Option<Response<Body>> {
        let is_written = matches!(letter.verb.as_str(), "POST" | "PATCH");
        if self.role != Role::Controller || !is_written || !letter.is_about_reports() {
            return None;
        }
        let body: Value = serde_json::from_slice(&letter.body).ok()?;
        let text = |row: &Value, name: &str| row.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
        let rows: Vec<String> = body
            .get("rows")?
            .as_array()?
            .iter()
            .map(|row| {
                format!(
                    "{} {}",
                    text(row, "cluster").unwrap_or_default(),
                    text(row, "phase").unwrap_or_default()
                )
            })
            .collect();
        let network = &self.network;
        if !rows.is_empty() && self.strikes(Fault::InvalidRow, letter) {
            let choice = network.choice("rejected row", &letter.name, letter.count);
            let row = &rows[usize::try_from(choice.between(0, rows.len() as u64 - 1)).ok()?];
            self.reject(row, letter);
        }
        let is_creation = letter.verb == "POST";
        let at = rows.iter().position(|row| {
            let name = if is_creation {
                in_creations(row)
            } else {
                row.clone()
            };
            network.lasts(Fault::InvalidRow, &name)
        })?;
        let is_named = network.choice("named row", &rows[at], 0).happens(500);
        let field = if is_named {
            format!("rows[{at}].reason")
        } else {
            "rows".to_owned()
        };
        Some(refusal_about(422, Some(&field)))
    }

    /// The hub rejects a row from now on. In half of the cases it does so only in changes of a report, as a rule for updates would.
    fn reject(&self, row: &str, letter: &Letter) {
        let network = &self.network;
        let choice = |what: &str| network.choice(what, &letter.name, letter.count);
        let is_general = letter.verb == "POST" || !choice("rejected only in changes").happens(500);
        let seconds = choice("rejected for").between(5, 120);
        let until = network.ground.clock.elapsed() + Duration::from_secs(seconds);
        for name in [Some(row.to_owned()), is_general.then(|| in_creations(row))]
            .into_iter()
            .flatten()
        {
            if network.endures(&letter.name, letter.count) {
                network.endure(Fault::InvalidRow, &name);
            } else {
                network.last(Fault::InvalidRow, &name, until);
            }
        }
    }

    async fn carry_out(
        self,
        letter: Letter,
        late: Duration,
        sender: oneshot::Sender<Response<hub_sim::Body>>,
    ) {
        let network = &self.network;
        tokio::time::sleep(late).await;
        if letter.hub != network.hubs() && self.role == Role::Controller {
            return;
        }
        let is_ours = self.role == Role::Controller;
        let met = if is_ours && letter.is_write() && !letter.is_lease() {
            network.uid_at(&self.hub, letter.path())
        } else {
            None
        };
        let request = Request::from_parts(letter.parts.clone(), Full::new(letter.body.clone()));
        let response = sent_by(letter.sender.clone(), self.service.handle(request)).await;
        let code = response.status().as_u16();
        network.note(&format!("{} {code}", letter.name));
        if !late.is_zero() {
            network.tell(&format!("{} came late", letter.name));
        }
        self.judge(&letter, code, met.as_deref());
        if is_ours {
            if code < 300 {
                self.add(&letter).await;
            }
            if letter.is_write() && code < 300 {
                let commits = format!("{} commit", self.client);
                if network.strikes(Fault::KillAtCommit, &commits, network.next(&commits)) {
                    network.doom(&self.client);
                    // The replica hears nothing before its end.
                    std::future::pending::<()>().await;
                }
            }
        }
        // The sender may have gone.
        let _ = sender.send(response);
    }

    /// How long a request waits at the hub before it is carried out.
    fn lateness(&self, letter: &Letter, is_timed_out: bool) -> Duration {
        let (least, most) = if letter.is_watch() {
            return Duration::ZERO;
        } else if self.strikes(Fault::Late, letter) {
            (5, 55)
        } else if self.strikes(Fault::VeryLate, letter) {
            // The controller takes what was not answered for undone 120 s after it was sent at the earliest. What
            // was answered with 504 had arrived by then, and counts as undone 90 s after that answer.
            (56, if is_timed_out { 90 } else { 118 })
        } else if is_timed_out {
            (0, 20)
        } else if self.role == Role::Agents && letter.is_answer() && self.strikes(Fault::LateAnswer, letter) {
            (5, 50)
        } else {
            return Duration::ZERO;
        };
        let choice = self.network.choice("late", &letter.name, letter.count);
        Duration::from_secs(choice.between(least, most))
    }

    /// Tells the oracle of a request of a replica that was answered. `met`: the UID of the object that it met.
    fn judge(&self, letter: &Letter, code: u16, met: Option<&str>) {
        if self.role == Role::Controller {
            let sent = Sent {
                verb: &letter.verb,
                path: letter.path(),
                body: &letter.body,
                code,
                met,
                is_further_page: letter.is_further_page(),
            };
            self.network.ground.oracle.request(&letter.sender, &sent);
        }
    }

    /// The events of a watch, each with a latency, until a fault ends or silences it.
    fn watch(
        self,
        response: Response<hub_sim::Body>,
        name: &str,
        count: u64,
        reading: Reading,
    ) -> Response<Body> {
        let name = format!("{name} #{count}");
        let rewinds = self.network.rewinds();
        response.map(|body| {
            let state = (body.into_data_stream().boxed(), 0_u64, self, name);
            let events = stream::unfold(state, move |(mut frames, at, wire, name)| async move {
                let network = wire.network.clone();
                let event = tokio::select! {
                    biased;
                    () = network.rewound(rewinds) => Err(reset()),
                    event = frames.next() => event?.map_err(|never| match never {}),
                };
                let at = at + 1;
                wire.delay(&name, at).await?;
                if let Some(last) = event.as_ref().ok().filter(|_| wire.is_stuck(&name, at)) {
                    frames = nothing_new(&revision_of(last).unwrap_or_default());
                }
                tokio::time::sleep(network.latency("", &name, at)).await;
                // What is on its way when the storage of the hub goes back does not arrive.
                let is_lost = rewinds < network.rewinds();
                let event = if is_lost { Err(reset()) } else { event };
                let frame = event.map(|bytes| Frame::data(reading.read(bytes)));
                Some((frame, (frames, at, wire, name)))
            });
            UnsyncBoxBody::new(StreamBody::new(events))
        })
    }

    /// Holds up an event of a watch. `None`: the watch ends before it.
    async fn delay(&self, name: &str, at: u64) -> Option<()> {
        let network = &self.network;
        if self.role == Role::People {
            return Some(());
        }
        let is_cut_off = self.role == Role::Controller && network.lasts(Fault::Partition, &self.client);
        if is_cut_off || network.strikes(Fault::WatchSilent, name, at) {
            network.tell(&format!("{name} is silent"));
            std::future::pending::<()>().await;
        }
        if network.strikes(Fault::WatchCut, name, at) {
            network.tell(&format!("{name} cut"));
            return None;
        }
        if network.strikes(Fault::WatchLag, name, at) {
            let seconds = network.choice("lag", name, at).between(1, 30);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
        Some(())
    }

    /// Whether a watch says after this event that there is nothing new, for ever.
    fn is_stuck(&self, name: &str, at: u64) -> bool {
        let is_stuck = self.role == Role::Controller && self.network.strikes(Fault::WatchStuck, name, at);
        if is_stuck {
            self.network.tell(&format!("{name} is stuck"));
        }
        is_stuck
    }
}

impl tower_service::Service<Request<kube::client::Body>> for Wire {
    type Response = Response<Body>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, std::io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        Box::pin(self.clone().send(request))
    }
}
