//! Every message that the model writes is read back by [`clusterversion::risks`].

use clusterversion::risks::{exposures, open_risks};
use clusterversion::types::{APPLIES, ConditionalUpdate, MatchingRule};
use proptest::prelude::*;

use crate::recommended::*;

fn risk(name: &str, message: &str, url: &str) -> Risk {
    Risk {
        url: url.to_owned(),
        name: name.to_owned(),
        message: message.to_owned(),
        matching_rules: vec![MatchingRule::promql(name)],
        ..Risk::default()
    }
}

fn update(risks: Vec<Risk>, exposures: &[Exposure], era: Era) -> ConditionalUpdate {
    let mut given = exposures.iter();
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
        assert_eq!(exposures(&update, era).unwrap(), given);
    }
    let mut foreign = update(risks, &[Ok(true), Ok(false), Ok(false)], era);
    foreign.conditions.0[0].message.push('!');
    assert_eq!(exposures(&foreign, era), None);
}

/// As many as the schema takes.
const MOST: usize = 200;

#[test]
fn a_message_of_many_risks_with_one_text_is_read_without_trying_every_choice() {
    for era in [Era::new(4, 12), Era::new(4, 18)] {
        let risks: Vec<Risk> = (0..MOST)
            .map(|n| risk(&format!("R{n}"), "Nodes break.", "https://e/1"))
            .collect();
        let half: Vec<Exposure> = (0..MOST).map(|n| Ok(n < MOST / 2)).collect();
        let mut given = half.clone();
        given[MOST - 1] = Err("down".to_owned());
        for given in [half, given] {
            let update = update(risks.clone(), &given, era);
            assert_eq!(exposures(&update, era).unwrap(), given);
            let mut foreign = update;
            foreign.conditions.0[0].message.push('!');
            assert_eq!(exposures(&foreign, era), None);
        }
    }
}

#[test]
fn a_match_that_is_accepted_is_read_from_its_own_condition() {
    let era = Era::new(4, 22);
    let accepted = BTreeSet::from(["A".to_owned()]);
    let cases: [([Exposure; 2], Vec<&str>); 2] = [
        ([Ok(true), Ok(true)], vec!["B"]),
        ([Ok(true), Ok(false)], Vec::new()),
    ];
    for (given, open) in cases {
        let mut risks = vec![risk("A", "a.", "https://e/a"), risk("B", "b.", "https://e/b")];
        for (risk, exposure) in risks.iter_mut().zip(&given) {
            let status = if *exposure == Ok(true) {
                ConditionStatus::True
            } else {
                ConditionStatus::False
            };
            risk.conditions.set(ClusterOperatorCondition::new(
                Time::UNIX_EPOCH,
                APPLIES,
                status,
                "",
                "",
            ));
        }
        let mut update = ConditionalUpdate {
            risks,
            ..ConditionalUpdate::default()
        };
        let compute = |update: &ConditionalUpdate, exposures: &[Exposure]| {
            let mut exposures = exposures.iter();
            recommend(
                &update.risks,
                |_| exposures.next().unwrap().clone(),
                &accepted,
                era,
            )
        };
        let recorded = compute(&update, &given);
        update
            .conditions
            .set(recorded.clone().condition(Time::UNIX_EPOCH));
        let read = exposures(&update, era).unwrap();
        assert_eq!(read, given);
        assert_eq!(compute(&update, &read), recorded, "and back again");
        let names: Vec<&str> = open_risks(&update, era)
            .into_iter()
            .map(|(risk, _)| risk.name.as_str())
            .collect();
        assert_eq!(names, open);
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
        prop_assert_eq!(exposures(&update, era).unwrap(), given);
    }
}
