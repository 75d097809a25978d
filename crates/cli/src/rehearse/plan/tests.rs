use chrono::TimeDelta;
use resolve::snapshot::{Answers, KnownRefusal};
use rollout::forecast::Run;
use rollout::testing::{at, fleet, policy};
use rollout::{Reason, Step};

use super::*;

#[test]
fn clusters_that_would_refuse_the_update_themselves_fail_with_their_own_cause_and_the_upgrade_stalls() {
    let mut answers = Answers::default();
    for (cluster, reason) in [("a", Reason::NotOffered), ("b", Reason::RiskNotAccepted)] {
        let refusal = KnownRefusal {
            reason,
            message: "It says so".into(),
        };
        answers.refusals.insert(cluster.into(), refusal);
    }
    let policy = policy().max_concurrency(3).build();
    let fleet = fleet().cluster("a").cluster("b").cluster("c").build();
    let run = |name: &str, step: Step| {
        assumed::refused(&answers, name, step).unwrap_or(Run {
            takes: Some(TimeDelta::minutes(60)),
            fails: false,
        })
    };
    let mut played = forecast(at(0), &policy, fleet, Options::for_fleet(3), &run).unwrap();
    assumed::explain(&mut played.clusters, &answers);
    assert_eq!(story::verdict(&played), Verdict::Stalls);
    let counts = story::counts(&played.clusters);
    assert_eq!((counts.complete, counts.failed), (1, 2));
    let causes = story::causes(("upgrades", "spring"), &played.clusters);
    let found: Vec<(&str, &str)> = causes
        .iter()
        .map(|cause| (&*cause.reason, &*cause.message))
        .collect();
    let message = "The cluster itself would refuse the update: It says so";
    assert_eq!(found, [("NotOffered", message), ("RiskNotAccepted", message)]);
}

#[test]
fn a_cause_is_one_blocker_whatever_else_its_clusters_say() {
    let mut answers = Answers::default();
    let messages = [
        ("a", "Leak: It leaks."),
        ("b", "Leak: It leaks.; The cluster does more."),
        ("c", "Other: It is odd."),
    ];
    for (cluster, message) in messages {
        let refusal = KnownRefusal {
            reason: Reason::RiskNotAccepted,
            message: message.into(),
        };
        answers.refusals.insert(cluster.into(), refusal);
    }
    let policy = policy().max_concurrency(3).build();
    let fleet = fleet().cluster("a").cluster("b").cluster("c").build();
    let run = |name: &str, step: Step| assumed::refused(&answers, name, step).unwrap_or(Run::AT_ONCE);
    let mut played = forecast(at(0), &policy, fleet, Options::for_fleet(3), &run).unwrap();
    assumed::explain(&mut played.clusters, &answers);
    let causes = story::causes(("upgrades", "spring"), &played.clusters);
    let found: Vec<(usize, &str)> = causes
        .iter()
        .map(|cause| (cause.clusters, &*cause.example))
        .collect();
    assert_eq!(found, [(2, "a"), (1, "c")]);
}
