use serde_json::{Value, json};

fn found(maintenance: &Value) -> Vec<String> {
    let spec = json!({"clusterVersion": {"version": "4.20.4"}, "maintenance": maintenance});
    let spec = serde_json::from_value(spec).unwrap();
    let found = crate::validate::validate("u", &spec);
    found.iter().map(ToString::to_string).collect()
}

fn window(change: &Value) -> Value {
    let mut window = json!({"name": "nights", "schedule": "0 22 * * 1-5", "duration": "6h"});
    window
        .as_object_mut()
        .unwrap()
        .extend(change.as_object().unwrap().clone());
    json!({"windows": [window]})
}

#[test]
fn windows_exclusions_zones_and_a_minimum_are_valid() {
    let spec = json!({
        "timeZone": "Europe/Berlin",
        "timeZoneFrom": {"annotation": "mcu.open-cluster-management.io/time-zone"},
        "windows": [
            {"name": "nights", "schedule": "0 22 * * MON-FRI", "duration": "6h", "clusterSelector": {"matchLabels": {"tier": "edge"}}},
            {"name": "sundays", "schedule": "0 2 * * 0", "duration": "4h"},
        ],
        "exclusions": [
            {"name": "year-end", "start": "2026-12-18T00:00", "end": "2027-01-07T00:00"},
            {"name": "freeze", "start": "2026-12-18T00:00:00Z", "end": "2026-12-19T00:00:00+01:00"},
        ],
        "minimumRemaining": "2h",
    });
    assert_eq!(found(&spec), Vec::<String>::new());
    assert_eq!(found(&json!({})), Vec::<String>::new());
}

#[test]
fn each_mistake_names_its_field() {
    let windows = "spec.maintenance.windows[0]";
    let exclusion =
        |start: &str, end: &str| json!({"exclusions": [{"name": "e", "start": start, "end": end}]});
    for (spec, field) in [
        (
            json!({"timeZone": "Europe/Atlantis"}),
            "spec.maintenance.timeZone",
        ),
        (json!({"timeZone": ""}), "spec.maintenance.timeZone"),
        (json!({"timeZoneFrom": {}}), "spec.maintenance.timeZoneFrom"),
        (
            json!({"timeZoneFrom": {"label": "tz", "claim": "tz"}}),
            "spec.maintenance.timeZoneFrom",
        ),
        (
            json!({"timeZoneFrom": {"claim": "region"}}),
            "spec.maintenance.timeZoneFrom.claim",
        ),
        (
            window(&json!({"schedule": "0 22 * *"})),
            &format!("{windows}.schedule"),
        ),
        (
            window(&json!({"schedule": "@daily"})),
            &format!("{windows}.schedule"),
        ),
        (
            window(&json!({"schedule": "0 0 22 * * 1"})),
            &format!("{windows}.schedule"),
        ),
        (
            window(&json!({"schedule": "0 22 30 2 *"})),
            &format!("{windows}.schedule"),
        ),
        (
            window(&json!({"schedule": "0 0 29 2 *"})),
            &format!("{windows}.schedule"),
        ),
        (
            window(&json!({"schedule": "0 0 29 2 +2"})),
            &format!("{windows}.schedule"),
        ),
        (
            window(&json!({"schedule": "0 25 * * *"})),
            &format!("{windows}.schedule"),
        ),
        (window(&json!({"duration": "0s"})), &format!("{windows}.duration")),
        (window(&json!({"duration": "1d"})), &format!("{windows}.duration")),
        (window(&json!({"name": ""})), &format!("{windows}.name")),
        (
            window(&json!({"clusterSelector": {"matchLabels": {"no label": "x"}}})),
            &format!("{windows}.clusterSelector.matchLabels.no label"),
        ),
        (
            exclusion("2026-12-18", "2027-01-07T00:00"),
            "spec.maintenance.exclusions[0].start",
        ),
        (
            exclusion("2026-12-18T00:00", "2027-01-07T00:00[UTC]"),
            "spec.maintenance.exclusions[0].end",
        ),
        (
            exclusion("2026-12-18T00:00", "2026-12-18T00:00"),
            "spec.maintenance.exclusions[0].end",
        ),
        (
            json!({"minimumRemaining": "two hours"}),
            "spec.maintenance.minimumRemaining",
        ),
    ] {
        let found = found(&spec);
        assert_eq!(found.len(), 1, "{spec}: {found:?}");
        assert!(found[0].starts_with(&format!("{field}: ")), "{field}: {found:?}");
    }
}

#[test]
fn a_zone_in_the_wrong_case_is_told_its_spelling() {
    let found = found(&json!({"timeZone": "europe/berlin"}));
    assert!(
        found[0].ends_with("this one is spelled Europe/Berlin"),
        "{found:?}"
    );
}

#[test]
fn a_name_that_is_used_twice_is_found_in_each_list() {
    let windows = json!({"windows": [
        {"name": "w", "schedule": "0 1 * * *", "duration": "1h"}, {"name": "w", "schedule": "0 2 * * *", "duration": "1h"},
    ]});
    assert_eq!(
        found(&windows),
        ["spec.maintenance.windows[1].name: \"w\" is used twice; rename one"]
    );
}
