use super::*;

#[tokio::test]
async fn deleting_removes_the_works_and_then_the_finalizer() {
    let mut desktop = desktop(&["c1"]);
    desktop.knows(&upgrade("u1", &["c1"]));
    desktop.settle();
    desktop.version = 1_000;
    desktop.knows(&Given {
        deleting: true,
        version: 1_000,
        ..upgrade("u1", &["c1"])
    });
    let jobs = desktop.look();
    let first: Vec<String> = jobs.iter().map(told).collect();
    assert_eq!(works(&first), ["u1: delete c1-cluster-upgrade"]);
    assert!(!first.iter().any(|one| one.contains("finalizers")));
    for job in jobs {
        desktop.carry_out(job);
    }
    // The agent's finalizer holds the work, and the agent may be dead: nobody waits for it.
    assert_eq!(desktop.settle(), ["u1: finalizers 0"]);
}

#[tokio::test]
async fn deleting_waits_for_a_creation_whose_answer_was_lost() {
    let mut desktop = desktop(&["c1"]);
    desktop.knows(&upgrade("u1", &["c1"]));
    let jobs = desktop.look();
    for job in jobs {
        if matches!(job.effect, Effect::Create { .. }) {
            desktop.answer(job, &Outcome::Failed("no answer".to_owned(), WriteOutcome::Error));
        } else {
            desktop.carry_out(job);
        }
    }
    desktop.knows(&Given {
        deleting: true,
        version: 1_000,
        ..upgrade("u1", &["c1"])
    });
    assert!(works_and_end(&desktop.look_at("u1")).is_empty());
    desktop
        .hall
        .with(|state| assert!(state.desks["u1"].wake_at.is_some()));
    let late = crate::fixture::work("c1", WireStep::Platform, "u1", 2_000);
    desktop.tells(&Change::Applied(late));
    desktop.hall.with(|state| {
        state.desks.get_mut("u1").unwrap().backoff.clear();
    });
    let jobs = desktop.look();
    assert_eq!(
        works(&jobs.iter().map(told).collect::<Vec<_>>()),
        ["u1: delete c1-cluster-upgrade"]
    );
}

#[tokio::test]
async fn a_failed_deletion_of_a_work_is_tried_again_after_its_wait_only() {
    let mut desktop = desktop(&["c1"]);
    desktop.knows(&upgrade("u1", &["c1"]));
    desktop.settle();
    desktop.knows(&Given {
        deleting: true,
        version: 1_000,
        ..upgrade("u1", &["c1"])
    });
    let job = desktop.look().remove(0);
    desktop.answer(job, &Outcome::Failed("forbidden".to_owned(), WriteOutcome::Error));
    assert!(works_and_end(&desktop.look_at("u1")).is_empty());
    desktop.hall.with(|state| {
        let desk = state.desks.get_mut("u1").unwrap();
        assert!(desk.wake_at.is_some());
        let status = desk.status.previous();
        assert_eq!(status.state, Some(UpgradeState::Deleting));
        assert_eq!(
            stalled(&status),
            (
                "DeletionRefused",
                "a ManifestWork of cluster c1 cannot be deleted: forbidden; it is tried again until it succeeds"
            )
        );
        desk.backoff.clear();
    });
    assert_eq!(
        works_and_end(&desktop.look_at("u1")),
        ["u1: delete c1-cluster-upgrade"]
    );
}

#[tokio::test]
async fn a_finalizer_that_cannot_be_removed_is_told_on_the_object() {
    let mut desktop = desktop(&["c1"]);
    desktop.knows(&upgrade("u1", &[]));
    desktop.settle();
    desktop.knows(&Given {
        deleting: true,
        version: 1_000,
        ..upgrade("u1", &[])
    });
    let job = desktop.look_at("u1").remove(0);
    assert_eq!(told(&job), "u1: finalizers 0");
    desktop.answer(
        job,
        &Outcome::Failed("a webhook denied the request".to_owned(), WriteOutcome::Error),
    );
    desktop.look_at("u1");
    desktop.hall.with(|state| {
        let status = state.desks["u1"].status.previous();
        let (reason, message) = stalled(&status);
        assert_eq!(reason, "DeletionRefused");
        assert!(message.contains("a webhook denied the request"), "{message}");
    });
}

#[tokio::test]
async fn deleting_waits_for_no_write_that_was_refused() {
    let mut desktop = desktop(&["c1"]);
    desktop.knows(&upgrade("u1", &["c1"]));
    for job in desktop.look() {
        if matches!(job.effect, Effect::Create { .. }) {
            let forbidden = Outcome::Failed("forbidden".to_owned(), WriteOutcome::Forbidden);
            desktop.answer(job, &forbidden);
        } else {
            desktop.carry_out(job);
        }
    }
    desktop
        .hall
        .with(|state| assert_eq!(state.desks["u1"].backoff.len(), 1));
    desktop.knows(&Given {
        deleting: true,
        version: 1_000,
        ..upgrade("u1", &["c1"])
    });
    assert_eq!(works_and_end(&desktop.look_at("u1")), ["u1: finalizers 0"]);
}

/// What is written of works and finalizers, in words; the status may be due at any look.
fn works_and_end(jobs: &[Job]) -> Vec<String> {
    let told = jobs.iter().map(told);
    told.filter(|one| !one.ends_with("status")).collect()
}

#[tokio::test]
async fn finalizers_of_which_only_some_are_known_are_not_rewritten_and_the_object_says_so() {
    let mut desktop = desktop(&[]);
    desktop.knows(&upgrade("u1", &[]));
    desktop.settle();
    let mut view = Given {
        deleting: true,
        version: 1_000,
        ..upgrade("u1", &[])
    }
    .view();
    let many = (0..=api::views::MAX_FINALIZERS).map(|number| format!("a/{number}"));
    view.metadata.finalizers.get_or_insert_default().extend(many);
    desktop.hall.with(|state| state.apply_upgrade(view));
    desktop.version = 1_000;
    let written = desktop.settle();
    assert!(
        !written.iter().any(|one| one.contains("finalizers")),
        "{written:?}"
    );
    desktop.hall.with(|state| {
        let status = state.desks["u1"].status.previous();
        assert!(stalled(&status).1.contains("leave at most 64"), "{status:?}");
    });
}
