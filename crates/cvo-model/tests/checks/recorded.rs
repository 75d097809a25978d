//! What recorded objects say, read, taken apart and put together again.

use std::collections::BTreeSet;

use clusterversion::types::{ConditionStatus, Release};
use clusterversion::{Era, version};
use cvo_model::recommended;
use cvo_model::updates::{promote, sort_conditional};
use serde_json::Value;

use super::File;
use super::derive::derive;

/// The objects are read and written back without loss.
pub fn objects_are_written_back(files: &[File]) {
    for file in files {
        let mut expected: Value = serde_saphyr::from_str(&file.text).unwrap();
        let read: Vec<Value> = file
            .objects
            .iter()
            .map(|object| serde_json::to_value(object).unwrap())
            .collect();
        assert!(!read.is_empty(), "{}", file.name);
        let expected = match expected.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            _ => vec![expected],
        };
        assert_eq!(read, expected, "{}", file.name);
    }
}

/// Every recommendation follows from one verdict per query. Returns their number.
pub fn recommendations_follow(files: &[File]) -> usize {
    let mut recomputed = 0;
    for file in files {
        for object in &file.objects {
            let era = Era::recorded(object);
            let updates = &object.status.conditional_updates;
            let exposures = derive(updates, era).unwrap_or_else(|error| panic!("{}: {error}", file.name));
            let request = object.spec.desired_update.iter();
            let accepted: BTreeSet<String> = request
                .flat_map(|request| request.accept_risks.iter().map(|risk| risk.name.clone()))
                .collect();
            for (update, exposures) in updates.iter().zip(&exposures) {
                let mut given = exposures.iter();
                let got =
                    recommended::recommend(&update.risks, |_| given.next().unwrap().clone(), &accepted, era);
                let expected = update.recommended().unwrap();
                let version = &update.release.version;
                assert_eq!(got.status, expected.status, "{} {version}", file.name);
                assert_eq!(got.reason, expected.reason, "{} {version}", file.name);
                assert_eq!(got.message, expected.message, "{} {version}", file.name);
                recomputed += 1;
            }
        }
    }
    recomputed
}

/// Promotion and order follow from the recommendations.
pub fn promotion_and_order_follow(files: &[File]) {
    for file in files {
        for object in &file.objects {
            let status = &object.status;
            let mut unconditional: Vec<Release> = status.available_updates.clone();
            // What is left without the promoted ones, in another order.
            unconditional.retain(|release| {
                status
                    .conditional_updates
                    .iter()
                    .all(|update| update.release.image != release.image)
            });
            unconditional.reverse();
            for update in status.conditional_updates.iter().rev() {
                let status = update.recommended().unwrap().status;
                assert_ne!(status, ConditionStatus::Unset);
                promote(&mut unconditional, update, status);
            }
            version::sort_releases(&mut unconditional);
            assert_eq!(unconditional, status.available_updates, "{}", file.name);
            let mut conditional = status.conditional_updates.clone();
            conditional.reverse();
            sort_conditional(&mut conditional);
            assert_eq!(conditional, status.conditional_updates, "{}", file.name);
        }
    }
}
