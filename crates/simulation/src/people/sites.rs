//! What administrators of clusters do, and the update service: which updates a cluster offers with which risks, which gates it has,
//! and the state of its worker pools.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use api::names::{ANNOTATION_OWNER, LABEL_STEP, PROBE, probe_name};
use serde_json::{Value, json};
use spoke_sim::Agents;
use spoke_sim::platform::cvo::payload;
use spoke_sim::platform::pools::{self, ADDED, DEGRADED};

use super::{People, Undo};
use crate::admin::{upgrades_of, works_of};
use crate::fault::Fault;
use crate::names::TEAM;
use crate::world::{CHANNEL, GATE, RISKS, accepted, acknowledged, fleet};

const OPERATOR: &str = "clusteroperators.config.openshift.io";
const POOLS: &str = "machineconfigpools.machineconfiguration.openshift.io";
const VERSION: &str = "clusterversions.config.openshift.io";
/// Namespace and name of the gates, and of their acknowledgments.
const GATES: (&str, &str) = ("openshift-config-managed", "admin-gates");
const ACKS: (&str, &str) = ("openshift-config", "admin-acks");
/// The patch versions of 4.14 that the update service knows.
const RELEASES: std::ops::RangeInclusive<u64> = 10..=16;
/// Who changes clusters by hand.
const ADMINISTRATOR: &str = "administrator";

/// What a cluster says of each newer release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    Plain,
    Nothing,
    /// There is a risk. It applies, or the cluster cannot tell.
    Risk(&'static str, bool),
    /// There is a risk that does not apply.
    NoRisk(&'static str),
}

/// What administrators know of their clusters.
#[derive(Clone, Debug, Default)]
pub(super) struct Sites {
    offers: BTreeMap<String, Offer>,
    flapping: BTreeSet<String>,
    /// Clusters on which somebody has acknowledged the gate by hand.
    acknowledged: BTreeSet<String>,
    /// How often administrators have looked.
    looks: u64,
    /// The state in which a cluster had what it should have, and what it was to offer then.
    tended: BTreeMap<String, (u64, Offer)>,
}

/// Major, minor and patch version; zeros if it is none.
fn parts(version: &str) -> [u64; 3] {
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or_default());
    [(); 3].map(|()| numbers.next().unwrap_or_default())
}

