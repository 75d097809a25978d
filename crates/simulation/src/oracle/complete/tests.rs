use super::*;
use crate::actor::{Role, Sender};
use crate::oracle::facts::Created;
use crate::oracle::generation::Generation;

/// The end of a step whose work was created at 00:05:28 and names this start.
fn end(started: &str) -> End {
    End {
        started: started.to_owned(),
        created: "2026-01-01T00:05:28Z".to_owned(),
        ..End::default()
    }
}

fn has(end: &End, started: &str) -> bool {
    end.has_start(parse_rfc3339(started).unwrap())
}

/// Cluster `c1` is blocked in upgrade `u`, because it is newer than the version that the upgrade asks for.
fn block_as_newer(facts: &mut Facts, version: &str) {
    let blocked = Row {
        phase: "Blocked".to_owned(),
        reason: "NewerThanTarget".to_owned(),
        ..Row::default()
    };
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.records.entry("c1".to_owned()).or_default().before = vec![blocked];
    upgrade.generations = vec![Generation {
        version: version.to_owned(),
        ..Generation::default()
    }];
}

#[test]
fn a_row_may_tell_of_a_work_with_a_start_in_the_future_by_the_time_at_which_it_was_found() {
    let named = "2026-01-01T01:05:28.192Z";
    let found = "2026-01-01T00:08:43.840Z";
    assert!(has(&end(named), named));
    assert!(has(&end(named), found));
    assert!(!has(&end(named), "2026-01-01T00:03:00Z"), "there was no work");
    assert!(
        !has(&end(named), "2026-01-01T01:05:00Z"),
        "that is recorded as it is"
    );
    assert!(
        !has(&end("2026-01-01T00:05:28Z"), found),
        "it is not in the future"
    );
    let replaced = End {
        is_replaced: true,
        ..end(named)
    };
    assert!(has(&replaced, named));
    assert!(!has(&replaced, found), "the step has begun anew");
}

#[test]
fn a_row_may_tell_of_the_start_that_somebody_wrote_into_its_work_after_the_end() {
    let end = |rewritten: &str| End {
        rewritten: rewritten.to_owned(),
        ..end("2026-01-01T00:05:28Z")
    };
    let found = "2026-01-01T00:08:43.840Z";
    assert!(has(&end("2099-01-01T00:00:00Z"), found));
    assert!(has(&end("2099-01-01T00:00:00Z"), "2026-01-01T00:05:28Z"));
    let sent = "2026-01-01T00:04:00Z";
    assert!(has(&end("2099-01-01T00:00:00Z"), sent), "a creation came late");
    assert!(!has(&end(""), found));
}

#[test]
fn a_work_whose_start_somebody_has_taken_away_is_that_of_a_row_with_a_start_just_before_its_creation() {
    assert!(has(&end(""), "2026-01-01T00:05:27.834Z"));
    assert!(!has(&end(""), "2026-01-01T00:05:29Z"), "it is another one");
    assert!(!has(&end(""), "2026-01-01T00:03:00Z"), "it is an earlier one");
}

#[test]
fn a_step_that_begins_replaces_what_was_reported_of_it_in_other_revisions() {
    let mut facts = Facts::default();
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    for (cluster, step, revision) in [
        ("c1", Step::Platform, "r1"),
        ("c1", Step::Platform, "r2"),
        ("c1", Step::Operators, "r1"),
        ("c2", Step::Platform, "r1"),
    ] {
        let attempt = (cluster.to_owned(), step, revision.to_owned());
        upgrade.ends.insert(attempt, End::default());
    }
    let begun: Key = ["u", "c1", "c1-cluster-upgrade", "r2", ""]
        .map(str::to_owned)
        .into();
    facts.replace_ends(&begun);
    let ends = facts.upgrades["u"].ends.iter();
    let replaced = ends.filter(|(_, end)| end.is_replaced);
    let names: Vec<_> = replaced
        .map(|((name, step, of), _)| (&**name, *step, &**of))
        .collect();
    assert_eq!(names, [("c1", Step::Platform, "r1")]);
}

