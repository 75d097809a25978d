//! The ClusterVersion object itself: how it is born and how each event shows in it.

use clusterversion::Era;
use clusterversion::history::{self, Reconciled};
use clusterversion::progressing::{self, Round, RoundState, Subject};
use clusterversion::types::Status;
use serde_json::{Value, json};

use super::request::{Release, payload};
use crate::fault::Lie;
use crate::fields::{self, Cond, Time, set_condition, timestamp};

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
    show_channel(&mut version, installed);
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
pub(super) fn show_channel(version: &mut Value, now: Time) {
    let cond = if fields::text(version, &["spec", "channel"]).is_empty() {
        Cond {
            kind: "RetrievedUpdates",
            status: "False",
            reason: "NoChannel",
            message: "The update channel has not been configured.",
        }
    } else {
        Cond {
            kind: "RetrievedUpdates",
            status: "True",
            reason: "",
            message: "",
        }
    };
    set_condition(version, cond, now);
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
    let release = clusterversion::types::Release::new(&*target.version, &*target.image);
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
