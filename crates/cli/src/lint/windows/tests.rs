use serde_json::json;

use super::*;

fn fields(maintenance: &Value) -> Vec<String> {
    let object = json!({"spec": {"maintenance": maintenance}});
    let problems = never_open(&object, "2026-11-02T12:00:00Z".parse().unwrap());
    assert!(problems.iter().all(|problem| problem.warning));
    problems.into_iter().map(|problem| problem.field).collect()
}

#[test]
fn an_estimate_that_no_window_is_long_enough_for_is_named() {
    let warned = |windows: &[(&str, &str)], limit: &str| {
        let windows = windows.iter().enumerate();
        let windows: Vec<Value> = windows
            .map(|(nth, (schedule, duration))| {
                json!({"name": format!("w{nth}"), "schedule": schedule, "duration": duration})
            })
            .collect();
        let object = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
            "metadata": {"name": "spring", "namespace": "fleet"},
            "spec": {
                "clusterSelector": {"matchLabels": {"a": "b"}}, "clusterVersion": {"version": "4.20.4"},
                "upgradeStrategy": {"clusterUpgradeTimeout": limit},
                "maintenance": {
                    "windows": windows,
                    "minimumRemaining": "Estimate",
                },
            },
        });
        let problem = estimate_fits(&object, "2026-11-02T12:00:00Z".parse().unwrap());
        problem.map(|problem| (problem.field, problem.warning))
    };
    let field = "spec.maintenance.minimumRemaining".to_owned();
    let night = "0 22 * * *";
    assert_eq!(warned(&[(night, "2h")], "3h"), Some((field.clone(), true)));
    assert_eq!(warned(&[(night, "6h")], "3h"), None);
    assert_eq!(warned(&[(night, "2h")], "90m"), None);
    // The controller does not count windows that are too short together.
    let touching = [(night, "2h"), ("0 0 * * *", "2h")];
    assert_eq!(warned(&touching, "3h"), Some((field.clone(), true)));
    assert_eq!(warned(&[(night, "3h")], "3h"), Some((field, true)));
    assert_eq!(warned(&[(night, "2h"), ("0 12 * * *", "4h")], "3h"), None);
}

#[test]
fn a_window_that_exclusions_cover_for_ever_is_named() {
    let window = |name: &str, schedule: &str| json!({"name": name, "schedule": schedule, "duration": "4h"});
    let exclusion = |start: &str, end: &str| json!([{"name": "e", "start": start, "end": end}]);
    let windows = json!([window("nights", "0 22 * * *"), window("august", "0 22 * 8 *")]);
    let long = exclusion("2026-11-01T00:00", "2028-11-01T00:00");
    let summer = exclusion("2027-07-01T00:00", "2027-10-01T00:00");
    for (exclusions, named) in [
        (json!([]), vec![]),
        (summer, vec!["spec.maintenance.windows[1]"]),
        (
            long.clone(),
            vec!["spec.maintenance.windows[0]", "spec.maintenance.windows[1]"],
        ),
    ] {
        assert_eq!(
            fields(&json!({"windows": windows, "exclusions": exclusions})),
            named
        );
    }
    assert_eq!(
        fields(&json!({"exclusions": long})),
        ["spec.maintenance.exclusions"]
    );
    assert_eq!(fields(&json!({"windows": "none"})), Vec::<String>::new());
    // The duration is an error of its own.
    let empty = json!({"name": "w", "schedule": "0 22 * * *", "duration": "0s"});
    assert_eq!(fields(&json!({"windows": [empty]})), Vec::<String>::new());
    assert_eq!(fields(&Value::Null), Vec::<String>::new());
}
