use serde_json::{Value, json};

use super::*;
use crate::index::Pool;

fn view(labels: &Value, annotations: &Value, claims: &Value) -> ClusterView {
    let object = json!({
        "metadata": {"name": "c1", "labels": labels, "annotations": annotations},
        "spec": {"hubAcceptsClient": true}, "status": {"clusterClaims": claims},
    });
    ClusterView::new(&serde_json::from_value(object).unwrap(), &mut Pool::default()).unwrap()
}

fn spec(value: Value) -> MaintenanceSpec {
    serde_json::from_value(value).unwrap()
}

fn zone_of(maintenance: &MaintenanceSpec, cluster: &ClusterView) -> String {
    let known = KnownCalendars::default();
    let mut calendars = Calendars::new(maintenance, &known);
    match calendars.of(cluster) {
        Ok(position) => calendars.finish()[position.unwrap()].zone().name().to_owned(),
        Err(Eligibility::Blocked { reason, .. }) => reason.to_string(),
        Err(other) => format!("{other:?}"),
    }
}

fn nights(source: &Value) -> MaintenanceSpec {
    spec(json!({
        "timeZone": "Asia/Tokyo", "timeZoneFrom": source,
        "windows": [{"name": "nights", "schedule": "0 22 * * *", "duration": "6h"}],
    }))
}

#[test]
fn a_cluster_tells_its_zone_by_annotation_claim_or_label() {
    let none = json!({});
    let berlin = "Europe/Berlin";
    let by_annotation = view(&none, &json!({"example.com/time-zone": berlin}), &json!([]));
    assert_eq!(
        zone_of(
            &nights(&json!({"annotation": "example.com/time-zone"})),
            &by_annotation
        ),
        berlin
    );
    let by_claim = view(
        &none,
        &none,
        &json!([{"name": "tz.example.com", "value": berlin}]),
    );
    assert_eq!(
        zone_of(&nights(&json!({"claim": "tz.example.com"})), &by_claim),
        berlin
    );
    let by_label = view(&json!({"place": "Europe.Berlin"}), &none, &json!([]));
    assert_eq!(zone_of(&nights(&json!({"label": "place"})), &by_label), berlin);
}

#[test]
fn a_cluster_that_tells_no_zone_has_that_of_the_spec() {
    let cluster = view(
        &json!({}),
        &json!({"example.com/other-zone": "Europe/Berlin"}),
        &json!([]),
    );
    for source in [
        json!({"annotation": "example.com/time-zone"}),
        json!({"claim": "tz.example.com"}),
        json!({"label": "place"}),
    ] {
        assert_eq!(zone_of(&nights(&source), &cluster), "Asia/Tokyo", "{source}");
    }
}

#[test]
fn a_zone_that_does_not_exist_blocks_its_cluster_alone() {
    let source = json!({"annotation": "example.com/time-zone"});
    let long = "Europe/Berlin".repeat(100);
    for zone in ["Europe/Atlantis", "europe/berlin", "CEST", "+02:00", &long] {
        let cluster = view(&json!({}), &json!({"example.com/time-zone": zone}), &json!([]));
        assert_eq!(zone_of(&nights(&source), &cluster), "InvalidTimeZone", "{zone}");
    }
}

