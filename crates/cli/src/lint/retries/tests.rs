use serde_json::json;

use super::*;

fn warnings(reasons: &Value) -> Vec<(String, String)> {
    let object =
        json!({"spec": {"upgradeStrategy": {"retry": [{"id": "a"}, {"id": "b", "reasons": reasons}]}}});
    let problems = of_no_failure(&object);
    assert!(problems.iter().all(|problem| problem.warning));
    let told = problems
        .into_iter()
        .map(|problem| (problem.field, problem.message));
    told.collect()
}

#[test]
fn a_reason_for_which_no_cluster_fails_is_named_with_the_one_that_may_be_meant() {
    for (word, meant) in [
        ("JobFailed", "OperatorsJobFailed"),
        ("ClusterTimeout", "ClusterUpgradeTimeout"),
        ("UpgradeTimeout", "ClusterUpgradeTimeout"),
        ("clusterupgradetimeout", "ClusterUpgradeTimeout"),
        ("PoolsTimeout", "WorkerPoolsTimeout"),
        ("PreactionFailed", "PreActionFailed"),
        ("Regressed", "RegressedInSoak"),
    ] {
        let warned = warnings(&json!(["PreActionTimeout", word]));
        assert_eq!(warned.len(), 1, "{word}");
        let (field, message) = &warned[0];
        assert_eq!(field, "spec.upgradeStrategy.retry[1].reasons[1]");
        assert!(
            message.contains(word) && message.ends_with(&format!("write {meant}, if that is meant")),
            "{message}"
        );
    }
    for word in ["Unheard", "WaitingForSlot"] {
        let warned = warnings(&json!([word]));
        assert!(
            warned[0].1.ends_with("that kubectl mcu causes shows"),
            "{warned:?}"
        );
    }
}

#[test]
fn reasons_of_failures_and_what_is_no_word_are_left_alone() {
    let known: Vec<&str> = OF_FAILURES.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(warnings(&json!(known)), []);
    for other in [json!(["Job failed", "", 3]), json!("JobFailed"), Value::Null] {
        assert_eq!(warnings(&other), [], "{other}");
    }
}
