mod properties;

use api::names::{ANNOTATION_CHECKS, ANNOTATION_TARGET_VERSION};
use serde_json::{Value, json};

use super::*;

const TARGET: Target<'_> = Target {
    version: "4.12.0",
    image: "",
};

fn work(annotations: &Value, status: &Value) -> ManifestWork {
    serde_json::from_value(json!({
        "metadata": { "name": "w", "namespace": "dev1", "generation": 2, "annotations": annotations },
        "status": status,
    }))
    .unwrap()
}

fn cond(type_: &str, status: &str) -> Value {
    json!({ "type": type_, "status": status, "observedGeneration": 2 })
}

fn value(name: &str, value: &Value) -> Value {
    let field = match value {
        Value::Number(_) => json!({ "type": "Integer", "integer": value }),
        Value::Bool(_) => json!({ "type": "Boolean", "boolean": value }),
        _ => json!({ "type": "String", "string": value }),
    };
    json!({ "name": name, "fieldValue": field })
}

fn values(pairs: &Value) -> Vec<Value> {
    let pairs = pairs.as_object().unwrap();
    pairs.iter().map(|(name, of)| value(name, of)).collect()
}

fn cluster_version(pairs: &Value) -> Value {
    json!({
        "resourceMeta": { "group": "config.openshift.io", "kind": "ClusterVersion", "resource": "clusterversions", "name": "version" },
        "statusFeedback": { "values": values(pairs) },
    })
}

fn job(name: &str, pairs: &Value, conditions: &Value) -> Value {
    json!({
        "resourceMeta": { "group": "batch", "kind": "Job", "resource": "jobs", "name": name, "namespace": name },
        "statusFeedback": { "values": values(pairs) },
        "conditions": conditions,
    })
}

fn status(conditions: &Value, manifests: &Value) -> Value {
    json!({ "conditions": conditions, "resourceStatus": { "manifests": manifests } })
}

fn platform(conditions: &Value, pairs: &Value) -> WorkFeedback {
    let status = status(conditions, &json!([cluster_version(pairs)]));
    read_at(&work(&json!({}), &status), Step::Platform, &TARGET)
}

fn applied() -> Value {
    json!([cond("Applied", "True"), cond("Available", "True")])
}

fn why(reading: &WorkFeedback) -> (&'static str, &str) {
    let cause = reading.cause.as_ref().unwrap();
    (cause.reason, &cause.message)
}

fn failed(reading: &WorkFeedback) -> (&'static str, &str) {
    let StepStatus::Failed(text) = &reading.status else {
        panic!("{:?} is no failure", reading.status);
    };
    assert_eq!(&**text, why(reading).1, "the failure is the cause");
    why(reading)
}

fn read_at(work: &ManifestWork, step: Step, target: &Target<'_>) -> WorkFeedback {
    read(work, step, target, DateTime::UNIX_EPOCH)
}

#[test]
fn a_silent_agent_is_the_cause_while_there_is_no_status() {
    for status in [json!(null), json!({}), status(&json!([]), &json!([]))] {
        for step in Step::ALL {
            let reading = read_at(&work(&json!({}), &status), step, &TARGET);
            assert_eq!(reading.status, StepStatus::NotYet);
            assert!(!reading.applied);
            assert_eq!(why(&reading).0, reason::AGENT_SILENT);
        }
    }
}

#[test]
fn a_status_of_another_shape_is_named_and_decides_nothing() {
    for step in Step::ALL {
        let reading = read_at(&work(&json!({}), &json!({ "conditions": 7 })), step, &TARGET);
        assert_eq!(reading.status, StepStatus::NotYet);
        assert_eq!(why(&reading).0, reason::UNREADABLE_STATUS);
        assert!(why(&reading).1.contains("invalid type"));
    }
}

#[test]
fn the_platform_follows_its_newest_history_entry() {
    let cases = [
        (json!({}), StepStatus::NotYet),
        (
            json!({ "version": "4.11.9", "state": "Completed" }),
            StepStatus::OtherVersion,
        ),
        (
            json!({ "version": "4.12.0", "state": "Partial" }),
            StepStatus::Running,
        ),
        (
            json!({ "version": "4.12.0", "state": "Completed" }),
            StepStatus::Succeeded,
        ),
    ];
    for (pairs, expected) in cases {
        let reading = platform(&applied(), &pairs);
        assert_eq!(reading.status, expected, "{pairs}");
        assert!(reading.applied);
        assert_eq!(reading.version.as_deref(), pairs["version"].as_str());
    }
}

