use super::*;

fn args(clusters: usize, slots: usize, agent_seconds: f64) -> FleetArgs {
    FleetArgs {
        clusters,
        slots,
        agent_seconds,
        runs: None,
        history: 0,
        preflight: false,
        idle_seconds: 60,
        json: false,
        keep_audit: None,
    }
}

#[test]
fn the_ideal_is_the_agents_time_for_each_filling_of_all_slots() {
    assert!((args(500, 50, 2.0).ideal() - 20.0).abs() < f64::EPSILON);
    assert!((args(501, 50, 2.0).ideal() - 22.0).abs() < f64::EPSILON);
}

#[test]
fn silent_agents_are_measured_twice_and_judged_by_the_rate() {
    let silent = args(10, 10, 0.0);
    assert_eq!(silent.runs(), 2);
    let round = |create: f64, bare: f64| Round {
        create_rate: create,
        bare_rate: Some(bare),
        ..Round::default()
    };
    let thresholds = thresholds(&silent, &[round(700.0, 800.0), round(500.0, 700.0)]);
    assert!((thresholds[0].measured - 0.8).abs() < 1e-9 && thresholds[0].met);
    assert!(
        !thresholds
            .iter()
            .any(|threshold| threshold.what.contains("ideal"))
    );
}

#[test]
fn the_time_is_judged_where_the_hub_can_keep_up() {
    let judged = |args: &FleetArgs| {
        let thresholds = thresholds(args, &[Round::default()]);
        thresholds
            .iter()
            .any(|threshold| threshold.what.contains("ideal"))
    };
    assert!(judged(&args(500, 50, 2.0)));
    assert!(!judged(&args(10_000, 1_000, 30.0)));
}

#[test]
fn the_worst_round_counts() {
    let round = |wasted| Round {
        wasted,
        over_ideal: Some(1.0),
        ..Round::default()
    };
    let thresholds = thresholds(&args(10, 5, 1.0), &[round(0), round(1)]);
    assert!(
        thresholds
            .iter()
            .any(|threshold| threshold.what.starts_with("wasted") && !threshold.met)
    );
}
