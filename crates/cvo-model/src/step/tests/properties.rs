//! What holds for every status of every operator.

use clusterversion::types::RECOMMENDED;
use proptest::prelude::*;

use super::*;
use crate::testing::Scenario;

/// Checks what holds for every status.
fn check_status(object: &ClusterVersion) -> Result<(), String> {
    let status = &object.status;
    let value = serde_json::to_value(status).map_err(|error| error.to_string())?;
    for key in ["availableUpdates", "desired", "observedGeneration", "versionHash"] {
        if value.get(key).is_none() {
            return Err(format!("{key} is missing"));
        }
    }
    let read: Status = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    if serde_json::to_value(&read).ok() != Some(value) {
        return Err("reading and writing loses something".to_owned());
    }
    let images: BTreeSet<&str> = status
        .available_updates
        .iter()
        .map(|release| release.image.as_str())
        .collect();
    for update in &status.conditional_updates {
        let recommended = update.recommended().ok_or("an update without condition")?;
        if recommended.is_true() != images.contains(update.release.image.as_str()) {
            return Err(format!(
                "{} is {RECOMMENDED}={}",
                update.release.version, recommended.status
            ));
        }
        if recommended.message.is_empty() || !crate::recommended::is_reason(&recommended.reason) {
            return Err(format!("condition {recommended:?}"));
        }
        if update.risks.is_empty() || update.risks.iter().any(|risk| risk.message.is_empty()) {
            return Err("risks".to_owned());
        }
    }
    let versions = |versions: Vec<&str>| {
        versions
            .iter()
            .map(|text| clusterversion::version::parse(text))
            .rev()
            .is_sorted()
    };
    let open = status
        .available_updates
        .iter()
        .map(|release| release.version.as_str())
        .collect();
    let conditional = status
        .conditional_updates
        .iter()
        .map(|update| update.release.version.as_str())
        .collect();
    if !versions(open) || !versions(conditional) {
        return Err("order".to_owned());
    }
    if status.history.len() > history::MAX_ENTRIES
        || status.history.iter().any(|entry| entry.started_time.is_none())
    {
        return Err("history".to_owned());
    }
    let kinds: BTreeSet<&str> = status
        .conditions
        .iter()
        .map(|condition| condition.kind.as_str())
        .collect();
    if kinds.len() != status.conditions.iter().count() {
        return Err("a condition twice".to_owned());
    }
    for kind in [
        AVAILABLE,
        FAILING,
        PROGRESSING,
        RETRIEVED_UPDATES,
        RELEASE_ACCEPTED,
    ] {
        if !kinds.contains(kind) {
            return Err(format!("no condition {kind}"));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_status_is_valid_and_the_same_situation_gives_the_same(
        seed in any::<u64>(),
        minor in 10u64..24,
        gate in any::<bool>(),
    ) {
        let mut one = Scenario::new(seed, minor, gate);
        let mut other = Scenario::new(seed, minor, gate);
        for _ in 0..60 {
            let object = one.step().clone();
            prop_assert_eq!(check_status(&object), Ok(()));
            prop_assert_eq!(&object, other.step());
        }
    }
}
