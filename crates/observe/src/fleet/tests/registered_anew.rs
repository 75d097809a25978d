//! Works of an earlier registration of their cluster.

use super::*;

/// The hub may carry out a creation long after it was sent, and the cluster may have been registered anew since.
#[test]
fn a_work_of_a_later_step_that_was_sent_for_an_earlier_registration_proves_nothing() {
    let mut index = index(&[]);
    let mut registered = crate::testing::cluster("a");
    registered.metadata.uid = Some("second".to_owned());
    index.cluster(&Change::Applied(registered));
    let mut entry = upgrade("mine", &["a"], &index);
    let mut version = 5;
    let mut step = |entry: &TestUpgrade, step: Step, cluster_uid: &str| {
        version += 1;
        let mut seen = work("a", step, "mine", version);
        let notes = seen.metadata.annotations.get_or_insert_default();
        notes.insert(ANNOTATION_STARTED_AT.to_owned(), api::time::to_rfc3339(at(0)));
        notes.insert(
            api::names::ANNOTATION_CLUSTER_UID.to_owned(),
            cluster_uid.to_owned(),
        );
        index.work(&Change::Applied(seen), at(0));
        let fleet = observed(entry, &mut index);
        one(&fleet, "a").step_work(step).clone()
    };
    let of_attempt = |slot: StepWork| slot.ours().map(|work| work.attempt.revision.to_string());
    for follows in [Step::Operators, Step::PostAction] {
        entry.rows.clear();
        for known in ["second", ""] {
            assert_eq!(
                of_attempt(step(&entry, follows, known)).as_deref(),
                Some("r1"),
                "{known}"
            );
        }
        let former = step(&entry, follows, "first");
        assert!(matches!(former, StepWork::Former(_)), "{former:?}");
        entry.note("a", record(Phase::Initialized).stage(Stage::Platform, 0));
        assert_eq!(of_attempt(step(&entry, follows, "second")).as_deref(), Some("r1"));
        assert_eq!(
            of_attempt(step(&entry, follows, "first")).as_deref(),
            Some(""),
            "a leftover"
        );
        // The row is from that registration as well, so the cluster is taken for the same.
        let told = record(Phase::Operators).stage(follows.into(), 0);
        entry.note("a", told);
        assert_eq!(of_attempt(step(&entry, follows, "first")).as_deref(), Some("r1"));
    }
    entry.rows.clear();
    let start = step(&entry, Step::Platform, "first");
    assert_eq!(
        of_attempt(start).as_deref(),
        Some("r1"),
        "the update itself is asked for"
    );
}

/// An earlier try may have begun the step first: the row has its start, and the later one is carried out when its work is gone.
#[test]
fn a_row_stays_although_a_work_that_was_sent_for_an_earlier_registration_names_a_later_start() {
    for (sent_for, stays) in [("first", true), ("second", false)] {
        let mut index = index(&[]);
        let mut registered = crate::testing::cluster("a");
        registered.metadata.uid = Some("second".to_owned());
        registered.metadata.creation_timestamp = created("2026-05-28T09:00:00Z");
        index.cluster(&Change::Applied(registered));
        let mut entry = upgrade("mine", &["a"], &index);
        let mut late = work("a", Step::Operators, "mine", 5);
        late.metadata.creation_timestamp = created("2026-05-28T09:30:00Z");
        let notes = late.metadata.annotations.get_or_insert_default();
        notes.insert(api::names::ANNOTATION_CLUSTER_UID.to_owned(), sent_for.to_owned());
        index.work(&Change::Applied(late), at(0));
        entry.note("a", record(Phase::Operators).stage(Stage::Operators, 0));
        entry.write();
        let fleet = observed(&entry, &mut index);
        let cluster = one(&fleet, "a");
        assert_eq!(cluster.record.is_some(), stays, "{sent_for}");
        let work = cluster.step_work(Step::Operators).ours().unwrap();
        assert_eq!(work.attempt == Attempt::default(), stays, "a leftover");
    }
}