/// The storage of the hub has gone back to a time before another revision began, so the agents report the end once more.
#[test]
fn an_end_that_is_reported_again_is_not_replaced_any_more() {
    let (named, found) = ("2026-01-01T01:05:28.192Z", "2026-01-01T00:08:43.840Z");
    let attempt = ("c1".to_owned(), Step::Platform, "r1".to_owned());
    let reported = |seconds: u64| End {
        first: Duration::from_secs(seconds),
        last: Duration::from_secs(seconds),
        ..end(named)
    };
    let mut facts = Facts::default();
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.note_end(attempt.clone(), reported(400));
    let begun: Key = ["u", "c1", "c1-cluster-upgrade", "r2", ""]
        .map(str::to_owned)
        .into();
    facts.replace_ends(&begun);
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    assert!(!has(&upgrade.ends[&attempt], found), "the step has begun anew");
    upgrade.note_end(attempt.clone(), reported(500));
    let again = &upgrade.ends[&attempt];
    assert!(has(again, found));
    let tampered = End {
        rewritten: "2099-01-01T00:00:00Z".to_owned(),
        ..upgrade.ends[&attempt].clone()
    };
    upgrade.ends.insert(attempt.clone(), tampered);
    let rewritten = End {
        started: "2099-01-01T00:00:00Z".to_owned(),
        ..reported(500)
    };
    upgrade.note_end(attempt.clone(), rewritten);
    let again = &upgrade.ends[&attempt];
    assert!(
        has(again, named),
        "what somebody has written does not hide the start"
    );
    let times = (again.first, again.last);
    assert_eq!(times, (Duration::from_secs(400), Duration::from_secs(500)));
}

/// By its times, the later one may have got its start from a clock that was ahead.
#[test]
fn of_two_ends_a_row_tells_of_the_one_whose_work_names_its_very_start() {
    let (named, next) = ("2026-01-01T00:03:51.071Z", "2026-01-01T00:05:41.075Z");
    let later = end(next);
    assert!(has(&later, named));
    let earlier = End {
        created: "2026-01-01T00:03:51Z".to_owned(),
        ..end(named)
    };
    let row = |started: &str| Row {
        revision: "r3".to_owned(),
        steps: vec![crate::oracle::row::Step {
            name: "Platform".to_owned(),
            started: started.to_owned(),
            ..crate::oracle::row::Step::default()
        }],
        ..Row::default()
    };
    for revisions in [["r1", "r2"], ["r2", "r1"]] {
        let mut upgrade = Upgrade::default();
        let ends = [later.clone(), earlier.clone()];
        for (revision, end) in revisions.into_iter().zip(ends) {
            let attempt = ("c1".to_owned(), Step::Platform, revision.to_owned());
            upgrade.ends.insert(attempt, end);
        }
        let told = |started: &str| {
            let end = upgrade.end_of_row("c1", Step::Platform, &row(started));
            end.map(|end| end.started.clone())
        };
        assert_eq!(told(named).as_deref(), Some(named));
        assert_eq!(told(next).as_deref(), Some(next));
        let found = told("2026-01-01T00:04:00Z");
        assert_eq!(found.as_deref(), Some(next), "a clock was ahead");
        assert_eq!(told("2026-01-01T00:09:00Z"), None);
    }
}

#[test]
fn a_row_that_is_back_at_an_earlier_attempt_is_judged_by_the_version_that_its_rows_named() {
    let may_return = |(phase, to): (&str, &str), revision: &str, done: &[&str]| {
        let before = Row {
            phase: phase.to_owned(),
            to: to.to_owned(),
            revision: "r1".to_owned(),
            ..Row::default()
        };
        let back = Row {
            phase: "Complete".to_owned(),
            to: String::new(),
            revision: revision.to_owned(),
            has_left: true,
            ..before.clone()
        };
        // The cluster has just been deleted, so it claims nothing.
        let mut facts = Facts::default();
        let done = done.iter().map(|to| ((*to).to_owned(), Duration::ZERO));
        facts.cluster("c1").done.extend(done);
        let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
        let record = upgrade.records.entry("c1".to_owned()).or_default();
        record.before = vec![before];
        facts.complete("u", "c1", &back);
        facts.violations.is_empty()
    };
    assert!(may_return(("Soaking", "4.14.12"), "r1", &["4.14.12"]));
    assert!(!may_return(("Soaking", "4.14.12"), "r1", &["4.14.11"]));
    assert!(
        may_return(("Complete", "4.14.12"), "r1", &[]),
        "that was judged then"
    );
    assert!(
        may_return(("Soaking", "4.14.12"), "r0", &["4.14.11"]),
        "nobody knows"
    );
    assert!(
        !may_return(("Soaking", "4.14.12"), "r0", &[]),
        "it has run nothing"
    );
}

