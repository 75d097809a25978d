//! The controller without one of its protections, which is taken away at its wire: a fault that the protection was made for must then
//! violate a rule (`crates/simulation/tests/protections.rs`).

use std::io;
use std::time::Duration;

use api::names::PROBE;
use api::time::parse_rfc3339;
use bytes::Bytes;
use chrono::TimeDelta;
use futures::stream;
use http::header::{CONTENT_TYPE, DATE};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hub_sim::State;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::actor::sent_by;
use crate::admin::{upgrades_of, works_of};
use crate::answers::{Body, refusal, reset, whole};
use crate::letter::Letter;
use crate::names::{HUB, OUTSIDER, STRANGERS, TEAM, UPGRADE};
use crate::people::FALSE_PLANS;
use crate::protection::Protection;
use crate::wire::Wire;

/// How long a request may take if the controller does not persevere.
const PATIENCE: Duration = Duration::from_secs(3);
/// A watch that is over before this ended too early, and one that is not over after the second ends too late.
const WATCHES: (Duration, Duration) = (Duration::from_secs(38), Duration::from_secs(48));
/// What takes longer than this is not waited for, if the controller does not wait.
const LONG: TimeDelta = TimeDelta::seconds(20);
/// How often a request is repeated at once.
const REPEATS: usize = 150;

type Answer = io::Result<Response<Body>>;

fn is_refused(answer: &Answer) -> bool {
    answer.as_ref().is_ok_and(|answer| {
        let code = answer.status().as_u16();
        code >= 400 && code != 404
    })
}

/// An answer that says that all is done.
fn done(body: &Value) -> Response<Body> {
    Response::new(whole(Bytes::from(body.to_string())))
}

impl Wire {
    /// Sends a request of a controller that lacks a protection.
    pub(crate) async fn send_without(self, protection: Protection, letter: Letter) -> Answer {
        let is_creation = letter.is_to("POST", "/manifestworks");
        match protection {
            Protection::Perseverance => self.send_once(letter).await,
            Protection::Pause => self.send_at_once(letter).await,
            Protection::Doubt if is_creation => {
                tokio::spawn(self.deliver(letter));
                // What a watch delivers in time is believed.
                sleep(Duration::from_secs(1)).await;
                Ok(refusal(422))
            }
            Protection::Memory => {
                let is_list = letter.is_to("GET", "/manifestworks") || letter.is_to("GET", "upgradereports");
                let is_forgetful = self.is_restarted() && is_list;
                let answer = self.deliver(letter).await?;
                Ok(if is_forgetful {
                    emptied(answer).await
                } else {
                    answer
                })
            }
            Protection::Clock => {
                let mut answer = self.deliver(letter).await?;
                answer.headers_mut().remove(DATE);
                Ok(answer)
            }
            Protection::Repair if is_creation => {
                let work = letter.value();
                let name = work.pointer("/metadata/name").and_then(Value::as_str);
                let key = format!("{} {}", letter.path(), name.unwrap_or_default());
                if self.network().mark(&key) {
                    self.deliver(letter).await
                } else {
                    Err(reset())
                }
            }
            Protection::Rewriting if letter.is_to("POST", "upgradereports") => self.rewrite(letter).await,
            Protection::Cleaning
                if letter.is_to("DELETE", "/manifestworks/") && self.is_of_deleted(&letter) =>
            {
                Ok(done(
                    &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
                ))
            }
            Protection::Selection => {
                self.draw_in(&letter).await;
                self.deliver(letter).await
            }
            Protection::Sight
                if letter.is_to("WATCH", "/managedclusters")
                    || letter.is_to("WATCH", "/placementdecisions") =>
            {
                let wire = self.clone();
                Ok(self.deliver(letter).await?.map(|body| wire.lose_sight(body)))
            }
            Protection::Approvals
                if letter.is_to("GET", "upgradeapprovals") || letter.is_to("WATCH", "upgradeapprovals") =>
            {
                self.deceive(letter, Self::approve).await
            }
            Protection::Belonging if letter.is_about_reports() => self.deceive(letter, Self::believe).await,
            Protection::Relisting if letter.is_watch() => self.watch_once(letter).await,
            Protection::Relisting if letter.verb == "GET" && self.has_expired(letter.path()) => {
                sleep(Duration::from_secs(1)).await;
                Err(reset())
            }
            Protection::Patience | Protection::Departure if letter.is_to("WATCH", "/manifestworks") => {
                let wire = self.clone();
                let answer = self.deliver(letter).await?;
                Ok(answer.map(|body| changed(body, move |text| wire.overhear(protection, text))))
            }
            Protection::Attention if letter.is_watch() && letter.is_about_reports() => {
                let answer = self.deliver(letter).await?;
                Ok(answer.map(|body| changed(body, without_changes)))
            }
            _ => self.deliver(letter).await,
        }
    }

