//! Whether a change of an upgrade's object matters.

use api::views::Upgrade;

/// True unless only the status changed.
pub(crate) fn concerns_planning(old: &Upgrade, new: &Upgrade) -> bool {
    let (old_meta, new_meta) = (&old.metadata, &new.metadata);
    old_meta.generation != new_meta.generation
        || old_meta.annotations != new_meta.annotations
        || old_meta.deletion_timestamp != new_meta.deletion_timestamp
        || old_meta.finalizers != new_meta.finalizers
        || carried_out(old) != carried_out(new)
}

/// The retries that were carried out, by the status.
fn carried_out(upgrade: &Upgrade) -> (Option<&str>, &[String]) {
    let status = upgrade.status.good();
    (
        status.and_then(|status| status.observed_retry.as_deref()),
        status.map_or(&[], |status| &status.retries),
    )
}

/// True when the change of the object may change the result of a pass.
pub(crate) fn concerns_archive(old: &Upgrade, new: &Upgrade) -> bool {
    concerns_planning(old, new) || old.spec != new.spec || old.status != new.status
}
