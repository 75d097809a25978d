//! The ClusterVersion object itself: how it is born and how each event shows in it.

use std::collections::BTreeSet;

use clusterversion::Era;
use clusterversion::history::{self, Reconciled};
use clusterversion::progressing::{self, Round, RoundState, Subject};
use clusterversion::recommended::recommend;
use clusterversion::retrieval::{self, GraphAnswer, Question};
use clusterversion::types::{self as law, ConditionalUpdate, MatchingRule, Risk, Status};
use serde_json::{Value, json};

use super::request::{ARCHITECTURE, Release, payload};
use crate::fault::{Faults, Lie};
use crate::fields::{self, Cond, Time, set_condition, timestamp};
use crate::spoke::updates::outage;

/// The update service that every cluster asks by default.
const SERVICE: &str = "https://api.openshift.com/api/upgrades_info/v1/graph";
/// Where one reads on about a risk.
const RISKS: &str = "https://issues.redhat.com/browse/";

/// What a cluster is installed with.
#[derive(Clone, Debug)]
pub struct Birth {
    /// `spec.clusterID`
    pub cluster_id: String,
    /// The installed version.
    pub version: String,
    /// `spec.channel`
    pub channel: String,
    /// Versions in `status.availableUpdates`; null when empty, as on a real cluster.
    pub updates: Vec<String>,
}

/// A ClusterVersion some while after its installation.
#[must_use]
pub fn newborn(birth: &Birth, now: Time) -> Value {
    let image = payload(&birth.version);
    let installed = now - chrono::TimeDelta::days(30);
    let updates = match birth.updates.as_slice() {
        [] => Value::Null,
        updates => updates
            .iter()
            .map(
                |version| json!({"version": version, "image": payload(version), "channels": [birth.channel]}),
            )
            .collect(),
    };
    let mut version = json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterVersion",
        "metadata": {"name": "version"},
        "spec": {"clusterID": birth.cluster_id, "channel": birth.channel},
        "status": {
            "availableUpdates": updates,
            "conditions": [],
            "desired": {"version": birth.version, "image": image},
            "history": [{
                "state": "Completed",
                "startedTime": timestamp(installed),
                "completionTime": timestamp(installed + chrono::TimeDelta::minutes(24)),
                "version": birth.version,
                "image": image,
                "verified": false,
            }],
            "observedGeneration": 1,
        },
    });
    show_channel(&mut version, &Faults::default(), installed);
    show_loaded(&mut version, installed);
    let done = format!("Done applying {}", birth.version);
    set_condition(
        &mut version,
        Cond {
            kind: "Available",
            status: "True",
            reason: "",
            message: &done,
        },
        installed,
    );
    settle(&mut version, &birth.version, installed);
    version
}

/// `RetrievedUpdates` for the channel of the spec.
pub(super) fn show_channel(version: &mut Value, faults: &Faults, now: Time) {
    let failure = retrieval_failure(version, faults);
    let condition = retrieval::condition(now, failure.as_ref());
    let cond = Cond {
        kind: "RetrievedUpdates",
        status: condition.status.as_str(),
        reason: &condition.reason,
        message: &condition.message,
    };
    set_condition(version, cond, now);
}

