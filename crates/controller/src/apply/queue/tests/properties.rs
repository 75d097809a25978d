//! Random loads of writers and of requests beside them, on a hub that is overloaded from time to time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use api::names::Step;
use kube::core::Status;
use proptest::prelude::*;
use tokio::time::{Duration, sleep};

use super::*;

const PRIORITIES: [Priority; 4] = [
    Priority::Halt,
    Priority::Record,
    Priority::Start,
    Priority::CleanUp,
];

/// How long the hub takes for a request, and what it says.
#[derive(Clone, Copy, Debug)]
struct Served {
    millis: u16,
    load: Load,
}

#[derive(Clone, Debug)]
enum Event {
    /// Jobs are planned: their priority and number.
    Push(usize, usize),
    /// A request beside the queue that is dropped after a time, if it has not ended.
    Pass(Served, Option<u16>),
    Wait(u16),
    /// What is queued of an upgrade by rows that the hub may not have is called back.
    CallBack,
    /// A term ends.
    Drain,
}

fn served() -> impl Strategy<Value = Served> {
    let load = prop_oneof![
        6 => Just(Load::Served),
        1 => Just(Load::Unknown),
        1 => proptest::option::of(1..400_u64)
            .prop_map(|seconds| Load::Overloaded(seconds.map(Duration::from_secs))),
    ];
    (0..3000_u16, load).prop_map(|(millis, load)| Served { millis, load })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => (0..4_usize, 1..8_usize).prop_map(|(priority, number)| Event::Push(priority, number)),
        2 => (served(), proptest::option::of(0..5000_u16)).prop_map(|(served, drop)| Event::Pass(served, drop)),
        4 => (0..4000_u16).prop_map(Event::Wait),
        1 => Just(Event::CallBack),
        1 => Just(Event::Drain),
    ]
}

fn job(priority: usize, number: usize) -> WriteJob {
    let (cluster, uid): (Arc<str>, Arc<str>) = (Arc::from(number.to_string()), Arc::from("w1"));
    let write = match PRIORITIES[priority] {
        Priority::Start => return start(&cluster),
        Priority::Record => Write::Read {
            cluster,
            step: Step::Platform,
            owner: uid,
            uid: None,
            asked: chrono::DateTime::UNIX_EPOCH,
        },
        halt => Write::Delete {
            cluster,
            step: Step::Platform,
            uid,
            version: None,
            halt: halt == Priority::Halt,
        },
    };
    WriteJob {
        upgrade: Arc::from("u1"),
        write,
    }
}

/// What must be true of all requests.
#[derive(Default)]
struct Model {
    waiting: BTreeMap<usize, Vec<usize>>,
    running: usize,
    most: usize,
    closed_until: Option<Instant>,
    last_was_record: bool,
    reads: usize,
    faults: Vec<String>,
}

impl Model {
    fn begin(&mut self, what: &str) {
        self.running += 1;
        if self.running > self.most {
            self.faults
                .push(format!("{what}: {} requests at a time", self.running));
        }
        if self.closed_until.is_some_and(|until| clock::now() < until) {
            self.faults
                .push(format!("{what} while the hub had asked for a pause"));
        }
    }

    fn end(&mut self, begun: Instant, load: Load) {
        self.running -= 1;
        if let Load::Overloaded(asked) = load {
            let now = clock::now();
            let is_known = self.closed_until.is_some_and(|until| begun < until);
            let pause = match asked {
                Some(asked) => asked.min(Duration::from_mins(5)),
                None if is_known => Duration::ZERO,
                None => Duration::from_secs(1),
            };
            self.closed_until = self.closed_until.max(Some(now + pause));
        }
    }

    fn take(&mut self, job: &WriteJob, cleans_up: bool) {
        let priority = job.write.priority() as usize;
        let number: usize = job.write.cluster().unwrap().parse().unwrap();
        let first = self
            .waiting
            .get(&priority)
            .and_then(|waiting| waiting.first())
            .copied();
        if first != Some(number) {
            self.faults
                .push(format!("{number} of {priority} was taken, and {first:?} is next"));
        }
        self.waiting
            .entry(priority)
            .or_default()
            .retain(|waiting| *waiting != number);
        let is_waiting = |other: usize| {
            self.waiting
                .get(&other)
                .is_some_and(|waiting| !waiting.is_empty())
        };
        let is_turn = priority == Priority::Start as usize && self.last_was_record;
        let above: Vec<usize> = (0..priority).filter(|above| is_waiting(*above)).collect();
        let is_due = above.is_empty() || is_turn && above == [Priority::Record as usize];
        if !is_due {
            self.faults
                .push(format!("{priority} was taken while {above:?} waited"));
        }
        if priority == Priority::CleanUp as usize && !cleans_up {
            self.faults.push("a writer for starts cleans up".to_owned());
        }
        if priority == Priority::Record as usize || priority == Priority::Start as usize {
            self.last_was_record = priority == Priority::Record as usize;
        }
    }
}

