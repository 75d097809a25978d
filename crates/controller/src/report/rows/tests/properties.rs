//! Random sequences of what may happen to the rows of an upgrade: what must hold after every event, and that all comes to rest when
//! faults end.

mod events;
mod hub;

use std::collections::{BTreeMap, VecDeque};

use api::stored::StoredRow;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use self::events::{Edit, Event, Kind, Outcome, Sequence, Step, sequence};
use self::hub::{Answer, Held, Hub, NAMES, Notice, PHASES, junk, line, name_of, number_of, record_of};
use super::super::super::row::{ReportLine, to_row};
use super::*;

/// Two replicas and a hub.
struct World {
    kind: Kind,
    hub: Hub,
    replicas: [Rows; 2],
    leader: usize,
    /// What the hub tells each replica.
    notices: [VecDeque<Notice>; 2],
    /// Writes without a result, and the replicas that sent them.
    sent: Vec<(usize, ShardWrite)>,
    /// Writes whose senders have given up.
    late: Vec<ShardWrite>,
    /// Clusters that are not selected.
    left: [bool; 5],
    now: Instant,
    writes: usize,
    /// By cluster: the number of the record that the hub has accepted, and of the one that it has shown.
    accepted: BTreeMap<Arc<str>, u64>,
    shown: BTreeMap<Arc<str>, u64>,
}

impl World {
    fn new(kind: Kind, sequence: &Sequence) -> World {
        let mut hub = Hub::default();
        let mut reports: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (cluster, row) in sequence.rows.iter().enumerate() {
            if let Some((shard, phase)) = *row {
                let text = line(NAMES[cluster], record_of(1, phase, hub.number(), false));
                reports.entry(shard).or_default().push(text);
            }
        }
        for (shard, cluster) in &sequence.unreadable {
            let text = junk(NAMES.get(*cluster).copied(), hub.number());
            reports.entry(*shard).or_default().push(text);
        }
        for (shard, rows) in reports {
            hub.put(shard, Some(rows));
        }
        hub.notices.clear();
        let mut world = World {
            kind,
            hub,
            replicas: [rows(), rows()],
            leader: 0,
            notices: [VecDeque::new(), VecDeque::new()],
            sent: Vec::new(),
            late: Vec::new(),
            left: [false; 5],
            now: Instant::now(),
            writes: 0,
            accepted: BTreeMap::new(),
            shown: BTreeMap::new(),
        };
        world.begin_term(0);
        world
    }

    fn rows(&mut self) -> &mut Rows {
        &mut self.replicas[self.leader]
    }

    fn begin_term(&mut self, leader: usize) {
        self.leader = leader;
        self.notices[leader].clear();
        let rows = &mut self.replicas[leader];
        rows.restart();
        for shard in self.hub.reports.keys() {
            rows.observe(&self.hub.report(*shard), false, false, self.now);
        }
        for (cluster, left) in self.left.into_iter().enumerate() {
            if left {
                self.drop_cluster(cluster);
            }
        }
    }

    fn drop_cluster(&mut self, cluster: usize) {
        let name: Arc<str> = Arc::from(NAMES[cluster]);
        let now = self.now;
        let known = self.rows().get(&name);
        if known.is_some_and(|row| row.record.unreadable) {
            return;
        }
        self.left[cluster] = true;
        self.accepted.remove(&name);
        self.shown.remove(&name);
        let plan = Plan {
            dropped: vec![name],
            ..Plan::default()
        };
        self.rows()
            .commit(&plan, &policy().build(), now, |_| (false, false));
    }

    fn change(&mut self, cluster: usize, step: Step, urgent: bool, bad: bool) {
        if self.left[cluster] {
            return;
        }
        let name = NAMES[cluster];
        let number = self.hub.number();
        let known = self.rows().get(name).map(|row| Arc::clone(&row.record));
        let known = known.filter(|record| !record.unreadable);
        let attempt = known
            .as_ref()
            .and_then(|record| record.attempt.retry.parse().ok())
            // One that is back runs its steps anew, at other times.
            .unwrap_or(number);
        let phase = known.and_then(|record| PHASES.iter().position(|phase| *phase == record.phase));
        let phase = phase.unwrap_or(0);
        let record = match step {
            Step::Same => record_of(attempt, phase, number, bad),
            Step::On => record_of(attempt, (phase + 1).min(PHASES.len() - 1), number, bad),
            Step::Again => record_of(attempt + 1, 0, number, bad),
        };
        let now = self.now;
        let changed = ClusterState {
            urgent,
            ..state(name, record)
        };
        commit(self.rows(), vec![changed], now);
    }

