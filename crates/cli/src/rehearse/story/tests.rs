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
