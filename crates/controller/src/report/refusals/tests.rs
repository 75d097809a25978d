use std::collections::BTreeSet;

use api::views::Report;
use rollout::testing::{policy, record};
use rollout::{Phase, Plan};
use serde_json::{Value, json};

use super::*;
use crate::fixture::{state, stored};

fn rows() -> Rows {
    Rows::new(&Arc::from("up"))
}

fn commit(rows: &mut Rows, names: &[String], phase: Phase, now: Instant) {
    let clusters = names.iter().map(|name| state(name, record(phase)));
    let plan = Plan {
        clusters: clusters.collect(),
        ..Plan::default()
    };
    rows.commit(&plan, &policy().build(), now, |_| (false, false));
}

fn names(number: usize) -> Vec<String> {
    (0..number).map(|number| format!("c{number:03}")).collect()
}

/// A hub that rejects rows of some clusters in a certain phase.
struct Hub {
    bad: BTreeSet<String>,
    phase: &'static str,
    names_rows: bool,
    /// The stored rows.
    rows: std::collections::BTreeMap<String, Value>,
    writes: usize,
}

impl Hub {
    fn new(bad: &[&str], phase: &'static str, names_rows: bool) -> Hub {
        Hub {
            bad: bad.iter().map(ToString::to_string).collect(),
            phase,
            names_rows,
            rows: std::collections::BTreeMap::new(),
            writes: 0,
        }
    }

    /// Writes what is due until nothing is due for a while. Returns the time afterwards.
    fn settle(&mut self, rows: &mut Rows, mut now: Instant) -> Instant {
        let end = now + Duration::from_mins(4);
        while let Some(at) = rows.due_at().filter(|at| *at < end) {
            now = now.max(at);
            for due in rows.due(now) {
                self.writes += 1;
                assert!(self.writes < 2000);
                let sent = json!(due.rows);
                let sent = sent.as_array().unwrap();
                let refuses = |row: &Value| {
                    self.bad.contains(row["cluster"].as_str().unwrap()) && row["phase"] == self.phase
                };
                let bad: Vec<usize> = (0..sent.len()).filter(|at| refuses(&sent[*at])).collect();
                if bad.is_empty() {
                    self.rows.insert(due.name.clone(), json!(sent));
                    rows.wrote(due, Some(stored(self.writes as u64)), now);
                } else {
                    let named = if self.names_rows { bad } else { Vec::new() };
                    rows.refused(&due, &named, true, "rows[17].revision: Too long", now);
                }
            }
        }
        now
    }

    fn phases(&self, report: &str) -> std::collections::BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let rows = self.rows[report].as_array().unwrap();
        rows.iter()
            .map(|row| (text(&row["cluster"]), text(&row["phase"])))
            .collect()
    }
}

#[test]
fn a_row_that_the_hub_refuses_holds_up_no_other_and_stays_as_it_was_accepted_last() {
    for names_rows in [true, false] {
        for bad in [vec!["c017"], vec!["c000", "c001", "c249"]] {
            let start = Instant::now();
            let mut hub = Hub::new(&bad, "Complete", names_rows);
            let mut rows = rows();
            commit(&mut rows, &names(250), Phase::Partial, start);
            let now = hub.settle(&mut rows, start);
            assert_eq!(hub.writes, 1);
            commit(&mut rows, &names(250), Phase::Complete, now);
            let later = hub.settle(&mut rows, now);
            assert!(later - now < Duration::from_secs(20), "{:?}", later - now);
            assert!(hub.writes < 60, "{} writes", hub.writes);
            for (cluster, phase) in hub.phases("up-report-1") {
                let is_bad = bad.contains(&cluster.as_str());
                assert_eq!(phase, if is_bad { "Partial" } else { "Complete" }, "{cluster}");
                let row = rows.get(&cluster).unwrap();
                assert_eq!(row.written.as_ref().unwrap().phase == Phase::Complete, !is_bad);
            }
            assert_eq!(rows.refused_count(), bad.len());
            let message = rows.refusal().unwrap();
            assert!(
                message.contains(bad[0]) && message.contains("Too long"),
                "{message}"
            );
            // The row is no longer rejected when the record changes or the hub accepts it.
            hub.bad.clear();
            commit(&mut rows, &names(250), Phase::PostAction, later);
            hub.settle(&mut rows, later);
            assert_eq!(rows.refusal(), None);
            assert!(
                hub.phases("up-report-1")
                    .values()
                    .all(|phase| phase == "PostAction")
            );
        }
    }
}