#[test]
fn a_work_older_than_its_cluster_is_of_an_earlier_life_unless_a_record_tells_of_its_attempt() {
    let mut index = index(&[]);
    let mut registered = crate::testing::cluster("a");
    registered.metadata.creation_timestamp = created("2026-05-28T11:00:00Z");
    index.cluster(&Change::Applied(registered.clone()));
    let mut entry = upgrade("mine", &["a"], &index);
    let step = |entry: &TestUpgrade, index: &mut Index| {
        let fleet = observed(entry, index);
        one(&fleet, "a").step_work(Step::Platform).clone()
    };
    let mut seen = work("a", Step::Platform, "mine", 5);
    seen.metadata.creation_timestamp = created("2026-05-28T11:00:00Z");
    index.work(&Change::Applied(seen.clone()), at(0));
    assert!(step(&entry, &mut index).ours().is_some(), "of this registration");
    seen.metadata.creation_timestamp = created("2026-05-28T10:59:59Z");
    index.work(&Change::Applied(seen), at(0));
    for is_unconfirmed in [false, true] {
        if is_unconfirmed {
            index.cluster(&Change::Deleted(registered.clone()));
            index.cluster(&Change::Applied(registered.clone()));
        }
        entry.rows.clear();
        assert!(matches!(step(&entry, &mut index), StepWork::Former(_)));
        entry.note("a", record(Phase::Pending).retry("~"));
        assert!(matches!(step(&entry, &mut index), StepWork::Former(_)));
        entry.write();
        let told = step(&entry, &mut index);
        assert_eq!(told.ours().is_none(), is_unconfirmed, "a leftover by the row");
        assert_eq!(matches!(told, StepWork::Former(_)), is_unconfirmed);
        entry.note("a", record(Phase::Partial));
        let same = step(&entry, &mut index);
        assert_eq!(same == StepWork::Unconfirmed, is_unconfirmed, "{same:?}");
        assert_eq!(same.ours().is_none(), is_unconfirmed);
    }
}

/// A cluster that was registered anew was asked for the update by its platform work from before, which was changed in place. Then its
/// row was lost, and the controller has started anew.
#[test]
fn a_platform_work_that_was_changed_in_place_since_its_cluster_was_registered_counts_although_its_row_is_lost()
 {
    let mut registered = crate::testing::cluster("a");
    registered.metadata.uid = Some("second".to_owned());
    registered.metadata.creation_timestamp = created("2026-05-28T09:59:00Z");
    let sent_for = |cluster_uid: &str| {
        let mut seen = work("a", Step::Platform, "mine", 5);
        seen.metadata.creation_timestamp = created("2026-05-28T09:00:00Z");
        let notes = seen.metadata.annotations.get_or_insert_default();
        notes.insert(api::names::ANNOTATION_ATTEMPT.to_owned(), "~".to_owned());
        notes.insert(
            api::names::ANNOTATION_CLUSTER_UID.to_owned(),
            cluster_uid.to_owned(),
        );
        seen
    };
    let step = |entry: &TestUpgrade, index: &mut Index| {
        let fleet = observed(entry, index);
        one(&fleet, "a").step_work(Step::Platform).clone()
    };
    for (cluster_uid, counts) in [("first", false), ("", false), ("second", true)] {
        let mut index = index(&[]);
        index.cluster(&Change::Applied(registered.clone()));
        index.listed_work(&sent_for(cluster_uid), at(0));
        let mut entry = upgrade("mine", &["a"], &index);
        for told in [None, Some(record(Phase::Pending).retry("other"))] {
            if let Some(told) = told {
                entry.note("a", told);
            }
            let found = step(&entry, &mut index);
            assert_eq!(matches!(found, StepWork::Former(_)), !counts, "{cluster_uid}");
            let work = found.ours();
            assert_eq!(work.is_some(), counts, "{cluster_uid}");
            assert_eq!(work.map(|work| &*work.attempt.retry), counts.then_some("~"));
        }
    }
    let mut index = index(&[]);
    index.cluster(&Change::Applied(registered.clone()));
    index.listed_work(&sent_for("second"), at(0));
    let entry = upgrade("mine", &["a"], &index);
    // The cluster is deleted and registered once more.
    index.cluster(&Change::Deleted(registered.clone()));
    let mut third = registered.clone();
    third.metadata.uid = Some("third".to_owned());
    third.metadata.creation_timestamp = created("2026-05-28T10:30:00Z");
    index.cluster(&Change::Applied(third));
    assert!(matches!(step(&entry, &mut index), StepWork::Former(_)));
    // What goes with its namespace counts no more, whatever it names.
    index.cluster(&Change::Applied(registered));
    index.lose_namespace("a");
    assert!(matches!(step(&entry, &mut index), StepWork::Former(_)));
}