/// The row was sent at 40 s, and the end was reported at 50 s.
#[test]
fn a_late_row_is_over_if_the_work_shows_the_end_that_was_reported_since() {
    let is_over = |change: &dyn Fn(&mut Facts, &mut Running)| {
        let mut facts = Facts {
            now: Duration::from_mins(1),
            sender: Some(Sender {
                role: Role::Controller,
                identity: "r1".into(),
                at: Duration::from_secs(40),
            }),
            ..Facts::default()
        };
        let reported = End {
            first: Duration::from_secs(50),
            last: Duration::from_secs(50),
            ..End::default()
        };
        let step = ("c1".to_owned(), Step::Platform, "r1".to_owned());
        let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
        upgrade.generations = vec![Generation::default()];
        upgrade.ends.insert(step, reported);
        let mut running = Running {
            name: Step::Platform.work_name("c1"),
            owner: "u".to_owned(),
            cluster: "c1".to_owned(),
            ..Running::default()
        };
        change(&mut facts, &mut running);
        facts.works.insert("w".to_owned(), running);
        let row = Row {
            phase: "Initialized".to_owned(),
            revision: "r1".to_owned(),
            ..Row::default()
        };
        facts.is_over_by_work("u", "c1", &row)
    };
    assert!(is_over(&|_, _| {}));
    let goes_on = |_: &mut Facts, work: &mut Running| work.goes_on = true;
    assert!(!is_over(&goes_on));
    let deleted = |facts: &mut Facts, _: &mut Running| {
        facts.deleters.insert("w".to_owned(), (facts.now, None));
    };
    assert!(!is_over(&deleted));
    let with_operators = |facts: &mut Facts, _: &mut Running| {
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        upgrade.generations[0].after.operators = true;
    };
    assert!(!is_over(&with_operators), "its operators are still to come");
    let anew = |_: &mut Facts, work: &mut Running| "later".clone_into(&mut work.started);
    assert!(!is_over(&anew), "that is another start");
}

#[test]
fn the_end_of_the_very_step_that_a_row_tells_of_as_open_was_reported() {
    let started = "2026-01-01T00:05:28Z";
    let has_ended = |begun: &str, retry: &str, ended: u64| {
        let at = Duration::from_secs(ended);
        let mut upgrade = Upgrade {
            generations: vec![crate::oracle::generation::Generation::default()],
            ..Upgrade::default()
        };
        let step = ("c1".to_owned(), Step::Platform, "r1".to_owned());
        let of_it = End {
            first: at,
            last: at,
            ..end(started)
        };
        upgrade.ends.insert(step, of_it);
        let told = crate::oracle::row::Step {
            name: "Platform".to_owned(),
            started: begun.to_owned(),
            ..crate::oracle::row::Step::default()
        };
        let row = Row {
            phase: "Partial".to_owned(),
            revision: "r1".to_owned(),
            retry: retry.to_owned(),
            steps: vec![told],
            ..Row::default()
        };
        upgrade.has_ended_as_told("c1", &row, Duration::from_mins(10))
    };
    assert!(has_ended(started, "", 400));
    assert!(!has_ended("2026-01-01T00:08:00Z", "", 400), "it has begun anew");
    assert!(!has_ended(started, "again", 400), "it is another attempt");
}

/// The end was reported at 10 s, the cluster was deleted at 40 s, and its row was removed at 45 s.
#[test]
fn a_late_row_that_was_sent_before_its_cluster_was_deleted_tells_of_the_end_that_was_reported_before() {
    let may_arrive = |sent: u64, ended: Option<u64>| {
        let mut facts = Facts {
            now: Duration::from_secs(70),
            sender: Some(Sender {
                role: Role::Controller,
                identity: "r1".into(),
                at: Duration::from_secs(sent),
            }),
            ..Facts::default()
        };
        let told = |phase: &str, started: &str| Row {
            phase: phase.to_owned(),
            to: "4.14.12".to_owned(),
            has_left: true,
            steps: vec![crate::oracle::row::Step {
                name: "Platform".to_owned(),
                started: started.to_owned(),
                ..crate::oracle::row::Step::default()
            }],
            ..Row::default()
        };
        let removed = Record {
            before: vec![told("Initialized", "2026-01-01T00:00:35Z")],
            ..Record::default()
        };
        let row = told("Complete", "2026-01-01T00:00:05Z");
        let cluster = facts.cluster("c1");
        cluster.deleted = Some(Duration::from_secs(40));
        let done = ended.map(|at| ("4.14.12".to_owned(), Duration::from_secs(at)));
        cluster.done.extend(done);
        let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
        let record = upgrade.records.entry("c1".to_owned()).or_default();
        record.before = vec![row.clone()];
        let at = Duration::from_secs(45);
        upgrade.removed.insert("c1".to_owned(), (removed, at));
        facts.complete("u", "c1", &row);
        facts.violations.is_empty()
    };
    assert!(may_arrive(20, Some(10)));
    assert!(
        may_arrive(42, Some(10)),
        "whoever sent it had not heard of the deletion"
    );
    assert!(!may_arrive(20, None), "nobody has reported an end");
    assert!(!may_arrive(69, Some(10)), "it was sent when that counted no more");
    assert!(may_arrive(69, Some(60)), "the end was reported since");
}

