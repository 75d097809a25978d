//! What a recorded object says of the risks that were evaluated for it.
//!
//! Owns the way back from a condition's message to the verdict of each risk (`docs/design/cvo.md#recommended-condition`).
//! A hub or a person who has only the object learns from it which of several risks apply.

use std::collections::{BTreeMap, BTreeSet};

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
    let texts: Vec<Texts> = update.risks.iter().map(|risk| Texts::of(risk, era)).collect();
    let mut reader = Reader {
        texts: &texts,
        verdicts: Vec::with_capacity(texts.len()),
        dead_ends: BTreeSet::new(),
    };
    reader
        .read(0, Some(&condition.message))
        .then_some(reader.verdicts)
}

/// What a message may say of a risk.
struct Texts {
    exposed: String,
    unknown_prefix: String,
    unknown_suffix: String,
}

impl Texts {
    fn of(risk: &Risk, era: Era) -> Self {
        Self {
            exposed: exposed_text(risk),
            unknown_prefix: unknown_prefix(risk, era),
            unknown_suffix: unknown_suffix(risk, era),
        }
    }

    /// The ways in which a text may begin with what is said of the risk: the error, if it is one, and what follows. The
    /// text of a failure comes first, since of old it ends in that of a match.
    fn readings<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (Option<&'a str>, &'a str)> {
        let unknown = text.strip_prefix(&self.unknown_prefix);
        let failed = unknown.into_iter().flat_map(|after| {
            let ends = after.match_indices(&self.unknown_suffix);
            ends.filter_map(move |(at, suffix)| {
                Some((Some(after.get(..at)?), after.get(at + suffix.len()..)?))
            })
        });
        let exposed = text.strip_prefix(&self.exposed).map(|after| (None, after));
        failed.chain(exposed)
    }
}

/// Takes a message apart.
struct Reader<'a> {
    texts: &'a [Texts],
    /// Of the risks that were read so far.
    verdicts: Vec<Verdict>,
    /// The risk and the number of bytes left from which no way leads to the end. Several risks may have one text, and the
    /// ways to choose among them are too many to be tried each.
    dead_ends: BTreeSet<(usize, Option<usize>)>,
}

impl Reader<'_> {
    /// Reads the rest of a message by the risks from one on. `None` as the rest: nothing follows.
    ///
    /// A text may occur in another and a message may itself have empty lines, so that parts are recognised whole, in
    /// order, with a way back.
    fn read(&mut self, at: usize, rest: Option<&str>) -> bool {
        let all = self.texts;
        let Some(texts) = all.get(at) else {
            return rest.is_none();
        };
        let place = (at, rest.map(str::len));
        if self.dead_ends.contains(&place) {
            return false;
        }
        for (error, after) in rest.into_iter().flat_map(|text| texts.readings(text)) {
            let rest = match after {
                "" => None,
                after => match after.strip_prefix("\n\n") {
                    Some(rest) => Some(rest),
                    None => continue,
                },
            };
            let verdict = error.map_or(Ok(true), |error| Err(error.to_owned()));
            if self.read_on(at, verdict, rest) {
                return true;
            }
        }
        let found = self.read_on(at, Ok(false), rest);
        if !found {
            self.dead_ends.insert(place);
        }
        found
    }

    /// Reads on with a verdict for a risk, and takes it back if that leads nowhere.
    fn read_on(&mut self, at: usize, verdict: Verdict, rest: Option<&str>) -> bool {
        self.verdicts.push(verdict);
        let found = self.read(at + 1, rest);
        if !found {
            self.verdicts.pop();
        }
        found
    }
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

    /// As many as the schema takes.
    const MOST: usize = 200;

    #[test]
    fn a_message_of_many_risks_with_one_text_is_read_without_trying_every_choice() {
        for era in [Era::new(4, 12), Era::new(4, 18)] {
            let risks: Vec<Risk> = (0..MOST)
                .map(|n| risk(&format!("R{n}"), "Nodes break.", "https://e/1"))
                .collect();
            let half: Vec<Verdict> = (0..MOST).map(|n| Ok(n < MOST / 2)).collect();
            let mut given = half.clone();
            given[MOST - 1] = Err("down".to_owned());
            for given in [half, given] {
                let update = update(risks.clone(), &given, era);
                assert_eq!(verdicts(&update, era).unwrap(), given);
                let mut foreign = update;
                foreign.conditions.0[0].message.push('!');
                assert_eq!(verdicts(&foreign, era), None);
            }
        }
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
