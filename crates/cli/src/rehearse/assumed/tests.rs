use std::sync::Arc;

use super::*;

#[test]
fn what_is_assumed_is_said_with_the_number_of_clusters() {
    let of = |not_asked, not_known| {
        let answers = Answers {
            not_asked,
            not_known,
            ..Answers::default()
        };
        notes(&answers, "plan").join("|")
    };
    assert_eq!(of(0, 0), "");
    assert_eq!(
        of(3, 0),
        "3 clusters have not been asked yet: the plan assumes that they take the update"
    );
    assert_eq!(
        of(0, 1),
        "1 cluster has not answered yet: the plan assumes that it takes the update"
    );
    assert_eq!(
        of(1, 1),
        "2 clusters have not been asked or have not answered yet: the plan assumes that they take the update"
    );
}

#[test]
fn an_agent_of_which_nobody_knows_whether_it_can_be_asked_is_told_where_its_cluster_would_not_start() {
    let of = |required, unknown_agents, unknown_for_pools| {
        let answers = Answers {
            required,
            unknown_agents,
            unknown_for_pools,
            ..Answers::default()
        };
        notes(&answers, "plan").join("|")
    };
    assert_eq!(of(false, 3, 0), "");
    assert!(of(true, 3, 0).starts_with("The hub does not say of 3 clusters"));
    assert!(of(false, 0, 2).starts_with("The hub does not say of 2 clusters"));
    assert!(of(true, 1, 2).starts_with("The hub does not say of 2 clusters"));
    assert!(of(true, 2, 0).ends_with("they are not asked and do not start"));
    assert!(of(true, 1, 0).ends_with("it is not asked and does not start"));
}

#[test]
fn only_the_update_of_a_cluster_that_refuses_never_ends() {
    let mut answers = Answers::default();
    let refusal = KnownRefusal {
        reason: Reason::NotOffered,
        message: "It is not offered".into(),
    };
    answers.refusals.insert(Arc::from("a"), refusal);
    assert_eq!(refused(&answers, "a", Step::Platform), Some(REFUSED));
    assert_eq!(refused(&answers, "a", Step::PreAction), None);
    assert_eq!(refused(&answers, "b", Step::Platform), None);
    assert!(notes(&answers, "plan")[0].contains("1 cluster has answered that it would refuse the update"));
}

#[test]
fn a_cluster_with_a_paused_pool_takes_the_update_and_does_not_finish_it() {
    let refusal = KnownRefusal {
        reason: Reason::PoolPaused,
        message: "MachineConfigPool is paused: worker".into(),
    };
    let mut answers = Answers::default();
    answers.refusals.insert(Arc::from("a"), refusal);
    let told = notes(&answers, "plan");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("1 cluster has answered that worker pools are paused"),
        "{told:?}"
    );
    assert!(!told[0].contains("refuse"), "{told:?}");
    let mut failed = [ClusterForecast {
        name: Arc::from("a"),
        canary: false,
        started: None,
        released: None,
        ended: None,
        phase: Phase::Failed,
        reason: Reason::WorkerPoolsTimeout,
        message: Arc::from(""),
    }];
    explain(&mut failed, &answers);
    assert_eq!(failed[0].reason, Reason::PoolPaused);
    assert_eq!(
        &*failed[0].message,
        "The cluster would take the update and not finish it: MachineConfigPool is paused: worker"
    );
}
