use super::*;

const NAMES: Names<'_> = Names {
    namespace: "upgrades",
    name: "spring",
    cluster: "dev1",
};

#[test]
fn every_reason_has_a_remedy_and_no_remedy_is_left_over() {
    let planned = Reason::ALL.iter().map(|(reason, _)| *reason);
    let planned: Vec<Reason> = planned.filter(|reason| *reason != Reason::None).collect();
    let known: Vec<Reason> = CLUSTERS.iter().map(|(reason, _)| *reason).collect();
    assert_eq!(known, planned);
}

#[test]
fn every_reason_to_be_stalled_has_a_sentence() {
    for reason in [
        reason::INVALID_SPEC,
        reason::DELETION_REFUSED,
        reason::RECORD_REFUSED,
        reason::NOTHING_SELECTED,
        reason::CANARY_FAILED,
        reason::MAX_FAILURES_EXCEEDED,
        reason::CLUSTERS_FAILED,
        reason::CLUSTERS_BLOCKED,
        reason::NO_WINDOW,
        reason::RESTORED,
    ] {
        assert!(for_upgrade(reason, NAMES, |_| true).is_some(), "{reason}");
    }
    assert_eq!(for_upgrade("SomethingNew", NAMES, |_| true), None);
}

#[test]
fn the_remedy_for_blocked_clusters_names_the_phases_in_which_clusters_are() {
    let command = |phases: &[Phase]| {
        let text = for_upgrade(reason::CLUSTERS_BLOCKED, NAMES, |phase| phases.contains(&phase)).unwrap();
        let (_, rest) = text.split_once('(').unwrap();
        rest.split_once(')').unwrap().0.to_owned()
    };
    let all = "kubectl mcu clusters spring -n upgrades";
    assert_eq!(
        command(&[Phase::Complete, Phase::Blocked]),
        format!("{all} --phase Blocked")
    );
    assert_eq!(command(&[Phase::PostAction]), format!("{all} --phase PostAction"));
    assert_eq!(
        command(&Phase::ALL),
        format!("{all} --phase Blocked --phase PostAction")
    );
    // The hub forbids what a cluster needs in another phase, or an older controller wrote no phases.
    assert_eq!(command(&[Phase::Partial]), all);
}

/// A remedy is advice that stands by itself, so it always ends with a period.
#[test]
fn every_remedy_is_made_of_whole_sentences() {
    let clusters = CLUSTERS.iter().map(|(_, sentence)| *sentence);
    let upgrades = UPGRADES.iter().map(|(_, sentence)| *sentence);
    for sentence in clusters.chain(upgrades).chain(Phase::ALL.map(by_phase)) {
        assert!(sentence.starts_with(char::is_uppercase), "{sentence}");
        assert!(sentence.ends_with('.'), "{sentence}");
    }
}

/// It is not known for three causes, and what helps against one of them does not help against the others.
#[test]
fn the_remedy_for_an_unknown_risk_names_what_to_do_about_each_cause() {
    let text = for_cluster(Reason::RiskUnknown.as_str(), Phase::Blocked, NAMES);
    for part in [
        "kubectl mcu accept spring RISK -n upgrades --reason",
        "spec.preflight.unknownRisks",
        "spec.preflight.setChannel",
        "spec.clusterVersion.image",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn names_are_filled_in_and_an_unknown_reason_falls_back_to_its_phase() {
    assert_eq!(
        for_cluster("Paused", Phase::Pending, NAMES),
        "Run kubectl mcu resume spring -n upgrades."
    );
    assert_eq!(
        for_cluster("SomethingNew", Phase::Failed, NAMES),
        "Fix what the message names, then run kubectl mcu retry spring -n upgrades."
    );
    for phase in Phase::ALL {
        assert!(!for_cluster("", phase, NAMES).contains('{'));
    }
    let patch = Reason::PreflightOnly;
    for (reason, _) in CLUSTERS.iter().filter(|(reason, _)| *reason != patch) {
        let text = for_cluster(reason.as_str(), Phase::Pending, NAMES);
        assert!(!text.contains('{'), "{text}");
    }
}
