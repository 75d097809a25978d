//! The stream of messages to one page.
//!
//! The stream waits for a change of the watches, and then sends what the page has not been told yet. It is polled only when the
//! connection can take more, and sends at most [`PER_SECOND`] times a second, so changes that come faster are told together.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event;
use futures::{Stream, StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::feed::{Key, Watched};
use super::fleet::Fleet;
use super::message;
use super::state::Dashboard;

const PER_SECOND: u32 = 20;
/// The causes are computed from all clusters, and nobody reads them faster.
const CAUSES_EVERY: Duration = Duration::from_millis(500);

/// What one page was told.
struct Page {
    dashboard: Arc<Dashboard>,
    key: Option<Key>,
    fleet: Option<Arc<Watched<Fleet>>>,
    /// UID of the upgrade that is told.
    uid: String,
    revision: u64,
    told: Vec<(&'static str, Value)>,
    /// Whether clusters have changed since the causes were told, and when they may be told next.
    are_causes_old: bool,
    causes_at: Instant,
    is_list_old: bool,
    upgrades_changed: watch::Receiver<u64>,
    fleet_changed: Option<watch::Receiver<u64>>,
    next_at: Instant,
}

/// The messages for a page that shows this upgrade, or only the list of upgrades.
pub fn messages(
    dashboard: Arc<Dashboard>,
    key: Option<Key>,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let page = Page {
        upgrades_changed: dashboard.upgrades.changes(),
        dashboard,
        key,
        fleet: None,
        uid: String::new(),
        revision: 0,
        told: Vec::new(),
        are_causes_old: false,
        causes_at: Instant::now(),
        is_list_old: true,
        fleet_changed: None,
        next_at: Instant::now(),
    };
    let hello = page.dashboard.hello();
    let first = stream::iter([event("hello", &hello)]);
    let rest = stream::unfold(page, |mut page| async move {
        let events = page.next().await;
        Some((stream::iter(events), page))
    });
    first.chain(rest.flatten()).map(Ok)
}

fn event(name: &'static str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}

impl Page {
    /// The next messages, as soon as there are any.
    async fn next(&mut self) -> Vec<Event> {
        loop {
            sleep_until(self.next_at).await;
            // A change that comes while the messages are made must not be missed, so changes are marked as seen first.
            self.is_list_old |= self.upgrades_changed.has_changed().unwrap_or_default();
            self.upgrades_changed.mark_unchanged();
            if let Some(changed) = &mut self.fleet_changed {
                changed.mark_unchanged();
            }
            let events = self.due();
            self.next_at = Instant::now() + Duration::from_secs(1) / PER_SECOND;
            if !events.is_empty() {
                return events;
            }
            self.changed().await;
        }
    }

    async fn changed(&mut self) {
        let fleet_changed = async {
            match &mut self.fleet_changed {
                Some(changed) => drop(changed.changed().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.upgrades_changed.changed() => self.is_list_old = true,
            () = fleet_changed => {}
            () = sleep_until(self.causes_at), if self.are_causes_old => {}
        }
    }

    /// What the page has not been told yet.
    fn due(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let dashboard = Arc::clone(&self.dashboard);
        if self.is_list_old && dashboard.upgrades.read(|all| all.is_complete) {
            self.is_list_old = false;
            let list = dashboard.upgrades.read(message::upgrades);
            self.tell(&mut events, "upgrades", list);
            self.follow_upgrade(&mut events);
        }
        self.tell_fleet(&mut events);
        let watches = [
            dashboard.upgrades.trouble(),
            self.fleet
                .as_ref()
                .map(|fleet| fleet.trouble())
                .unwrap_or_default(),
        ];
        let rows = self.fleet.as_ref().map(|fleet| fleet.read(Fleet::trouble));
        let is_current = watches.iter().all(String::is_empty);
        self.tell(&mut events, "current", json!(is_current));
        let trouble = watches
            .into_iter()
            .chain(rows)
            .find(|trouble| !trouble.is_empty())
            .unwrap_or_default();
        self.tell(&mut events, "trouble", json!(message::text(&trouble, 2048)));
        events
    }

    /// The upgrade itself. The watch of its reports begins when it is there, and begins anew if it was created again.
    fn follow_upgrade(&mut self, events: &mut Vec<Event>) {
        let Some(key) = self.key.clone() else { return };
        let dashboard = Arc::clone(&self.dashboard);
        let Some(upgrade) = dashboard.upgrades.read(|all| all.get(&key).cloned()) else {
            self.fleet = None;
            self.fleet_changed = None;
            self.uid.clear();
            self.tell(events, "upgrade", Value::Null);
            return;
        };
        self.tell(events, "upgrade", message::upgrade(&upgrade));
        if self.uid != upgrade.uid {
            let fleet = dashboard.fleet(&upgrade);
            self.uid.clone_from(&upgrade.uid);
            self.revision = 0;
            // The page forgets those of an upgrade that was deleted and created again.
            self.told.retain(|(name, _)| *name != "causes");
            self.fleet_changed = Some(fleet.changes());
            self.fleet = Some(fleet);
        }
    }

    fn tell_fleet(&mut self, events: &mut Vec<Event>) {
        let Some(fleet) = self.fleet.clone() else { return };
        let since = self.revision;
        let news = fleet.read(|fleet| {
            if !fleet.is_complete() || fleet.revision() == since {
                return None;
            }
            let changes = fleet.since(since);
            if since == 0 {
                return Some((fleet.revision(), "fleet", message::fleet(&changes)));
            }
            let is_empty = changes.rows.is_empty() && changes.gone.is_empty();
            let data = if is_empty {
                Value::Null
            } else {
                message::changes(&changes)
            };
            Some((fleet.revision(), "changes", data))
        });
        if let Some((revision, name, data)) = news {
            self.revision = revision;
            if !data.is_null() {
                events.push(event(name, &data));
            }
            self.are_causes_old = true;
        }
        if self.are_causes_old && self.causes_at <= Instant::now() {
            self.are_causes_old = false;
            self.causes_at = Instant::now() + CAUSES_EVERY;
            self.tell_causes(events, &fleet);
        }
    }

    fn tell_causes(&mut self, events: &mut Vec<Event>, fleet: &Watched<Fleet>) {
        let Some(key) = &self.key else { return };
        let upgrade = self.dashboard.upgrades.read(|all| all.get(key).cloned());
        if let Some(upgrade) = upgrade {
            let causes = fleet.read(|fleet| message::causes(&upgrade, fleet));
            self.tell(events, "causes", causes);
        }
    }

    /// Adds a message if the page was told something else last.
    fn tell(&mut self, events: &mut Vec<Event>, name: &'static str, data: Value) {
        match self.told.iter_mut().find(|(told, _)| *told == name) {
            Some((_, last)) if *last == data => {}
            Some((_, last)) => {
                events.push(event(name, &data));
                *last = data;
            }
            None => {
                events.push(event(name, &data));
                self.told.push((name, data));
            }
        }
    }
}
