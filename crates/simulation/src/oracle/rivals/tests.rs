use super::*;
use crate::oracle::row::Row;

const SECOND: Duration = Duration::from_secs(1);
const SENT: Duration = Duration::from_mins(5);

/// What is known of a cluster whose row in another upgrade says this, since a time.
fn row_of_another(phases: &[(u64, &str)]) -> Facts {
    let told = |(at, phase): &(u64, &str)| Told::at(Duration::from_secs(*at), phase);
    let record = Record {
        before: vec![Row::default()],
        phases: phases.iter().map(told).collect(),
        ..Record::default()
    };
    let mut facts = Facts {
        now: SENT,
        ..Facts::default()
    };
    facts.cluster("c1").is_there = true;
    let other = facts.upgrades.entry("u".to_owned()).or_default();
    other.key = "team/spring".to_owned();
    other.records.insert("c1".to_owned(), record);
    facts
}

fn start() -> Work {
    let mut work = Work::default();
    (work.uid, work.cluster) = ("rival".to_owned(), "c1".to_owned());
    work
}

fn is_held(facts: &Facts) -> bool {
    facts.at_work(&start(), SENT).is_some()
}

#[test]
fn a_cluster_in_its_soak_or_post_action_is_in_the_hands_of_its_upgrade() {
    for phase in ["Soaking", "PostAction"] {
        assert!(is_held(&row_of_another(&[(200, phase)])), "{phase}");
        assert!(
            is_held(&row_of_another(&[(200, phase), (301, "Complete")])),
            "{phase}"
        );
        assert!(
            !is_held(&row_of_another(&[(200, phase), (299, "Complete")])),
            "{phase}"
        );
        assert!(!is_held(&row_of_another(&[(301, phase)])), "{phase}");
    }
    for phase in ["Pending", "Complete", "Failed", "Blocked", "PreActionDegraded"] {
        assert!(!is_held(&row_of_another(&[(200, phase)])), "{phase}");
    }
    let mut own = start();
    own.uid = "u".to_owned();
    assert_eq!(row_of_another(&[(200, "Soaking")]).at_work(&own, SENT), None);
}

#[test]
fn what_somebody_else_wrote_and_what_is_over_holds_no_cluster() {
    let changes: [fn(&mut Facts); 5] = [
        |facts| upgrade(facts).is_gone = true,
        |facts| record(facts).is_edited = true,
        |facts| record(facts).before[0].is_newer = true,
        // It was registered anew.
        |facts| facts.cluster("c1").changed = SECOND * 250,
        |facts| facts.rewinds.push((SENT, String::new())),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut facts = row_of_another(&[(200, "Soaking")]);
        change(&mut facts);
        assert!(!is_held(&facts), "{number}");
    }
}

#[test]
fn who_has_just_come_to_lead_may_not_have_heard_of_a_row_that_came_late() {
    let held = |since: u32, claimed: u32| {
        let mut facts = row_of_another(&[(u64::from(since), "Soaking")]);
        record(&mut facts).phases[0].sent = SECOND * (since - 30);
        facts.claims.push((SECOND * claimed, "r1".to_owned()));
        is_held(&facts)
    };
    assert!(!held(250, 240));
    assert!(held(250, 260), "it was there before");
    assert!(held(200, 190), "that is long ago");
}

#[test]
fn who_starts_a_cluster_may_not_have_heard_of_what_a_former_leader_has_created_there_for_another_upgrade() {
    let held = |came: u32, is_stray: bool| {
        let mut facts = row_of_another(&[(10, "Skipped")]);
        let upgrade = upgrade(&mut facts);
        upgrade.flights.insert("c1".to_owned(), SECOND * came);
        if is_stray {
            upgrade.strays.insert("c1".to_owned(), SECOND * came);
        }
        is_held(&facts)
    };
    assert!(!held(290, true));
    assert!(held(220, true), "that is long ago");
    assert!(held(290, false), "the leader has created it");
}

fn upgrade(facts: &mut Facts) -> &mut Upgrade {
    facts.upgrades.get_mut("u").unwrap()
}

fn record(facts: &mut Facts) -> &mut Record {
    upgrade(facts).records.get_mut("c1").unwrap()
}
