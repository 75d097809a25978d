//! What all wires of a run share: which faults strike, latencies, outages, and whose end a commit is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hub_sim::Hub;
use tokio::sync::Notify;

use crate::choice::{Choice, Choices};
use crate::fault::{Fault, Faults, Occasion};
use crate::mutation::Mutation;
use crate::options::Options;
use crate::oracle::Oracle;
use crate::time::VirtualClock;
use crate::trace::Trace;

/// What a network needs to know of its run.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Sizes, times and rates.
    pub options: Arc<Options>,
    /// Which faults happen.
    pub faults: Arc<Faults>,
    /// The time of the run.
    pub clock: VirtualClock,
    /// Where everything that happens is noted.
    pub trace: Trace,
    /// Who judges.
    pub oracle: Oracle,
    /// What the controller does wrong on purpose.
    pub mutation: Option<Mutation>,
}

/// The network of a run. Clones are the same network.
#[derive(Clone, Debug)]
pub struct Network {
    /// The run.
    pub ground: Ground,
    choices: Choices,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Whether faults have ended.
    is_repaired: AtomicBool,
    hubs: AtomicU64,
    rewinds: AtomicU64,
    state: Mutex<State>,
    doomed: Notify,
    rewound: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// How often each kind of request was sent.
    counts: HashMap<String, u64>,
    /// Until when which fault lasts for whom.
    lasting: BTreeMap<(Fault, String), Duration>,
    /// The same for faults that last for minutes, also when others have ended.
    enduring: BTreeMap<(Fault, String), Duration>,
    /// Clients that end now.
    doomed: Vec<String>,
    /// The first report that was written, for mutations.
    kept: Option<String>,
    /// When something last kept the controller from its work.
    disturbed: Duration,
    /// What a mutation remembers.
    marks: BTreeSet<String>,
    /// After how many rewinds each kind was last listed by the agents.
    listed: BTreeMap<String, u64>,
}

/// How long the hub refuses something in one of ten cases.
const MINUTES: Duration = Duration::from_mins(8);

/// How long a fault that disturbs the controller may do so.
const fn disturbs_for(fault: Fault) -> Duration {
    match fault {
        // A row that is rejected is tried again after five minutes.
        Fault::InvalidRow => Duration::from_mins(8),
        _ => Duration::from_mins(2),
    }
}

/// What lasts for all works that a client writes, in names of what lasts.
#[must_use]
pub fn works_of(client: &str) -> String {
    format!("works of {client}")
}

