//! Random sequences of creations and changes of the works of one cluster that are answered, refused, lost and carried out late.

use api::names::{ANNOTATION_ATTEMPT, LABEL_MCU_UID};
use api::views::ManifestWork;
use proptest::prelude::*;
use rollout::Attempt;
use tokio::time::{Instant, advance};

use super::super::*;
use super::unsettled_steps;

const STEPS: [Step; 2] = [Step::Platform, Step::Operators];
/// How long the API server works on a request after it has received it.
const SERVED_WITHIN: u64 = 60;
/// How long a writer waits for a response, and a request is on its way at most.
const LIMIT: u64 = 30;

#[derive(Clone, Copy, Debug)]
enum Answer {
    /// The hub carries it out and says so.
    Done,
    /// No response within the time limit. The hub carries it out that many seconds after it was sent, or never.
    Lost { at: Option<u64> },
    /// The term ends that many seconds after it was sent.
    Term { after: u64, at: Option<u64> },
    /// The hub answers at once that it did nothing.
    No(WriteErrorKind),
    /// The write was called back.
    Unsent,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Create {
        step: Step,
        answer: Answer,
    },
    Update {
        answer: Answer,
    },
    Delete {
        step: Step,
    },
    /// A work is read: the hub looks after the first number of seconds, and its answer arrives after the second.
    Read {
        step: Step,
        took: (u64, u64),
        fails: bool,
    },
    Wait {
        seconds: u64,
    },
    /// Clusters are queued again in another attempt, unless something is in doubt.
    NextAttempt,
    /// Refusals are forgotten, as after an edit.
    Edit,
    Term,
    Settle,
}

