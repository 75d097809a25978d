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

/// A cluster that asks for an acknowledgment.
fn asking<'a>(cluster: &'a str, message: &'a str) -> (Urgency, ClusterCause<'a>) {
    let cause = ClusterCause {
        cluster,
        phase: Phase::Blocked,
        reason: "AdminAckRequired",
        message,
    };
    (Urgency::Blocked, cause)
}

#[test]
fn a_gate_that_many_clusters_ask_for_is_one_cause_whatever_else_each_of_them_says() {
    let clusters = [
        asking("a", "ack-4.19-x-in-4.20: Scan first."),
        asking(
            "b",
            "ack-4.19-x-in-4.20: Scan first.; Failing=True: etcd is degraded",
        ),
        asking("c", "ack-4.19-x-in-4.20: Another text"),
        asking("d", "ack-4.19-y-in-4.20: Scan first."),
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

/// The message and the example of the only group of clusters that say this, by their names.
fn worded(texts: &[&str]) -> (String, String) {
    let names: Vec<String> = (0..texts.len()).map(|number| format!("c{number:05}")).collect();
    let clusters = names.iter().zip(texts);
    let clusters = clusters.map(|(cluster, message)| asking(cluster, message));
    let mut groups = groups(clusters, Names::default());
    assert_eq!(groups.len(), 1);
    let group = groups.remove(0);
    assert_eq!(group.clusters, i64::try_from(texts.len()).unwrap());
    (group.message, group.example)
}

#[test]
fn a_cause_has_the_words_of_most_of_its_clusters_and_the_first_of_them_as_example() {
    let (scan, ack) = ("ack-4.19-x: Scan first.", "ack-4.19-x: Just acknowledge it.");
    let told = |message: &str, example: &str| (message.to_owned(), example.to_owned());
    assert_eq!(worded(&[ack, scan, scan]), told(scan, "c00001"));
    assert_eq!(worded(&[scan, ack, ack, scan]), told(scan, "c00000"), "a tie");
    assert_eq!(worded(&[ack, scan, scan, ack]), told(ack, "c00000"), "a tie");
    assert_eq!(worded(&[scan]), told(scan, "c00000"));
}

#[test]
fn ten_thousand_clusters_with_different_words_are_one_cause() {
    let mut texts: Vec<String> = (0..10_000)
        .map(|number| format!("ack-4.19-x: {number}"))
        .collect();
    let texts_of = |texts: &[String]| worded(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        texts_of(&texts),
        ("ack-4.19-x: 0".to_owned(), "c00000".to_owned())
    );
    texts[9_999] = texts[7_000].clone();
    assert_eq!(
        texts_of(&texts),
        ("ack-4.19-x: 7000".to_owned(), "c07000".to_owned())
    );
}

/// The groups of these clusters: kind, name and number.
fn subjects(clusters: &[(&str, &str)]) -> Vec<(Option<String>, Option<String>, i64)> {
    let clusters = clusters.iter().map(|(reason, message)| {
        let cause = ClusterCause {
            cluster: "a",
            phase: Phase::Blocked,
            reason,
            message,
        };
        (Urgency::Blocked, cause)
    });
    let groups = groups(clusters, Names::default()).into_iter();
    groups
        .map(|group| (group.kind, group.name, group.clusters))
        .collect()
}

#[test]
fn a_group_has_the_name_of_the_gate_risk_operator_or_pool_that_its_clusters_name() {
    for (reason, message, kind, name) in [
        (
            "AdminAckRequired",
            "ack-4.19-x-in-4.20: Scan first.",
            "Gate",
            "ack-4.19-x-in-4.20",
        ),
        ("RiskNotAccepted", "Leak: It leaks; Other: Bad", "Risk", "Leak"),
        (
            "PoolPaused",
            "MachineConfigPool is paused: worker",
            "MachineConfigPool",
            "worker",
        ),
        (
            "PoolDegraded",
            "MachineConfigPool is degraded: infra; MachineConfigPool is paused: worker",
            "MachineConfigPool",
            "infra",
        ),
        (
            "Failing",
            "ClusterOperatorDegraded: Cluster operator etcd is degraded",
            "ClusterOperator",
            "etcd",
        ),
        (
            "Failing",
            "Failing=True: ClusterOperatorNotAvailable: Cluster operator ingress is not available",
            "ClusterOperator",
            "ingress",
        ),
        (
            "NotUpgradeable",
            "Upgradeable=False: Olm: Cluster operator olm should not be upgraded between minor versions: M",
            "ClusterOperator",
            "olm",
        ),
        (
            "SlowClusterOperator",
            "waiting on machine-config over 90 minutes which is longer than expected",
            "ClusterOperator",
            "machine-config",
        ),
    ] {
        let expected = (Some(kind.to_owned()), Some(name.to_owned()), 1);
        assert_eq!(subjects(&[(reason, message)]), [expected], "{message}");
    }
}

#[test]
fn clusters_in_which_different_operators_fail_are_different_groups() {
    let found = subjects(&[
        (
            "Failing",
            "ClusterOperatorDegraded: Cluster operator etcd is degraded",
        ),
        (
            "Failing",
            "ClusterOperatorDegraded: Cluster operator etcd is degraded",
        ),
        (
            "Failing",
            "ClusterOperatorsDegraded: Cluster operators a, b are degraded",
        ),
        ("Failing", "UpdatePayloadFailed: Could not update deployment"),
        (
            "Failing",
            "ClusterOperatorNotAvailable: Cluster operator etcd is not available",
        ),
    ]);
    let operator = (Some("ClusterOperator".to_owned()), Some("etcd".to_owned()), 3);
    assert_eq!(found, [operator, (None, None, 2)]);
}

#[test]
fn what_is_no_name_is_not_told_as_one() {
    let long = format!("{}: It is long", "x".repeat(MAX_NAME + 1));
    for (reason, message, kind) in [
        ("RiskNotAccepted", long.as_str(), Some("Risk")),
        ("RiskNotAccepted", "\u{1b}[2J: It clears", Some("Risk")),
        ("RiskNotAccepted", "$(reboot): It runs", Some("Risk")),
        (
            "RiskUnknown",
            "The cluster evaluates the risks elsewhere: Leak: It leaks",
            Some("Risk"),
        ),
        ("AdminAckRequired", "", Some("Gate")),
        (
            "PoolPaused",
            "MachineConfigPools are paused: a, b and 1 more",
            Some("MachineConfigPool"),
        ),
        ("Failing", "Cluster operator \u{202e}a is degraded", None),
        ("Failing", "Cluster operator ", None),
        (
            "Failing",
            "Multiple errors are preventing progress: Cluster operator etcd is degraded",
            None,
        ),
        (
            "SlowClusterOperator",
            "waiting on etcd, network over 30 minutes",
            None,
        ),
        ("NotOffered", "NotOffered: x", None),
        ("Conflict", "Upgrade: x", None),
        ("OfANewerRelease", "Leak: x", None),
    ] {
        let expected = (kind.map(str::to_owned), None, 1);
        assert_eq!(subjects(&[(reason, message)]), [expected], "{message}");
    }
}
