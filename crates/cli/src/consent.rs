//! The edit of a spec by which a risk is accepted or a gate is acknowledged. Each has a name and a reason.

use serde_json::{Value, json};

use crate::edit;
use crate::preflight::Consent;
use crate::upgrade::Upgrade;

/// What the edit changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The name is new.
    Added,
    /// The name had another reason.
    Replaced,
    /// The name has this reason already.
    Unchanged,
}

/// The list of the spec with this name and reason in it, and what that changes.
#[must_use]
pub fn edited(upgrade: &Upgrade, consent: Consent, name: &str, reason: &str) -> (Vec<Value>, Edit) {
    let (field, key) = place(consent);
    let known = upgrade.object.pointer(&format!("/spec/clusterVersion/{field}"));
    let mut list: Vec<Value> = known.and_then(Value::as_array).cloned().unwrap_or_default();
    let entry = json!({key: name, "reason": reason});
    match list.iter_mut().find(|known| known[key] == name) {
        Some(known) if *known == entry => (list, Edit::Unchanged),
        Some(known) => {
            *known = entry;
            (list, Edit::Replaced)
        }
        None => {
            list.push(entry);
            (list, Edit::Added)
        }
    }
}

/// The patch for the hub. It holds only for the object that was read, so that no edit of somebody else is lost.
#[must_use]
pub fn patch(upgrade: &Upgrade, consent: Consent, list: &[Value]) -> Value {
    edit::patch(upgrade, &change(consent, list))
}

/// The part of the spec that changes.
#[must_use]
pub fn change(consent: Consent, list: &[Value]) -> Value {
    json!({"clusterVersion": {place(consent).0: list}})
}

/// The same as a manifest for a Git repository: the part of the spec that changes.
#[must_use]
pub fn manifest(upgrade: &Upgrade, consent: Consent, list: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
        "kind": "ManagedClustersUpgrade",
        "metadata": {"name": upgrade.name, "namespace": upgrade.namespace},
        "spec": change(consent, list),
    })
}

/// Why this upgrade cannot have such an entry, and what to do.
#[must_use]
pub fn obstacle(upgrade: &Upgrade, consent: Consent) -> Option<&'static str> {
    let text = |pointer: &str| upgrade.object.pointer(pointer).and_then(Value::as_str);
    let is_asked = matches!(text("/spec/preflight/mode"), Some("Report" | "Require"));
    if upgrade.object.pointer("/spec/clusterVersion").is_none() {
        Some("the upgrade has no spec.clusterVersion, so no cluster is updated")
    } else if consent == Consent::Risk && !is_asked {
        Some(
            "risks are accepted by name only where clusters are asked: set spec.preflight.mode to Report or Require first",
        )
    } else {
        None
    }
}

/// The field of the list, and the key of its entries.
const fn place(consent: Consent) -> (&'static str, &'static str) {
    match consent {
        Consent::Risk => ("acceptRisks", "name"),
        Consent::Gate => ("adminAcks", "key"),
    }
}

#[cfg(test)]
mod tests;