#[test]
fn a_rejected_row_whose_next_content_is_accepted_is_not_written_once_more_later() {
    let start = Instant::now();
    let mut hub = Hub::new(&["c000"], "Partial", true);
    let mut rows = rows();
    commit(&mut rows, &names(1), Phase::Partial, start);
    let now = hub.settle(&mut rows, start);
    assert_eq!(rows.refused_count(), 1);
    commit(&mut rows, &names(1), Phase::Complete, now);
    let accepted = hub.settle(&mut rows, now);
    let writes = hub.writes;
    let later = hub.settle(&mut rows, accepted + RETRY_AFTER);
    assert!(rows.due(later).is_empty());
    assert_eq!(hub.writes, writes);
    assert_eq!(rows.due_at(), None);
}

/// The hub carried out a write whose response was lost. Then it rejects another row without naming it.
#[test]
fn what_the_hub_accepted_without_a_response_does_not_go_back_when_it_rejects_a_row() {
    let now = Instant::now();
    let mut rows = rows();
    let mut hub = Hub::new(&["c002"], "Failed", false);
    commit(&mut rows, &names(3), Phase::Partial, now);
    let now = hub.settle(&mut rows, now);
    commit(&mut rows, &names(2), Phase::Complete, now);
    let lost = rows.due(now + Duration::from_secs(2)).remove(0);
    let held = json!({
        "metadata": {"name": "up-report-1", "uid": "u", "resourceVersion": "9"},
        "rows": json!(lost.rows),
    });
    let held: Report = serde_json::from_value(held).unwrap();
    for is_seen_at_once in [true, false] {
        let mut rows = rows.clone();
        if is_seen_at_once {
            rows.observe(&held, false, true, now);
        }
        rows.failed(&lost, now);
        commit(&mut rows, &names(3)[2..], Phase::Failed, now);
        let meets = rows.due(now + Duration::from_secs(10)).remove(0);
        rows.conflicted(&meets, Some(&held), true, now);
        let search = rows.due(now).remove(0);
        rows.refused(&search, &[], true, "rows[17].revision: Too long", now);
        let again = rows.due(now + Duration::from_secs(10)).remove(0);
        let phases: Vec<Phase> = again
            .rows
            .iter()
            .filter_map(|line| Some(line.made()?.phase))
            .collect();
        assert_eq!(phases, [Phase::Complete, Phase::Complete, Phase::Partial]);
    }
}

/// An edit has given the cluster another target since the hub accepted its row.
#[test]
fn a_row_that_goes_back_to_what_the_hub_accepted_names_the_version_of_that() {
    let accepted = policy().build().target;
    let mut edited = policy().build();
    edited.revision = "r9".into();
    edited.target = "4.99.9".into();
    let queued = Plan {
        clusters: vec![state("c000", record(Phase::Pending).revision("r9"))],
        ..Plan::default()
    };
    for response in ["before the edit", "after the edit", "lost"] {
        let mut rows = rows();
        commit(&mut rows, &names(1), Phase::Complete, Instant::now());
        let now = rows.due_at().unwrap();
        let due = rows.due(now).remove(0);
        let edit = |rows: &mut Rows| rows.commit(&queued, &edited, now, |_| (false, false));
        match response {
            "before the edit" => {
                rows.wrote(due, Some(stored(9)), now);
                edit(&mut rows);
            }
            "after the edit" => {
                edit(&mut rows);
                rows.wrote(due, Some(stored(9)), now);
            }
            _ => {
                let held = json!({
                    "metadata": {"name": "up-report-1", "uid": "u", "resourceVersion": "9"},
                    "rows": json!(due.rows),
                });
                edit(&mut rows);
                rows.failed(&due, now);
                let meets = rows.due(now + Duration::from_secs(10)).remove(0);
                let held = serde_json::from_value(held).unwrap();
                rows.conflicted(&meets, Some(&held), true, now);
            }
        }
        let mut hub = Hub::new(&["c000"], "Pending", false);
        hub.settle(&mut rows, now + Duration::from_secs(10));
        let row = &hub.rows["up-report-1"][0];
        assert_eq!(row["phase"], "Complete", "{response}");
        assert_eq!(row["toVersion"], *accepted, "{response}");
    }
}

