//! Results of writing a status.

mod properties;

use super::*;

fn status(progress: &str) -> api::ManagedClustersUpgradeStatus {
    serde_json::from_value(json!({"progress": progress})).unwrap()
}

/// Otherwise what has changed would show only when the loop wakes for another reason, up to 15 s later.
#[tokio::test]
async fn a_status_that_has_changed_while_an_earlier_one_was_written_wakes_the_loop() {
    for (next, changes) in [("2/2", true), ("1/2", false)] {
        let context = writing();
        let sent = with_entry(&context, |entry| {
            entry.status.set(status("1/2"), at(0));
            let due = entry.status.due(clock::now()).unwrap();
            entry.status.set(status(next), at(1));
            due
        });
        let write = Write::Status {
            namespace: Arc::from("ns"),
            name: Arc::from("u1"),
            version: "1".to_owned(),
            status: Box::new(sent),
        };
        let written = Given {
            version: 2,
            status: json!({"progress": "1/2"}),
            ..upgrade("u1", &["c1"])
        };
        answered(&context, write, &WriteResult::Upgrade(Box::new(written.view())));
        let woken = tokio::time::timeout(Duration::ZERO, context.wait_for_wake()).await;
        assert_eq!(woken.is_ok(), changes);
        with_entry(&context, |entry| {
            assert_eq!(entry.status.due_at(clock::now()).is_some(), changes);
            assert!(!entry.dirty, "no pass is needed for that");
        });
    }
}

/// The watch tells of the change before the response to the write arrives.
#[test]
fn a_status_that_somebody_else_changed_before_the_response_arrived_is_written_again() {
    let context = writing();
    let object = |version, progress: &str| Given {
        version,
        status: serde_json::to_value(status(progress)).unwrap(),
        ..upgrade("u1", &["c1"])
    };
    let due = with_entry(&context, |entry| {
        entry.status.set(status("1/2"), at(0));
        entry.status.due(Instant::now()).unwrap()
    });
    context.with(|state| state.apply_upgrade(object(9, "made up").view()));
    let write = Write::Status {
        namespace: Arc::from("ns"),
        name: Arc::from("u1"),
        version: "1".to_owned(),
        status: Box::new(due),
    };
    let answer = WriteResult::Upgrade(Box::new(object(8, "1/2").view()));
    answered(&context, write, &answer);
    let again = with_entry(&context, |entry| {
        entry.status.due(Instant::now() + Duration::from_secs(2))
    });
    assert_eq!(again.unwrap().progress.as_deref(), Some("1/2"));
}