#[test]
fn available_without_feedback_is_not_progress() {
    let reading = platform(&applied(), &json!({}));
    assert_eq!(reading.status, StepStatus::NotYet);
    assert_eq!(why(&reading).0, reason::NO_FEEDBACK);
}

#[test]
fn wrong_types_and_unknown_names_change_nothing() {
    let reading = platform(
        &applied(),
        &json!({ "version": 4, "state": true, "generation": "x", "colour": "blue" }),
    );
    assert_eq!(reading.status, StepStatus::NotYet);
    assert_eq!(reading.version, None);
    let odd = json!({ "name": "version", "fieldValue": { "type": "Later" } });
    let manifest = json!({ "resourceMeta": { "group": "config.openshift.io", "resource": "clusterversions", "name": "version" }, "statusFeedback": { "values": [odd] } });
    let reading = read_at(
        &work(&json!({}), &status(&applied(), &json!([manifest]))),
        Step::Platform,
        &TARGET,
    );
    assert_eq!(reading.status, StepStatus::NotYet);
}

#[test]
fn a_raw_list_is_read_by_its_first_result() {
    let raw = |name: &str, text: &str| json!({ "name": name, "fieldValue": { "type": "JsonRaw", "jsonRaw": text } });
    let manifest = json!({
        "resourceMeta": { "group": "config.openshift.io", "kind": "ClusterVersion", "name": "version" },
        "statusFeedback": { "values": [
            raw("version", r#"["4.12.0","4.11.9"]"#),
            raw("state", r#"["Completed"]"#),
            raw("generation", "[3]"),
            raw("observedGeneration", "[3]"),
            raw("image", "{}"),
        ] },
    });
    let reading = read_at(
        &work(&json!({}), &status(&applied(), &json!([manifest]))),
        Step::Platform,
        &TARGET,
    );
    assert_eq!(reading.status, StepStatus::Succeeded);
}

#[test]
fn feedback_of_an_earlier_generation_decides_nothing() {
    let done = json!({ "version": "4.12.0", "state": "Completed", "failing": "True" });
    let stale = json!([{ "type": "Applied", "status": "True", "observedGeneration": 1 }]);
    let reading = platform(&stale, &done);
    assert_eq!(reading.status, StepStatus::NotYet);
    assert!(!reading.applied);
    assert_eq!(reading.unhealthy, None);
    assert_eq!(why(&reading).0, reason::STALE_STATUS);
    for conditions in [
        json!([]),
        json!([{ "type": "Applied", "status": "True" }]),
        json!([{ "type": "Applied", "status": "True", "observedGeneration": 3 }]),
    ] {
        assert_eq!(
            platform(&conditions, &done).status,
            StepStatus::Succeeded,
            "{conditions}"
        );
    }
}

/// The agent may be away, and the hub counts the deletion as a change.
#[test]
fn what_was_reported_before_somebody_deleted_the_work_still_counts() {
    let reading = |generation: i64, seen: i64| {
        let done = cluster_version(&json!({ "version": "4.12.0", "state": "Completed" }));
        let conditions = json!([{ "type": "Applied", "status": "True", "observedGeneration": seen }]);
        let mut work = work(&json!({}), &status(&conditions, &json!([done])));
        work.metadata.generation = Some(generation);
        work.metadata.deletion_timestamp = Some(api::time::from_chrono(DateTime::UNIX_EPOCH));
        read_at(&work, Step::Platform, &TARGET).status
    };
    assert_eq!(reading(3, 2), StepStatus::Succeeded);
    assert_eq!(reading(3, 3), StepStatus::Succeeded);
    assert_eq!(reading(3, 1), StepStatus::NotYet, "it was changed before that");
}

#[test]
fn a_platform_work_is_judged_by_the_target_it_records() {
    let own = json!({ ANNOTATION_TARGET_VERSION: "4.11.9" });
    let pairs = json!({ "version": "4.11.9", "state": "Completed" });
    let status = status(&applied(), &json!([cluster_version(&pairs)]));
    assert_eq!(
        read_at(&work(&own, &status), Step::Platform, &TARGET).status,
        StepStatus::Succeeded
    );
}

#[test]
fn a_refused_manifest_names_object_and_answer_and_alone_fails_nothing() {
    let forbidden = r#"clusterversions.config.openshift.io "version" is forbidden: User "klusterlet-work-sa" cannot patch resource"#;
    let conditions = json!([
        { "type": "Applied", "status": "False", "reason": "AppliedManifestWorkFailed", "message": "Failed to apply manifest work", "observedGeneration": 2 }
    ]);
    let mut manifest = cluster_version(&json!({ "version": "4.11.9", "state": "Completed" }));
    manifest["conditions"] = json!([{ "type": "Applied", "status": "False", "message": forbidden }]);
    let work = work(&json!({}), &status(&conditions, &json!([manifest])));
    let reading = read_at(&work, Step::Platform, &TARGET);
    assert_eq!(reading.status, StepStatus::OtherVersion);
    let message = format!("ClusterVersion version: {forbidden}");
    assert_eq!(why(&reading), (reason::NOT_APPLIED, message.as_str()));
    let action = read_at(&work, Step::PreAction, &TARGET);
    assert_eq!(action.status, StepStatus::NotYet);
    assert_eq!(why(&action).0, reason::NOT_APPLIED);
}

#[test]
fn the_clusters_own_reason_is_the_cause_of_the_wait() {
    let reading = platform(
        &applied(),
        &json!({ "version": "4.11.9", "state": "Completed", "upgradeable": "False", "upgradeableReason": "AdminAckRequired", "upgradeableMessage": "read this" }),
    );
    assert_eq!(why(&reading), ("NotUpgradeable", "AdminAckRequired: read this"));
    let running = platform(
        &applied(),
        &json!({ "version": "4.12.0", "state": "Partial", "message": "Working towards 4.12.0: 1 of 9 done" }),
    );
    assert_eq!(why(&running).0, "Progressing");
    assert_eq!(running.unhealthy, None);
}

#[test]
fn a_done_platform_has_no_cause_but_shows_its_health() {
    let reading = platform(
        &applied(),
        &json!({ "version": "4.12.0", "state": "Completed", "desiredVersion": "4.12.0", "failing": "True", "failingReason": "ClusterOperatorNotAvailable" }),
    );
    assert_eq!(reading.status, StepStatus::Succeeded);
    assert_eq!(reading.cause, None);
    assert_eq!(reading.unhealthy.unwrap().message, "ClusterOperatorNotAvailable");
    assert_eq!(reading.desired.as_deref(), Some("4.12.0"));
}

#[test]
fn unavailable_objects_are_a_cause_of_last_resort() {
    let conditions = json!([cond("Applied", "True"), { "type": "Available", "status": "False", "message": "1 of 2 resources are not available", "observedGeneration": 2 }]);
    let reading = platform(&conditions, &json!({}));
    assert_eq!(
        why(&reading),
        (reason::NOT_AVAILABLE, "1 of 2 resources are not available")
    );
}

#[test]
fn the_approver_is_read_by_its_counts_in_any_order() {
    let cases = [
        (json!({}), "NotYet"),
        (json!({ "succeeded": 0 }), "NotYet"),
        (json!({ "active": 1 }), "Running"),
        (json!({ "succeeded": 1 }), "Succeeded"),
        (json!({ "failed": 3, "succeeded": 1 }), "Succeeded"),
        (json!({ "jobComplete": "True" }), "Succeeded"),
        (json!({ "jobComplete": "False", "active": 1 }), "Running"),
        (json!({ "failed": 1 }), "MaybeFailed"),
        (json!({ "failed": 2, "jobFailed": "False" }), "MaybeFailed"),
        (json!({ "failed": 1, "active": 1 }), "Running"),
        (json!({ "failed": 1, "active": 0, "succeeded": 0 }), "MaybeFailed"),
        (json!({ "jobFailed": "True", "failed": 7 }), "Failed"),
        (json!({ "jobFailed": "True", "active": 1 }), "Failed"),
        (json!({ "succeeded": "1", "active": true }), "NotYet"),
    ];
    for (pairs, expected) in cases {
        let mut manifest = job("installplan-approver", &pairs, &json!([]));
        for reversed in [false, true] {
            if reversed {
                let values = manifest["statusFeedback"]["values"].as_array_mut().unwrap();
                values.reverse();
            }
            let status = status(&applied(), &json!([manifest]));
            let reading = read_at(&work(&json!({}), &status), Step::Operators, &TARGET);
            let outcome = format!("{:?}", reading.status);
            assert!(outcome.starts_with(expected), "{pairs}: {outcome}");
            assert_eq!(reading.cause.is_none(), expected == "Succeeded", "{pairs}");
        }
    }
}

#[test]
fn another_job_is_not_the_approver() {
    let status = status(
        &applied(),
        &json!([job("other", &json!({ "succeeded": 1 }), &json!([]))]),
    );
    let reading = read_at(&work(&json!({}), &status), Step::Operators, &TARGET);
    assert_eq!(reading.status, StepStatus::NotYet);
    assert_eq!(why(&reading).0, reason::NO_FEEDBACK);
}

/// An action work with one Job `backup/backup` that declares these checks.
fn action(needs: &Value, conditions: &Value, pairs: &Value, own: &Value) -> WorkFeedback {
    let checks =
        json!([{ "group": "batch", "kind": "Job", "namespace": "backup", "name": "backup", "needs": needs }]);
    let annotations = json!({ ANNOTATION_CHECKS: checks.to_string() });
    let status = status(conditions, &json!([job("backup", pairs, own)]));
    read_at(&work(&annotations, &status), Step::PreAction, &TARGET)
}

#[test]
fn an_action_without_checks_is_done_when_available_in_its_generation() {
    let annotations = json!({ ANNOTATION_CHECKS: "[]" });
    let of = |conditions: &Value| {
        let status = json!({ "conditions": conditions });
        read_at(&work(&annotations, &status), Step::PreAction, &TARGET).status
    };
    assert_eq!(of(&applied()), StepStatus::Succeeded);
    assert_eq!(
        of(&json!([{ "type": "Available", "status": "True" }])),
        StepStatus::Succeeded
    );
    assert_eq!(of(&json!([cond("Applied", "True")])), StepStatus::Running);
    let old =
        json!([cond("Applied", "True"), { "type": "Available", "status": "True", "observedGeneration": 1 }]);
    assert_eq!(of(&old), StepStatus::Running);
    assert_eq!(
        of(&json!([cond("Applied", "True"), cond("Available", "False")])),
        StepStatus::Running
    );
}

#[test]
fn a_job_counts_when_it_succeeded_not_when_it_is_available() {
    let both = json!(["JobComplete", "Succeeded"]);
    let cases = [
        (json!({}), false),
        (json!({ "JobComplete": "True" }), false),
        (json!({ "JobSucceeded": 1 }), false),
        (json!({ "JobComplete": "True", "JobSucceeded": 0 }), false),
        (json!({ "JobComplete": "False", "JobSucceeded": 1 }), false),
        (json!({ "JobComplete": "True", "JobSucceeded": 1 }), true),
        (
            json!({ "JobComplete": "True", "JobSucceeded": 1, "failed": 2 }),
            true,
        ),
    ];
    for (pairs, done) in cases {
        let reading = action(&both, &applied(), &pairs, &json!([]));
        assert_eq!(reading.status == StepStatus::Succeeded, done, "{pairs}");
        if !done {
            assert_eq!(reading.status, StepStatus::Running);
            assert_eq!(
                why(&reading),
                (reason::JOB_RUNNING, "Job backup/backup has not succeeded yet")
            );
        }
    }
}

#[test]
fn a_checked_job_that_is_missing_from_the_status_has_not_succeeded() {
    let checks = r#"[{"group":"batch","kind":"Job","namespace":"b","name":"b","needs":["Succeeded"]}]"#;
    let reading = read_at(
        &work(
            &json!({ ANNOTATION_CHECKS: checks }),
            &json!({ "conditions": applied() }),
        ),
        Step::PostAction,
        &TARGET,
    );
    assert_eq!(reading.status, StepStatus::Running);
}

#[test]
fn a_status_that_names_only_the_resource_is_known_by_it() {
    let checks = r#"[{"group":"batch","kind":"Job","namespace":"b","name":"b","needs":["Succeeded"]}]"#;
    let mut manifest = job("b", &json!({ "succeeded": 1 }), &json!([]));
    manifest["resourceMeta"].as_object_mut().unwrap().remove("kind");
    let work = work(
        &json!({ ANNOTATION_CHECKS: checks }),
        &status(&applied(), &json!([manifest])),
    );
    assert_eq!(
        read_at(&work, Step::PreAction, &TARGET).status,
        StepStatus::Succeeded
    );
}

#[test]
fn a_failed_job_fails_its_action_and_recovers_with_it() {
    let needs = json!(["Succeeded"]);
    for pairs in [
        json!({ "failed": 1 }),
        json!({ "jobFailed": "True" }),
        json!({ "failed": 2, "active": 0 }),
    ] {
        let reading = action(&needs, &applied(), &pairs, &json!([]));
        assert_eq!(failed(&reading).0, reason::JOB_FAILED, "{pairs}");
        assert!(failed(&reading).1.starts_with("Job backup/backup failed"));
    }
    let retrying = action(
        &needs,
        &applied(),
        &json!({ "failed": 1, "active": 1 }),
        &json!([]),
    );
    assert_eq!(retrying.status, StepStatus::Running);
    let recovered = action(
        &needs,
        &applied(),
        &json!({ "failed": 1, "succeeded": 1 }),
        &json!([]),
    );
    assert_eq!(recovered.status, StepStatus::Succeeded);
}

#[test]
fn the_complete_rule_is_true_for_a_failed_job_too() {
    let rule = json!(["CompleteRule"]);
    let complete = json!([cond("Complete", "True")]);
    let done = |needs: &Value, pairs: &Value, own: &Value| {
        action(needs, &applied(), pairs, own).status == StepStatus::Succeeded
    };
    assert!(done(&rule, &json!({}), &complete));
    assert!(!done(&rule, &json!({}), &json!([cond("Complete", "False")])));
    assert!(!done(&rule, &json!({}), &json!([])));
    assert!(!done(&rule, &json!({ "succeeded": 0 }), &complete));
    let both = json!(["Succeeded", "CompleteRule"]);
    assert!(!done(&both, &json!({}), &complete));
    assert!(done(&both, &json!({ "succeeded": 1 }), &complete));
    let whole = json!([
        cond("Applied", "True"),
        cond("Available", "True"),
        cond("Complete", "True")
    ]);
    assert_eq!(
        action(&rule, &whole, &json!({}), &json!([])).status,
        StepStatus::Succeeded
    );
}

#[test]
fn degraded_fails_an_action_of_the_work_or_of_one_manifest_until_it_recovers() {
    let none = json!([]);
    let with = |status| {
        json!([
            cond("Applied", "True"),
            cond("Available", "True"),
            cond("Degraded", status)
        ])
    };
    let whole = action(&none, &with("True"), &json!({}), &json!([]));
    assert_eq!(failed(&whole), (reason::DEGRADED, "The action is degraded"));
    let healthy = action(&none, &with("False"), &json!({}), &json!([]));
    assert_eq!(healthy.status, StepStatus::Succeeded);
    // With several manifests, the work reports False as soon as one of them does.
    let own = json!([{ "type": "Degraded", "status": "True", "message": "disk full" }]);
    let hidden = action(&none, &with("False"), &json!({}), &own);
    assert_eq!(
        failed(&hidden),
        (reason::DEGRADED, "Job backup/backup: disk full")
    );
    let stale = json!([cond("Applied", "True"), cond("Available", "True"), { "type": "Degraded", "status": "True", "observedGeneration": 1 }]);
    let stale = action(&none, &stale, &json!({}), &json!([]));
    assert_eq!(stale.status, StepStatus::Succeeded);
}

#[test]
fn without_recorded_checks_a_job_must_show_success_unless_it_has_no_feedback() {
    let of = |pairs: &Value, own: &Value| {
        let status = status(&applied(), &json!([job("backup", pairs, own)]));
        read_at(&work(&json!({}), &status), Step::PreAction, &TARGET).status
    };
    let unsynced =
        json!([{ "type": "StatusFeedbackSynced", "status": "True", "reason": "NoStatusFeedbackSynced" }]);
    assert_eq!(of(&json!({}), &json!([])), StepStatus::Running);
    assert_eq!(of(&json!({}), &unsynced), StepStatus::Succeeded);
    assert_eq!(of(&json!({ "succeeded": 1 }), &json!([])), StepStatus::Succeeded);
    assert_eq!(
        of(&json!({ "JobComplete": "True" }), &json!([])),
        StepStatus::Succeeded
    );
    assert_eq!(
        of(&json!({}), &json!([cond("Complete", "False")])),
        StepStatus::Running
    );
    assert_eq!(
        of(&json!({ "succeeded": 0 }), &json!([cond("Complete", "True")])),
        StepStatus::Running
    );
}

#[test]
fn reasons_are_a_closed_set_of_words() {
    let all: std::collections::BTreeSet<_> = reason::ALL
        .into_iter()
        .chain(clusterversion::cause::reason::ALL)
        .collect();
    assert_eq!(
        all.len(),
        reason::ALL.len() + clusterversion::cause::reason::ALL.len()
    );
    for word in all {
        assert!(word.chars().all(char::is_alphanumeric), "{word}");
        assert!(word.starts_with(char::is_uppercase), "{word}");
    }
}
