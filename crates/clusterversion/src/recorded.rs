//! What a recorded object says of the risks that were evaluated for it.
//!
//! Owns the way back from a condition's message to the verdict of each risk (`reference/clusterversion.md` §5.2). A hub or a
//! person who has only the object learns from it which of several risks apply.

use std::collections::BTreeMap;

use crate::era::Era;
use crate::promql::Verdict;
use crate::recommended::{exposed_text, unknown_prefix, unknown_suffix};
use crate::risk;
use crate::types::{APPLIES, ConditionalUpdate, Risk};

/// Why no verdicts could be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A message is not made of the texts of the risks.
    #[error("the message of the update to {version} is not made of its risks' texts")]
    Foreign {
        /// Version of the update.
        version: String,
    },
    /// One query has several verdicts.
    #[error("risk {risk} has another verdict for {version} than for other updates")]
    Divergent {
        /// Name of the risk.
        risk: String,
        /// Version of the update.
        version: String,
    },
}

/// The verdicts of an update's risks, in their order, read from its message; `None` if that is not made of their texts.
/// The message leaves out a risk that applies and is accepted by name: its condition `Applies` tells, where it is recorded.
#[must_use]
pub fn verdicts(update: &ConditionalUpdate, era: Era) -> Option<Vec<Verdict>> {
    let mut verdicts = told(update, era)?;
    for (risk, verdict) in update.risks.iter().zip(&mut verdicts) {
        if *verdict == Ok(false) && risk.conditions.is_true(APPLIES) {
            *verdict = Ok(true);
        }
    }
    Some(verdicts)
}

/// The verdicts as far as the message tells them.
fn told(update: &ConditionalUpdate, era: Era) -> Option<Vec<Verdict>> {
    let condition = update.recommended()?;
    if condition.is_true() {
        return Some(vec![Ok(false); update.risks.len()]);
    }
    let mut verdicts = Vec::with_capacity(update.risks.len());
    read(&update.risks, Some(&condition.message), era, &mut verdicts).then_some(verdicts)
}

/// Reads the rest of a message by the risks that are left. `None` as the rest: nothing follows.
///
/// A text may occur in another and a message may itself have empty lines, so that parts are recognised whole, in order,
/// with a way back. The text of a failure comes first, since of old it ends in that of a match.
fn read(risks: &[Risk], rest: Option<&str>, era: Era, verdicts: &mut Vec<Verdict>) -> bool {
    let Some((risk, others)) = risks.split_first() else {
        return rest.is_none();
    };
    if let Some(text) = rest {
        let failed = text
            .strip_prefix(&unknown_prefix(risk, era))
            .into_iter()
            .flat_map(|after| {
                let suffix = unknown_suffix(risk, era);
                let ends: Vec<usize> = after.match_indices(&suffix).map(|(at, _)| at).collect();
                ends.into_iter().filter_map(move |at| {
                    let (error, after) = after.split_at_checked(at)?;
                    Some((Err(error.to_owned()), after.get(suffix.len()..)?))
                })
            });
        let exposed = text
            .strip_prefix(&exposed_text(risk))
            .map(|after| (Ok(true), after));
        for (verdict, after) in failed.chain(exposed) {
            let rest = match after {
                "" => None,
                after => match after.strip_prefix("\n\n") {
                    Some(rest) => Some(rest),
                    None => continue,
                },
            };
            verdicts.push(verdict);
            if read(others, rest, era, verdicts) {
                return true;
            }
            verdicts.pop();
        }
    }
    verdicts.push(Ok(false));
    if read(others, rest, era, verdicts) {
        return true;
    }
    verdicts.pop();
    false
}

/// The verdicts of all risks of an object: for each update those of its risks. A query has one verdict for all updates,
/// errors aside, whose texts may differ by the time they were asked at.
///
/// # Errors
/// [`RecordError`].
pub fn derive(updates: &[ConditionalUpdate], era: Era) -> Result<Vec<Vec<Verdict>>, RecordError> {
    let mut known: BTreeMap<String, Option<bool>> = BTreeMap::new();
    let mut all = Vec::with_capacity(updates.len());
    for update in updates {
        let version = &update.release.version;
        let found = verdicts(update, era).ok_or_else(|| RecordError::Foreign {
            version: version.clone(),
        })?;
        for (risk, verdict) in update.risks.iter().zip(&found) {
            let kind = verdict.as_ref().ok().copied();
            if *known.entry(risk::identity(risk)).or_insert(kind) != kind {
                return Err(RecordError::Divergent {
                    risk: risk.name.clone(),
                    version: version.clone(),
                });
            }
        }
        all.push(found);
    }
    Ok(all)
}

