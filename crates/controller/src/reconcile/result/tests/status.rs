//! Results of writing a status.

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