fn answer() -> impl Strategy<Value = Answer> {
    let at = || proptest::option::weighted(0.7, 0..LIMIT + SERVED_WITHIN);
    let no = proptest::sample::select(vec![
        WriteErrorKind::Overloaded,
        WriteErrorKind::Forbidden,
        WriteErrorKind::Invalid,
        WriteErrorKind::Unreachable,
    ]);
    prop_oneof![
        3 => Just(Answer::Done),
        3 => at().prop_map(|at| Answer::Lost { at }),
        2 => (0..LIMIT, at()).prop_map(|(after, at)| Answer::Term { after, at }),
        1 => no.prop_map(Answer::No),
        1 => Just(Answer::Unsent),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let step = || proptest::sample::select(STEPS.to_vec());
    let read = (
        step(),
        (0..LIMIT / 2, 0..LIMIT / 2),
        proptest::bool::weighted(0.2),
    );
    prop_oneof![
        4 => (step(), answer()).prop_map(|(step, answer)| Event::Create { step, answer }),
        2 => answer().prop_map(|answer| Event::Update { answer }),
        2 => step().prop_map(|step| Event::Delete { step }),
        4 => read.prop_map(|(step, took, fails)| Event::Read { step, took, fails }),
        3 => (0..70_u64).prop_map(|seconds| Event::Wait { seconds }),
        1 => Just(Event::NextAttempt),
        1 => Just(Event::Edit),
        1 => Just(Event::Term),
        2 => Just(Event::Settle),
    ]
}

/// A request that the hub has still to carry out.
struct Late {
    step: Step,
    work: ManifestWork,
    at: Instant,
    /// The version that it replaces; `None`: it creates.
    replaces: Option<String>,
}

struct World {
    context: Context,
    works: [Option<ManifestWork>; 2],
    late: Vec<Late>,
    version: u64,
    attempt: u64,
}

fn place(step: Step) -> usize {
    usize::from(step == Step::Operators)
}

impl World {
    fn new() -> World {
        let context = writing();
        with_entry(&context, |entry| entry.end(&cluster()));
        World {
            context,
            works: [None, None],
            late: Vec::new(),
            version: 1,
            attempt: 0,
        }
    }

    fn entry<T>(&self, look: impl FnOnce(&mut UpgradeEntry) -> T) -> T {
        with_entry(&self.context, look)
    }

    fn work(&self, step: Step) -> ManifestWork {
        let mut work = work("c1", step, "u1", 0);
        let retry = self.attempt.to_string();
        work.metadata
            .annotations
            .as_mut()
            .unwrap()
            .insert(ANNOTATION_ATTEMPT.to_owned(), retry);
        assert_eq!(work.metadata.labels.as_ref().unwrap()[LABEL_MCU_UID], "u1");
        work
    }

    /// The hub stores a work, and the watch tells of it.
    fn store(&mut self, step: Step, mut work: ManifestWork) {
        self.version += 1;
        work.metadata.resource_version = Some(self.version.to_string());
        let known = self.works[place(step)].take();
        let uid = known.map_or_else(|| Some(format!("w{}", self.version)), |known| known.metadata.uid);
        work.metadata.uid = uid;
        self.works[place(step)] = Some(work.clone());
        let change = Change::Applied(work);
        let now = self.context.now();
        self.context.with(|state| state.index.work(&change, now));
    }

    /// Time passes, and requests that are on their way are carried out.
    async fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            advance(Duration::from_secs(1)).await;
            let now = Instant::now();
            let (due, left) = std::mem::take(&mut self.late)
                .into_iter()
                .partition(|late| late.at <= now);
            self.late = left;
            let due: Vec<Late> = due;
            for late in due {
                let known = self.works[place(late.step)].as_ref();
                let version = known.and_then(|known| known.metadata.resource_version.clone());
                if version == late.replaces {
                    self.store(late.step, late.work);
                }
            }
        }
    }

    fn write(&self, step: Step, uid: Option<&str>, work: &ManifestWork) -> Write {
        let Write::Create {
            cluster,
            mut params,
            slot_released_at,
            ..
        } = create(&self.context)
        else {
            unreachable!()
        };
        let retry = work.metadata.annotations.as_ref().unwrap()[ANNOTATION_ATTEMPT].as_str();
        params.attempt = Attempt {
            revision: Arc::from("r1"),
            retry: Arc::from(retry),
        };
        match uid {
            Some(uid) => Write::Update {
                cluster,
                params,
                uid: Arc::from(uid),
                version: 0,
            },
            None => Write::Create {
                cluster,
                step,
                params,
                slot_released_at,
            },
        }
    }

    async fn send(&mut self, step: Step, answer: Answer, updates: bool) {
        let known = self.works[place(step)].clone();
        let replaces = known
            .as_ref()
            .and_then(|known| known.metadata.resource_version.clone());
        let uid = known
            .as_ref()
            .and_then(|known| known.metadata.uid.clone())
            .filter(|_| updates);
        let work = self.work(step);
        let write = self.write(step, uid.as_deref(), &work);
        self.entry(|entry| entry.begin(&cluster(), Some(&first_attempt())));
        let late = |at: u64| Late {
            step,
            work: work.clone(),
            at: Instant::now() + Duration::from_secs(at),
            replaces: replaces.clone().filter(|_| updates),
        };
        let (result, wait) = match answer {
            Answer::Done => {
                if updates || known.is_none() {
                    self.store(step, work.clone());
                }
                let stored = self.works[place(step)].clone().unwrap();
                (WriteResult::Work(Box::new(stored)), 0)
            }
            Answer::Lost { at } => {
                self.late.extend(at.map(late));
                (failed(WriteErrorKind::Timeout), LIMIT)
            }
            Answer::Term { after, at } => {
                self.late.extend(at.map(late));
                (WriteResult::GivenUp, after)
            }
            Answer::No(kind) => (failed(kind), 0),
            Answer::Unsent => (WriteResult::NotLeading, 0),
        };
        self.pass(wait).await;
        answered(&self.context, write, &result);
        if matches!(answer, Answer::Term { .. }) {
            self.begin_term();
        }
    }

    fn begin_term(&self) {
        self.context.with(|state| {
            state.end_term();
            state.begin_term();
            state.owns_records = true;
        });
    }

    async fn read(&mut self, step: Step, (first, second): (u64, u64), fails: bool) {
        self.entry(|entry| entry.begin(&cluster(), None));
        let uid = self.context.with(|state| {
            let view = state.index.work_of("c1", step).filter(|view| !view.work.vanished);
            view.map(|view| Arc::clone(&view.uid))
        });
        // The wall clock does not advance in these tests.
        let took = TimeDelta::seconds(i64::try_from(first + second).unwrap());
        self.pass(first).await;
        let found = self.works[place(step)].clone();
        self.pass(second).await;
        let result = match found {
            _ if fails => failed(WriteErrorKind::Broken),
            Some(work) => WriteResult::Work(Box::new(work)),
            None => WriteResult::Gone,
        };
        let write = Write::Read {
            cluster: cluster(),
            step,
            owner: Arc::from("ns/u1"),
            uid,
            asked: self.context.now() - took,
        };
        answered(&self.context, write, &result);
    }

    fn in_doubt(&self) -> Vec<Step> {
        self.entry(|entry| {
            let known = entry.unsettled.get(&cluster()).into_iter().flatten();
            known.map(|unsettled| unsettled.step).collect()
        })
    }

    async fn happen(&mut self, event: Event) {
        let open = unsettled_steps(&self.context).0;
        match event {
            // As the planner does: first what is in doubt.
            Event::Create { step, answer } => self.send(open.unwrap_or(step), answer, false).await,
            Event::Update { answer } if open.is_none() && self.works[0].is_some() => {
                self.send(Step::Platform, answer, true).await;
            }
            Event::Delete { step } if open.is_none() => self.delete(step),
            Event::Read { step, took, fails } => self.read(open.unwrap_or(step), took, fails).await,
            Event::Wait { seconds } => self.pass(seconds).await,
            Event::NextAttempt if open.is_none() => self.attempt += 1,
            Event::Edit => self.entry(UpgradeEntry::forget_refusals),
            Event::Term => self.begin_term(),
            Event::Settle => self.settle(),
            Event::Update { .. } | Event::Delete { .. } | Event::NextAttempt => {}
        }
    }

    fn delete(&mut self, step: Step) {
        if let Some(work) = self.works[place(step)].take() {
            self.version += 1;
            let now = self.context.now();
            let uid = work.metadata.uid.as_deref().unwrap();
            self.context
                .with(|state| state.index.remove_work("c1", step, uid, now));
        }
    }

    fn settle(&self) {
        let now = clock::now();
        self.context
            .with(|state| state.upgrades.get_mut("u1").unwrap().settle(&state.index, now));
    }

    /// What can still be carried out is known, and the upgrade looks at it again.
    fn check(&self) -> Result<(), TestCaseError> {
        let known = self.in_doubt();
        for late in &self.late {
            prop_assert!(
                known.contains(&late.step),
                "a write of {} was forgotten",
                late.step
            );
        }
        let now = clock::now();
        let (open, late) = self.entry(|entry| {
            let is_late = entry
                .unsettled
                .values()
                .flatten()
                .any(|known| !known.is_over(now));
            (entry.due_at(self.context.now(), now), is_late)
        });
        prop_assert!(!late || open.is_some(), "nobody looks when the doubt is over");
        Ok(())
    }
}

async fn run(events: Vec<Event>) -> Result<(), TestCaseError> {
    let mut world = World::new();
    for event in events {
        world.happen(event).await;
        world.check()?;
    }
    world.pass(2 * LIMIT + SERVED_WITHIN + 60).await;
    for _ in STEPS {
        if let Some(step) = unsettled_steps(&world.context).0 {
            world.read(step, (0, 0), false).await;
        }
    }
    world.settle();
    prop_assert_eq!(world.in_doubt(), [], "nothing is kept for ever");
    prop_assert!(
        world.entry(|entry| entry.running.is_empty()),
        "no write is running"
    );
    Ok(())
}

proptest! {
    #[test]
    fn a_write_is_in_doubt_while_it_can_be_carried_out_and_no_longer(
        events in proptest::collection::vec(event(), 0..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run(events))?;
    }
}
