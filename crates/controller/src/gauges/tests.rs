use serde_json::json;

use super::*;
use crate::fixture::{context, note, upgrade};
use rollout::testing::record;

fn shows(context: &Context, lines: &[&str]) -> bool {
    let text = context.metrics.encode_classic().unwrap();
    lines.iter().all(|line| text.lines().any(|shown| shown == *line))
}

fn names(context: &Context) -> Vec<String> {
    let (samples, _) = context.with(|state| samples(state));
    samples.iter().map(|sample| sample.name.to_string()).collect()
}

#[test]
fn what_a_leader_counts_is_cleared_when_its_term_ends() {
    let context = context(&["c1"]);
    context.with(|state| {
        state.apply_upgrade(upgrade("u1", &["c1"]).view());
        note(
            state.upgrades.get_mut("u1").unwrap(),
            "c1",
            record(Phase::Complete),
        );
    });
    set(&context, &[Uid::from("u1")]);
    assert!(shows(
        &context,
        &[
            "mcu_clusters{phase=\"Complete\"} 1",
            "mcu_upgrades{state=\"running\"} 1",
            "mcu_upgrade_clusters{upgrade_namespace=\"ns\",upgrade=\"u1\",phase=\"Complete\"} 1",
        ]
    ));
    clear(&context);
    assert!(shows(
        &context,
        &[
            "mcu_clusters{phase=\"Complete\"} 0",
            "mcu_upgrades{state=\"running\"} 0"
        ]
    ));
    assert!(!context.metrics.encode_classic().unwrap().contains("\"u1\""));
}

/// A leaked text, since the names of fixtures live as long as the program.
fn name(number: usize) -> &'static str {
    Box::leak(format!("u{number:04}").into_boxed_str())
}

/// A time of one day; a later number is a later time.
fn time(number: usize) -> String {
    format!(
        "2026-05-28T{:02}:{:02}:{:02}Z",
        number / 3600,
        number / 60 % 60,
        number % 60
    )
}

fn complete(number: usize) -> serde_json::Value {
    json!({"state": "Complete", "conditions": [{
        "type": "Complete", "status": "True", "reason": "Complete", "message": "",
        "lastTransitionTime": time(number),
    }]})
}

#[test]
fn of_too_many_upgrades_the_newest_open_ones_and_the_last_finished_ones_have_series() {
    let context = context(&[]);
    context.with(|state| {
        for number in 0..MAX_OPEN + 3 {
            let mut given = upgrade(name(number), &[]);
            given.created = Box::leak(time(number).into_boxed_str());
            state.apply_upgrade(given.view());
        }
        for number in 1000..1000 + MAX_FINISHED + 2 {
            let mut given = upgrade(name(number), &[]);
            given.status = complete(number);
            state.apply_upgrade(given.view());
        }
    });
    let shown = names(&context);
    assert_eq!(shown.len(), MAX_OPEN + MAX_FINISHED);
    let has = |number| shown.iter().any(|shown| shown == name(number));
    assert!(!has(2) && has(3) && has(MAX_OPEN + 2));
    assert!(!has(1001) && has(1002) && has(1000 + MAX_FINISHED + 1));
    set(&context, &[]);
    assert!(shows(&context, &["mcu_upgrades_omitted 3"]));
}

#[test]
fn a_finished_upgrade_made_progress_last_when_it_became_complete() {
    let context = context(&[]);
    context.with(|state| {
        let mut given = upgrade("u1", &[]);
        given.status = complete(7200);
        state.apply_upgrade(given.view());
    });
    let (samples, _) = context.with(|state| samples(state));
    assert_eq!(samples[0].state, UpgradeStateLabel::Complete);
    let two = chrono::DateTime::parse_from_rfc3339("2026-05-28T02:00:00Z").unwrap();
    assert_eq!(samples[0].last_progress, two.timestamp());
}

#[test]
fn an_upgrade_of_which_nothing_has_started_made_progress_last_when_it_was_created() {
    let context = context(&["c1"]);
    context.with(|state| state.apply_upgrade(upgrade("u1", &["c1"]).view()));
    let (samples, _) = context.with(|state| samples(state));
    let created = chrono::DateTime::parse_from_rfc3339("2026-05-28T10:00:00Z").unwrap();
    assert_eq!(samples[0].last_progress, created.timestamp());
}

#[test]
fn an_upgrade_that_was_made_again_under_its_name_has_its_series_once() {
    let context = context(&[]);
    context.with(|state| {
        for uid in ["u1", "u2"] {
            let mut given = upgrade(uid, &[]);
            given.name = "spring";
            state.apply_upgrade(given.view());
        }
    });
    assert_eq!(names(&context), ["spring"]);
}
