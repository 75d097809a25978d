use serde_json::json;

use super::{Container, End, PodState, State, back_off, restarts};
use crate::fields::from_unix;

fn ended(code: i32) -> State {
    State::Terminated(End {
        code,
        reason: if code == 0 { "Completed" } else { "Error" }.into(),
        message: String::new(),
        started: from_unix(0),
        finished: from_unix(1),
    })
}

fn pod(init: Vec<State>, main: Vec<State>) -> PodState {
    let make = |state| Container {
        state,
        ..Container::new(&json!({"name": "c", "image": "i"}), "")
    };
    PodState {
        started: from_unix(0),
        init: init.into_iter().map(make).collect(),
        main: main.into_iter().map(make).collect(),
        ended: None,
    }
}

#[test]
fn the_phase_follows_from_the_containers() {
    let wait = || State::Waiting("ContainerCreating".into(), String::new());
    let run = || State::Running(from_unix(0));
    for (init, main, phase) in [
        (vec![], vec![wait()], "Pending"),
        (vec![run()], vec![wait()], "Pending"),
        (vec![ended(1)], vec![wait()], "Failed"),
        (vec![ended(0)], vec![wait(), run()], "Running"),
        (vec![], vec![ended(0), run()], "Running"),
        (vec![], vec![ended(0), ended(0)], "Succeeded"),
        (vec![], vec![ended(0), ended(2)], "Failed"),
    ] {
        let name = format!("{init:?} {main:?}");
        assert_eq!(pod(init, main).phase(), phase, "{name}");
    }
    let mut late = pod(vec![], vec![ended(0)]);
    late.ended = Some(("DeadlineExceeded".into(), String::new()));
    assert_eq!(late.phase(), "Failed");
}

#[test]
fn the_status_has_what_the_job_controller_reads() {
    let status = pod(vec![], vec![ended(3)]).show(&json!({"qosClass": "BestEffort"}), from_unix(5));
    assert_eq!(status["phase"], "Failed");
    assert_eq!(status["qosClass"], "BestEffort");
    assert_eq!(
        status["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        3
    );
    let conditions = status["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "False")
    );
}

#[test]
fn restarts_follow_the_policy_and_back_off() {
    for (policy, code, again) in [
        ("Never", 1, false),
        ("OnFailure", 1, true),
        ("OnFailure", 0, false),
        ("Always", 0, true),
        ("", 0, true),
    ] {
        assert_eq!(restarts(policy, code), again, "{policy} {code}");
    }
    assert_eq!([0, 1, 4, 5, 40].map(back_off), [10, 20, 160, 300, 300]);
}