/// Why the update service gives no updates, in the law's words.
fn retrieval_failure(version: &Value, faults: &Faults) -> Option<retrieval::Failure> {
    let text = |path: [&str; 2]| fields::text(version, &path).to_owned();
    let question = Question {
        service: SERVICE.to_owned(),
        architecture: ARCHITECTURE.to_owned(),
        current_architecture: ARCHITECTURE.to_owned(),
        channel: text(["spec", "channel"]),
        cluster_id: text(["spec", "clusterID"]),
        version: fields::text(version, &["status", "desired", "version"]).to_owned(),
    };
    let url = match question.url() {
        Ok(url) => url,
        Err(failure) => return Some(failure),
    };
    let answer = if faults.update_service_is_away() {
        outage(&url)
    } else if faults.is_in_no_channel() {
        GraphAnswer::ok(r#"{"nodes": [], "edges": []}"#)
    } else {
        return None;
    };
    retrieval::read(&question, &answer).err()
}

/// The release that is asked for as a conditional update whose risk applies; without a risk no update is conditional.
pub(super) fn show_risk(version: &mut Value, risk: Option<(&str, &str)>, now: Time) {
    let wanted = fields::text(version, &["spec", "desiredUpdate", "version"]).to_owned();
    let risk = risk.filter(|_| !wanted.is_empty());
    let shown = fields::list(version, &["status", "conditionalUpdates"]);
    let is_shown = match (shown, risk) {
        ([], None) => true,
        ([one], Some(_)) => fields::text(one, &["release", "version"]) == wanted,
        _ => false,
    };
    if is_shown {
        return;
    }
    let era = Era::of(fields::text(version, &["status", "desired", "version"]));
    let conditional = risk.map(|(name, message)| {
        let risk = Risk {
            name: name.to_owned(),
            message: message.to_owned(),
            url: format!("{RISKS}{name}"),
            matching_rules: vec![MatchingRule::always()],
            ..Risk::default()
        };
        let mut update = ConditionalUpdate {
            release: law::Release::new(&*wanted, payload(&wanted)),
            risks: vec![risk],
            ..ConditionalUpdate::default()
        };
        let verdict = recommend(&update.risks, |_| Ok(true), &BTreeSet::new(), era);
        update.conditions.set(verdict.condition(now));
        update
    });
    amend(version, |status| {
        status.conditional_updates = conditional.into_iter().collect();
        status.complete();
    });
}

/// `ReleaseAccepted` for the release that is running.
pub(super) fn show_loaded(version: &mut Value, now: Time) {
    let desired = |field| fields::text(version, &["status", "desired", field]);
    let message = format!(
        "Payload loaded version=\"{}\" image=\"{}\" architecture=\"amd64\"",
        desired("version"),
        desired("image")
    );
    let cond = Cond {
        kind: "ReleaseAccepted",
        status: "True",
        reason: "PayloadLoaded",
        message: &message,
    };
    set_condition(version, cond, now);
}

/// Failing and Progressing of a cluster at rest.
fn settle(version: &mut Value, at: &str, now: Time) {
    set_condition(
        version,
        Cond {
            kind: "Failing",
            status: "False",
            reason: "",
            message: "",
        },
        now,
    );
    let message = format!("Cluster version is {at}");
    set_condition(
        version,
        Cond {
            kind: "Progressing",
            status: "False",
            reason: "",
            message: &message,
        },
        now,
    );
}

/// Changes the status by the law's own types, which keep what they do not know.
fn amend(version: &mut Value, change: impl FnOnce(&mut Status)) {
    match serde_json::from_value::<Status>(version["status"].clone()) {
        Ok(mut status) => {
            change(&mut status);
            version["status"] = serde_json::to_value(status).unwrap_or_default();
        }
        Err(error) => tracing::warn!(%error, "the status of a ClusterVersion cannot be read"),
    }
}

/// The release was accepted: a new entry of the history, and work towards it. `risks`: what was overruled.
pub(super) fn show_accepted(version: &mut Value, target: &Release, risks: &str, now: Time) {
    let forced =
        fields::get(version, &["spec", "desiredUpdate", "force"]).and_then(Value::as_bool) == Some(true);
    let release = law::Release::new(&*target.version, &*target.image);
    amend(version, |status| {
        let reconciled = Reconciled {
            release: &release,
            verified: !forced,
            completed: false,
            accepted_risks: Some(risks),
        };
        history::merge(now, status, &reconciled);
        status.complete();
    });
    show_loaded(version, now);
}

/// The update is done.
pub(super) fn show_completed(version: &mut Value, now: Time) {
    amend(version, |status| {
        let release = status.desired.clone();
        let reconciled = Reconciled {
            release: &release,
            verified: false,
            completed: true,
            accepted_risks: None,
        };
        history::merge(now, status, &reconciled);
    });
    show_round(version, &at_rest(), now);
}

/// The apply loop of a cluster whose release is applied as a whole.
fn at_rest() -> Round {
    Round {
        state: RoundState::Reconciling,
        completed: true,
        ..Round::default()
    }
}

/// Available, Failing and Progressing of a round of the apply loop.
pub(super) fn show_round(version: &mut Value, round: &Round, now: Time) {
    let invalid = fields::condition_status(version, "Invalid").is_some();
    amend(version, |status| {
        let desired = status.desired.version.clone();
        let era = Era::of(&desired);
        let subject = Subject {
            version: &desired,
            invalid,
            has_history: !status.history.is_empty(),
        };
        progressing::write(now, &mut status.conditions, round, subject, era);
    });
}

/// The spec does not pass validation: the request is ignored, the cluster stays.
pub(super) fn show_invalid(version: &mut Value, errors: &[String], is_updating: bool, now: Time) {
    let message = match errors {
        [one] => format!("The cluster version is invalid: {one}"),
        many => format!("The cluster version is invalid:\n* {}\n", many.join("\n* ")),
    };
    let cond = Cond {
        kind: "Invalid",
        status: "True",
        reason: "InvalidClusterVersion",
        message: &message,
    };
    set_condition(version, cond, now);
    let updating = Round {
        state: RoundState::Updating,
        ..Round::default()
    };
    show_round(version, &if is_updating { updating } else { at_rest() }, now);
}

/// The spec passes again.
pub(super) fn clear_invalid(version: &mut Value, now: Time) {
    fields::remove_condition(version, "Invalid");
    if fields::condition_status(version, "Progressing") == Some("False") {
        show_round(version, &at_rest(), now);
    }
}

/// The short form of a failure in Progressing.
pub(super) fn summary(failure: &str) -> String {
    match failure.strip_prefix("Cluster operator") {
        Some(rest) => format!("the cluster operator{rest}"),
        None => failure.to_owned(),
    }
}

/// The ClusterVersion as a lying spoke reports it.
#[must_use]
pub fn lie(version: &Value, how: Lie) -> Value {
    let mut told = version.clone();
    let history = fields::list(version, &["status", "history"]);
    match how {
        Lie::Stale => {
            if let Some(first) = history.last() {
                let installed = fields::text(first, &["version"]).to_owned();
                let status = fields::object_at(&mut told, &["status"]);
                status.insert("history".into(), json!([first]));
                status.insert(
                    "desired".into(),
                    json!({"version": installed, "image": first["image"]}),
                );
                status.insert("observedGeneration".into(), json!(1));
                fields::object_at(&mut told, &["metadata"]).insert("generation".into(), json!(1));
                let since =
                    fields::parse_timestamp(fields::text(first, &["completionTime"])).unwrap_or_default();
                settle(&mut told, &installed, since);
            }
        }
        Lie::Early => {
            let generation = fields::integer(version, &["metadata", "generation"]).unwrap_or(1);
            let wanted = fields::text(version, &["spec", "desiredUpdate", "version"]).to_owned();
            let running = history
                .first()
                .map_or("", |entry| fields::text(entry, &["version"]))
                .to_owned();
            let is_true = history
                .first()
                .is_some_and(|entry| fields::text(entry, &["state"]) == "Completed");
            let has_come_true = is_true && running == wanted;
            if !wanted.is_empty() && !has_come_true {
                let status = fields::object_at(&mut told, &["status"]);
                let history = fields::array_at(status, "history");
                if running == wanted {
                    history.remove(0);
                }
                let at = timestamp(fields::from_unix(0));
                history.insert(
                    0,
                    json!({"state": "Completed", "startedTime": at, "completionTime": at, "version": wanted,
                           "image": payload(&wanted), "verified": true}),
                );
                status.insert("observedGeneration".into(), json!(generation - 1));
            }
        }
    }
    told
}
