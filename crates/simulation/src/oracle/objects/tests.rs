use super::*;

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