/// Its update to 4.14.12 ended at 200 s by the row of another upgrade, it was deleted at 350 s and registered anew at 400 s, and claims
/// to run 4.14.9.
#[test]
fn a_cluster_that_was_registered_anew_is_blocked_by_what_a_row_from_before_proves_until_that_is_removed() {
    let is_excused = |change: &dyn Fn(&mut Facts)| {
        let mut facts = Facts::default();
        let cluster = facts.cluster("c1");
        cluster.deleted = Some(Duration::from_secs(350));
        cluster.registered = Duration::from_secs(400);
        cluster.versions = vec![(Duration::from_secs(401), (4, 14, 9))];
        let proof = Row {
            phase: "Complete".to_owned(),
            from: "4.14.9".to_owned(),
            to: "4.14.12".to_owned(),
            steps: vec![crate::oracle::row::Step {
                name: "Platform".to_owned(),
                finished: "2026-01-01T00:03:20Z".to_owned(),
                outcome: "Succeeded".to_owned(),
                ..crate::oracle::row::Step::default()
            }],
            ..Row::default()
        };
        let reported = End {
            target: "4.14.12".to_owned(),
            last: Duration::from_secs(200),
            ..End::default()
        };
        let other = facts.upgrades.entry("other".to_owned()).or_default();
        other.records.entry("c1".to_owned()).or_default().before = vec![proof];
        let step = ("c1".to_owned(), Step::Platform, "r1".to_owned());
        other.ends.insert(step, reported);
        block_as_newer(&mut facts, "4.14.11");
        change(&mut facts);
        facts.is_blocked_by_former_row("u", "c1")
    };
    assert!(is_excused(&|_| {}));
    let other =
        |facts: &mut Facts, change: &dyn Fn(&mut Upgrade)| change(facts.upgrades.get_mut("other").unwrap());
    let removed = |facts: &mut Facts| {
        other(facts, &|other| {
            let record = other.records.remove("c1").unwrap();
            other
                .removed
                .insert("c1".to_owned(), (record, Duration::from_mins(6)));
        });
    };
    assert!(!is_excused(&removed), "nothing proves the newer version");
    let since = |facts: &mut Facts| {
        other(facts, &|other| {
            let end = other.ends.values_mut().next().unwrap();
            end.last = Duration::from_secs(500);
        });
    };
    assert!(!is_excused(&since), "it has been updated since");
    let later = |facts: &mut Facts| facts.cluster("c1").registered = Duration::from_secs(3801);
    assert!(
        !is_excused(&later),
        "a row from more than an hour before proves nothing"
    );
    let never = |facts: &mut Facts| facts.cluster("c1").deleted = None;
    assert!(!is_excused(&never), "it was never deleted");
    let waits = |facts: &mut Facts| {
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        let record = upgrade.records.get_mut("c1").unwrap();
        record.before[0].reason = "Conflict".to_owned();
    };
    assert!(!is_excused(&waits), "it waits for something else");
}

