//! An edit of the spec that holds only for the spec that the user has seen.

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::hub::Hub;
use crate::upgrade::Upgrade;

/// How often an edit is tried while the controller keeps writing the status.
const ATTEMPTS: usize = 10;

/// The patch with this change of the spec. It holds only for the object that was read, so that no edit of somebody else is lost.
#[must_use]
pub fn patch(upgrade: &Upgrade, spec: &Value) -> Value {
    let version = upgrade.object.pointer("/metadata/resourceVersion").cloned();
    json!({"metadata": {"uid": upgrade.uid, "resourceVersion": version}, "spec": spec})
}

/// The upgrade with a patch, as a dry run shows it.
#[must_use]
pub fn preview(upgrade: &Upgrade, patch: &Value) -> Upgrade {
    let mut object = upgrade.object.clone();
    json_patch::merge(&mut object, patch);
    Upgrade::read(object)
}

/// Carries out a change of the spec on the hub, or only shows it in a dry run.
///
/// # Errors
/// As [`write`].
pub async fn carry_out_or_preview(
    hub: &Hub,
    upgrade: &Upgrade,
    spec: &Value,
    dry_run: bool,
) -> Result<Upgrade, Failure> {
    if dry_run {
        Ok(preview(upgrade, &patch(upgrade, spec)))
    } else {
        carry_out(hub, upgrade, spec).await
    }
}

/// Carries out a change of the spec on the hub.
///
/// # Errors
/// As [`write`].
pub async fn carry_out(hub: &Hub, upgrade: &Upgrade, spec: &Value) -> Result<Upgrade, Failure> {
    let send = async |patch| hub.patch(&upgrade.name, &patch).await;
    let read = async || hub.upgrade(&upgrade.name).await;
    write(upgrade, |now| patch(now, spec), send, read).await
}

/// Writes an edit. The controller writes the status at any time, which makes the hub refuse the patch; then the object is read again,
/// and the patch is repeated if nobody has changed the spec that the user has seen.
///
/// # Errors
/// Somebody has changed the spec meanwhile, or the hub rejects a request.
pub async fn write(
    upgrade: &Upgrade,
    patch: impl Fn(&Upgrade) -> Value,
    send: impl AsyncFn(Value) -> Result<Upgrade, Failure>,
    read: impl AsyncFn() -> Result<Upgrade, Failure>,
) -> Result<Upgrade, Failure> {
    let mut written = send(patch(upgrade)).await;
    for _ in 1..ATTEMPTS {
        if !matches!(&written, Err(Failure::Server { reason, .. }) if reason == "Conflict") {
            break;
        }
        let now = read().await?;
        if now.uid != upgrade.uid || now.object.get("spec") != upgrade.object.get("spec") {
            return Err(Failure::Other(
                "somebody has changed the spec of the upgrade meanwhile, so nothing was changed; run the command again"
                    .to_owned(),
            ));
        }
        written = send(patch(&now)).await;
    }
    written
}

#[cfg(test)]
mod tests;