/// The risks that stand against an update, by its message: exposed ones, and those that could not be evaluated. Those
/// that apply and are accepted do not stand against it.
#[must_use]
pub fn standing(update: &ConditionalUpdate, era: Era) -> Vec<(&Risk, Verdict)> {
    let verdicts = told(update, era).unwrap_or_default();
    let pairs = update.risks.iter().zip(verdicts);
    pairs.filter(|(_, verdict)| *verdict != Ok(false)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::recommended::recommend;
    use crate::types::{Condition, ConditionStatus, MatchingRule, Time};

    fn risk(name: &str, message: &str, url: &str) -> Risk {
        Risk {
            url: url.to_owned(),
            name: name.to_owned(),
            message: message.to_owned(),
            matching_rules: vec![MatchingRule::promql(name)],
            ..Risk::default()
        }
    }

    fn update(risks: Vec<Risk>, verdicts: &[Verdict], era: Era) -> ConditionalUpdate {
        let mut given = verdicts.iter();
        let recommendation = recommend(&risks, |_| given.next().unwrap().clone(), &BTreeSet::new(), era);
        let mut update = ConditionalUpdate {
            risks,
            ..ConditionalUpdate::default()
        };
        update.conditions.set(recommendation.condition(Time::UNIX_EPOCH));
        update
    }

    #[test]
    fn a_text_that_begins_like_another_is_told_apart() {
        let era = Era::new(4, 12);
        let risks = vec![
            risk("A", "Nodes break.", "https://e/1"),
            risk("B", "Nodes break.", "https://e/12"),
            risk("C", "First.\n\nSecond.", "https://e/3"),
        ];
        for given in [
            [Ok(false), Ok(true), Ok(false)],
            [Err("x".to_owned()), Ok(false), Ok(true)],
            [Err("x\n\ny".to_owned()), Ok(true), Err("z".to_owned())],
        ] {
            let update = update(risks.clone(), &given, era);
            assert_eq!(verdicts(&update, era).unwrap(), given);
        }
        let mut foreign = update(risks, &[Ok(true), Ok(false), Ok(false)], era);
        foreign.conditions.0[0].message.push('!');
        assert_eq!(verdicts(&foreign, era), None);
    }

    #[test]
    fn a_query_with_two_verdicts_is_told() {
        let era = Era::new(4, 18);
        let one = |verdict: Verdict| update(vec![risk("A", "m", "u")], &[verdict], era);
        assert!(derive(&[one(Ok(true)), one(Ok(true))], era).is_ok());
        assert!(derive(&[one(Err("1".to_owned())), one(Err("2".to_owned()))], era).is_ok());
        assert!(matches!(
            derive(&[one(Ok(true)), one(Ok(false))], era),
            Err(RecordError::Divergent { .. })
        ));
    }

    #[test]
    fn a_match_that_is_accepted_is_read_from_its_own_condition() {
        let era = Era::new(4, 22);
        let accepted = BTreeSet::from(["A".to_owned()]);
        let cases: [([Verdict; 2], Vec<&str>); 2] = [
            ([Ok(true), Ok(true)], vec!["B"]),
            ([Ok(true), Ok(false)], Vec::new()),
        ];
        for (given, standing_risks) in cases {
            let mut risks = vec![risk("A", "a.", "https://e/a"), risk("B", "b.", "https://e/b")];
            for (risk, verdict) in risks.iter_mut().zip(&given) {
                let status = if *verdict == Ok(true) {
                    ConditionStatus::True
                } else {
                    ConditionStatus::False
                };
                risk.conditions
                    .set(Condition::new(Time::UNIX_EPOCH, APPLIES, status, "", ""));
            }
            let mut update = ConditionalUpdate {
                risks,
                ..ConditionalUpdate::default()
            };
            let compute = |update: &ConditionalUpdate, verdicts: &[Verdict]| {
                let mut verdicts = verdicts.iter();
                recommend(
                    &update.risks,
                    |_| verdicts.next().unwrap().clone(),
                    &accepted,
                    era,
                )
            };
            let recorded = compute(&update, &given);
            update
                .conditions
                .set(recorded.clone().condition(Time::UNIX_EPOCH));
            let read = verdicts(&update, era).unwrap();
            assert_eq!(read, given);
            assert_eq!(compute(&update, &read), recorded, "and back again");
            let names: Vec<&str> = standing(&update, era)
                .into_iter()
                .map(|(risk, _)| risk.name.as_str())
                .collect();
            assert_eq!(names, standing_risks);
        }
    }

    proptest! {
        #[test]
        fn whatever_was_joined_is_taken_apart(
            given in proptest::collection::vec(
                prop_oneof![Just(Ok(true)), Just(Ok(false)), "[a-z]{1,9}".prop_map(Err)], 1..7),
            minor in 10u64..23,
        ) {
            let era = Era::new(4, minor);
            let risks = (0..given.len()).map(|n| risk(&format!("R{n}"), &format!("Message {n}."), &format!("https://e/{n}")));
            let update = update(risks.collect(), &given, era);
            prop_assert_eq!(verdicts(&update, era).unwrap(), given);
        }
    }
}
