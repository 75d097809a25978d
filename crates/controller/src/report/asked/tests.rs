use super::*;

fn at(state: &str, plan: &str) -> Vec<CheckpointStatus> {
    vec![CheckpointStatus {
        name: "half".to_owned(),
        state: state.to_owned(),
        plan_hash: plan.to_owned(),
        ..CheckpointStatus::default()
    }]
}

fn waits(plan: &str) -> Vec<CheckpointStatus> {
    at(CheckpointStatus::WAITING, plan)
}

/// One upgrade, whose statuses follow one another.
#[derive(Default)]
struct Told {
    asked: Asked,
    last: Vec<CheckpointStatus>,
}

impl Told {
    /// The texts of the Events of a status, after so many seconds.
    fn texts(&mut self, seconds: i64, next: Vec<CheckpointStatus>) -> Vec<String> {
        let now = DateTime::UNIX_EPOCH + TimeDelta::seconds(seconds);
        let events = self.asked.requests(&self.last, &next, now);
        self.last = next;
        let texts = events.into_iter().map(|(reason, text)| {
            assert_eq!(reason, EventReason::ApprovalRequested);
            assert_eq!(api::message::violation(&text), None, "{text}");
            text
        });
        texts.collect()
    }

    fn due_after(&self) -> Option<i64> {
        self.asked.due_at().map(|at| at.timestamp())
    }
}

const FIRST: &str = "Checkpoint half waits for an approval of plan 1a2b";
const SECOND: &str = "Checkpoint half waits for an approval of plan 3c4d and no longer of 1a2b";
const NONE: [&str; 0] = [];

#[test]
fn somebody_is_asked_once_for_each_plan_that_waits() {
    let mut told = Told::default();
    assert_eq!(told.texts(0, at(CheckpointStatus::AHEAD, "1a2b")), NONE);
    assert_eq!(told.texts(1, waits("1a2b")), [FIRST]);
    assert_eq!(told.texts(2, waits("1a2b")), NONE);
    assert_eq!(told.texts(90, waits("3c4d")), [SECOND]);
    assert_eq!(told.texts(300, waits("3c4d")), NONE);
    assert_eq!(told.texts(400, at(CheckpointStatus::APPROVED, "3c4d")), NONE);
    let again = "Checkpoint half waits again since 00:08:20Z for an approval of plan 3c4d";
    assert_eq!(told.texts(500, waits("3c4d")), [again], "it has expired");
}

#[test]
fn a_plan_that_changes_again_and_again_is_asked_for_once_a_minute_and_the_last_one_at_its_end() {
    let mut told = Told::default();
    let mut texts = Vec::new();
    for second in 0..600 {
        texts.extend(told.texts(second, waits(&format!("plan{second}"))));
    }
    assert_eq!(texts.len(), 10);
    assert_eq!(told.due_after(), Some(600));
    assert_eq!(told.texts(599, waits("last")), NONE);
    assert_eq!(
        told.texts(600, waits("last")),
        ["Checkpoint half waits for an approval of plan last and no longer of plan540"]
    );
    assert_eq!(told.due_after(), None);
}

#[test]
fn a_plan_that_comes_back_soon_is_not_asked_for_again() {
    let mut told = Told::default();
    assert_eq!(told.texts(0, waits("1a2b")), [FIRST]);
    assert_eq!(told.texts(10, waits("3c4d")), NONE);
    assert_eq!(told.due_after(), Some(60));
    assert_eq!(told.texts(20, waits("1a2b")), NONE);
    assert_eq!(told.due_after(), None);
    // The approval of each is deleted at once.
    for second in 21..60 {
        assert_eq!(told.texts(second, at(CheckpointStatus::APPROVED, "1a2b")), NONE);
        assert_eq!(told.texts(second, waits("1a2b")), NONE);
    }
    let again = "Checkpoint half waits again since 00:01:00Z for an approval of plan 1a2b";
    assert_eq!(told.texts(60, waits("1a2b")), [again]);
}

#[test]
fn the_next_leader_asks_only_for_another_plan_than_the_status_tells() {
    let begins = || Told {
        asked: Asked::default(),
        last: waits("1a2b"),
    };
    assert_eq!(begins().texts(0, waits("1a2b")), NONE);
    assert_eq!(begins().texts(0, waits("3c4d")), [SECOND]);
}

#[test]
fn a_clock_that_is_set_back_holds_nobody_up_for_longer_than_a_minute() {
    let mut told = Told::default();
    assert_eq!(told.texts(10_000, waits("1a2b")), [FIRST]);
    assert_eq!(told.texts(0, waits("3c4d")), NONE);
    assert_eq!(told.texts(60, waits("3c4d")), [SECOND]);
}
