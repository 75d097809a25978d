//! Random sequences of what may happen to the status of an upgrade between a leader and the hub.

use std::collections::VecDeque;

use api::ManagedClustersUpgradeStatus;
use api::views::Upgrade;
use proptest::prelude::*;

use super::super::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A pass drafts a status.
    Draft { progress: u8, complete: bool },
    /// Time passes, and what is due is sent.
    Pass { millis: u16 },
    /// The hub carries out the write that was sent.
    Arrive,
    /// The result of the write arrives or, if it has not been carried out, its time limit ends.
    Answer,
    /// The time limit of the write ends, although the hub may have carried it out or will do so.
    Lose,
    /// The hub carries out a write that was given up.
    Late,
    /// Somebody else writes the status.
    Edit { progress: u8, complete: bool },
    /// Somebody changes something else of the object.
    Annotate,
    /// The watch tells of one change, or of all at once, like a list.
    Tell { all: bool },
    /// Another term of the same replica begins.
    Term,
}

fn event() -> impl Strategy<Value = Event> {
    let status = (0..3_u8, any::<bool>());
    prop_oneof![
        3 => status.clone().prop_map(|(progress, complete)| Event::Draft { progress, complete }),
        3 => (0..1500_u16).prop_map(|millis| Event::Pass { millis }),
        3 => Just(Event::Arrive),
        2 => Just(Event::Answer),
        1 => Just(Event::Lose),
        1 => Just(Event::Late),
        1 => status.prop_map(|(progress, complete)| Event::Edit { progress, complete }),
        1 => Just(Event::Annotate),
        3 => any::<bool>().prop_map(|all| Event::Tell { all }),
        1 => Just(Event::Term),
    ]
}

/// A write without a result.
struct Sent {
    version: String,
    status: Box<ManagedClustersUpgradeStatus>,
    result: Option<WriteResult>,
}

struct World {
    context: Context,
    version: u64,
    /// The status that the hub holds.
    status: ManagedClustersUpgradeStatus,
    told: VecDeque<Upgrade>,
    sent: Option<Sent>,
    late: Vec<Sent>,
    now: Instant,
    seconds: i64,
    writes: Vec<(Instant, bool)>,
}

/// A status with a condition that has flipped at `since`.
fn status(progress: u8, complete: bool, since: i64) -> ManagedClustersUpgradeStatus {
    serde_json::from_value(json!({
        "progress": format!("{progress}/2"),
        "conditions": [{"type": "Complete", "status": if complete { "True" } else { "False" }, "reason": "Test", "message": "",
            "lastTransitionTime": at(since).to_rfc3339()}],
    }))
    .unwrap()
}

fn is_complete(status: &ManagedClustersUpgradeStatus) -> bool {
    status.conditions[0].status == "True"
}

impl World {
    fn new() -> World {
        let mut world = World {
            context: writing(),
            version: 1,
            status: status(0, false, 0),
            told: VecDeque::new(),
            sent: None,
            late: Vec::new(),
            now: Instant::now(),
            seconds: 0,
            writes: Vec::new(),
        };
        world.changed();
        world.tell(true);
        world
    }

    fn view(&self) -> Upgrade {
        let given = Given {
            version: self.version,
            status: serde_json::to_value(&self.status).unwrap(),
            ..upgrade("u1", &["c1"])
        };
        given.view()
    }

    fn changed(&mut self) {
        self.version += 1;
        self.told.push_back(self.view());
    }

    fn tell(&mut self, all: bool) {
        let number = if all { self.told.len() } else { 1 };
        if let Some(last) = self.told.drain(..number.min(self.told.len())).next_back() {
            self.context.with(|state| state.apply_upgrade(last));
        }
    }

    fn draft(&mut self, progress: u8, complete: bool) {
        self.seconds += 1;
        let now = self.seconds;
        with_entry(&self.context, |entry| {
            let latest = entry.status.previous();
            let kept = latest
                .conditions
                .first()
                .filter(|_| is_complete(&latest) == complete);
            let mut draft = status(progress, complete, now);
            if let Some(kept) = kept {
                draft.conditions[0] = kept.clone();
            }
            entry.status.set(draft, at(now));
        });
    }