    fn write(&mut self) {
        let now = self.now;
        let due = self.rows().due(now);
        self.writes += due.len();
        let leader = self.leader;
        self.sent.extend(due.into_iter().map(|due| (leader, due)));
    }

    /// Ends a write. Nothing on the hub refuses a creation that is carried out late, so that is a world of its own.
    fn finish(&mut self, at: usize, outcome: Outcome) {
        if self.sent.is_empty() {
            return;
        }
        let (replica, due) = self.sent.remove(at % self.sent.len());
        let now = self.now;
        match outcome {
            Outcome::Answered => {
                let answer = self.carry_out(&due);
                answer_to(&mut self.replicas[replica], due, answer, now);
            }
            Outcome::Lost => self.replicas[replica].failed(&due, now),
            Outcome::Late if due.replaces.is_some() || self.kind.late_terms => {
                self.replicas[replica].failed(&due, now);
                self.late.push(due);
            }
            Outcome::Unanswered | Outcome::Late => {
                self.carry_out(&due);
                self.replicas[replica].failed(&due, now);
            }
        }
    }

    fn carry_out(&mut self, due: &ShardWrite) -> Answer {
        let answer = self.hub.write(due);
        self.publish();
        answer
    }

    fn publish(&mut self) {
        for notice in std::mem::take(&mut self.hub.notices) {
            for notices in &mut self.notices {
                notices.push_back(notice.clone());
            }
        }
    }

    fn watch(&mut self, replica: usize, at: usize) {
        let notices = &mut self.notices[replica];
        let at = if at < notices.len() { at } else { 0 };
        if let Some(notice) = notices.remove(at) {
            let own = replica == self.leader;
            self.replicas[replica].observe(&notice.report, notice.deleted, own, self.now);
        }
    }

    fn list(&mut self, replica: usize) {
        self.notices[replica].clear();
        let own = replica == self.leader;
        let names: Vec<String> = self.hub.reports.keys().map(|shard| name_of(*shard)).collect();
        let rows = &mut self.replicas[replica];
        for shard in self.hub.reports.keys() {
            rows.observe(&self.hub.report(*shard), false, own, self.now);
        }
        let seen = |name: &str| names.iter().any(|seen| seen == name);
        rows.relist(seen, self.hub.version, own, self.now);
    }

