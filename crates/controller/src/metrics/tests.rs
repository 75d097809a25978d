use std::collections::BTreeMap;

use api::report::{Outcome, Phase};
use rollout::testing::record;
use telemetry::exposition;

use super::*;

/// Name, type and help of each family in an exposition.
fn families(text: &str) -> BTreeMap<String, (String, String)> {
    let mut found: BTreeMap<String, (String, String)> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let old = found.entry(name.to_owned()).or_default();
            assert!(old.0.is_empty(), "{name} is exposed twice");
            kind.clone_into(&mut old.0);
        } else if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        {
            help.clone_into(&mut found.entry(name.to_owned()).or_default().1);
        }
    }
    found
}

fn sample(text: &str, name: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn the_exposition_and_the_catalogue_agree_on_names_types_and_help() {
    let metrics = Metrics::new();
    metrics.watch_alive(WatchKind::Work);
    let found = families(&exposition::openmetrics(metrics.registry()).unwrap());
    let documented: BTreeMap<String, (String, String)> = CATALOGUE
        .iter()
        .map(|series| {
            (
                series.stem().to_owned(),
                (series.kind.as_str().to_owned(), format!("{}.", series.help)),
            )
        })
        .collect();
    assert_eq!(found, documented);
}

#[test]
fn every_label_in_the_exposition_is_documented_with_its_value() {
    let metrics = Metrics::new();
    for kind in WatchKind::ALL {
        metrics.watch_alive(*kind);
    }
    let text = metrics.encode_classic().unwrap();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, rest)) = line.split_once('{') else {
            continue;
        };
        let series = CATALOGUE
            .iter()
            .find(|series| {
                name.strip_prefix(series.name).is_some_and(|suffix| {
                    suffix.is_empty() || matches!(series.kind, MetricKind::Histogram(_))
                })
            })
            .unwrap_or_else(|| panic!("{name} is not documented"));
        for pair in rest.split_once('}').unwrap().0.split(',') {
            let (label, value) = pair.split_once('=').unwrap();
            if label == "le" {
                continue;
            }
            let label = series.labels.iter().find(|known| known.name == label).unwrap();
            let value = value.trim_matches('"');
            assert!(
                label.values.is_empty() || label.values.iter().any(|known| known.0 == value),
                "{line}"
            );
        }
    }
}

#[test]
fn counts_show_in_the_exposition() {
    let metrics = Metrics::new();
    metrics.wrote(WriteKind::Create, WriteOutcome::Ok, Duration::from_millis(20));
    metrics.wrote(WriteKind::Create, WriteOutcome::Fenced, Duration::ZERO);
    metrics.set_clusters(ClusterPhase(rollout::Phase::Soaking), 7);
    metrics.set_slots(3, 10);
    let text = metrics.encode_classic().unwrap();
    assert_eq!(
        sample(&text, r#"mcu_actions_total{kind="create",outcome="ok"}"#),
        Some(1.0)
    );
    assert_eq!(
        sample(&text, r#"mcu_actions_total{kind="create",outcome="fenced"}"#),
        Some(1.0)
    );
    assert_eq!(
        sample(&text, r#"mcu_write_duration_seconds_count{kind="create"}"#),
        Some(1.0)
    );
    assert_eq!(sample(&text, r#"mcu_clusters{phase="Soaking"}"#), Some(7.0));
    assert_eq!(
        (sample(&text, "mcu_slots_used"), sample(&text, "mcu_slots")),
        (Some(3.0), Some(10.0))
    );
    assert!(sample(&text, "process_resident_memory_bytes").unwrap() > 100_000.0);
}

#[test]
fn an_attempt_and_its_steps_are_counted_when_they_end() {
    let metrics = Metrics::new();
    let running = Record::from(record(Phase::Partial).stage(Stage::Platform, 0));
    let done = Record::from(record(Phase::Complete).done(Stage::Platform, 0, Outcome::Succeeded));
    metrics.phase_changed(Some(&running), &done);
    // What had ended before does not count again.
    metrics.phase_changed(Some(&done), &done);
    let failed =
        record(Phase::Failed)
            .reason(Reason::OperatorsJobFailed)
            .done(Stage::Operators, 0, Outcome::Failed);
    metrics.phase_changed(Some(&running), &failed.into());
    let text = metrics.encode_classic().unwrap();
    for (series, value) in [
        (
            r#"mcu_step_duration_seconds_count{step="Platform",outcome="succeeded"}"#,
            1.0,
        ),
        (
            r#"mcu_step_duration_seconds_count{step="Operators",outcome="failed"}"#,
            1.0,
        ),
        (
            r#"mcu_clusters_finished_total{outcome="complete",reason="None"}"#,
            2.0,
        ),
        (
            r#"mcu_clusters_finished_total{outcome="failed",reason="OperatorsJobFailed"}"#,
            1.0,
        ),
    ] {
        assert_eq!(sample(&text, series), Some(value), "{series}");
    }
}

#[test]
fn classic_text_names_counters_by_their_samples_and_has_no_end_marker() {
    let metrics = Metrics::new();
    let open = exposition::openmetrics(metrics.registry()).unwrap();
    let classic = metrics.encode_classic().unwrap();
    assert!(open.ends_with("# EOF\n") && !classic.contains("# EOF"));
    assert!(open.contains("# TYPE mcu_reconcile counter\n"));
    assert!(classic.contains("# TYPE mcu_reconcile_total counter\n"));
    assert!(classic.contains("# TYPE mcu_build_info gauge\n"));
    assert!(classic.contains("# HELP mcu_reconcile_total Passes over upgrades, by outcome.\n"));
}

#[test]
fn a_watch_that_never_lived_has_no_age() {
    let metrics = Metrics::new();
    metrics.watch_alive(WatchKind::Work);
    let text = metrics.encode_classic().unwrap();
    assert!(sample(&text, r#"mcu_watch_age_seconds{kind="ManifestWork"}"#).unwrap() < 60.0);
    assert_eq!(sample(&text, r#"mcu_watch_age_seconds{kind="Placement"}"#), None);
}

#[tokio::test]
async fn leading_is_counted_from_the_election() {
    let metrics = Arc::new(Metrics::new());
    let handle = crate::lease::Handle::always();
    Arc::clone(&metrics).follow_election(handle.subscribe()).await;
    let text = metrics.encode_classic().unwrap();
    assert_eq!(
        (
            sample(&text, "mcu_leader"),
            sample(&text, "mcu_lease_transitions_total")
        ),
        (Some(1.0), Some(1.0))
    );
}
