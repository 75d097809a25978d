use super::*;

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
    state.set(progress("1/2"));
    let first = state.due(start).unwrap();
    assert_eq!(state.due(start), None, "one write at a time");
    state.wrote(first, true);
    assert_eq!(state.due_at(start), None, "nothing changed");
    state.set(progress("2/2"));
    assert_eq!(state.due(start + Duration::from_millis(500)), None);
    assert!(state.due(start + INTERVAL).is_some());
}

fn complete(text: &str) -> ManagedClustersUpgradeStatus {
    let mut status = progress(text);
    let time = api::time::from_chrono(chrono::DateTime::UNIX_EPOCH);
    status
        .conditions
        .push(k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition {
            type_: COMPLETE.to_owned(),
            status: "True".to_owned(),
            reason: "Test".to_owned(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: time,
        });
    status
}

#[test]
fn the_end_is_told_at_once_but_a_failed_write_of_it_waits_like_any_other() {
    let start = Instant::now();
    let mut state = StatusState::default();
    state.set(progress("1/2"));
    let first = state.due(start).unwrap();
    state.wrote(first, true);
    state.set(complete("2/2"));
    let end = state.due(start).unwrap();
    state.wrote(end, false);
    assert_eq!(state.due(start), None);
    let end = state.due(start + INTERVAL).unwrap();
    state.wrote(end, true);
    state.set(progress("2/3"));
    assert_eq!(state.due(start + INTERVAL), None, "what follows waits again");
}

#[test]
fn a_failed_write_is_repeated() {
    let start = Instant::now();
    let mut state = StatusState::default();
    state.set(progress("1/2"));
    let status = state.due(start).unwrap();
    state.wrote(status, false);
    assert_eq!(state.due(start), None, "not at once");
    assert!(state.due(start + INTERVAL).is_some());
}

#[test]
fn a_status_that_cannot_be_written_is_tried_ever_less_often() {
    let mut now = Instant::now();
    let mut state = StatusState::default();
    state.set(progress("1/2"));
    for seconds in [0, 1, 2, 4, 8, 16, 32, 60, 60] {
        let pause = Duration::from_secs(seconds);
        assert!(seconds == 0 || state.due(now + pause.saturating_sub(INTERVAL / 2)).is_none());
        now += pause;
        let status = state.due(now).unwrap();
        state.wrote(status, false);
    }
    let status = state.due(now + MAX_PAUSE).unwrap();
    state.wrote(status, true);
    state.set(progress("2/2"));
    assert!(
        state.due(now + MAX_PAUSE + INTERVAL).is_some(),
        "a success resets the wait"
    );
}

#[test]
fn a_write_whose_outcome_is_unknown_is_repeated_even_when_the_status_is_the_old_one_again() {
    let start = Instant::now();
    let mut state = StatusState::default();
    state.set(progress("1/2"));
    let first = state.due(start).unwrap();
    state.wrote(first.clone(), true);
    state.set(progress("2/2"));
    let second = state.due(start + INTERVAL).unwrap();
    state.set(first.clone());
    state.wrote(second, false);
    assert_eq!(state.due(start + INTERVAL * 2), Some(first));
}

#[test]
fn a_status_that_somebody_else_changed_is_written_again_once() {
    let start = Instant::now();
    let mut state = StatusState::default();
    state.set(progress("1/2"));
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
    state.set(progress("1/2"));
    state.reset();
    state.observe(Some(&progress("2/2")));
    assert_eq!(state.previous(), progress("2/2"));
    assert_eq!(state.due_at(Instant::now()), None);
}
