use std::time::Duration;

use super::super::memory::Terms;
use super::*;

#[test]
fn a_term_lasts_as_long_as_its_claim_is_renewed_in_time() {
    let mut terms = Terms::default();
    let mut claim = |is_other: bool, sent: u64| {
        let sent = Duration::from_secs(sent);
        terms.claim(is_other, sent, sent);
        terms.begun_before(sent).map(|begun| begun.as_secs())
    };
    assert_eq!(claim(true, 1), Some(1));
    assert_eq!(claim(false, 6), Some(1));
    assert_eq!(claim(false, 15), Some(1), "that was in time");
    assert_eq!(claim(false, 25), Some(25), "nobody led for a moment");
    assert_eq!(claim(true, 27), Some(27), "another replica leads");
}

#[test]
fn a_decision_selects_a_cluster_only_for_an_upgrade_that_has_a_placement() {
    let mut facts = Facts::default();
    facts.cluster("c1").is_there = true;
    facts.decided.insert("c1".to_owned());
    let upgrade = |placement: &str, names: &[&str]| Upgrade {
        placement: placement.to_owned(),
        selectors: vec![names.iter().map(|name| (*name).to_owned()).collect()],
        ..Upgrade::default()
    };
    assert!(facts.selects(&upgrade("team/fleet", &[]), "c1"));
    assert!(!facts.selects(&upgrade("", &[]), "c1"));
    assert!(facts.selects(&upgrade("", &["c1"]), "c1"));
    "elsewhere".clone_into(&mut facts.cluster("c1").name_label);
    assert!(!facts.selects(&upgrade("", &["c1"]), "c1"));
}
