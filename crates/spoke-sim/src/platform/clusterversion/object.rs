//! The ClusterVersion object itself: how it is born and how each event shows in it.

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

/// The release was accepted: a new entry of the history, and work towards it.
pub(super) fn show_accepted(version: &mut Value, target: &Release, now: Time) {
    let at = timestamp(now);
    let forced =
        fields::get(version, &["spec", "desiredUpdate", "force"]).and_then(Value::as_bool) == Some(true);
    let status = fields::object_at(version, &["status"]);
    status.insert(
        "desired".into(),
        json!({"version": target.version, "image": target.image}),
    );
    let history = fields::array_at(status, "history");
    if let Some(previous) = history.first_mut()
        && fields::text(previous, &["completionTime"]).is_empty()
    {
        previous["completionTime"] = at.clone().into();
    }
    let entry = json!({
        "state": "Partial", "startedTime": at, "completionTime": null,
        "version": target.version, "image": target.image, "verified": !forced,
    });
    history.insert(0, entry);
    // Older entries are pruned by weight; a simulated cluster does not live long enough to need more.
    history.truncate(100);
    show_loaded(version, now);
}

/// The update is done.
pub(super) fn show_completed(version: &mut Value, now: Time) {
    let target = fields::text(version, &["status", "desired", "version"]).to_owned();
    let history = fields::array_at(fields::object_at(version, &["status"]), "history");
    if let Some(entry) = history.first_mut() {
        entry["state"] = "Completed".into();
        entry["completionTime"] = timestamp(now).into();
    }
    let done = format!("Done applying {target}");
    set_condition(
        version,
        Cond {
            kind: "Available",
            status: "True",
            reason: "",
            message: &done,
        },
        now,
    );
    settle(version, &target, now);
}

/// The spec does not pass validation: the request is ignored, the cluster stays.
pub(super) fn show_invalid(version: &mut Value, errors: &[String], updating: bool, now: Time) {
    let message = match errors {
        [one] => format!("The cluster version is invalid: {one}"),
        many => format!("The cluster version is invalid:\n* {}", many.join("\n* ")),
    };
    let cond = Cond {
        kind: "Invalid",
        status: "True",
        reason: "InvalidClusterVersion",
        message: &message,
    };
    set_condition(version, cond, now);
    let desired = fields::text(version, &["status", "desired", "version"]).to_owned();
    let (status, verb) = if updating {
        ("True", "Reconciling")
    } else {
        ("False", "Stopped at")
    };
    let message = format!("{verb} {desired}: the cluster version is invalid");
    let cond = Cond {
        kind: "Progressing",
        status,
        reason: "InvalidClusterVersion",
        message: &message,
    };
    set_condition(version, cond, now);
}

/// The spec passes again.
pub(super) fn clear_invalid(version: &mut Value, now: Time) {
    fields::remove_condition(version, "Invalid");
    if fields::condition_status(version, "Progressing") == Some("False") {
        let desired = fields::text(version, &["status", "desired", "version"]).to_owned();
        settle(version, &desired, now);
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