/// The report of two clusters as somebody else's write left it: the second one is blocked.
fn late_report() -> Report {
    let late = json!({
        "metadata": {"name": "up-report-1", "uid": "u", "resourceVersion": "99"},
        "rows": [
            {"cluster": "c000", "phase": "PreAction", "since": "2026-03-01T10:00:00Z", "revision": "r1"},
            {"cluster": "c001", "phase": "Blocked", "since": "2026-03-01T10:00:00Z", "revision": "r1"},
        ],
    });
    serde_json::from_value(late).unwrap()
}

/// A write of an earlier term is carried out after the hub has rejected the same record. The next write sets it back.
#[test]
fn a_rejected_row_that_was_carried_out_late_counts_as_it_is_written_next() {
    for is_accepted in [true, false] {
        let mut hub = Hub::new(&["c001"], "Blocked", true);
        let mut rows = rows();
        let before = if is_accepted { names(2) } else { names(1) };
        let start = Instant::now();
        commit(&mut rows, &before, Phase::PreAction, start);
        let now = hub.settle(&mut rows, start);
        commit(&mut rows, &names(2)[1..], Phase::Blocked, now);
        let now = hub.settle(&mut rows, now);
        assert_eq!(rows.refused_count(), 1);
        assert!(rows.observe(&late_report(), false, true, now));
        let written = |rows: &Rows| rows.get("c001").unwrap().written.as_ref().map(|row| row.phase);
        // A slot is held before the row that holds it is written again.
        let until_then = if is_accepted {
            Phase::PreAction
        } else {
            Phase::Blocked
        };
        assert_eq!(written(&rows), Some(until_then));
        hub.settle(&mut rows, now);
        let held = hub.phases("up-report-1").remove("c001");
        assert_eq!(held.as_deref(), is_accepted.then_some("PreAction"));
        assert_eq!(written(&rows), is_accepted.then_some(Phase::PreAction));
    }
}

/// The same, but the hub rejects the record after the late write was carried out.
#[test]
fn a_slot_is_held_from_the_moment_on_at_which_a_row_that_holds_it_is_to_be_written_again() {
    let mut hub = Hub::new(&[], "Blocked", true);
    let mut rows = rows();
    let start = Instant::now();
    commit(&mut rows, &names(2), Phase::PreAction, start);
    let now = hub.settle(&mut rows, start);
    let written = |rows: &Rows| rows.get("c001").unwrap().written.as_ref().map(|row| row.phase);
    assert!(rows.observe(&late_report(), false, true, now));
    commit(&mut rows, &names(2)[1..], Phase::Blocked, now);
    assert_eq!(written(&rows), Some(Phase::PreAction), "it may be set back");
    let now = now + Duration::from_secs(10);
    let due = rows.due(now).pop().unwrap();
    rows.refused(&due, &[1], true, "rows[1].revision: Too long", now);
    assert_eq!(rows.refused_count(), 1);
    assert_eq!(written(&rows), Some(Phase::PreAction));
    // The hub accepts the next record, and then that one counts.
    commit(&mut rows, &names(2)[1..], Phase::Failed, now);
    hub.settle(&mut rows, now);
    assert_eq!(written(&rows), Some(Phase::Failed));
}

#[test]
fn a_row_that_was_never_accepted_is_left_out_while_it_is_refused_and_tried_again_later() {
    let start = Instant::now();
    let mut hub = Hub::new(&["c001"], "Partial", false);
    let mut rows = rows();
    commit(&mut rows, &names(3), Phase::Partial, start);
    let now = hub.settle(&mut rows, start);
    assert_eq!(hub.phases("up-report-1").len(), 2);
    let before = hub.writes;
    hub.bad.clear();
    let now = hub.settle(&mut rows, now + Duration::from_mins(2));
    hub.settle(&mut rows, now + Duration::from_mins(2));
    assert_eq!(hub.phases("up-report-1").len(), 3);
    assert_eq!(rows.refused_count(), 0);
    assert!(hub.writes - before <= 2);
}