/// Agents reported the end of its update to 4.14.13 at 164 s, the work of that was gone at 166 s, and the upgrade later. It was deleted
/// at 171 s, registered anew at 212 s, and is blocked for 4.14.12.
#[test]
fn a_cluster_that_was_registered_anew_may_be_blocked_by_what_it_ran_less_than_a_minute_before() {
    let is_excused = |change: &dyn Fn(&mut Facts)| {
        let mut facts = Facts::default();
        let cluster = facts.cluster("c1");
        cluster.deleted = Some(Duration::from_secs(171));
        cluster.registered = Duration::from_secs(212);
        let other = facts.upgrades.entry("other".to_owned()).or_default();
        other.is_gone = true;
        let reported = End {
            target: "4.14.13".to_owned(),
            last: Duration::from_secs(164),
            ..End::default()
        };
        let step = ("c1".to_owned(), Step::Platform, "r1".to_owned());
        other.ends.insert(step, reported);
        block_as_newer(&mut facts, "4.14.12");
        let work = Step::Platform.work_name("c1");
        let key = ["other", "c1", work.as_str(), "r1", ""].map(str::to_owned);
        let created = Created {
            deleted: Some((Duration::from_secs(166), Some(Role::Agents))),
            ..Created::default()
        };
        facts.created.insert(key.into(), created);
        change(&mut facts);
        facts.is_blocked_by_what_it_just_ran("u", "c1")
    };
    assert!(is_excused(&|_| {}));
    let later = |seconds| {
        is_excused(&move |facts: &mut Facts| {
            facts.cluster("c1").registered = Duration::from_secs(seconds);
        })
    };
    assert!(later(301), "a replica may have heard of the end of the work late");
    assert!(!later(302), "it may be another cluster");
    assert!(!later(171), "it is not back");
    let never = |facts: &mut Facts| facts.cluster("c1").deleted = None;
    assert!(!is_excused(&never), "it was never deleted");
    let is_older = |facts: &mut Facts| {
        let ends = &mut facts.upgrades.get_mut("other").unwrap().ends;
        ends.values_mut().next().unwrap().target = "4.14.12".to_owned();
    };
    assert!(!is_excused(&is_older), "it ran nothing newer");
    let waits = |facts: &mut Facts| {
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        upgrade.records.get_mut("c1").unwrap().before[0].reason = "Conflict".to_owned();
    };
    assert!(!is_excused(&waits), "it waits for something else");
}

/// It was deleted at 141 s, its row was removed, it was registered anew at 196 s, and agents reported the end of its update at 568 s.
#[test]
fn a_cluster_that_agents_begin_anew_after_they_have_reported_its_end_need_not_run_the_target() {
    let mut facts = Facts::default();
    let cluster = facts.cluster("c1");
    cluster.deleted = Some(Duration::from_secs(141));
    cluster.registered = Duration::from_secs(196);
    cluster.versions = vec![(Duration::from_secs(569), (4, 14, 12))];
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    let removed = (Record::default(), Duration::from_secs(142));
    upgrade.removed.insert("c1".to_owned(), removed);
    let reported = End {
        target: "4.14.12".to_owned(),
        last: Duration::from_secs(568),
        ..End::default()
    };
    let step = ("c1".to_owned(), Step::Platform, "r1".to_owned());
    upgrade.ends.insert(step, reported);
    let is_reborn = |begun: u64| facts.is_reborn("u", "c1", Some(wall(Duration::from_secs(begun))));
    assert!(is_reborn(710), "two silent watches, one after the other");
    assert!(!is_reborn(415), "the update has ended since");
    assert!(
        !facts.is_reborn("u", "c1", None),
        "nothing tells of a later begin"
    );
}

/// It was deleted at 561 s, its row was removed, it was registered anew at 579 s, and claims 4.14.15 at once. Agents hear of that only
/// at 849 s.
#[test]
fn a_cluster_that_agents_begin_anew_after_its_last_claim_need_not_run_what_that_shows() {
    let is_reborn = |claimed: u64, runs: Version, begun: Option<u64>| {
        let mut facts = Facts::default();
        let cluster = facts.cluster("c1");
        cluster.deleted = Some(Duration::from_secs(561));
        cluster.registered = Duration::from_secs(579);
        cluster.versions = vec![(Duration::from_secs(claimed), runs)];
        let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
        upgrade.generations = vec![Generation {
            version: "4.14.12".to_owned(),
            ..Generation::default()
        }];
        let removed = (Record::default(), Duration::from_secs(562));
        upgrade.removed.insert("c1".to_owned(), removed);
        let begun = begun.map(|begun| wall(Duration::from_secs(begun)));
        facts.is_reborn("u", "c1", begun)
    };
    assert!(is_reborn(580, (4, 14, 15), Some(849)), "it is newer");
    assert!(is_reborn(580, (4, 14, 12), Some(849)), "it is the target");
    assert!(!is_reborn(580, (4, 14, 9), Some(849)), "it is to be upgraded");
    assert!(
        !is_reborn(850, (4, 14, 15), Some(849)),
        "it tells what agents play"
    );
    assert!(
        !is_reborn(560, (4, 14, 15), Some(849)),
        "it tells of the time before"
    );
    assert!(
        !is_reborn(580, (4, 14, 15), None),
        "nothing tells of a later begin"
    );
}
