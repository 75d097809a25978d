use std::sync::Arc;

use rollout::Phase;
use rollout::testing::record;

use super::*;

const NAMES: Names<'_> = Names {
    namespace: "upgrades",
    name: "spring",
    cluster: "",
};

fn state(name: &str, phase: Phase, reason: Reason) -> ClusterState {
    let mut record: Record = record(phase).reason(reason).into();
    record.message = Arc::from(format!("what {name} says"));
    ClusterState {
        name: Arc::from(name),
        record: Arc::new(record),
        urgent: false,
        starting: false,
    }
}

fn listed(groups: &[CauseGroup]) -> Vec<(&str, i64, &str)> {
    let groups = groups.iter();
    groups
        .map(|group| (group.reason.as_str(), group.clusters, group.example.as_str()))
        .collect()
}

#[test]
fn clusters_with_the_same_reason_and_phase_are_one_group_and_those_that_need_a_human_come_first() {
    let clusters = [
        state("a", Phase::Pending, Reason::WaitingForSlot),
        state("b", Phase::Pending, Reason::WaitingForSlot),
        state("c", Phase::Pending, Reason::WaitingForSlot),
        state("d", Phase::Partial, Reason::SlowClusterOperator),
        state("e", Phase::Blocked, Reason::NotOpenShift),
        state("f", Phase::Failed, Reason::ClusterUpgradeTimeout),
        state("g", Phase::Failed, Reason::OperatorsJobFailed),
        state("h", Phase::Failed, Reason::OperatorsJobFailed),
        state("i", Phase::Pending, Reason::MaxFailuresExceeded),
        state("j", Phase::Partial, Reason::Failing),
        state("k", Phase::Initialized, Reason::Failing),
        state("l", Phase::Pending, Reason::ClusterUnavailable),
        state("m", Phase::Complete, Reason::None),
        state("n", Phase::Partial, Reason::Running),
        state("o", Phase::PostAction, Reason::WorkRefused),
        state("p", Phase::Partial, Reason::Progressing),
        state("q", Phase::PreAction, Reason::JobRunning),
    ];
    let (groups, left_out) = groups(&clusters, &[], NAMES);
    assert_eq!(
        listed(&groups),
        [
            ("OperatorsJobFailed", 2, "g"),
            ("ClusterUpgradeTimeout", 1, "f"),
            ("NotOpenShift", 1, "e"),
            ("WorkRefused", 1, "o"),
            ("MaxFailuresExceeded", 1, "i"),
            ("Failing", 1, "k"),
            ("Failing", 1, "j"),
            ("SlowClusterOperator", 1, "d"),
            ("ClusterUnavailable", 1, "l"),
            ("WaitingForSlot", 3, "a"),
        ]
    );
    assert_eq!(left_out, 0);
    assert_eq!(groups[0].message, "what g says");
    assert!(
        groups[0]
            .remedy
            .ends_with("run kubectl mcu retry spring -n upgrades."),
        "{}",
        groups[0].remedy
    );
    assert!(
        groups[8].remedy.contains("ManagedCluster l"),
        "{}",
        groups[8].remedy
    );
}

#[test]
fn at_most_twenty_groups_are_listed_and_the_rest_is_counted() {
    let reasons = Reason::ALL.iter().map(|(reason, _)| *reason);
    let clusters: Vec<ClusterState> = reasons
        .filter(|reason| *reason != Reason::None)
        .enumerate()
        .map(|(number, reason)| state(&format!("c{number:02}"), Phase::Blocked, reason))
        .collect();
    let (groups, left_out) = groups(&clusters, &[], NAMES);
    assert_eq!(
        (groups.len(), groups.len() + left_out),
        (MAX_GROUPS, clusters.len())
    );
}

#[test]
fn a_cluster_that_waits_for_its_turn_and_would_refuse_the_update_is_listed_with_what_it_says() {
    let clusters = [
        state("a", Phase::Pending, Reason::WaitingForSlot),
        state("b", Phase::Pending, Reason::WaitingForSlot),
        state("c", Phase::Partial, Reason::Running),
    ];
    let warned = ["b", "c"].map(|cluster| Warned {
        cluster,
        reason: Reason::RiskNotAccepted,
        message: "Leak: it leaks",
    });
    let (groups, _) = groups(&clusters, &warned, NAMES);
    assert_eq!(
        listed(&groups),
        [("RiskNotAccepted", 1, "b"), ("WaitingForSlot", 1, "a")]
    );
    assert_eq!(groups[0].name.as_deref(), Some("Leak"));
}

#[test]
fn the_definition_names_the_phases_in_which_clusters_have_causes_and_no_others() {
    let crd = serde_json::to_value(api::schema::crds().remove(0)).unwrap();
    let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    for list in ["causes", "failedClusters", "waitingClusters"] {
        let place = format!("{status}/{list}/items/properties/phase/description");
        let text = crd.pointer(&place).and_then(serde_json::Value::as_str).unwrap();
        let sentence = text.split('.').next().unwrap_or_default();
        let named: Vec<&str> = sentence.split([' ', ',', ':']).collect();
        for phase in Phase::ALL {
            let has_cause = Urgency::of(phase, Reason::Other).is_some();
            assert_eq!(named.contains(&phase.as_str()), has_cause, "{list}: {phase}");
        }
    }
}
