use std::ops::Range;

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

#[test]
fn the_series_of_an_upgrade_tell_the_target_of_its_status() {
    let context = context(&[]);
    context.with(|state| {
        let mut given = upgrade("u1", &[]);
        given.status = json!({"state": "Complete", "target": "4.20.4"});
        state.apply_upgrade(given.view());
    });
    set(&context, &[]);
    let line =
        "mcu_upgrade_info{upgrade_namespace=\"ns\",upgrade=\"u1\",state=\"complete\",target=\"4.20.4\"} 1";
    assert!(shows(&context, &[line]));
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

/// Upgrades by their numbers: the higher, the newer. `phase`: that of the only cluster of each. `None`: they have no clusters.
fn add(context: &Context, namespace: &str, numbers: Range<usize>, phase: Option<Phase>) {
    let due: Vec<Uid> = numbers.clone().map(|number| Uid::from(name(number))).collect();
    context.with(|state| {
        for number in numbers {
            let mut given = upgrade(name(number), &[]);
            given.created = Box::leak(time(number).into_boxed_str());
            if phase == Some(Phase::Complete) {
                given.status = complete(number);
            }
            let mut view = given.view();
            view.metadata.namespace = Some(namespace.to_owned());
            state.apply_upgrade(view);
            if let Some(phase) = phase {
                note(state.upgrades.get_mut(name(number)).unwrap(), "c1", record(phase));
            }
        }
    });
    set(context, &due);
}

#[test]
fn empty_upgrades_of_one_namespace_take_no_series_from_older_ones_of_others() {
    let context = context(&[]);
    add(&context, "theirs", 0..3, Some(Phase::Partial));
    add(&context, "theirs", 3..6, Some(Phase::Pending));
    add(&context, "theirs", 6..9, None);
    add(&context, "mine", 100..100 + MAX_OPEN + 50, None);
    let shown = names(&context);
    assert_eq!(shown.len(), MAX_OPEN);
    let missing: Vec<_> = (0..9)
        .filter(|number| !shown.iter().any(|shown| shown == name(*number)))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(shows(&context, &["mcu_upgrades_omitted 59"]));
}

#[test]
fn upgrades_with_clusters_at_work_have_series_before_newer_ones_whose_clusters_wait() {
    let context = context(&[]);
    add(&context, "ns", 0..2, Some(Phase::Soaking));
    add(&context, "ns", 2..3, Some(Phase::Failed));
    add(&context, "ns", 100..100 + MAX_OPEN, Some(Phase::Pending));
    add(&context, "other", 900..1000, None);
    let shown = names(&context);
    let has = |number| shown.iter().any(|shown| shown == name(number));
    assert!(has(0) && has(1) && !has(2));
    assert!(!has(101) && has(102) && has(100 + MAX_OPEN - 1));
    assert!(!has(999), "it has no clusters");
}

#[test]
fn of_upgrades_with_clusters_each_namespace_has_its_newest_ones() {
    let context = context(&[]);
    add(&context, "theirs", 0..10, Some(Phase::Pending));
    add(&context, "mine", 100..100 + MAX_OPEN, Some(Phase::Pending));
    let shown = names(&context);
    assert_eq!(shown.len(), MAX_OPEN);
    let has = |number| shown.iter().any(|shown| shown == name(number));
    assert!((0..10).all(has));
    assert!(!has(109) && has(110));
}

#[test]
fn finished_upgrades_of_one_namespace_take_no_series_from_those_of_others() {
    let context = context(&[]);
    add(&context, "theirs", 0..2, Some(Phase::Complete));
    add(&context, "mine", 100..200, Some(Phase::Complete));
    let shown = names(&context);
    assert_eq!(shown.len(), MAX_FINISHED);
    let has = |number| shown.iter().any(|shown| shown == name(number));
    assert!(has(0) && has(1) && has(199) && !has(151));
    assert!(shows(&context, &["mcu_upgrades_omitted 0"]));
}

#[test]
fn which_upgrades_have_series_does_not_depend_on_the_order_in_which_they_came() {
    let both = [[0, 1], [1, 0]].map(|order| {
        let context = context(&[]);
        for part in order {
            let first = part * 150;
            add(
                &context,
                ["a", "b"][part],
                first..first + 150,
                Some(Phase::Blocked),
            );
        }
        names(&context)
    });
    assert_eq!(both[0], both[1]);
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
