use super::*;
use crate::metrics::Metrics;

fn sample(name: &str) -> UpgradeSample {
    let mut phases = [0; Phase::ALL.len()];
    phases[Phase::Partial as usize] = 3;
    UpgradeSample {
        namespace: Arc::from("fleet"),
        name: Arc::from(name),
        state: UpgradeStateLabel::Running,
        target: "4.20.4".to_owned(),
        phases,
        waiting: vec![(Reason::Failing, 2)],
        conditions: TYPES.map(|type_| type_ == "Reconciling"),
        last_progress: 1_780_000_000,
        budget: Some(5),
        failures: 1,
        end: Some([1_780_003_600, 1_780_007_200]),
        preflight: Some([7, 2, 1, 3]),
    }
}

fn text(samples: Vec<UpgradeSample>) -> String {
    let metrics = Metrics::new();
    metrics.set_upgrade_series(samples, 0);
    metrics.encode_classic().unwrap()
}

#[test]
fn an_upgrade_has_its_series_until_it_is_gone() {
    let shown = text(vec![sample("spring")]);
    let of = r#"upgrade_namespace="fleet",upgrade="spring""#;
    for line in [
        format!("mcu_upgrade_info{{{of},state=\"running\",target=\"4.20.4\"}} 1"),
        format!("mcu_upgrade_clusters{{{of},phase=\"Partial\"}} 3"),
        format!("mcu_upgrade_clusters{{{of},phase=\"Failed\"}} 0"),
        format!("mcu_upgrade_waiting_clusters{{{of},reason=\"Failing\"}} 2"),
        format!("mcu_upgrade_condition{{{of},condition=\"Reconciling\"}} 1"),
        format!("mcu_upgrade_condition{{{of},condition=\"Stalled\"}} 0"),
        format!("mcu_upgrade_last_progress_timestamp_seconds{{{of}}} 1780000000"),
        format!("mcu_upgrade_failure_budget{{{of}}} 5"),
        format!("mcu_upgrade_failure_budget_used{{{of}}} 1"),
        format!("mcu_upgrade_estimated_end_timestamp_seconds{{{of},quantile=\"0.5\"}} 1780003600"),
        format!("mcu_upgrade_estimated_end_timestamp_seconds{{{of},quantile=\"0.9\"}} 1780007200"),
        format!("mcu_upgrade_preflight_clusters{{{of},answer=\"ready\"}} 7"),
        format!("mcu_upgrade_preflight_clusters{{{of},answer=\"blocked\"}} 2"),
        format!("mcu_upgrade_preflight_clusters{{{of},answer=\"unknown\"}} 1"),
        format!("mcu_upgrade_preflight_clusters{{{of},answer=\"unsupported\"}} 3"),
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    }
    assert!(!text(Vec::new()).contains("spring"));
}

#[test]
fn what_an_upgrade_does_not_have_or_know_has_no_series() {
    let without = UpgradeSample {
        budget: None,
        end: None,
        preflight: None,
        ..sample("spring")
    };
    let shown = text(vec![without]);
    assert!(!shown.contains("mcu_upgrade_failure_budget{"));
    assert!(shown.contains("mcu_upgrade_failure_budget_used{"));
    assert!(!shown.contains("mcu_upgrade_estimated_end_timestamp_seconds{"));
    assert!(!shown.contains("mcu_upgrade_preflight_clusters{"));
}
