//! Fields that the schema of ClusterVersion requires, so that an API server accepts every status of the model.

use clusterversion::types::{Conditions, Release, Risk, Status};
use serde_json::{Map, Value, json};

/// The schema allows this many characters in the message of a condition of an update or a risk.
const MAX_MESSAGE: usize = 32_768;

/// Adds the fields that the schema requires and the status does not have, with blank values.
pub fn complete(status: &mut Status) {
    release(&mut status.desired);
    require(&mut status.other, "desired", json!({}));
    require(&mut status.other, "observedGeneration", json!(0));
    require(&mut status.other, "versionHash", json!(""));
    require(&mut status.other, "availableUpdates", Value::Null);
    for entry in &mut status.history {
        require(&mut entry.other, "completionTime", Value::Null);
        require(&mut entry.other, "image", json!(""));
        require(&mut entry.other, "verified", json!(false));
        require(&mut entry.other, "version", json!(""));
    }
    status.available_updates.iter_mut().for_each(release);
    for update in &mut status.conditional_updates {
        release(&mut update.release);
        update.risks.iter_mut().for_each(risk);
        conditions(&mut update.conditions);
    }
    status.conditional_update_risks.iter_mut().for_each(risk);
}

fn release(release: &mut Release) {
    require(&mut release.other, "version", json!(""));
    require(&mut release.other, "image", json!(""));
}

fn risk(risk: &mut Risk) {
    for key in ["url", "name", "message"] {
        require(&mut risk.other, key, json!(""));
    }
    conditions(&mut risk.conditions);
}

/// Conditions of updates and risks, unlike those of the ClusterVersion, need a reason and a message.
fn conditions(conditions: &mut Conditions) {
    for condition in &mut conditions.0 {
        if let Some((at, _)) = condition.message.char_indices().nth(MAX_MESSAGE) {
            condition.message.truncate(at);
        }
        require(&mut condition.other, "message", json!(""));
        require(&mut condition.other, "reason", json!(""));
    }
}

fn require(object: &mut Map<String, Value>, key: &str, blank: Value) {
    object.entry(key).or_insert(blank);
}
