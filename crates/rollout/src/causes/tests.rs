use super::*;

#[test]
fn what_the_preflight_has_found_is_told_once_for_each_gate_or_risk() {
    let gate = |cluster, reason, message| {
        let cause = ClusterCause {
            cluster,
            phase: Phase::Pending,
            reason,
            message,
        };
        (Urgency::Blocked, cause)
    };
    let clusters = [
        gate("a", "AdminAckRequired", "gate one"),
        gate("b", "AdminAckRequired", "gate two"),
        gate("c", "AdminAckRequired", "gate one"),
        gate("d", "Failing", "because of d"),
        gate("e", "Failing", "because of e"),
    ];
    let names = Names {
        cluster: "",
        namespace: "ns",
        name: "up",
    };
    let groups = groups(clusters, names);
    let told: Vec<_> = groups
        .iter()
        .map(|group| (&*group.reason, &*group.message, group.clusters))
        .collect();
    assert_eq!(
        told,
        [
            ("AdminAckRequired", "gate one", 2),
            ("Failing", "because of d", 2),
            ("AdminAckRequired", "gate two", 1)
        ]
    );
}

#[test]
fn a_gate_that_many_clusters_ask_for_is_one_cause_whatever_else_each_of_them_says() {
    let cause = |cluster, message| {
        let cause = ClusterCause {
            cluster,
            phase: Phase::Blocked,
            reason: "AdminAckRequired",
            message,
        };
        (Urgency::Blocked, cause)
    };
    let clusters = [
        cause("a", "ack-4.19-x-in-4.20: Scan first."),
        cause(
            "b",
            "ack-4.19-x-in-4.20: Scan first.; Failing=True: etcd is degraded",
        ),
        cause("c", "ack-4.19-x-in-4.20: Another text"),
        cause("d", "ack-4.19-y-in-4.20: Scan first."),
    ];
    let names = Names {
        namespace: "ns",
        name: "up",
        cluster: "",
    };
    let groups = groups(clusters, names);
    let told: Vec<_> = groups
        .iter()
        .map(|group| (&*group.example, group.clusters))
        .collect();
    assert_eq!(told, [("a", 3), ("d", 1)]);
}

#[test]
fn the_most_urgent_group_comes_first_then_the_largest_and_each_has_its_first_cluster_as_example() {
    let cause = |urgency, cluster, phase, reason| {
        let cause = ClusterCause {
            cluster,
            phase,
            reason,
            message: cluster,
        };
        (urgency, cause)
    };
    let clusters = [
        cause(Urgency::Queued, "a", Phase::Pending, "WaitingForSlot"),
        cause(Urgency::Queued, "b", Phase::Pending, "WaitingForSlot"),
        cause(Urgency::Blocked, "c", Phase::Blocked, "NotOpenShift"),
        cause(Urgency::Failed, "d", Phase::Failed, "OfANewerRelease"),
        cause(Urgency::Failed, "e", Phase::Failed, "JobFailed"),
        cause(Urgency::Failed, "f", Phase::Failed, "JobFailed"),
    ];
    let names = Names {
        namespace: "upgrades",
        name: "spring",
        cluster: "",
    };
    let groups = groups(clusters, names);
    let told: Vec<(&str, i64, &str)> = groups
        .iter()
        .map(|group| (group.reason.as_str(), group.clusters, group.example.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("JobFailed", 2, "e"),
            ("OfANewerRelease", 1, "d"),
            ("NotOpenShift", 1, "c"),
            ("WaitingForSlot", 2, "a"),
        ]
    );
    assert_eq!(groups[0].message, "e");
    assert!(groups[1].remedy.contains("kubectl mcu retry spring -n upgrades"));
}