    fn edit(&mut self, shard: usize, edit: Edit) {
        let Some(copy) = self.hub.reports.get(&shard).cloned() else {
            return;
        };
        let number = self.hub.number();
        let fresh = |cluster: &str, phase: usize| {
            let text = line(cluster, record_of(1, phase, number, false));
            // A later release may have written it.
            let more = number.is_multiple_of(2).then(|| text.strip_suffix('}')).flatten();
            more.map_or_else(|| text.clone(), |text| format!("{text}, \"later\": 1}}"))
        };
        match (edit, copy.rows) {
            (Edit::Delete, _) => self.hub.delete(shard),
            (Edit::NoList, Some(_)) => self.hub.put(shard, None),
            (Edit::Rows(which, unreadable), None) => {
                let named = NAMES.into_iter().zip(which).filter(|(_, there)| *there);
                let mut rows: Vec<String> = named.map(|(name, _)| fresh(name, 1)).collect();
                if unreadable {
                    rows.push(junk(Some(NAMES[rows.len() % NAMES.len()]), number));
                }
                self.hub.put(shard, Some(rows));
            }
            (edit, Some(mut rows)) => {
                let cluster_of = |text: &str| read(text).cluster().map(str::to_owned);
                match edit {
                    Edit::AddUnreadable(cluster) => rows.push(junk(NAMES.get(cluster).copied(), number)),
                    Edit::RemoveRow(at) if at < rows.len() => drop(rows.remove(at)),
                    Edit::Row(at, phase) if at < rows.len() => {
                        if let Some(cluster) = cluster_of(&rows[at]) {
                            rows[at] = fresh(&cluster, phase);
                        }
                    }
                    Edit::Unreadable(at) if at < rows.len() => {
                        rows[at] = junk(cluster_of(&rows[at]).as_deref(), number);
                    }
                    _ => return,
                }
                self.hub.put(shard, Some(rows));
            }
            _ => {}
        }
        self.publish();
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Change(cluster, step, urgent, bad) => self.change(cluster, step, urgent, bad),
            Event::Drop(cluster) if self.left[cluster] => self.left[cluster] = false,
            Event::Drop(cluster) => self.drop_cluster(cluster),
            Event::Write => self.write(),
            Event::Finish(at, outcome) => self.finish(at, outcome),
            Event::CarryOut(at) => {
                if !self.late.is_empty() {
                    let due = self.late.remove(at % self.late.len());
                    self.carry_out(&due);
                }
            }
            Event::Watch(replica, at) => self.watch(replica, at),
            Event::List(replica) => self.list(replica),
            Event::Edit(shard, edit, told) => {
                self.edit(shard, edit);
                while told && !self.notices[self.leader].is_empty() {
                    self.watch(self.leader, 0);
                }
            }
            Event::RejectRows(rejects) => self.hub.rejects_rows = rejects,
            Event::NameRows(names) => self.hub.names_no_rows = !names,
            Event::RejectReport(shard, about_rows) => {
                self.hub.rejected = shard.map(|shard| (shard, about_rows));
            }
            Event::Forbid(forbids) => self.hub.forbids = forbids,
            Event::Term(carried_out) => self.change_leader(carried_out),
            Event::Wait(millis) => self.now += Duration::from_millis(millis),
        }
    }

    fn change_leader(&mut self, carried_out: bool) {
        if !self.kind.late_terms {
            let sent = std::mem::take(&mut self.sent).into_iter().map(|(_, due)| due);
            let due: Vec<ShardWrite> = std::mem::take(&mut self.late).into_iter().chain(sent).collect();
            for due in due.iter().filter(|_| carried_out) {
                self.carry_out(due);
            }
        }
        self.begin_term(1 - self.leader);
    }

    /// The rows as a replica reads them that begins to lead now.
    fn next_leader(&self) -> Rows {
        let mut rows = rows();
        for shard in self.hub.reports.keys() {
            rows.observe(&self.hub.report(*shard), false, false, self.now);
        }
        rows
    }

    fn is_told(&self) -> bool {
        self.notices[self.leader].is_empty() && self.sent.is_empty() && self.late.is_empty()
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let rows = &self.replicas[self.leader];
        check_members(rows)?;
        self.check_written(rows)?;
        let next = self.next_leader();
        let is_strict = !self.kind.edits && !self.kind.late_terms;
        if is_strict {
            self.check_progress(&next)?;
        }
        let rows = &self.replicas[self.leader];
        if is_strict || (self.is_told() && !self.kind.late_terms) {
            self.check_slots(rows, &next)?;
        }
        Ok(())
    }

    /// What counts as written was on the hub, and still is when nothing is under way.
    fn check_written(&self, rows: &Rows) -> Result<(), TestCaseError> {
        for (cluster, row) in &rows.by_cluster {
            let shard = &rows.shards[row.shard];
            // An announcement has no message: only its attempt counts.
            let counts = |written: &&Arc<Record>| !row.record.unreadable && !written.message.is_empty();
            let Some(written) = row.written.as_ref().filter(counts) else {
                continue;
            };
            if shard.disowned || rows.outdated.contains_key(cluster) {
                continue;
            }
            let written = to_record(&to_row(cluster, row, written));
            let had = self.hub.history.get(&**cluster);
            let was_there = had.is_some_and(|had| had.contains(&written));
            prop_assert!(was_there, "{cluster} was never written: {written:?}, {row:?}");
            let is_quiet = !shard.writing && shard.in_doubt.is_empty() && shard.changed.is_none();
            if is_quiet && self.is_told() {
                let is_there = self.hub.records(cluster).contains(&written);
                prop_assert!(
                    is_there,
                    "{cluster} is not written any more: {written:?}, {row:?}"
                );
            }
        }
        Ok(())
    }

    /// No row of a cluster goes back, and none that was accepted is lost.
    fn check_progress(&mut self, next: &Rows) -> Result<(), TestCaseError> {
        let rows = &self.replicas[self.leader];
        for (cluster, row) in &rows.by_cluster {
            let is_written = row
                .written
                .as_ref()
                .is_some_and(|written| Arc::ptr_eq(written, &row.record));
            if is_written && !row.record.unreadable && !rows.shards[row.shard].disowned {
                self.accepted.insert(Arc::clone(cluster), number_of(&row.record));
            }
        }
        for (cluster, number) in &self.accepted {
            let Some(row) = next.get(cluster) else {
                return Err(TestCaseError::fail(format!("the row of {cluster} is lost")));
            };
            let found = number_of(&row.record);
            prop_assert!(
                row.record.unreadable || found >= *number,
                "{cluster} went back to {row:?}"
            );
        }
        for (cluster, row) in next.by_cluster.iter().filter(|(_, row)| !row.record.unreadable) {
            let found = number_of(&row.record);
            let shown = self.shown.get(cluster).copied().unwrap_or(0);
            prop_assert!(found >= shown, "{cluster} went back from {shown} to {row:?}");
            if rows.get(cluster).is_some() {
                self.shown.insert(Arc::clone(cluster), found);
            }
        }
        Ok(())
    }

    /// A cluster that holds a slot by its row on the hub holds it for the leader, too. After edits, only where the leader has read them
    /// and has a row there.
    fn check_slots(&self, rows: &Rows, next: &Rows) -> Result<(), TestCaseError> {
        for (cluster, found) in &next.by_cluster {
            if !found.record.phase.holds_slot() {
                continue;
            }
            let copy = self.hub.reports.get(&found.shard);
            let is_read =
                copy.map(|copy| copy.version) == rows.shards.get(found.shard).map(|shard| shard.copy.version);
            let known = rows.get(cluster);
            let is_known =
                known.is_some_and(|row| row.shard == found.shard && row.stored.is_some() && is_read);
            if self.kind.edits && !is_known {
                continue;
            }
            let holds = known.map_or_else(
                || rows.is_unreleased(cluster),
                |row| {
                    let mut records = row.written.iter().chain([&row.record]);
                    row.slot_in_doubt
                        || row.record.unreadable
                        || records.any(|record| record.phase.holds_slot())
                },
            );
            prop_assert!(holds, "{cluster} holds a slot by {found:?}, known: {known:?}");
        }
        Ok(())
    }

    /// Faults end: the leader is told everything, and writes until nothing is due.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        self.hub.rejects_rows = false;
        self.hub.rejected = None;
        self.hub.forbids = false;
        let before = self.writes;
        loop {
            while !self.notices[self.leader].is_empty() {
                self.watch(self.leader, 0);
                self.check()?;
            }
            for due in std::mem::take(&mut self.late) {
                self.carry_out(&due);
            }
            if !self.sent.is_empty() {
                self.finish(0, Outcome::Answered);
                self.check()?;
                continue;
            }
            if !self.notices[self.leader].is_empty() {
                continue;
            }
            let Some(at) = self.rows().due_at() else { break };
            self.now = self.now.max(at);
            self.write();
            let writes = self.writes - before;
            prop_assert!(writes <= 60, "{writes} writes: {:?}", self.replicas[self.leader]);
            self.check()?;
        }
        self.check_rest()
    }

    /// The hub has exactly the rows in memory.
    fn check_rest(&self) -> Result<(), TestCaseError> {
        let rows = &self.replicas[self.leader];
        let mut expected: Vec<(usize, String)> = Vec::new();
        for (cluster, row) in rows.by_cluster.iter().filter(|(_, row)| !row.record.unreadable) {
            prop_assert_eq!(
                row.written.as_ref(),
                Some(&row.record),
                "{} is not written",
                cluster
            );
            prop_assert!(!row.slot_in_doubt, "{cluster} is in doubt");
            let made = ReportLine::Made(Box::new(to_row(cluster, row, &row.record)));
            let kept = row.original.clone().map(ReportLine::Kept);
            expected.push((row.shard, text_of(&kept.unwrap_or(made))));
        }
        for kept in rows.kept.values().flatten() {
            expected.push((kept.shard, text_of(&kept.line())));
        }
        let mut found: Vec<(usize, String)> = Vec::new();
        for (shard, Held { rows: held, .. }) in &self.hub.reports {
            prop_assert_eq!(held.is_none(), rows.shards[*shard].illegible, "report {}", shard);
            found.extend(held.iter().flatten().map(|text| (*shard, text.clone())));
        }
        expected.sort();
        found.sort();
        prop_assert_eq!(found, expected);
        prop_assert!(rows.shards.iter().all(|shard| shard.in_doubt.is_empty()));
        if rows.kept.is_empty() && !rows.is_incomplete() {
            prop_assert!(rows.is_settled(), "{rows:?}");
        }
        if !rows.is_incomplete() {
            prop_assert!(rows.outdated.is_empty(), "{:?}", rows.outdated);
        }
        Ok(())
    }
}

