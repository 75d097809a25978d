use super::*;
use serde_json::json;

fn report(upgrade: &str, phase: &str, since: &str) -> Value {
    json!({
        "metadata": {
            "namespace": "upgrades", "labels": {LABEL_MCU: upgrade},
            "ownerReferences": [{"kind": "ManagedClustersUpgrade", "name": upgrade, "uid": "u1"}],
        },
        "rows": [
            {"cluster": "edge-1", "phase": "Pending", "since": since, "revision": "r1"},
            {"cluster": "edge-2", "phase": phase, "since": since, "revision": "r1"},
        ],
    })
}

#[test]
fn a_cluster_has_one_part_per_upgrade_and_the_newest_comes_first() {
    let mut unowned = report("autumn", "Complete", "2026-02-01T10:00:00Z");
    unowned["metadata"]["ownerReferences"] = json!([]);
    let reports = [
        unowned,
        report("winter", "Complete", "2026-01-01T10:00:00Z"),
        report("spring", "Pending", "2026-03-01T10:00:00Z"),
        report("spring", "Partial", "2026-03-01T11:00:00Z"),
        json!({"metadata": {}, "rows": "many"}),
    ];
    let parts = parts(&reports, "edge-2");
    let told: Vec<_> = parts
        .iter()
        .map(|part| (&*part.upgrade, part.row.phase.as_str()))
        .collect();
    assert_eq!(told, [("spring", "Partial"), ("winter", "Complete")]);
}

#[test]
fn a_name_that_no_cluster_has_is_an_error_unless_reports_know_it() {
    let of = |found, is_part| known(found, "edge-9", "upgrades namespace", is_part);
    let error = of(Ok(None), false).unwrap_err();
    assert_eq!(error.exit(), Exit::Error);
    assert_eq!(
        error.to_string(),
        "error: there is no ManagedCluster \"edge-9\", and no upgrade in upgrades namespace has a cluster of this name"
    );
    let (object, warning) = of(Ok(None), true).unwrap();
    assert!(
        object.is_none() && warning.contains("no ManagedCluster \"edge-9\" any more"),
        "{warning}"
    );
    let object = json!({"metadata": {"name": "edge-9"}});
    assert_eq!(
        of(Ok(Some(object.clone())), false),
        Ok((Some(object), String::new()))
    );
}

#[test]
fn a_cluster_that_may_not_be_read_is_a_warning_and_other_failures_are_errors() {
    let server = |reason: &str| {
        Err(Failure::Server {
            reason: reason.to_owned(),
            message: "you may not".to_owned(),
        })
    };
    for is_part in [false, true] {
        let (object, warning) = known(server("Forbidden"), "edge-9", "any namespace", is_part).unwrap();
        assert!(
            object.is_none() && warning.starts_with("Warning: you may not. "),
            "{warning}"
        );
    }
    assert!(known(server("InternalError"), "edge-9", "any namespace", true).is_err());
}