/// Otherwise it would wait for as long as the hub rejects rows of others.
#[test]
fn a_rejected_row_is_tried_again_after_five_minutes_although_another_one_was_rejected_since() {
    let start = Instant::now();
    let mut hub = Hub::new(&["c000"], "Partial", true);
    let mut rows = rows();
    commit(&mut rows, &names(2), Phase::Pending, start);
    let now = hub.settle(&mut rows, start);
    commit(&mut rows, &names(1), Phase::Partial, now);
    let rejected = hub.settle(&mut rows, now);
    assert_eq!(rows.refused_count(), 1);
    hub.bad = BTreeSet::from(["c001".to_owned()]);
    let later = rejected + Duration::from_mins(4);
    commit(&mut rows, &names(2)[1..], Phase::Partial, later);
    hub.settle(&mut rows, later);
    let phases = hub.phases("up-report-1");
    assert_eq!((&*phases["c000"], &*phases["c001"]), ("Partial", "Pending"));
}

/// Otherwise the upgrade would not be Stalled for some seconds every five minutes.
#[test]
fn a_row_counts_as_rejected_until_its_next_try_is_answered() {
    for (names_rows, is_mended) in [(true, true), (false, true), (true, false), (false, false)] {
        let start = Instant::now();
        let mut hub = Hub::new(&["c001"], "Partial", names_rows);
        let mut rows = rows();
        commit(&mut rows, &names(3), Phase::Partial, start);
        hub.settle(&mut rows, start);
        let told = rows.refusal();
        assert!(told.is_some());
        let again = rows.due_at().unwrap();
        assert!(rows.due(again).is_empty());
        assert_eq!(rows.refusal(), told, "it is to be sent again");
        let now = rows.due_at().unwrap();
        let due = rows.due(now).remove(0);
        assert_eq!(due.rows.len(), 3);
        assert_eq!(rows.refusal(), told, "it was sent again");
        if is_mended {
            rows.wrote(due, Some(stored(99)), now);
            assert_eq!(rows.refusal(), None);
        } else {
            rows.refused(&due, &[1], true, "rows[1].revision: Too long", now);
            hub.settle(&mut rows, now);
            assert_eq!(rows.refused_count(), 1);
            assert_eq!(hub.phases("up-report-1").len(), 2);
        }
    }
}

#[test]
fn when_every_row_is_refused_the_search_ends() {
    let all = names(250);
    let bad: Vec<&str> = all.iter().map(String::as_str).collect();
    let start = Instant::now();
    let mut hub = Hub::new(&bad, "Partial", false);
    let mut rows = rows();
    commit(&mut rows, &all, Phase::Partial, start);
    hub.settle(&mut rows, start);
    assert_eq!(rows.refused_count(), 250);
    assert!(hub.writes < 300, "{}", hub.writes);
}

#[test]
fn a_report_refused_for_its_metadata_blames_no_row_and_backs_off() {
    let now = Instant::now();
    let mut rows = rows();
    commit(&mut rows, &names(2), Phase::Partial, now);
    let mut at = rows.due_at().unwrap();
    let mut waits = Vec::new();
    for _ in 0..3 {
        let due = rows.due(at).remove(0);
        assert_eq!(due.rows.len(), 2);
        rows.refused(&due, &[], false, "metadata.ownerReferences: Invalid value", at);
        let next = rows.due_at().unwrap();
        waits.push((next - at).as_secs());
        at = next;
    }
    assert_eq!(waits, [2, 4, 8]);
    let message = rows.refusal().unwrap();
    assert!(
        message.contains("report up-report-1") && message.contains("ownerReferences"),
        "{message}"
    );
    let due = rows.due(at).remove(0);
    rows.wrote(due, Some(stored(9)), at);
    assert_eq!(rows.refusal(), None);
}