    /// Sends a request whose answer is changed.
    async fn deceive(self, letter: Letter, change: fn(&Self, &str) -> String) -> Answer {
        let wire = self.clone();
        let answer = self.deliver(letter).await?;
        Ok(answer.map(|body| changed(body, move |text| change(&wire, text))))
    }

    /// Whether this replica is not one of the first.
    fn is_restarted(&self) -> bool {
        let number = self
            .identity()
            .rsplit('-')
            .next()
            .and_then(|number| number.parse::<u64>().ok());
        number.is_some_and(|number| number > self.network().ground.options.replicas)
    }

    /// What has failed once is never sent again.
    async fn send_once(self, letter: Letter) -> Answer {
        let is_reading = matches!(letter.verb.as_str(), "GET" | "WATCH");
        let verb = if is_reading { "READ" } else { letter.verb.as_str() };
        let key = format!("{} {verb} {}", self.identity(), letter.path());
        let network = self.network().clone();
        if network.is_marked(&key) {
            sleep(Duration::from_secs(1)).await;
            return Err(reset());
        }
        let is_watch = letter.is_to("WATCH", "") && !letter.path().contains("/leases");
        let Ok(answer) = timeout(PATIENCE, self.deliver(letter)).await else {
            let _ = network.mark(&key);
            return Err(reset());
        };
        if answer.is_err() || is_refused(&answer) {
            let _ = network.mark(&key);
        }
        let give_up = move || network.mark(&key);
        answer.map(|answer| {
            if is_watch {
                answer.map(|body| watched(body, give_up))
            } else {
                answer
            }
        })
    }

    /// Watches, and remembers if a revision has expired.
    async fn watch_once(self, letter: Letter) -> Answer {
        let key = self.expiry_of(letter.path());
        let network = self.network().clone();
        let answer = self.deliver(letter).await?;
        if answer.status() == 410 {
            let _ = network.mark(&key);
        }
        Ok(answer.map(|body| {
            changed(body, move |text| {
                if text.contains("\"code\":410") {
                    let _ = network.mark(&key);
                }
                text.to_owned()
            })
        }))
    }

    fn expiry_of(&self, path: &str) -> String {
        format!("{} has expired {path}", self.identity())
    }

    fn has_expired(&self, path: &str) -> bool {
        self.network().is_marked(&self.expiry_of(path))
    }

    /// Events of works without those that a controller does not hear which lacks a protection.
    fn overhear(&self, protection: Protection, text: &str) -> String {
        text.split_inclusive('\n')
            .filter(|line| self.is_heard(protection, line))
            .collect()
    }