fn answer_to(rows: &mut Rows, due: ShardWrite, answer: Answer, now: Instant) {
    match answer {
        Answer::Stored(stored) => rows.wrote(due, Some(stored), now),
        Answer::Deleted => rows.wrote(due, None, now),
        Answer::Changed(report) => rows.conflicted(&due, report.as_deref(), report.is_some(), now),
        Answer::Rejected(named, about_rows) => rows.refused(&due, &named, about_rows, "rejected", now),
        Answer::Forbidden => rows.forbidden(&due, "forbidden", now),
    }
}

fn check_members(rows: &Rows) -> Result<(), TestCaseError> {
    for (number, shard) in rows.shards.iter().enumerate() {
        let known = rows.by_cluster.values();
        let known = known
            .filter(|row| row.shard == number && !row.record.unreadable)
            .count();
        let kept = rows
            .kept
            .values()
            .flatten()
            .filter(|kept| kept.shard == number)
            .count();
        prop_assert_eq!(shard.members, known + kept, "members of report {}", number);
    }
    Ok(())
}

fn read(text: &str) -> StoredRow {
    StoredRow::read(serde_json::from_str(text).unwrap())
}

fn text_of(line: &ReportLine) -> String {
    serde_json::to_string(line).unwrap()
}

/// Runs sequences of a kind, or `PROPTEST_CASES` of them where that is set.
fn holds(kind: Kind) {
    // The value that proptest reports when the variable is not set.
    const UNSET: u32 = 256;
    let asked = Config::default().cases;
    let mut runner = TestRunner::new(Config {
        cases: if asked == UNSET { 150 } else { asked },
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    });
    let ran = runner.run(&sequence(kind), |sequence| {
        let mut world = World::new(kind, &sequence);
        for event in &sequence.events {
            world.happen(*event);
            world.check()?;
        }
        world.settle()
    });
    if let Err(error) = ran {
        panic!("{error}");
    }
}

#[test]
fn no_row_is_lost_or_goes_back_and_no_slot_is_released_early() {
    holds(Kind {
        edits: false,
        rejects: false,
        late_terms: false,
    });
}

#[test]
fn rejected_rows_and_reports_lose_no_row() {
    holds(Kind {
        edits: false,
        rejects: true,
        late_terms: false,
    });
}

#[test]
fn edited_reports_come_to_rest_and_have_the_rows_in_memory() {
    holds(Kind {
        edits: true,
        rejects: false,
        late_terms: false,
    });
}

#[test]
fn reports_come_to_rest_whatever_happens() {
    holds(Kind {
        edits: true,
        rejects: true,
        late_terms: true,
    });
}