impl Network {
    /// A network in which faults happen until [`Network::repair`].
    #[must_use]
    pub fn new(ground: Ground) -> Self {
        Self {
            choices: Choices::new(ground.options.seed),
            ground,
            shared: Arc::default(),
        }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.shared.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends all faults, but for those that last for minutes.
    pub fn repair(&self) {
        self.shared.is_repaired.store(true, Ordering::Relaxed);
        self.with(|state| state.lasting.clear());
        // What hangs is given up within two minutes.
        let calm = self.ground.clock.elapsed() + Duration::from_mins(2);
        self.ground.oracle.disturb(calm, true);
        for ((fault, _), until) in self.with(|state| state.enduring.clone()) {
            self.ground.oracle.disturb(until + disturbs_for(fault), false);
        }
    }

    /// The hub is another one from now on: what is on its way does not arrive.
    pub fn replace_hub(&self) {
        self.shared.hubs.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the hub was replaced.
    #[must_use]
    pub fn hubs(&self) -> u64 {
        self.shared.hubs.load(Ordering::Relaxed)
    }

    /// The storage of the hub goes back: what is on its way does not arrive, and all watches end.
    pub fn rewind(&self) {
        self.replace_hub();
        self.shared.rewinds.fetch_add(1, Ordering::Relaxed);
        self.shared.rewound.notify_waiters();
    }

    /// How often the storage went back.
    #[must_use]
    pub fn rewinds(&self) -> u64 {
        self.shared.rewinds.load(Ordering::Relaxed)
    }

    /// Waits until the storage has gone back more often than this.
    pub async fn rewound(&self, rewinds: u64) {
        loop {
            let rewound = self.shared.rewound.notified();
            if self.rewinds() > rewinds {
                return;
            }
            rewound.await;
        }
    }

    /// The agents list a kind.
    pub fn listed(&self, path: &str) {
        let rewinds = self.rewinds();
        if rewinds > 0 {
            self.with(|state| state.listed.insert(path.to_owned(), rewinds));
        }
    }

    /// Whether the storage has gone back since the agents last listed a kind.
    #[must_use]
    pub fn is_outdated(&self, path: &str) -> bool {
        let rewinds = self.rewinds();
        rewinds > 0 && self.with(|state| state.listed.get(path).copied().unwrap_or_default()) < rewinds
    }

    /// When something last kept the controller from its work.
    #[must_use]
    pub fn disturbed(&self) -> Duration {
        self.with(|state| state.disturbed)
    }

    /// Whether this fault may happen in this run.
    #[must_use]
    pub fn may_strike(&self, fault: Fault) -> bool {
        match &*self.ground.faults {
            Faults::ByRate => self.ground.options.rate(fault) > 0,
            Faults::Only(faults) => faults.iter().any(|one| one.fault == fault),
        }
    }

    /// Tells of a fault or another cause, for people who read the trace.
    pub fn tell(&self, line: &str) {
        self.ground.trace.tell(self.ground.clock.elapsed(), line);
    }

    /// Adds to the trace what the hub did.
    pub fn note(&self, line: &str) {
        self.note_about(line, "");
    }

    /// The same. `text` says more about it than the line, and is a part of the hash alone.
    pub fn note_about(&self, line: &str, text: &str) {
        self.ground
            .trace
            .add_about(self.ground.clock.elapsed(), line, text);
    }

    /// The choice about an occasion.
    #[must_use]
    pub fn choice(&self, what: &str, name: &str, count: u64) -> Choice {
        self.choices.about(what, name, count)
    }

    /// Whether a fault happens on this occasion.
    #[must_use]
    pub fn strikes(&self, fault: Fault, name: &str, count: u64) -> bool {
        if self.shared.is_repaired.load(Ordering::Relaxed) {
            return false;
        }
        let occasion = || Occasion {
            fault,
            name: name.to_owned(),
            count,
        };
        let happens = match &*self.ground.faults {
            Faults::ByRate => {
                let rate = self.ground.options.rate(fault);
                rate > 0 && self.choices.about(fault.as_str(), name, count).happens(rate)
            }
            Faults::Only(faults) => !faults.is_empty() && faults.contains(&occasion()),
        };
        if happens {
            self.ground.trace.add_fault(occasion());
            if fault.disturbs() {
                let now = self.ground.clock.elapsed();
                self.with(|state| state.disturbed = state.disturbed.max(now));
                self.ground.oracle.disturb(now + disturbs_for(fault), false);
                if matches!(fault, Fault::Hang | Fault::TooManyRequests | Fault::Overload) {
                    self.ground.oracle.delay(now);
                }
            }
        }
        happens
    }

    /// Lets a fault last for a client.
    pub fn last(&self, fault: Fault, client: &str, until: Duration) {
        self.with(|state| state.lasting.insert((fault, client.to_owned()), until));
    }

    /// Whether a fault that begins on this occasion lasts for minutes.
    #[must_use]
    pub fn endures(&self, name: &str, count: u64) -> bool {
        self.choice("lasts", name, count).happens(100)
    }

    /// Lets a fault last for a client for minutes.
    pub fn endure(&self, fault: Fault, client: &str) {
        let until = self.ground.clock.elapsed() + MINUTES;
        self.with(|state| {
            state.enduring.insert((fault, client.to_owned()), until);
            state.disturbed = state.disturbed.max(until);
        });
        self.ground.oracle.disturb(until + disturbs_for(fault), false);
    }

    /// Until when the hub refuses something for minutes.
    #[must_use]
    pub fn refuses_until(&self) -> Duration {
        self.with(|state| state.enduring.values().max().copied().unwrap_or_default())
    }

    /// Whether a fault lasts for a client.
    #[must_use]
    pub fn lasts(&self, fault: Fault, client: &str) -> bool {
        let now = self.ground.clock.elapsed();
        self.with(|state| {
            let mut lasting = state.lasting.iter().chain(&state.enduring);
            lasting.any(|((known, name), until)| *known == fault && name == client && now < *until)
        })
    }

    /// The number of this occasion.
    #[must_use]
    pub fn next(&self, name: &str) -> u64 {
        self.with(|state| {
            if let Some(count) = state.counts.get_mut(name) {
                *count += 1;
                return *count;
            }
            state.counts.insert(name.to_owned(), 1);
            1
        })
    }

    /// A latency.
    #[must_use]
    pub fn latency(&self, way: &str, name: &str, count: u64) -> Duration {
        let most = self.ground.options.max_latency_millis * 1000;
        Duration::from_micros(self.choices.about(way, name, count).between(50, most.max(50)))
    }

    /// A client ends, because the hub has just carried out a write of it.
    pub fn doom(&self, client: &str) {
        self.with(|state| state.doomed.push(client.to_owned()));
        self.shared.doomed.notify_one();
    }

    /// Waits for clients that end, and returns them.
    pub async fn doomed(&self) -> Vec<String> {
        loop {
            let doomed = self.with(|state| std::mem::take(&mut state.doomed));
            if !doomed.is_empty() {
                return doomed;
            }
            self.shared.doomed.notified().await;
        }
    }

    /// Keeps a text, unless there is one already.
    pub fn keep(&self, text: &str) {
        self.with(|state| state.kept.get_or_insert_with(|| text.to_owned()).len());
    }

    /// The text that is kept.
    #[must_use]
    pub fn kept(&self) -> Option<String> {
        self.with(|state| state.kept.clone())
    }

    /// Remembers something for a mutation. Returns whether it is new.
    #[must_use]
    pub fn mark(&self, what: &str) -> bool {
        self.with(|state| state.marks.insert(what.to_owned()))
    }

    /// Whether a mutation has remembered something.
    #[must_use]
    pub fn is_marked(&self, what: &str) -> bool {
        self.with(|state| state.marks.contains(what))
    }

    /// The UID of the object at a path, if there is one.
    #[must_use]
    pub fn uid_at(&self, hub: &Hub, path: &str) -> Option<String> {
        let mut parts = path.trim_start_matches("/apis/").split('/');
        let (group, _, _) = (parts.next()?, parts.next()?, parts.next()?);
        let (namespace, plural, name) = (parts.next()?, parts.next()?, parts.next()?);
        hub.read(|state| {
            let object = state
                .objects_of(group, plural)?
                .get(&format!("{namespace}/{name}"))?;
            Some(object.uid.to_string())
        })
    }
}