    fn is_heard(&self, protection: Protection, line: &str) -> bool {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        let object = &event["object"];
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let age = |pointer: &str| {
            let since = parse_rfc3339(text(pointer));
            since.map_or(TimeDelta::zero(), |since| {
                self.network().ground.clock.wall() - since
            })
        };
        if protection == Protection::Departure {
            return event["type"] != "DELETED" || age("/metadata/deletionTimestamp") < LONG;
        }
        if !text("/metadata/name").ends_with(PROBE) || event["type"] == "DELETED" {
            return true;
        }
        let cluster = text("/metadata/namespace");
        let has_answered = line.contains(r#""message":"offer/1"#);
        let is_first = has_answered
            && self
                .network()
                .mark(&format!("answer of {}", text("/metadata/uid")));
        let is_wrong = match protection {
            Protection::Patience => age("/metadata/creationTimestamp") > LONG,
            _ => line.contains(r#""message":"offer/1""#),
        };
        let is_lost = format!("nobody hears {cluster}");
        if is_first && is_wrong {
            let _ = self.network().mark(&is_lost);
        }
        !self.network().is_marked(&is_lost)
    }

    /// What is refused is sent again at once.
    async fn send_at_once(self, mut letter: Letter) -> Answer {
        for _ in 0..REPEATS {
            let answer = self.clone().deliver(letter.clone()).await;
            if !is_refused(&answer) {
                return answer;
            }
            letter = self.again(letter);
        }
        self.deliver(letter).await
    }

    /// A report that was created once is taken for being there.
    async fn rewrite(self, letter: Letter) -> Answer {
        let mut report = letter.value();
        if self
            .network()
            .mark(&format!("{} {}", letter.path(), report["metadata"]["name"]))
        {
            return self.deliver(letter).await;
        }
        report["metadata"]["resourceVersion"] = "1".into();
        Ok(done(&report))
    }

    /// Whether the request is about a work of an upgrade that is being deleted.
    fn is_of_deleted(&self, letter: &Letter) -> bool {
        let mut parts = letter.path().rsplit('/');
        let (name, cluster) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
        self.hub().read(|state: &State| {
            let works = state.objects_of("work.open-cluster-management.io", "manifestworks");
            let work = works.and_then(|works| works.get(&format!("{cluster}/{name}")));
            let owner = work.and_then(|work| {
                let label = work
                    .labels
                    .iter()
                    .find(|(key, _)| &**key == api::names::LABEL_MCU_UID);
                label.map(|(_, uid)| uid.to_string())
            });
            let group = "cluster.open-cluster-management.io";
            let upgrades = state.objects_of(group, "managedclustersupgrades");
            let upgrade = upgrades.into_iter().flat_map(hub_sim::Collection::objects);
            owner.is_some_and(|owner| {
                upgrade
                    .into_iter()
                    .any(|upgrade| *upgrade.uid == *owner && upgrade.is_deleting)
            })
        })
    }

    /// Creates a work for whoever is named, whatever names him.
    async fn draw_in(&self, letter: &Letter) {
        let group = "cluster.open-cluster-management.io";
        let named = self.hub().read(|state: &State| {
            let has = |group: &str, plural: &str, is_it: &dyn Fn(&hub_sim::Object) -> bool| {
                let objects = state.objects_of(group, plural);
                objects
                    .into_iter()
                    .flat_map(hub_sim::Collection::objects)
                    .any(|object| is_it(object))
            };
            let is_outsider = has("work.open-cluster-management.io", "manifestworks", &|work| {
                work.namespace() == OUTSIDER
            }) || has(group, "placementdecisions", &|one| one.text().contains(OUTSIDER));
            let is_hub = has(group, "managedclustersupgrades", &|one| one.text().contains(HUB));
            [(OUTSIDER, is_outsider), (HUB, is_hub)]
        });
        for (cluster, _) in named.into_iter().filter(|(_, is_named)| *is_named) {
            if !self.network().mark(cluster) {
                continue;
            }
            let work = json!({
                "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
                "metadata": {"name": "drawn-in", "namespace": cluster}, "spec": {"workload": {"manifests": []}},
            });
            let request = Request::post(works_of(cluster)).header(CONTENT_TYPE, "application/json");
            if let Ok(request) = request.body(Full::new(Bytes::from(work.to_string()))) {
                sent_by(letter.sender.clone(), self.service().handle(request)).await;
            }
        }
    }

    /// Events of clusters, decisions and bindings, but those of clusters that were away, of decisions that had left one out, and of
    /// a binding that was gone.
    fn lose_sight(self, body: Body) -> Body {
        changed(body, move |text| {
            text.split_inclusive('\n')
                .filter(|line| self.is_in_sight(line))
                .collect()
        })
    }

    /// Reports of another namespace as if they were those of the upgrade, and about what it asks for.
    fn believe(&self, text: &str) -> String {
        let uid = self
            .network()
            .uid_at(self.hub(), &format!("{}/{UPGRADE}", upgrades_of(TEAM)));
        let report = self.hub().read(|state: &State| {
            let group = "cluster.open-cluster-management.io";
            let reports = state.objects_of(group, "managedclustersupgradereports")?;
            reports.get(&format!("{TEAM}/{UPGRADE}-report-1")).cloned()
        });
        let report = report.map(|report| report.value());
        let revision = report
            .as_deref()
            .and_then(|report| report.pointer("/rows/0/revision")?.as_str());
        let owner = json!([{
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
            "name": UPGRADE, "uid": uid, "controller": true,
        }]);
        text.replace(
            &format!("\"namespace\":\"{STRANGERS}\""),
            &format!("\"namespace\":\"{TEAM}\",\"ownerReferences\":{owner}"),
        )
        .replace("0123456789abcdef", revision.unwrap_or_default())
    }

    /// Approvals of whatever plan as if they were of the present one, and without those that go.
    fn approve(&self, text: &str) -> String {
        let upgrade = crate::people::upgrade(self.hub(), UPGRADE);
        let plan = upgrade
            .as_deref()
            .and_then(|upgrade| upgrade.pointer("/status/approvals/0/planHash")?.as_str());
        let plan = format!("\"planHash\":\"{}\"", plan.unwrap_or_default());
        let there = text
            .split_inclusive('\n')
            .filter(|event| !event.contains("\"type\":\"DELETED\""));
        FALSE_PLANS.iter().fold(there.collect(), |text: String, hash| {
            text.replace(&format!("\"planHash\":\"{hash}\""), &plan)
        })
    }

    fn is_in_sight(&self, line: &str) -> bool {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        let name = event.pointer("/object/metadata/name").and_then(Value::as_str);
        let key = format!("{} has lost {}", self.identity(), name.unwrap_or_default());
        let is_lost = self.network().is_marked(&key);
        let decided = event
            .pointer("/object/status/decisions")
            .and_then(Value::as_array);
        let fleet = self.network().ground.options.clusters;
        let is_short = decided.is_some_and(|decided| (decided.len() as u64) < fleet);
        let is_unbound = event["type"] == "DELETED" && event["object"]["kind"] == "ManagedClusterSetBinding";
        if is_short || is_unbound || line.contains("\"Unknown\"") || line.contains("\"elsewhere\"") {
            let _ = self.network().mark(&key);
        }
        !is_lost
    }
}

/// A body whose texts are changed.
fn changed(body: Body, change: impl Fn(&str) -> String + Send + 'static) -> Body {
    let frames = stream::unfold((body, change), |(mut body, change)| async move {
        let frame = body.frame().await?;
        let frame = frame.map(|frame| {
            let data = frame.into_data().unwrap_or_default();
            Frame::data(Bytes::from(change(&String::from_utf8_lossy(&data))))
        });
        Some((frame, (body, change)))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Events of a watch without those of objects that were there before.
fn without_changes(events: &str) -> String {
    events
        .split_inclusive('\n')
        .filter(|event| !event.contains("\"type\":\"MODIFIED\""))
        .collect()
}

/// A list without its objects.
async fn emptied(answer: Response<Body>) -> Response<Body> {
    let (parts, body) = answer.into_parts();
    let bytes = body
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let mut list: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if let Some(items) = list.get_mut("items") {
        *items = json!([]);
    }
    Response::from_parts(parts, whole(Bytes::from(list.to_string())))
}

/// The events of a watch whose early, late or unusual end is the last.
fn watched(body: Body, give_up: impl Fn() -> bool + Send + 'static) -> Body {
    let begin = Instant::now();
    let state = (body, give_up);
    let frames = stream::unfold(state, move |(mut body, give_up)| async move {
        let frame = match timeout_at(begin + WATCHES.1, body.frame()).await {
            Ok(Some(frame)) => frame,
            Ok(None) if begin.elapsed() >= WATCHES.0 => return None,
            Ok(None) => {
                give_up();
                return None;
            }
            Err(_) => Err(reset()),
        };
        let is_expired = |frame: &Frame<Bytes>| {
            let data = frame.data_ref();
            data.is_some_and(|data| String::from_utf8_lossy(data).contains("\"code\":410"))
        };
        if frame.as_ref().map_or(true, is_expired) {
            give_up();
        }
        Some((frame, (body, give_up)))
    });
    StreamBody::new(frames).boxed_unsync()
}
