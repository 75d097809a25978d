use rollout::Reason;

use super::*;

fn blocked(name: &str, reason: Reason, message: &str) -> ClusterForecast {
    ClusterForecast {
        name: name.into(),
        canary: false,
        started: None,
        released: None,
        ended: None,
        phase: Phase::Blocked,
        reason,
        message: message.into(),
    }
}

#[test]
fn blockers_are_told_once_for_each_risk_and_gate() {
    let clusters = [
        blocked("a", Reason::RiskNotAccepted, "Leak: it leaks"),
        blocked("b", Reason::RiskNotAccepted, "Other: it does"),
        blocked("c", Reason::RiskNotAccepted, "Leak: it leaks"),
        blocked("d", Reason::ManagedService, "one provider"),
        blocked("e", Reason::ManagedService, "another provider"),
    ];
    let found = causes(("upgrades", "spring"), &clusters);
    let groups: Vec<(&str, usize, &str)> = found
        .iter()
        .map(|cause| (&*cause.reason, cause.clusters, &*cause.example))
        .collect();
    assert_eq!(
        groups,
        [
            ("ManagedService", 2, "d"),
            ("RiskNotAccepted", 2, "a"),
            ("RiskNotAccepted", 1, "b")
        ]
    );
}

#[test]
fn clusters_that_the_spec_leaves_out_do_not_wait() {
    let mut clusters = [
        blocked("a", Reason::Skipped, "no power"),
        blocked("b", Reason::Aborted, "wrong site"),
        blocked("c", Reason::ManagedService, "a provider"),
    ];
    (clusters[0].phase, clusters[1].phase) = (Phase::Skipped, Phase::Aborted);
    let counts = counts(&clusters);
    assert_eq!((counts.left_out, counts.waiting, counts.blocked), (2, 0, 1));
}