    fn pass(&mut self, millis: u16) {
        self.now += Duration::from_millis(millis.into());
        let now = self.now;
        let due = with_entry(&self.context, |entry| {
            let due = entry.status.due(now)?;
            Some(crate::reconcile::jobs::status_job(entry, due))
        });
        let Some(job) = due else { return };
        assert!(self.sent.is_none(), "two writes at once");
        let Write::Status { version, status, .. } = job.write else {
            unreachable!()
        };
        self.writes.push((now, is_complete(&status)));
        self.sent = Some(Sent {
            version,
            status,
            result: None,
        });
    }

    fn carry_out(&mut self, mut sent: Sent) -> Sent {
        if sent.result.is_some() {
            return sent;
        }
        let view = Box::new(self.view());
        sent.result = Some(if sent.version == self.version.to_string() {
            let (before, after) = (&self.status.conditions[0], &sent.status.conditions[0]);
            if before.status == after.status {
                assert_eq!(before.last_transition_time, after.last_transition_time, "no flip");
            } else {
                assert!(
                    before.last_transition_time <= after.last_transition_time,
                    "a flip goes back"
                );
            }
            if self.status != *sent.status {
                self.status = (*sent.status).clone();
                self.changed();
            }
            WriteResult::Upgrade(Box::new(self.view()))
        } else {
            WriteResult::UpgradeChanged(Some(view))
        });
        sent
    }

    fn end(&mut self, sent: Sent, result: &WriteResult) {
        let write = Write::Status {
            namespace: Arc::from("ns"),
            name: Arc::from("u1"),
            version: sent.version,
            status: sent.status,
        };
        answered(&self.context, write, result);
    }

    fn give_up(&mut self, result: &WriteResult) {
        if let Some(sent) = self.sent.take() {
            let late = Sent {
                version: sent.version.clone(),
                status: sent.status.clone(),
                result: None,
            };
            if sent.result.is_none() {
                self.late.push(late);
            }
            self.end(sent, result);
        }
    }

    fn happen(&mut self, event: Event) {
        let lost = WriteResult::Failed(WriteError::new(WriteErrorKind::Timeout, "no response"));
        match event {
            Event::Draft { progress, complete } => self.draft(progress, complete),
            Event::Pass { millis } => self.pass(millis),
            Event::Arrive => {
                if let Some(sent) = self.sent.take() {
                    self.sent = Some(self.carry_out(sent));
                }
            }
            Event::Answer => {
                if let Some(mut sent) = self.sent.take() {
                    if let Some(result) = sent.result.take() {
                        self.end(sent, &result);
                    } else {
                        self.sent = Some(sent);
                        self.give_up(&lost);
                    }
                }
            }
            Event::Lose => self.give_up(&lost),
            Event::Late => {
                if let Some(sent) = self.late.pop() {
                    self.carry_out(sent);
                }
            }
            Event::Edit { progress, complete } => {
                self.seconds += 1;
                self.status = status(progress, complete, self.seconds);
                self.changed();
            }
            Event::Annotate => self.changed(),
            Event::Tell { all } => self.tell(all),
            Event::Term => {
                self.give_up(&WriteResult::GivenUp);
                self.context.with(|state| {
                    state.end_term();
                    state.begin_term();
                });
                self.tell(true);
                self.context.with(|state| state.owns_records = true);
            }
        }
    }

    /// Faults are over, and the upgrade stays as it is.
    fn come_to_rest(&mut self) {
        self.draft(9, false);
        for _ in 0..10 {
            self.happen(Event::Arrive);
            self.happen(Event::Answer);
            self.happen(Event::Late);
            self.tell(true);
            for _ in 0..61 {
                self.pass(1000);
            }
        }
    }
}

proptest! {
    #[test]
    fn the_hub_shows_the_latest_status_once_all_is_told(events in proptest::collection::vec(event(), 0..60)) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
        }
        world.come_to_rest();
        prop_assert_eq!(world.status.progress.as_deref(), Some("9/2"));
        prop_assert!(!is_complete(&world.status));
        let settled = with_entry(&world.context, |entry| entry.status.is_settled());
        prop_assert!(settled, "what the hub shows is not known");
        let often = world.writes.windows(2).find(|two| two[1].0 - two[0].0 < Duration::from_secs(1) && !two[1].1);
        prop_assert!(often.is_none(), "written more than once a second");
    }
}