#[test]
fn clusters_of_one_zone_and_the_same_windows_share_a_calendar() {
    let maintenance = spec(json!({"windows": [
        {"name": "edge", "schedule": "0 1 * * *", "duration": "1h", "clusterSelector": {"matchLabels": {"tier": "edge"}}},
        {"name": "core", "schedule": "0 2 * * *", "duration": "1h",
         "clusterSelector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["core"]}]}},
    ]}));
    let none = json!({});
    let edge = view(&json!({"tier": "edge"}), &none, &json!([]));
    let core = view(&json!({"tier": "core"}), &none, &json!([]));
    let other = view(&json!({"tier": "lab"}), &none, &json!([]));
    let known = KnownCalendars::default();
    let mut calendars = Calendars::new(&maintenance, &known);
    assert_eq!(calendars.of(&edge), Ok(Some(0)));
    assert_eq!(calendars.of(&core), Ok(Some(1)));
    assert_eq!(calendars.of(&edge), Ok(Some(0)));
    let Err(Eligibility::Blocked { reason, .. }) = calendars.of(&other) else {
        panic!("a cluster that no window selects never starts");
    };
    assert_eq!((reason, calendars.finish().len()), (Reason::NoWindow, 2));
}

#[test]
fn without_windows_and_exclusions_clusters_may_start_at_any_time() {
    let cluster = view(
        &json!({}),
        &json!({"example.com/time-zone": "nowhere"}),
        &json!([]),
    );
    let maintenance = spec(json!({"timeZoneFrom": {"annotation": "example.com/time-zone"}}));
    let known = KnownCalendars::default();
    assert_eq!(Calendars::new(&maintenance, &known).of(&cluster), Ok(None));
    let excluded =
        spec(json!({"exclusions": [{"name": "e", "start": "2026-12-18T00:00", "end": "2027-01-07T00:00"}]}));
    assert_eq!(Calendars::new(&excluded, &known).of(&cluster), Ok(Some(0)));
}

#[test]
fn a_minimum_that_is_left_to_the_estimate_follows_it() {
    let maintenance = spec(json!({"minimumRemaining": "Estimate", "windows": [
        {"name": "nights", "schedule": "0 22 * * *", "duration": "4h"},
    ]}));
    let cluster = view(&json!({}), &json!({}), &json!([]));
    let known = KnownCalendars::new(chrono::TimeDelta::hours(3));
    let last_start = || {
        let mut calendars = Calendars::new(&maintenance, &known);
        assert_eq!(calendars.of(&cluster), Ok(Some(0)));
        let from = "2026-11-02T12:00:00Z".parse().unwrap();
        calendars.finish()[0]
            .spans(from)
            .next()
            .unwrap()
            .end
            .unwrap()
            .to_rfc3339()
    };
    assert_eq!(last_start(), "2026-11-02T23:00:00+00:00");
    assert!(known.set_estimated_minimum(chrono::TimeDelta::minutes(90)));
    assert!(!known.set_estimated_minimum(chrono::TimeDelta::minutes(90)));
    assert_eq!(last_start(), "2026-11-03T00:30:00+00:00");
    known.set_estimated_minimum(chrono::TimeDelta::hours(4));
    let mut calendars = Calendars::new(&maintenance, &known);
    let Err(Eligibility::Blocked { reason, message }) = calendars.of(&cluster) else {
        panic!("a window that is too short does not make clusters start at any time");
    };
    assert_eq!(reason, Reason::NoWindow);
    assert!(message.ends_with("minimumRemaining, which is 4h"), "{message}");
}

/// A selector that divides a fleet into a group for each cluster.
#[test]
fn a_spec_has_a_bounded_number_of_calendars() {
    let window = |bit: usize| {
        json!({"name": bit.to_string(), "schedule": "0 22 * * *", "duration": "6h",
            "clusterSelector": {"matchLabels": {format!("bit{bit}"): "1"}}})
    };
    let maintenance = spec(json!({"windows": (0..10).map(window).collect::<Vec<_>>()}));
    let known = KnownCalendars::default();
    for _ in 0..3 {
        let mut calendars = Calendars::new(&maintenance, &known);
        let found = (1..1024_usize).map(|number| {
            let labels = (0..10).filter(|bit| number >> bit & 1 == 1);
            let labels: serde_json::Map<_, _> = labels.map(|bit| (format!("bit{bit}"), json!("1"))).collect();
            calendars.of(&view(&Value::Object(labels), &json!({}), &json!([])))
        });
        let found: Vec<_> = found.collect();
        assert_eq!(found.iter().filter(|one| one.is_ok()).count(), MAX_CALENDARS);
        let Some(Err(Eligibility::Blocked { reason, message })) = found.last() else {
            panic!()
        };
        assert_eq!(*reason, Reason::NoWindow);
        assert!(message.len() <= 256, "it fits into a row: {}", message.len());
        assert_eq!(calendars.finish().len(), MAX_CALENDARS);
    }
    assert!(known.calendars.lock().unwrap().len() <= 2 * MAX_CALENDARS);
}
