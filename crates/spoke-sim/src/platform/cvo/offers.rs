//! What a cluster says before it is asked for an update, if its installation names updates: offers, risks, and the gates of the next
//! minor version.

use clusterversion::Era;
use clusterversion::gates::{ACKS, GATES};
use clusterversion::types::{self, ConditionalUpdate};
use cvo_model::schema;
use semver::Version;
use serde_json::{Map, Value, json};

use super::object;
use super::request::payload;
use crate::fault::Faults;
use crate::fields::{self, Time};
use crate::platform::ControllerContext;
use crate::spoke::cvo::inputs::{admin_acks, admin_gates};
use crate::store::{ObjectKey, Store};

/// Reason of Upgradeable=False while a gate is not acknowledged.
const ACK_REQUIRED: &str = "AdminAckRequired";

/// Creates the `ConfigMaps` of gates and acknowledgments.
pub(crate) fn create_maps(store: &mut Store, now: Time) {
    for object in [admin_gates(&std::collections::BTreeMap::new()), admin_acks()] {
        let text = |field| fields::text(&object, &["metadata", field]);
        let key = ObjectKey::new("", "configmaps", text("namespace"), text("name"));
        // This cannot fail, because the key is free and the object is complete.
        let _ = store.create(&key, &object, "cluster-bootstrap", now);
    }
}

/// Shows the updates that are offered, by the faults of the cluster.
pub(super) fn show(version: &mut Value, offered: &[String], faults: &Faults, now: Time) {
    object::show_channel(version, faults, now);
    let current = fields::text(version, &["status", "desired", "version"]).to_owned();
    let is_newer = |offered: &&String| {
        let parsed = Version::parse(&current).ok().zip(Version::parse(offered).ok());
        parsed.is_some_and(|(current, offered)| offered > current)
    };
    let risk = faults.risk();
    let is_served = !faults.unoffered() || risk.is_some();
    let served: Vec<&String> = offered.iter().filter(is_newer).filter(|_| is_served).collect();
    let (available, conditional) = match risk {
        None => (served, Vec::new()),
        Some(_) => (Vec::new(), served),
    };
    let shown = |path: [&str; 2], field: &[&str]| -> Vec<String> {
        let list = fields::list(version, &path).iter();
        list.map(|one| fields::text(one, field).to_owned()).collect()
    };
    let is_shown = shown(["status", "availableUpdates"], &["version"])
        .iter()
        .eq(available.iter().copied())
        && shown(["status", "conditionalUpdates"], &["release", "version"])
            .iter()
            .eq(conditional.iter().copied());
    if is_shown {
        return;
    }
    let era = Era::of(&current);
    let available = available
        .into_iter()
        .map(|to| types::Release::new(to, payload(to)));
    let available: Vec<types::Release> = available.collect();
    let conditional = conditional
        .into_iter()
        .filter_map(|to| Some(object::with_risk(to, risk?, era, now)));
    let conditional: Vec<ConditionalUpdate> = conditional.collect();
    object::amend(version, |status| {
        status.available_updates = available;
        status.conditional_updates = conditional;
        schema::complete(status);
    });
}

/// Shows the gate of the next minor version while a fault refuses updates for want of an acknowledgment. Returns whether it is
/// acknowledged.
pub(super) fn show_gate(version: &Value, context: &mut ControllerContext<'_>) -> bool {
    let refusing = context
        .faults
        .refusing()
        .filter(|(reason, _)| *reason == ACK_REQUIRED);
    let current = Version::parse(fields::text(version, &["status", "desired", "version"]));
    let gate = refusing.zip(current.ok()).map(|((_, message), current)| {
        let (major, minor) = (current.major, current.minor);
        (
            format!("ack-{major}.{minor}-removals-in-{major}.{}", minor + 1),
            message,
        )
    });
    let mut data = Map::new();
    if let Some((key, message)) = &gate {
        data.insert(key.clone(), json!(message));
    }
    let gates = ObjectKey::new("", "configmaps", GATES.0, GATES.1);
    let is_shown = context
        .store
        .get(&gates)
        .is_none_or(|live| live["data"].as_object().is_some_and(|shown| *shown == data));
    if !is_shown {
        context
            .store
            .amend(&gates, |live| live["data"] = Value::Object(data));
    }
    let acks = context
        .store
        .get(&ObjectKey::new("", "configmaps", ACKS.0, ACKS.1));
    gate.zip(acks)
        .is_some_and(|((key, _), acks)| fields::text(&acks, &["data", &key]) == "true")
}

#[cfg(test)]
mod tests;