/// The update of a cluster to a release that has a risk.
fn conditional(version: &str, offer: Offer) -> Option<Value> {
    let (name, status, reason, said) = match offer {
        Offer::Risk(name, true) => (
            name,
            "False",
            name,
            format!("{} {}", message_of(name), url_of(name)),
        ),
        Offer::Risk(name, false) => (
            name,
            "Unknown",
            "EvaluationFailed",
            format!("Could not evaluate exposure to update risk {name} (no answer)"),
        ),
        Offer::NoRisk(name) => (
            name,
            "True",
            "AsExpected",
            "The update is recommended, because none of the conditional update risks apply to this cluster."
                .to_owned(),
        ),
        Offer::Plain | Offer::Nothing => return None,
    };
    Some(json!({
        "release": {"version": version, "image": payload(version)},
        "risks": [{"name": name, "message": message_of(name), "url": url_of(name), "matchingRules": [{"type": "Always"}]}],
        "conditions": [{
            "type": "Recommended", "status": status, "reason": reason, "message": said,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }))
}

fn message_of(risk: &str) -> String {
    format!("{risk} makes machines wait.")
}

fn url_of(risk: &str) -> String {
    format!("https://example.com/{risk}")
}

/// What a status offers, as far as it matters: versions, and how they are recommended.
fn offered(status: &Value) -> Vec<String> {
    let list = |name: &str| status.get(name).and_then(Value::as_array).into_iter().flatten();
    let text = |value: &Value, pointer: &str| {
        let found = value.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let listed = list("availableUpdates").map(|one| text(one, "/version"));
    let risky = list("conditionalUpdates").map(|one| {
        let told = ["/release/version", "/risks/0/name", "/conditions/0/status"];
        told.map(|pointer| text(one, pointer)).join(" ")
    });
    listed.chain(risky).collect()
}

/// A cluster that a status lists.
struct Listed {
    cluster: String,
    reason: String,
    message: String,
}

/// The clusters that wait or have failed by a status.
fn told(upgrade: &Value) -> Vec<Listed> {
    let lists = ["/status/waitingClusters", "/status/failedClusters"];
    let lists = lists.iter().filter_map(|list| upgrade.pointer(list)?.as_array());
    let text = |one: &Value, field: &str| {
        let value = one.get(field).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let listed = lists.flatten().map(|one| Listed {
        cluster: text(one, "name"),
        reason: text(one, "reason"),
        message: text(one, "message"),
    });
    listed.collect()
}

impl People {
    /// What clusters say at first.
    pub(super) fn first_offers(&mut self) {
        if self.options.preflight.is_none() || !self.options.mixed_offers {
            return;
        }
        let [disk, network] = RISKS;
        for name in fleet(&self.options) {
            let offer = match self.number("offer", &name, 0, 0, 9) {
                0..=3 => continue,
                4 | 5 => {
                    let end = self.number("offered at", &name, 0, 10, self.options.chaos_seconds.max(11));
                    self.later(end, Undo::Offer(name.clone()));
                    Offer::Nothing
                }
                6 | 7 => Offer::Risk(disk, true),
                8 => Offer::Risk(network, false),
                _ => Offer::NoRisk(disk),
            };
            self.sites.offers.insert(name, offer);
        }
    }

    /// Plays the update service and whoever installs clusters: they have what they should have.
    pub fn tend(&mut self) {
        if !self.options.asks() {
            return;
        }
        let look = self.sites.looks;
        self.sites.looks += 1;
        // A cluster that was registered anew counts its writes anew, too.
        if look.is_multiple_of(60) {
            self.sites.tended.clear();
        }
        for name in fleet(&self.options) {
            if look.is_multiple_of(10) || self.sites.flapping.contains(&name) {
                self.tend_site(&name);
            }
        }
    }

    fn tend_site(&mut self, name: &str) {
        let known = self.sites.offers.get(name).copied().unwrap_or(Offer::Plain);
        let is_away = self.sites.flapping.contains(name) && self.sites.looks % 2 == 1;
        let offer = if is_away { Offer::Nothing } else { known };
        let state = |agents: &Agents| agents.revision(name).map(|revision| (revision, offer));
        if self.sites.tended.get(name).copied() == state(&self.agents) {
            return;
        }
        self.furnish(name, offer);
        if let Some(state) = state(&self.agents) {
            self.sites.tended.insert(name.to_owned(), state);
        }
    }

    /// Gives a cluster what it should have, if it is simulated at the moment.
    fn furnish(&self, name: &str, offer: Offer) {
        if self.agents.cluster_version(name).is_none() {
            return;
        }
        let place = |object: &Value| {
            // It is complete, and its kind is served.
            let _ = self.agents.place(name, ADMINISTRATOR, object);
        };
        let lacks =
            |resource, (namespace, name_of)| self.agents.object(name, resource, namespace, name_of).is_none();
        if self.options.worker_pools && lacks(OPERATOR, ("", "machine-config")) {
            let runs = self.version(name).unwrap_or_default();
            pools::objects(&runs).iter().for_each(place);
        }
        if self.options.gates && lacks("configmaps", GATES) {
            let map = |(namespace, name), data| {
                json!({
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"namespace": namespace, "name": name}, "data": data,
                })
            };
            if lacks("configmaps", ACKS) {
                place(&map(ACKS, json!({})));
            }
            place(&map(GATES, json!({GATE: "Some interfaces are gone in 4.14."})));
        }
        if self.options.preflight.is_some() {
            self.offer(name, offer);
        }
    }

    /// The cluster retrieves its updates. Its `ClusterVersion` is read just before it is placed: whatever else is placed lets the
    /// cluster's controllers act, so an update may have ended since, and an older copy would say for ever that it goes on.
    fn offer(&self, name: &str, offer: Offer) {
        let Some(mut version) = self.agents.cluster_version(name) else {
            return;
        };
        let status = version.get("status").unwrap_or(&Value::Null);
        let runs = status.pointer("/desired/version").and_then(Value::as_str);
        let runs = parts(runs.unwrap_or_default());
        let releases = RELEASES.filter(|patch| [4, 14, *patch] > runs);
        let releases: Vec<String> = releases.map(|patch| format!("4.14.{patch}")).collect();
        let is_listed = matches!(offer, Offer::Plain | Offer::NoRisk(_));
        let listed = releases.iter().filter(|_| is_listed);
        let listed: Vec<Value> = listed
            .map(|version| json!({"version": version, "image": payload(version)}))
            .collect();
        let risky: Vec<Value> = releases
            .iter()
            .filter_map(|version| conditional(version, offer))
            .collect();
        let wanted = json!({"availableUpdates": listed, "conditionalUpdates": risky});
        if offered(status) == offered(&wanted) {
            return;
        }
        version["status"]["availableUpdates"] = if listed.is_empty() {
            Value::Null
        } else {
            listed.into()
        };
        version["status"]["conditionalUpdates"] = risky.into();
        let _ = self.agents.place(name, ADMINISTRATOR, &version);
    }

    /// What happens to what a cluster says, and to probes.
    pub(super) async fn disturb_probe(&mut self, name: &str, second: u64) -> Result<()> {
        if self.options.preflight.is_some() && self.strikes(Fault::Withhold, name, second) {
            let [disk, network] = RISKS;
            let offers = [
                Offer::Nothing,
                Offer::Risk(disk, true),
                Offer::Risk(network, false),
            ];
            let offer = self.network.choice("withhold", name, second).pick(&offers);
            self.sites
                .offers
                .insert(name.to_owned(), offer.unwrap_or(Offer::Nothing));
            self.tend_site(name);
            let end = second + self.number("withhold", name, second, 20, 200);
            self.later(end, Undo::Offer(name.to_owned()));
        }
        if self.options.preflight.is_some() && self.strikes(Fault::Flap, name, second) {
            self.sites.flapping.insert(name.to_owned());
            let end = second + self.number("flap", name, second, 10, 60);
            self.later(end, Undo::Steady(name.to_owned()));
        }
        if self.options.worker_pools && self.strikes(Fault::Pool, name, second) {
            self.hold_pool(name, second);
            let end = second + self.number("pool", name, second, 20, 300);
            self.later(end, Undo::Resume(name.to_owned()));
        }
        let path = format!("{}/{}", works_of(name), probe_name(name));
        if self.strikes(Fault::DeleteProbe, name, second) {
            self.admin.delete(&path).await?;
        }
        if self.strikes(Fault::ForgeProbe, name, second) {
            self.forge_probe(name, path.clone(), second).await;
        }
        if self.strikes(Fault::ProbeNonsense, name, second) {
            self.answer_nonsense(name, &path, second).await?;
        }
        Ok(())
    }

    fn hold_pool(&self, name: &str, second: u64) {
        let how = self.number("hold pool", name, second, 0, 2);
        self.edit_pool(name, |pool| {
            let notes = &mut pool["metadata"]["annotations"];
            match how {
                0 => notes[DEGRADED] = "a disk is full".into(),
                1 => {}
                _ => notes[ADDED] = format!("-{second}").into(),
            }
            pool["spec"]["paused"] = (how > 0).into();
        });
    }

    fn edit_pool(&self, name: &str, change: impl FnOnce(&mut Value)) {
        self.edit_by_hand(name, (POOLS, "", "worker"), change);
    }

    /// Somebody else's work with the name of a probe asks the same as a probe of the upgrade, if there is one.
    async fn forge_probe(&mut self, name: &str, path: String, second: u64) {
        let group = "work.open-cluster-management.io";
        let find = |cluster: &String| {
            let key = format!("{cluster}/{}", probe_name(cluster));
            Some((cluster.clone(), self.object(group, "manifestworks", &key)?))
        };
        let text = fleet(&self.options)
            .iter()
            .find_map(find)
            .map(|(cluster, work)| work.text().replace(&format!("\"{cluster}"), &format!("\"{name}")));
        let mut work: Value =
            serde_json::from_str(text.as_deref().unwrap_or_default()).unwrap_or_else(|_| {
                json!({
                    "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
                    "spec": {"workload": {"manifests": []}},
                })
            });
        let notes = work.pointer("/metadata/annotations").cloned();
        let labels = work.pointer("/metadata/labels").cloned();
        work["metadata"] = json!({
            "name": probe_name(name), "namespace": name,
            "labels": labels.unwrap_or_else(|| json!({LABEL_STEP: PROBE})),
            "annotations": notes.unwrap_or_else(|| json!({})),
        });
        work["metadata"]["annotations"][ANNOTATION_OWNER] = "strangers/other".into();
        if let Some(work) = work.as_object_mut() {
            work.remove("status");
        }
        // The name may be taken, or the namespace may be on its way out.
        if self.admin.create(&works_of(name), &work).await.is_ok() {
            let end = second + self.number("forge-probe", name, second, 5, 90);
            self.later(end, Undo::Delete(path));
        }
    }

    /// Answers that make no sense in place of the true ones.
    async fn answer_nonsense(&mut self, name: &str, path: &str, second: u64) -> Result<()> {
        let key = format!("{name}/{}", probe_name(name));
        let Some(work) = self.object("work.open-cluster-management.io", "manifestworks", &key) else {
            return Ok(());
        };
        let work = work.value();
        let Some(mut manifests) = work.pointer("/status/resourceStatus/manifests").cloned() else {
            return Ok(());
        };
        let how = self.number("answer", name, second, 0, 4);
        let all = manifests.as_array_mut().into_iter().flatten();
        for manifest in all {
            let list = |value: Option<&mut Value>| value.and_then(Value::as_array_mut).map(std::mem::take);
            let conditions = list(manifest.get_mut("conditions")).unwrap_or_default();
            let conditions = conditions.into_iter().map(|mut condition| {
                let kind = condition["type"].as_str().unwrap_or_default().to_owned();
                if kind.starts_with("Upgrade") {
                    match how {
                        0 => condition["message"] = "x".repeat(20_000).into(),
                        1 => condition["message"] = "offer/1\nkeys/1\npools/1\u{0}\u{7f}".into(),
                        2 => condition["status"] = "False".into(),
                        3 => condition["message"] = "".into(),
                        _ => {}
                    }
                }
                condition
            });
            manifest["conditions"] = conditions.collect();
            let values = manifest.pointer_mut("/statusFeedback/values");
            for value in values
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
                .filter(|_| how == 4)
            {
                value["fieldValue"] = json!({"type": "Integer", "integer": -1});
            }
        }
        let change = json!({"status": {"resourceStatus": {"manifests": manifests}}});
        self.admin
            .patch_if_there(&format!("{path}/status"), &change)
            .await?;
        self.tampered.insert(path.to_owned());
        Ok(())
    }

    pub(super) fn undo_site(&mut self, undo: &Undo) {
        match undo {
            Undo::Offer(name) => {
                self.sites.offers.insert(name.clone(), Offer::Plain);
                self.tend_site(name);
            }
            Undo::Steady(name) => {
                self.sites.flapping.remove(name);
                self.tend_site(name);
            }
            Undo::Resume(name) => self.edit_pool(name, |pool| {
                pool["spec"]["paused"] = false.into();
                if let Some(notes) = pool["metadata"]["annotations"].as_object_mut() {
                    notes.remove(DEGRADED);
                }
            }),
            _ => {}
        }
    }

    /// What an author, and the administrators of clusters, do about what clusters say to the update.
    pub(super) async fn settle_asked(&mut self, name: &str, upgrade: &Value) -> Result<()> {
        let told = told(upgrade);
        let is_told = |reasons: &[&str]| told.iter().any(|one| reasons.contains(&one.reason.as_str()));
        let is_asked = upgrade.pointer("/spec/preflight/mode").is_some();
        let mut change = json!({});
        if is_asked && is_told(&["RiskNotAccepted", "RiskUnknown", "PreflightUnknown"]) {
            change["acceptRisks"] = accepted();
        }
        if is_asked && is_told(&["AdminAckRequired"]) {
            change["adminAcks"] = acknowledged();
        }
        let target = upgrade.pointer("/spec/clusterVersion").unwrap_or(&Value::Null);
        let is_news = |(field, value): (&String, &Value)| target.get(field) != Some(value);
        if change.as_object().into_iter().flatten().any(is_news) {
            let path = format!("{}/{name}", upgrades_of(TEAM));
            self.admin
                .patch_if_there(&path, &json!({"spec": {"clusterVersion": change}}))
                .await?;
        }
        for one in &told {
            if matches!(one.reason.as_str(), "ChannelDiffers" | "PreflightUnknown") {
                self.edit_by_hand(&one.cluster, (VERSION, "", "version"), |version| {
                    version["spec"]["channel"] = CHANNEL.into();
                });
            }
            if self.options.gates && one.message.contains(r#"because of "AdminAckRequired""#) {
                let (namespace, acks) = ACKS;
                self.edit_by_hand(&one.cluster, ("configmaps", namespace, acks), |map| {
                    map["data"][GATE] = "true".into();
                });
                self.sites.acknowledged.insert(one.cluster.clone());
            }
        }
        Ok(())
    }

    /// Changes an object of a cluster by hand, unless the cluster is gone at the moment.
    fn edit_by_hand(&self, cluster: &str, object: (&str, &str, &str), change: impl FnOnce(&mut Value)) {
        let _ = self.agents.edit_object(cluster, object, ADMINISTRATOR, change);
    }

    /// The keys that are acknowledged on a cluster, but for those that somebody has acknowledged there by hand.
    #[must_use]
    pub fn acknowledged_by_works(&self, cluster: &str) -> Vec<String> {
        let (namespace, name) = ACKS;
        let acks = self.agents.object(cluster, "configmaps", namespace, name);
        let data = acks.and_then(|acks| acks.get("data")?.as_object().cloned());
        let keys = data.into_iter().flatten().map(|(key, _)| key);
        keys.filter(|key| key != GATE || !self.sites.acknowledged.contains(cluster))
            .collect()
    }
}
