use super::*;

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap()
}

fn progress(text: &str) -> ManagedClustersUpgradeStatus {
    ManagedClustersUpgradeStatus {
        progress: Some(text.to_owned()),
        ..ManagedClustersUpgradeStatus::default()
    }
}

#[test]
fn a_status_is_written_at_once_then_once_a_second_and_only_when_it_changed() {
    let start = Instant::now();
    let mut state = StatusState::default();
    state.set(progress("1/2"), at(0));
    let first = state.due(start).unwrap();
    assert_eq!(state.due(start), None, "one write at a time");
    state.wrote(first, true);
    assert_eq!(state.due_at(start), None, "nothing changed");
    state.set(progress("2/2"), at(0));
    assert_eq!(state.due(start + Duration::from_millis(500)), None);
    assert!(state.due(start + INTERVAL).is_some());
}

fn complete(text: &str) -> ManagedClustersUpgradeStatus {
    with_complete(progress(text), "True", 0)
}

/// A status whose condition Complete has this state since that second.
fn with_complete(
    mut status: ManagedClustersUpgradeStatus,
    state: &str,
    since: i64,
) -> ManagedClustersUpgradeStatus {
    status
        .conditions
        .push(k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition {
            type_: COMPLETE.to_owned(),
            status: state.to_owned(),
            reason: "Test".to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: from_chrono(at(since)),
        });
    status
}

#[test]
fn a_flip_that_was_drafted_while_the_flip_before_was_on_its_way_moves_the_time() {
    let start = Instant::now();
    let mut state = StatusState::default();
    state.observe(Some(&with_complete(progress("1/2"), "False", 10)));
    state.set(with_complete(progress("2/2"), "True", 20), at(20));
    let flip = state.due(start).unwrap();
    // Watchers still see the first status, so the draft is no flip of it.
    state.set(with_complete(progress("2/3"), "False", 10), at(50));
    state.wrote(flip, true);
    let back = state.due(start + INTERVAL).unwrap();
    assert_eq!(back.conditions[0].last_transition_time, from_chrono(at(50)));
}

#[test]
fn the_time_of_completion_is_the_one_that_watchers_see() {
    let start = Instant::now();
    let sent = |completed: i64| {
        let mut state = StatusState::default();
        state.observe(Some(&with_complete(progress("1/2"), "False", 30)));
        let mut status = with_complete(progress("2/2"), "True", 20);
        status.completed_at = Some(from_chrono(at(completed)));
        state.set(status, at(50));
        state.due(start).unwrap().completed_at
    };
    assert_eq!(
        sent(20),
        Some(from_chrono(at(50))),
        "a flip moves the time forward"
    );
    assert_eq!(
        sent(7),
        Some(from_chrono(at(7))),
        "that of a completion before a restore"
    );
}

#[test]
fn the_end_is_told_at_once_but_a_failed_write_of_it_waits_like_any_other() {
    let start = Instant::now();
    let mut state = StatusState::default();
    state.set(progress("1/2"), at(0));
    let first = state.due(start).unwrap();
    state.wrote(first, true);
    state.set(complete("2/2"), at(0));
    let end = state.due(start).unwrap();
    state.wrote(end, false);
    assert_eq!(state.due(start), None);
    let end = state.due(start + INTERVAL).unwrap();
    state.wrote(end, true);
    state.set(progress("2/3"), at(0));
    assert_eq!(state.due(start + INTERVAL), None, "what follows waits again");
}

#[test]
fn a_failed_write_is_repeated() {
    let start = Instant::now();
    let mut state = StatusState::default();
    state.set(progress("1/2"), at(0));
    let status = state.due(start).unwrap();
    state.wrote(status, false);
    assert_eq!(state.due(start), None, "not at once");
    assert!(state.due(start + INTERVAL).is_some());
}

#[test]
fn a_status_that_cannot_be_written_is_tried_ever_less_often() {
    let mut now = Instant::now();
    let mut state = StatusState::default();
    state.set(progress("1/2"), at(0));
    for seconds in [0, 1, 2, 4, 8, 16, 32, 60, 60] {
        let pause = Duration::from_secs(seconds);
        assert!(seconds == 0 || state.due(now + pause.saturating_sub(INTERVAL / 2)).is_none());
        now += pause;
        let status = state.due(now).unwrap();
        state.wrote(status, false);
    }
    let status = state.due(now + MAX_PAUSE).unwrap();
    state.wrote(status, true);
    state.set(progress("2/2"), at(0));
    assert!(
        state.due(now + MAX_PAUSE + INTERVAL).is_some(),
        "a success resets the wait"
    );
}

#[test]
fn a_write_whose_outcome_is_unknown_is_repeated_even_when_the_status_is_the_old_one_again() {
    let start = Instant::now();
    let mut state = StatusState::default();
    state.set(progress("1/2"), at(0));
    let first = state.due(start).unwrap();
    state.wrote(first.clone(), true);
    state.set(progress("2/2"), at(0));
    let second = state.due(start + INTERVAL).unwrap();
    state.set(first.clone(), at(0));
    state.wrote(second, false);
    assert_eq!(state.due(start + INTERVAL * 2), Some(first));
}

#[test]
fn a_status_that_somebody_else_changed_is_written_again_once() {
    let start = Instant::now();
    let mut state = StatusState::default();
    state.set(progress("1/2"), at(0));
    let first = state.due(start).unwrap();
    state.observe(Some(&first));
    state.wrote(first.clone(), true);
    state.observe(Some(&first));
    assert_eq!(state.due_at(start + INTERVAL), None, "our own write is no change");
    state.observe(Some(&progress("made up")));
    state.observe(Some(&progress("made up")));
    assert_eq!(state.due(start + INTERVAL), Some(first.clone()));
    state.observe(Some(&first));
    state.wrote(first, true);
    assert_eq!(state.due_at(start + INTERVAL * 2), None);
}

#[test]
fn a_follower_takes_over_what_the_hub_holds() {
    let mut state = StatusState::default();
    state.set(progress("1/2"), at(0));
    state.reset();
    state.observe(Some(&progress("2/2")));
    assert_eq!(state.previous(), progress("2/2"));
    assert_eq!(state.due_at(Instant::now()), None);
}