#[test]
fn a_shard_whose_stored_rows_are_refused_keeps_them_and_the_other_clusters_go_on_elsewhere() {
    let start = Instant::now();
    let stored: Report = serde_json::from_value(json!({
        "metadata": {"name": "up-report-1", "resourceVersion": "5"},
        "rows": [
            {"cluster": "c000", "phase": "Complete", "since": "2026-03-01T10:00:00Z", "revision": "r1"},
            {"cluster": "c001", "phase": "Partial", "since": "2026-03-01T10:00:00Z", "revision": "r1"},
            {"cluster": "c002", "phase": "Hibernating", "since": "2026-03-01T10:00:00Z", "revision": "r1"},
        ],
    }))
    .unwrap();
    for names_rows in [true, false] {
        let mut rows = rows();
        rows.observe(&stored, false, false, start);
        let mut hub = Hub::new(&["c002"], "Hibernating", names_rows);
        hub.rows.insert("up-report-1".to_owned(), json!([]));
        commit(&mut rows, &["c001".to_owned()], Phase::Complete, start);
        hub.settle(&mut rows, start);
        assert_eq!(hub.rows["up-report-1"], json!([]), "it is left as it was");
        assert_eq!(hub.phases("up-report-2")["c001"], "Complete");
        assert!(rows.get("c001").unwrap().written.as_ref().unwrap().phase == Phase::Complete);
        assert!(hub.writes < 10, "{}", hub.writes);
        assert!(rows.refusal().is_some());
    }
}

/// The clusters of a report that the hub rejects have moved to another one, and somebody deletes the rejected one.
#[test]
fn a_rejected_report_that_is_deleted_is_forgotten() {
    let now = Instant::now();
    let mut rows = rows();
    let mut hub = Hub::new(&[], "", false);
    commit(&mut rows, &names(3), Phase::Partial, now);
    let now = hub.settle(&mut rows, now);
    commit(&mut rows, &names(3)[..1], Phase::Complete, now);
    let due = rows.due(now + Duration::from_secs(2)).remove(0);
    rows.refused(&due, &[1], true, "rows[1].reason: Too long", now);
    assert!(rows.refusal().is_some());
    let gone = json!({"metadata": {"name": "up-report-1", "uid": "u", "resourceVersion": "99"}, "rows": []});
    rows.observe(&serde_json::from_value(gone).unwrap(), true, true, now);
    hub.settle(&mut rows, now);
    assert_eq!(rows.refusal(), None);
}

/// The next leader would find its rows, also those of clusters that were dropped since.
#[test]
fn a_rejected_report_is_deleted_as_soon_as_the_rows_that_moved_from_it_are_written_elsewhere() {
    let now = Instant::now();
    let mut rows = rows();
    let mut hub = Hub::new(&[], "", false);
    commit(&mut rows, &names(3), Phase::Partial, now);
    let now = hub.settle(&mut rows, now);
    commit(&mut rows, &names(3)[..1], Phase::Complete, now);
    let due = rows.due(now + Duration::from_secs(2)).remove(0);
    rows.refused(&due, &[1], true, "rows[1].reason: Too long", now);
    let soon = now + Duration::from_secs(4);
    let mut due = rows.due(soon);
    assert_eq!(due.len(), 1, "it is still needed");
    let moved = due.remove(0);
    assert_eq!((moved.shard, moved.rows.len()), (1, 3));
    rows.wrote(moved, Some(stored(9)), soon);
    let rejected = rows.due(soon).remove(0);
    assert_eq!((rejected.shard, rejected.rows.len()), (0, 0));
    rows.wrote(rejected, None, soon);
    assert_eq!(rows.refusal(), None);
    assert_eq!(rows.due_at(), None);
    assert!(rows.is_settled());
}

/// The clusters of a report that the hub rejects have moved to another one, which cannot be written yet. Meanwhile
/// somebody edits the rejected one, or the time comes to try it again.
#[test]
fn a_rejected_report_stays_until_the_rows_that_moved_from_it_are_written_elsewhere() {
    for is_edited in [true, false] {
        let now = Instant::now();
        let mut rows = rows();
        let mut hub = Hub::new(&[], "", false);
        commit(&mut rows, &names(3), Phase::Complete, now);
        let mut now = hub.settle(&mut rows, now);
        commit(&mut rows, &names(3)[..1], Phase::PostAction, now);
        let due = rows.due(now + Duration::from_secs(2)).remove(0);
        rows.refused(&due, &[1], true, "rows[1].reason: Too long", now);
        if is_edited {
            let edited = json!({
                "metadata": {"name": "up-report-1", "uid": "report-uid", "resourceVersion": "99"},
                "rows": hub.rows["up-report-1"],
            });
            assert!(rows.observe(&serde_json::from_value(edited).unwrap(), false, true, now));
        }
        commit(&mut rows, &names(4)[3..], Phase::Pending, now);
        let end = now + RETRY_AFTER + RETRY_AFTER;
        while now < end {
            now = now.max(rows.due_at().unwrap());
            for due in rows.due(now) {
                assert_eq!((due.name.as_str(), due.rows.len()), ("up-report-2", 4));
                rows.failed(&due, now);
            }
        }
        hub.settle(&mut rows, now);
        assert_eq!(hub.rows["up-report-1"], json!([]), "it is written at last");
        assert_eq!(hub.phases("up-report-2").len(), 4);
        assert_eq!(rows.refusal(), None);
    }
}

