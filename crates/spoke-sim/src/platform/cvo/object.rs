//! The ClusterVersion object: how it is created, and how each event changes it.

use std::collections::BTreeSet;

use clusterversion::Era;
use clusterversion::types::{self, ConditionalUpdate, MatchingRule, Risk, Status};
use cvo_model::history::{self, Reconciled};
use cvo_model::progressing::{self, ConditionSubject, Round, RoundState};
use cvo_model::recommended::recommend;
use cvo_model::retrieval::{self, GraphAnswer, GraphQuery};
use cvo_model::schema;
use serde_json::{Value, json};

use super::request::{ARCHITECTURE, Release, payload};
use crate::fault::{Faults, Lie};
use crate::fields::{self, Cond, Time, set_condition, timestamp};
use crate::spoke::updates::outage;

/// The default update service of every cluster.
const SERVICE: &str = "https://api.openshift.com/api/upgrades_info/v1/graph";
/// URL prefix for more information about a risk.
const RISKS: &str = "https://issues.redhat.com/browse/";

/// How a cluster is installed.
#[derive(Clone, Debug)]
pub struct Installation {
    /// `spec.clusterID`
    pub cluster_id: String,
    /// The installed version.
    pub version: String,
    /// `spec.channel`
    pub channel: String,
    /// Versions in `status.availableUpdates`, which is null if there are none, as on a real cluster.
    pub updates: Vec<String>,
}

/// A ClusterVersion some time after the installation.
#[must_use]
pub fn new_cluster_version(installation: &Installation, now: Time) -> Value {
    let image = payload(&installation.version);
    let installed = now - chrono::TimeDelta::days(30);
    let updates = match installation.updates.as_slice() {
        [] => Value::Null,
        updates => updates
            .iter()
            .map(
                |version| json!({"version": version, "image": payload(version), "channels": [installation.channel]}),
            )
            .collect(),
    };
    let mut version = json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterVersion",
        "metadata": {"name": "version"},
        "spec": {"clusterID": installation.cluster_id, "channel": installation.channel},
        "status": {
            "availableUpdates": updates,
            "conditions": [],
            "desired": {"version": installation.version, "image": image},
            "history": [{
                "state": "Completed",
                "startedTime": timestamp(installed),
                "completionTime": timestamp(installed + chrono::TimeDelta::minutes(24)),
                "version": installation.version,
                "image": image,
                "verified": false,
            }],
            "observedGeneration": 1,
        },
    });
    show_channel(&mut version, &Faults::default(), installed);
    show_loaded(&mut version, installed);
    let done = format!("Done applying {}", installation.version);
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
    settle(&mut version, &installation.version, installed);
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

/// The operator looks for updates again when the cause is over for which it retrieved none.
pub(super) fn retrieve_again(version: &mut Value, faults: &Faults, now: Time) {
    let has_failed = fields::condition_status(version, "RetrievedUpdates") == Some("False");
    if has_failed && !faults.update_service_outage(None) && !faults.is_in_no_channel() {
        show_channel(version, faults, now);
    }
}

/// Why the update service gives no updates, with the texts of the model.
fn retrieval_failure(version: &Value, faults: &Faults) -> Option<retrieval::RetrievalFailure> {
    let text = |path: [&str; 2]| fields::text(version, &path).to_owned();
    let question = GraphQuery {
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
    let answer = if faults.update_service_outage(None) {
        outage(&url)
    } else if faults.is_in_no_channel() {
        GraphAnswer::ok(r#"{"nodes": [], "edges": []}"#)
    } else {
        return None;
    };
    retrieval::read(&question, &answer).err()
}

/// Makes the requested release a conditional update whose risk applies. Without a risk there are no conditional updates.
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
            release: types::Release::new(&*wanted, payload(&wanted)),
            risks: vec![risk],
            ..ConditionalUpdate::default()
        };
        let recommendation = recommend(&update.risks, |_| Ok(true), &BTreeSet::new(), era);
        update.conditions.set(recommendation.condition(now));
        update
    });
    amend(version, |status| {
        status.conditional_updates = conditional.into_iter().collect();
        schema::complete(status);
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

/// Sets Failing and Progressing of a cluster without an update.
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

/// Changes the status through the types of `clusterversion`, which keep unknown fields.
fn amend(version: &mut Value, change: impl FnOnce(&mut Status)) {
    match serde_json::from_value::<Status>(version["status"].clone()) {
        Ok(mut status) => {
            change(&mut status);
            version["status"] = serde_json::to_value(status).unwrap_or_default();
        }
        Err(error) => tracing::warn!(%error, "the status of a ClusterVersion cannot be read"),
    }
}

/// The release was accepted: adds a history entry. `risks`: the accepted risks.
pub(super) fn show_accepted(version: &mut Value, target: &Release, risks: &str, now: Time) {
    let forced =
        fields::get(version, &["spec", "desiredUpdate", "force"]).and_then(Value::as_bool) == Some(true);
    let release = types::Release::new(&*target.version, &*target.image);
    amend(version, |status| {
        let reconciled = Reconciled {
            release: &release,
            verified: !forced,
            completed: false,
            accepted_risks: Some(risks),
        };
        history::merge(now, status, &reconciled);
        schema::complete(status);
    });
    show_loaded(version, now);
}

/// The update is completed.
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

/// The apply loop of a cluster whose release is fully applied.
fn at_rest() -> Round {
    Round {
        state: RoundState::Reconciling,
        completed: true,
        ..Round::default()
    }
}

/// Sets Available, Failing and Progressing by a round of the apply loop.
pub(super) fn show_round(version: &mut Value, round: &Round, now: Time) {
    let invalid = fields::condition_status(version, "Invalid").is_some();
    amend(version, |status| {
        let desired = status.desired.version.clone();
        let era = Era::of(&desired);
        let subject = ConditionSubject {
            version: &desired,
            invalid,
            has_history: !status.history.is_empty(),
        };
        progressing::write(now, &mut status.conditions, round, subject, era);
    });
}

/// The spec is invalid: the request is ignored and the cluster stays as it is.
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

/// The spec is valid again.
pub(super) fn clear_invalid(version: &mut Value, now: Time) {
    fields::remove_condition(version, "Invalid");
    if fields::condition_status(version, "Progressing") == Some("False") {
        show_round(version, &at_rest(), now);
    }
}

/// The short text of a failure in Progressing.
pub(super) fn summary(failure: &str) -> String {
    match failure.strip_prefix("Cluster operator") {
        Some(rest) => format!("the cluster operator{rest}"),
        None => failure.to_owned(),
    }
}

/// The ClusterVersion as a cluster with a feedback fault reports it.
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