fn error(load: Load) -> Error {
    let Load::Overloaded(asked) = load else {
        return Error::LinesCodecMaxLineLengthExceeded;
    };
    let status: Status = serde_json::from_value(serde_json::json!({
        "status": "Failure", "code": 429, "message": "", "reason": "",
        "details": {"retryAfterSeconds": asked.map_or(0, |asked| asked.as_secs())},
    }))
    .unwrap();
    Error::Api(status.boxed())
}

async fn writer(queue: Rc<WriteQueue>, model: Rc<RefCell<Model>>, cleans_up: bool, served: Vec<Served>) {
    for turn in 0.. {
        let job = queue.pop(cleans_up).await;
        let begun = clock::now();
        model.borrow_mut().take(&job, cleans_up);
        model.borrow_mut().begin("a write");
        let Served { millis, load } = served.get(turn).copied().unwrap_or(Served {
            millis: 20,
            load: Load::Served,
        });
        sleep(Duration::from_millis(millis.into())).await;
        model.borrow_mut().end(begun, load);
        queue.ended(begun, load);
    }
}

/// The gate learns of the end also of a request whose caller gives up.
struct Running(Rc<RefCell<Model>>, Instant, Load);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.borrow_mut().end(self.1, self.2);
    }
}

async fn reader(queue: Rc<WriteQueue>, model: Rc<RefCell<Model>>, served: Served, drops: Option<u16>) {
    let request = queue.pass(async {
        model.borrow_mut().begin("a read");
        let mut running = Running(Rc::clone(&model), clock::now(), Load::Unknown);
        sleep(Duration::from_millis(served.millis.into())).await;
        running.2 = served.load;
        if served.load == Load::Served {
            Ok(())
        } else {
            Err(error(served.load))
        }
    });
    match drops {
        Some(millis) => drop(tokio::time::timeout(Duration::from_millis(millis.into()), request).await),
        None => drop(request.await),
    }
    model.borrow_mut().reads -= 1;
}

async fn run(events: Vec<Event>, writers: Vec<(bool, Vec<Served>)>) -> Result<(), TestCaseError> {
    let queue = Rc::new(WriteQueue::new(7));
    let model = Rc::new(RefCell::new(Model {
        most: writers.len(),
        ..Model::default()
    }));
    queue.set_writers(writers.len());
    for (number, (cleans_up, served)) in writers.into_iter().enumerate() {
        let (queue, model) = (Rc::clone(&queue), Rc::clone(&model));
        tokio::task::spawn_local(writer(queue, model, cleans_up || number == 0, served));
    }
    let mut jobs = 0;
    for event in events {
        match event {
            Event::Push(priority, number) => {
                let numbers: Vec<usize> = (jobs..jobs + number).collect();
                jobs += number;
                model
                    .borrow_mut()
                    .waiting
                    .entry(priority)
                    .or_default()
                    .extend(&numbers);
                queue.push(numbers.into_iter().map(|number| job(priority, number)));
            }
            Event::Pass(served, drops) => {
                model.borrow_mut().reads += 1;
                tokio::task::spawn_local(reader(Rc::clone(&queue), Rc::clone(&model), served, drops));
            }
            Event::Wait(millis) => sleep(Duration::from_millis(millis.into())).await,
            Event::CallBack => {
                let taken = queue.take_permitted_by_rows("u1").len();
                let waiting = model.borrow_mut().waiting.remove(&(Priority::CleanUp as usize));
                prop_assert_eq!(taken, waiting.map_or(0, |waiting| waiting.len()));
            }
            Event::Drain => {
                let drained = queue.drain().len();
                let waiting = std::mem::take(&mut model.borrow_mut().waiting);
                prop_assert_eq!(drained, waiting.values().map(Vec::len).sum::<usize>());
            }
        }
        let backlog: usize = model
            .borrow()
            .waiting
            .range(..3)
            .map(|(_, waiting)| waiting.len())
            .sum();
        prop_assert_eq!(queue.backlog(), backlog);
    }
    // Every writer may still hear of an overload some times, each of which stops all for five minutes at most.
    sleep(Duration::from_hours(24)).await;
    let model = model.borrow();
    prop_assert!(model.faults.is_empty(), "{:?}", model.faults);
    prop_assert!(
        model.waiting.values().all(Vec::is_empty),
        "left: {:?}",
        model.waiting
    );
    prop_assert_eq!((model.running, model.reads), (0, 0));
    let state = queue.queues().gate.state(clock::now());
    prop_assert_eq!(state, GateState::Open);
    prop_assert_eq!(queue.queues().waiting, 0);
    Ok(())
}

proptest! {
    #[test]
    fn every_job_is_taken_once_in_its_turn_and_none_while_the_hub_has_asked_for_a_pause(
        events in proptest::collection::vec(event(), 0..40),
        writers in proptest::collection::vec((any::<bool>(), proptest::collection::vec(served(), 0..6)), 1..5),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, run(events, writers))?;
    }
}