#[test]
fn the_end_of_a_work_that_is_older_than_its_cluster_proves_nothing_although_a_record_tells_of_its_attempt() {
    let vanished = |registered: &str| {
        let mut index = index(&[]);
        let mut cluster = crate::testing::cluster("a");
        cluster.metadata.creation_timestamp = created(registered);
        index.cluster(&Change::Applied(cluster));
        let mut entry = upgrade("mine", &["a"], &index);
        let mut seen = finished("a", "mine", 5);
        seen.metadata.creation_timestamp = created("2026-05-28T11:00:00Z");
        index.work(&Change::Applied(seen.clone()), at(0));
        index.answered_work(&seen, at(0));
        seen.metadata.resource_version = Some("6".to_owned());
        index.work(&Change::Deleted(seen), at(1));
        entry.note("a", record(Phase::PreAction));
        let fleet = observed(&entry, &mut index);
        one(&fleet, "a").step_work(Step::Operators).clone()
    };
    let of_this_life = vanished("2026-05-28T10:00:00Z");
    assert!(matches!(of_this_life, StepWork::Ours(_)), "{of_this_life:?}");
    assert_eq!(vanished("2026-05-28T12:00:00Z"), StepWork::Absent);
}

#[test]
fn a_row_of_a_start_in_the_future_counts_although_the_clock_that_recorded_it_was_behind() {
    let told = |registered: &str, begun: &str, recorded: &str| {
        let mut index = index(&[]);
        let mut cluster = crate::testing::cluster("a");
        cluster.metadata.creation_timestamp = created(registered);
        index.cluster(&Change::Applied(cluster));
        let mut entry = upgrade("mine", &["a"], &index);
        // It names ten o'clock as its start.
        let mut seen = work("a", Step::Platform, "mine", 5);
        seen.metadata.creation_timestamp = created(begun);
        index.work(&Change::Applied(seen), at(0));
        let started = (at_text(recorded) - at(0)).num_seconds();
        entry.note("a", record(Phase::Initialized).stage(Stage::Platform, started));
        entry.write();
        let fleet = observed(&entry, &mut index);
        one(&fleet, "a").record.is_some()
    };
    let (registered, begun) = ("2026-05-28T09:54:52Z", "2026-05-28T09:55:00Z");
    assert!(told(registered, begun, "2026-05-28T09:54:35Z"), "25 s behind");
    assert!(
        !told(registered, begun, "2026-05-28T09:53:59Z"),
        "no clock that is trusted is so far behind"
    );
    let (registered, begun) = ("2026-05-28T09:59:45Z", "2026-05-28T09:59:50Z");
    assert!(
        !told(registered, begun, "2026-05-28T09:59:20Z"),
        "a start that is less than a minute ahead is recorded as it is"
    );
}

#[test]
fn a_work_that_was_there_when_its_namespace_was_being_deleted_is_of_an_earlier_life_unless_a_record_tells_of_its_attempt()
 {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a"], &index);
    let seen = work("a", Step::Platform, "mine", 5);
    index.work(&Change::Applied(seen.clone()), at(0));
    index.lose_namespace("a");
    // It was read again since.
    index.answered_work(&seen, at(1));
    let step = |entry: &TestUpgrade, index: &mut Index| {
        let fleet = observed(entry, index);
        one(&fleet, "a").step_work(Step::Platform).clone()
    };
    assert!(matches!(step(&entry, &mut index), StepWork::Former(_)));
    entry.note("a", record(Phase::Partial));
    assert!(step(&entry, &mut index).ours().is_some());
    entry.rows.clear();
    index.work(&Change::Deleted(seen), at(2));
    assert_eq!(
        step(&entry, &mut index),
        StepWork::Absent,
        "its end proves nothing"
    );
}

#[test]
fn a_cluster_that_is_back_does_not_start_while_the_hub_may_have_its_row_from_before() {
    let mut index = index(&["a", "b"]);
    let mut entry = upgrade("mine", &["a", "b"], &index);
    entry.unremoved.push(Arc::from("a"));
    for has_row in [false, true] {
        if has_row {
            entry.note("a", record(Phase::Pending));
        }
        let fleet = observed(&entry, &mut index);
        assert!(matches!(
            one(&fleet, "a").eligibility,
            Eligibility::Unavailable {
                reason: Reason::WaitingForCleanup,
                ..
            }
        ));
        assert_eq!(one(&fleet, "b").eligibility, Eligibility::Eligible);
    }
    entry.unremoved.clear();
    let fleet = observed(&entry, &mut index);
    assert_eq!(one(&fleet, "a").eligibility, Eligibility::Eligible);
}
