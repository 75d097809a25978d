//! One exposure per query, from the messages of all updates of an object.

use std::collections::{BTreeMap, BTreeSet};

use clusterversion::Era;
use clusterversion::risks::{Exposure, exposures};
use clusterversion::types::{ConditionalUpdate, MatchingRule, Risk, Time};
use cvo_model::recommended::recommend;
use cvo_model::risk;

/// Why the exposures of an object cannot be derived.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeriveError {
    /// A message does not consist of the texts of the risks.
    #[error("the message of the update to {version} does not consist of the texts of its risks")]
    Foreign {
        /// Version of the update.
        version: String,
    },
    /// One query has two different results.
    #[error("the exposure to risk {risk} differs between {version} and other updates")]
    Divergent {
        /// Name of the risk.
        risk: String,
        /// Version of the update.
        version: String,
    },
}

/// The exposures to the risks of each update of an object.
///
/// The same query has the same result for all updates. Only the texts of errors may differ, because queries are evaluated at
/// different times.
///
/// # Errors
/// [`DeriveError`].
pub fn derive(updates: &[ConditionalUpdate], era: Era) -> Result<Vec<Vec<Exposure>>, DeriveError> {
    let mut known: BTreeMap<String, Option<bool>> = BTreeMap::new();
    let mut all = Vec::with_capacity(updates.len());
    for update in updates {
        let version = &update.release.version;
        let found = exposures(update, era).ok_or_else(|| DeriveError::Foreign {
            version: version.clone(),
        })?;
        for (risk, exposure) in update.risks.iter().zip(&found) {
            let kind = exposure.as_ref().ok().copied();
            if *known.entry(risk::identity(risk)).or_insert(kind) != kind {
                return Err(DeriveError::Divergent {
                    risk: risk.name.clone(),
                    version: version.clone(),
                });
            }
        }
        all.push(found);
    }
    Ok(all)
}

fn update(exposure: &Exposure, era: Era) -> ConditionalUpdate {
    let risk = Risk {
        url: "u".to_owned(),
        name: "A".to_owned(),
        message: "m".to_owned(),
        matching_rules: vec![MatchingRule::promql("A")],
        ..Risk::default()
    };
    let mut update = ConditionalUpdate {
        risks: vec![risk],
        ..ConditionalUpdate::default()
    };
    let recommendation = recommend(&update.risks, |_| exposure.clone(), &BTreeSet::new(), era);
    update.conditions.set(recommendation.condition(Time::UNIX_EPOCH));
    update
}

#[test]
fn two_exposures_for_one_query_are_an_error() {
    let era = Era::new(4, 18);
    let one = |exposure: Exposure| update(&exposure, era);
    assert!(derive(&[one(Ok(true)), one(Ok(true))], era).is_ok());
    assert!(derive(&[one(Err("1".to_owned())), one(Err("2".to_owned()))], era).is_ok());
    assert!(matches!(
        derive(&[one(Ok(true)), one(Ok(false))], era),
        Err(DeriveError::Divergent { .. })
    ));
}
