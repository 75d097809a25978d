use super::*;

#[tokio::test]
async fn deleting_removes_the_works_and_then_the_finalizer() {
    let mut hub = hub(&["c1"]);
    hub.add_upgrade(&upgrade("u1", &["c1"]));
    hub.settle();
    hub.version = 1_000;
    hub.add_upgrade(&Given {
        deleting: true,
        version: 1_000,
        ..upgrade("u1", &["c1"])
    });
    let jobs = hub.reconcile();
    let first: Vec<String> = jobs.iter().map(line).collect();
    assert_eq!(works(&first), ["u1: delete c1-cluster-upgrade"]);
    assert!(!first.iter().any(|one| one.contains("finalizers")));
    for job in jobs {
        hub.carry_out(job);
    }
    // The agent's finalizer keeps the work, and the agent may be gone, so the upgrade does not wait for it.
    assert_eq!(hub.settle(), ["u1: finalizers 0"]);
}

#[tokio::test]
async fn deleting_waits_for_a_creation_whose_answer_was_lost() {
    let mut hub = hub(&["c1"]);
    hub.add_upgrade(&upgrade("u1", &["c1"]));
    let jobs = hub.reconcile();
    for job in jobs {
        if matches!(job.write, Write::Create { .. }) {
            hub.answer(
                job,
                &WriteResult::Failed(WriteError::new(WriteErrorKind::Broken, "no response")),
            );
        } else {
            hub.carry_out(job);
        }
    }
    hub.add_upgrade(&Given {
        deleting: true,
        version: 1_000,
        ..upgrade("u1", &["c1"])
    });
    assert!(works_and_end(&hub.pass("u1")).is_empty());
    hub.context
        .with(|state| assert!(state.upgrades["u1"].wake_at.is_some()));
    let late = crate::fixture::work("c1", WireStep::Platform, "u1", 2_000);
    hub.deliver(&Change::Applied(late));
    hub.context.with(|state| {
        state.upgrades.get_mut("u1").unwrap().backoff.clear();
    });
    let jobs = hub.reconcile();
    assert_eq!(
        works(&jobs.iter().map(line).collect::<Vec<_>>()),
        ["u1: delete c1-cluster-upgrade"]
    );
}

#[tokio::test]
async fn a_failed_deletion_of_a_work_is_tried_again_after_its_wait_only() {
    let mut hub = hub(&["c1"]);
    hub.add_upgrade(&upgrade("u1", &["c1"]));
    hub.settle();
    hub.add_upgrade(&Given {
        deleting: true,
        version: 1_000,
        ..upgrade("u1", &["c1"])
    });
    let job = hub.reconcile().remove(0);
    hub.answer(
        job,
        &WriteResult::Failed(WriteError::new(WriteErrorKind::Broken, "forbidden")),
    );
    assert!(works_and_end(&hub.pass("u1")).is_empty());
    hub.context.with(|state| {
        let entry = state.upgrades.get_mut("u1").unwrap();
        assert!(entry.wake_at.is_some());
        let status = entry.status.previous();
        assert_eq!(status.state, Some(UpgradeState::Deleting));
        assert_eq!(
            stalled(&status),
            (
                "DeletionRefused",
                "A ManifestWork of cluster c1 cannot be deleted: forbidden. The controller retries until it succeeds."
            )
        );
        entry.backoff.clear();
    });
    assert_eq!(works_and_end(&hub.pass("u1")), ["u1: delete c1-cluster-upgrade"]);
}

#[tokio::test]
async fn a_finalizer_that_cannot_be_removed_is_told_on_the_object() {
    let mut hub = hub(&["c1"]);
    hub.add_upgrade(&upgrade("u1", &[]));
    hub.settle();
    hub.add_upgrade(&Given {
        deleting: true,
        version: 1_000,
        ..upgrade("u1", &[])
    });
    let job = hub.pass("u1").remove(0);
    assert_eq!(line(&job), "u1: finalizers 0");
    hub.answer(
        job,
        &WriteResult::Failed(WriteError::new(
            WriteErrorKind::Broken,
            "a webhook denied the request",
        )),
    );
    hub.pass("u1");
    hub.context.with(|state| {
        let status = state.upgrades["u1"].status.previous();
        let (reason, message) = stalled(&status);
        assert_eq!(reason, "DeletionRefused");
        assert!(message.contains("a webhook denied the request"), "{message}");
    });
}

#[tokio::test]
async fn deleting_waits_for_no_write_that_was_refused() {
    let mut hub = hub(&["c1"]);
    hub.add_upgrade(&upgrade("u1", &["c1"]));
    for job in hub.reconcile() {
        if matches!(job.write, Write::Create { .. }) {
            let forbidden = WriteResult::Failed(WriteError::new(WriteErrorKind::Forbidden, "forbidden"));
            hub.answer(job, &forbidden);
        } else {
            hub.carry_out(job);
        }
    }
    hub.context
        .with(|state| assert_eq!(state.upgrades["u1"].backoff.len(), 1));
    hub.add_upgrade(&Given {
        deleting: true,
        version: 1_000,
        ..upgrade("u1", &["c1"])
    });
    assert_eq!(works_and_end(&hub.pass("u1")), ["u1: finalizers 0"]);
}

/// The writes of works and finalizers as text. The status may be due at any pass.
fn works_and_end(jobs: &[WriteJob]) -> Vec<String> {
    let described = jobs.iter().map(line);
    described.filter(|one| !one.ends_with("status")).collect()
}

#[tokio::test]
async fn finalizers_of_which_only_some_are_known_are_not_rewritten_and_the_object_says_so() {
    let mut hub = hub(&[]);
    hub.add_upgrade(&upgrade("u1", &[]));
    hub.settle();
    let mut view = Given {
        deleting: true,
        version: 1_000,
        ..upgrade("u1", &[])
    }
    .view();
    let many = (0..=api::views::MAX_FINALIZERS).map(|number| format!("a/{number}"));
    view.metadata.finalizers.get_or_insert_default().extend(many);
    hub.context.with(|state| state.apply_upgrade(view));
    hub.version = 1_000;
    let written = hub.settle();
    assert!(
        !written.iter().any(|one| one.contains("finalizers")),
        "{written:?}"
    );
    hub.context.with(|state| {
        let status = state.upgrades["u1"].status.previous();
        assert!(stalled(&status).1.contains("at most 64 are left"), "{status:?}");
    });
}