/// A hub that rejects changes of reports, and creations that have a row of one cluster.
struct Unchangeable {
    bad: &'static str,
    there: BTreeSet<usize>,
    most: usize,
    created: Vec<Instant>,
    deleted: usize,
}

impl Unchangeable {
    fn new(bad: &'static str) -> Unchangeable {
        Unchangeable {
            bad,
            there: BTreeSet::new(),
            most: 0,
            created: Vec::new(),
            deleted: 0,
        }
    }

    /// Writes what is due. After each creation the record of a cluster changes. Returns the time afterwards.
    fn serve(&mut self, rows: &mut Rows, start: Instant, time: Duration) -> Instant {
        let mut now = start;
        let mut steps = 0;
        while let Some(at) = rows.due_at().filter(|at| *at < start + time) {
            now = now.max(at);
            steps += 1;
            assert!(steps < 1000);
            for due in rows.due(now) {
                let version = self.created.len() + self.deleted + 1;
                if due.rows.is_empty() {
                    self.there.remove(&due.shard);
                    self.deleted += 1;
                    rows.wrote(due, None, now);
                } else if due.replaces.is_some() || due.clusters.iter().any(|cluster| &**cluster == self.bad)
                {
                    rows.refused(&due, &[], true, "the request is forbidden", now);
                } else {
                    self.there.insert(due.shard);
                    self.created.push(now);
                    rows.wrote(due, Some(stored(version as u64)), now);
                    let is_even = self.created.len().is_multiple_of(2);
                    let phase = if is_even { Phase::Partial } else { Phase::Complete };
                    commit(rows, &names(1), phase, now);
                }
            }
            self.most = self.most.max(self.there.len());
        }
        now
    }

    /// How long after each creation the next one came.
    fn waits(&self) -> Vec<Duration> {
        self.created.windows(2).map(|two| two[1] - two[0]).collect()
    }
}

#[test]
fn reports_that_the_hub_rejects_one_after_the_other_are_left_after_growing_waits() {
    let start = Instant::now();
    let mut rows = rows();
    commit(&mut rows, &names(3), Phase::Partial, start);
    let mut hub = Unchangeable::new("");
    let now = hub.serve(&mut rows, start, Duration::from_mins(10));
    let waits = hub.waits();
    assert!(waits[0] < Duration::from_secs(5), "{waits:?}");
    assert!(waits.is_sorted(), "{waits:?}");
    assert!(waits.last().unwrap() > &Duration::from_mins(1), "{waits:?}");
    assert!(waits.len() < 20, "{waits:?}");
    assert!(hub.most <= 2, "{} reports", hub.most);
    // A change that the hub accepts ends that.
    let mut mended = Hub::new(&[], "", false);
    let now = mended.settle(&mut rows, now);
    commit(&mut rows, &names(1), Phase::PostAction, now);
    let now = mended.settle(&mut rows, now);
    commit(&mut rows, &names(1), Phase::Failed, now);
    let mut hub = Unchangeable::new("");
    hub.serve(&mut rows, now, Duration::from_mins(1));
    let first = hub.created[0] - now;
    assert!(first < Duration::from_secs(5), "{first:?}");
}

#[test]
fn of_reports_that_the_hub_rejects_only_those_stay_that_have_the_only_row_of_a_cluster() {
    let start = Instant::now();
    let mut rows = rows();
    commit(&mut rows, &names(3), Phase::Partial, start);
    let mut hub = Unchangeable::new("");
    let now = hub.serve(&mut rows, start, Duration::from_secs(3));
    assert_eq!(hub.there, BTreeSet::from([0]));
    hub.bad = "c002";
    hub.serve(&mut rows, now, Duration::from_mins(10));
    assert!(hub.created.len() > 5, "{:?}", hub.waits());
    assert!(hub.there.contains(&0), "only that one has a row of c002");
    assert!(hub.most <= 3, "{} reports", hub.most);
}
