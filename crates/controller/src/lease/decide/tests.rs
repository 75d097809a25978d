use proptest::prelude::*;

use super::*;

fn timing() -> Timing {
    Timing::of(Duration::from_secs(15)).unwrap()
}

fn wall() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn claim_of(holder: &str, transitions: i32, renewed: i64) -> LeaseRecord {
    LeaseRecord {
        holder: holder.to_owned(),
        duration: secs(15),
        acquire_time: Some(Timestamp::from_second(7).unwrap()),
        renew_time: Some(Timestamp::from_second(renewed).unwrap()),
        transitions,
    }
}

fn seen(record: LeaseRecord, version: &str) -> ObservedLease {
    ObservedLease {
        record,
        version: version.to_owned(),
    }
}

fn leader(now: Instant) -> Candidate {
    let mut me = Candidate::new("me".to_owned(), timing(), 1);
    me.observed(now, None);
    let Next::Create(record) = me.next(now, wall()) else {
        panic!("an absent lease is created")
    };
    me.wrote(now, now, seen(record, "1"));
    me
}

#[test]
fn the_first_step_is_a_look_and_an_absent_lease_is_created() {
    let now = Instant::now();
    let mut me = Candidate::new("me".to_owned(), timing(), 1);
    assert_eq!(me.next(now, wall()), Next::Read);
    me.observed(now, None);
    let Next::Create(record) = me.next(now, wall()) else {
        panic!("expected a create")
    };
    assert_eq!((record.holder.as_str(), record.transitions), ("me", 0));
    assert_eq!(me.held(now), None, "a claim begins when the write is answered");
}

#[test]
fn a_held_lease_is_left_alone_until_one_duration_after_the_change_was_seen() {
    let now = Instant::now();
    let mut me = Candidate::new("me".to_owned(), timing(), 1);
    me.set_watching(true, now);
    me.observed(now, Some(seen(claim_of("other", 3, 0), "10")));
    assert_eq!(me.next(now, wall()), Next::Wait(now + secs(15)));
    me.observed(now + secs(5), Some(seen(claim_of("other", 3, 5), "11")));
    assert_eq!(me.next(now + secs(15), wall()), Next::Wait(now + secs(20)));
    assert_eq!(
        me.next(now + secs(20), wall()),
        Next::Read,
        "the Lease is read before a takeover"
    );
    me.observed(now + secs(20), Some(seen(claim_of("other", 3, 5), "11")));
    let Next::Replace { record, version } = me.next(now + secs(20), wall()) else {
        panic!("expected a takeover")
    };
    assert_eq!(
        (record.holder.as_str(), record.transitions, version.as_str()),
        ("me", 4, "11")
    );
    assert_eq!(record.acquire_time, Some(wall()));
}

#[test]
fn a_metadata_change_does_not_prolong_a_dead_leaders_claim() {
    let now = Instant::now();
    let mut me = Candidate::new("me".to_owned(), timing(), 1);
    me.observed(now, Some(seen(claim_of("other", 0, 0), "10")));
    me.observed(now + secs(14), Some(seen(claim_of("other", 0, 0), "12")));
    me.observed(now + secs(15), Some(seen(claim_of("other", 0, 0), "12")));
    assert!(matches!(me.next(now + secs(15), wall()), Next::Replace { .. }));
}

#[test]
fn without_a_watch_a_follower_polls_every_retry_period() {
    let now = Instant::now();
    let mut me = Candidate::new("me".to_owned(), timing(), 1);
    me.observed(now, Some(seen(claim_of("other", 0, 0), "10")));
    let Next::Wait(until) = me.next(now, wall()) else {
        panic!("expected a wait")
    };
    assert!(
        until >= now + secs(2) && until <= now + Duration::from_millis(2400),
        "{:?}",
        until - now
    );
    assert_eq!(me.next(until, wall()), Next::Read);
}

#[test]
fn a_released_lease_is_taken_at_once_and_counts_a_transition() {
    let now = Instant::now();
    let mut me = Candidate::new("me".to_owned(), timing(), 1);
    me.observed(now, Some(seen(claim_of("", 4, 0), "10")));
    let Next::Replace { record, .. } = me.next(now, wall()) else {
        panic!("expected an acquire")
    };
    assert_eq!(record.transitions, 5);
}

#[test]
fn an_idle_leader_renews_every_third_of_the_duration_with_one_request() {
    let now = Instant::now();
    let mut me = leader(now);
    assert_eq!(me.next(now, wall()), Next::Wait(now + secs(5)));
    let Next::Replace { record, version } = me.next(now + secs(5), wall()) else {
        panic!("expected a renewal")
    };
    assert_eq!((record.transitions, version.as_str()), (0, "1"));
}

#[test]
fn a_claim_counts_from_the_sending_of_the_renewal_and_ends_with_the_renew_deadline() {
    let now = Instant::now();
    let mut me = leader(now);
    let Next::Replace { record, .. } = me.next(now + secs(5), wall()) else {
        panic!("expected a renewal")
    };
    me.wrote(now + secs(5), now + secs(8), seen(record, "2"));
    assert_eq!(me.held(now + secs(14)), Some((now, now + secs(15))));
    assert_eq!(me.held(now + secs(15)), None);
}

#[test]
fn a_leader_that_cannot_renew_gives_up_at_the_deadline() {
    let now = Instant::now();
    let mut me = leader(now);
    let mut time = now + secs(5);
    while time < now + secs(10) {
        match me.next(time, wall()) {
            Next::Wait(until) => time = until.max(time + Duration::from_millis(1)),
            _ => me.failed(time, LeaseFailure::Unknown),
        }
    }
    me.next(now + secs(10), wall());
    assert_eq!(me.held(now + secs(10)), None);
}

#[test]
fn a_leader_whose_renewal_was_written_but_not_answered_finds_itself_and_goes_on() {
    let now = Instant::now();
    let mut me = leader(now);
    let Next::Replace { record, .. } = me.next(now + secs(5), wall()) else {
        panic!("expected a renewal")
    };
    me.failed(now + secs(6), LeaseFailure::Conflict);
    let Next::Wait(until) = me.next(now + secs(6), wall()) else {
        panic!("expected a short wait")
    };
    assert!(until < now + secs(7));
    assert_eq!(me.next(until, wall()), Next::Read);
    me.observed(until, Some(seen(record, "2")));
    let Next::Replace { record, version } = me.next(until, wall()) else {
        panic!("expected a renewal")
    };
    assert_eq!((record.transitions, version.as_str()), (0, "2"));
}

#[test]
fn a_leader_that_sees_another_holder_has_lost_at_once() {
    let now = Instant::now();
    let mut me = leader(now);
    me.observed(now + secs(1), Some(seen(claim_of("other", 1, 9), "2")));
    assert_eq!(me.held(now + secs(1)), None);
    assert!(matches!(me.next(now + secs(1), wall()), Next::Wait(_)));
    assert_eq!(me.release(wall()), None);
}

#[test]
fn a_lease_deleted_by_hand_is_not_created_before_the_claim_seen_before_has_ended() {
    let now = Instant::now();
    let mut me = Candidate::new("me".to_owned(), timing(), 1);
    me.observed(now, Some(seen(claim_of("other", 0, 0), "10")));
    me.observed(now + secs(1), None);
    let Next::Wait(_) = me.next(now + secs(1), wall()) else {
        panic!("the old claim is honoured")
    };
    me.observed(now + secs(15), None);
    assert!(matches!(me.next(now + secs(15), wall()), Next::Create(_)));
}

#[test]
fn a_leader_whose_lease_was_deleted_creates_it_again() {
    let now = Instant::now();
    let mut me = leader(now);
    me.failed(now + secs(5), LeaseFailure::Unknown);
    me.observed(now + secs(7), None);
    assert!(matches!(me.next(now + secs(7), wall()), Next::Create(_)));
    assert!(me.held(now + secs(7)).is_some());
}

#[test]
fn a_release_names_nobody_and_keeps_the_guard() {
    let now = Instant::now();
    let me = leader(now);
    let (record, version) = me.release(wall()).unwrap();
    assert_eq!(
        (record.holder.as_str(), record.duration, version.as_str()),
        ("", secs(1), "1")
    );
}

#[test]
fn contradicting_times_are_refused_with_their_names() {
    let bad = Timing::new(secs(10), secs(10), secs(2)).unwrap_err();
    assert!(bad.to_string().contains("renew deadline 10s"), "{bad}");
    let bad = Timing::new(secs(10), secs(5), secs(5)).unwrap_err();
    assert!(bad.to_string().contains("retry period"), "{bad}");
    assert!(Timing::of(Duration::from_millis(2500)).is_err());
    let usual = timing();
    assert_eq!(
        (usual.renew_deadline, usual.retry_period, usual.renew_interval),
        (secs(10), secs(2), secs(5))
    );
}

/// A network and a server on true time, and candidates whose clocks start at any time and run at their own
/// rate.
mod world {
    use super::*;

    /// Milliseconds of true time per step.
    const STEP: u64 = 50;

    #[derive(Debug)]
    struct Flight {
        request: Next,
        sent_at: Instant,
        gives_up: Instant,
        applies: Option<u64>,
        answers: Option<u64>,
        answer: Option<Result<Option<ObservedLease>, LeaseFailure>>,
    }

    struct Replica {
        candidate: Candidate,
        offset: Duration,
        rate: f64,
        frozen_until: u64,
        flight: Option<Flight>,
    }

    pub struct World {
        base: Instant,
        now: u64,
        dice: u64,
        lease: Option<LeaseRecord>,
        version: u64,
        replicas: Vec<Replica>,
        /// Requests that still arrive although their sender no longer waits for them.
        strays: Vec<(u64, Next)>,
        pub faults: bool,
        born: u64,
        pub terms: u64,
    }

    impl World {
        pub fn new(seed: u64, rates: &[f64]) -> Self {
            let mut world = Self {
                base: Instant::now(),
                now: 0,
                dice: seed,
                lease: None,
                version: 0,
                replicas: Vec::new(),
                strays: Vec::new(),
                faults: true,
                born: 0,
                terms: 0,
            };
            for rate in rates {
                let offset = Duration::from_secs(world.roll(100_000));
                let candidate = world.newborn();
                world.replicas.push(Replica {
                    candidate,
                    offset,
                    rate: *rate,
                    frozen_until: 0,
                    flight: None,
                });
            }
            world
        }

        fn roll(&mut self, sides: u64) -> u64 {
            self.dice = self
                .dice
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.dice >> 33) % sides
        }

        fn newborn(&mut self) -> Candidate {
            self.born += 1;
            let seed = self.roll(u64::from(u32::MAX));
            Candidate::new(format!("replica-{}", self.born), timing(), seed)
        }

        fn local(&self, replica: &Replica) -> Instant {
            self.base + replica.offset + Duration::from_millis(self.now).mul_f64(replica.rate)
        }

        pub fn leaders(&self) -> usize {
            self.replicas
                .iter()
                .filter(|replica| replica.candidate.held(self.local(replica)).is_some())
                .count()
        }

        fn serve(&mut self, request: &Next) -> Result<Option<ObservedLease>, LeaseFailure> {
            let wanted = match request {
                Next::Read | Next::Wait(_) => {
                    return Ok(self
                        .lease
                        .clone()
                        .map(|record| seen(record, &self.version.to_string())));
                }
                Next::Create(record) if self.lease.is_none() => record,
                Next::Replace { record, version } if *version == self.version.to_string() => record,
                _ => return Err(LeaseFailure::Conflict),
            };
            self.version += 1;
            self.lease = Some(wanted.clone());
            Ok(Some(seen(wanted.clone(), &self.version.to_string())))
        }

        pub fn step(&mut self) {
            self.now += STEP;
            let arrived: Vec<Next> = {
                let now = self.now;
                let (due, later) = self.strays.drain(..).partition(|(at, _)| *at <= now);
                self.strays = later;
                let due: Vec<(u64, Next)> = due;
                due.into_iter().map(|(_, request)| request).collect()
            };
            for request in arrived {
                let _ = self.serve(&request);
            }
            for index in 0..self.replicas.len() {
                let mut replica = self.replicas.swap_remove(index);
                self.turn(&mut replica);
                self.replicas.push(replica);
                let last = self.replicas.len() - 1;
                self.replicas.swap(index, last);
            }
        }

        fn turn(&mut self, replica: &mut Replica) {
            if let Some(flight) = &mut replica.flight
                && flight.applies.is_some_and(|at| at <= self.now)
                && flight.answer.is_none()
            {
                let request = flight.request.clone();
                let answer = self.serve(&request);
                flight.answer = Some(answer);
            }
            if self.now < replica.frozen_until {
                return;
            }
            if self.faults && self.roll(400) == 0 {
                replica.frozen_until = self.now + self.roll(40_000);
                return;
            }
            if self.faults && self.roll(1500) == 0 {
                self.leave(replica);
                return;
            }
            let local = self.local(replica);
            match replica.flight.take() {
                Some(flight) => self.receive(replica, flight, local),
                None => self.send(replica, local),
            }
        }

        /// The process ends, with or without a release, and restarts with a new identity.
        fn leave(&mut self, replica: &mut Replica) {
            if let Some(flight) = replica.flight.take()
                && let Some(at) = flight.applies.filter(|_| flight.answer.is_none())
            {
                self.strays.push((at, flight.request));
            }
            if self.roll(2) == 0
                && let Some((record, version)) = replica.candidate.release(wall())
            {
                replica.candidate.step_down();
                let _ = self.serve(&Next::Replace { record, version });
            }
            replica.candidate = self.newborn();
        }

        fn send(&mut self, replica: &mut Replica, local: Instant) {
            let before = replica.candidate.held(local).is_some();
            let wall = Timestamp::from_millisecond(i64::try_from(self.now).unwrap()).unwrap();
            let request = replica.candidate.next(local, wall);
            if matches!(request, Next::Wait(_)) {
                return;
            }
            let lost = self.faults && self.roll(10) == 0;
            let slow = if self.faults && self.roll(8) == 0 {
                12_000
            } else {
                300
            };
            let applies = (!lost).then(|| self.now + self.roll(slow));
            let unanswered = self.faults && self.roll(10) == 0;
            let answers = applies.filter(|_| !unanswered).map(|at| at + self.roll(slow));
            let gives_up = local
                + replica
                    .candidate
                    .held(local)
                    .map_or(timing().renew_deadline / 3, |(_, until)| {
                        (until - local).min(timing().renew_deadline / 3)
                    });
            debug_assert!(before || replica.candidate.held(local).is_none());
            replica.flight = Some(Flight {
                request,
                sent_at: local,
                gives_up,
                applies,
                answers,
                answer: None,
            });
        }

        fn receive(&mut self, replica: &mut Replica, flight: Flight, local: Instant) {
            let answered = flight.answers.is_some_and(|at| at <= self.now);
            let was = replica.candidate.held(local).is_some();
            match (answered, flight.answer) {
                (true, Some(Ok(seen))) => match (&flight.request, seen) {
                    (Next::Read, seen) => replica.candidate.observed(local, seen),
                    (_, Some(seen)) => replica.candidate.wrote(flight.sent_at, local, seen),
                    (_, None) => unreachable!("a write is answered with the record"),
                },
                (true, Some(Err(failure))) => replica.candidate.failed(flight.sent_at, failure),
                (_, answer) if local >= flight.gives_up => {
                    if answer.is_none()
                        && let Some(at) = flight.applies
                    {
                        self.strays.push((at, flight.request));
                    }
                    replica.candidate.failed(flight.sent_at, LeaseFailure::Unknown);
                }
                (_, answer) => replica.flight = Some(Flight { answer, ..flight }),
            }
            if !was && replica.candidate.held(local).is_some() {
                self.terms += 1;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn there_are_never_two_leaders_whatever_clocks_pauses_and_networks_do(
        seed in any::<u64>(),
        rates in proptest::collection::vec(0.9_f64..1.1, 2..4),
    ) {
        let mut world = world::World::new(seed, &rates);
        for _ in 0..6000 {
            world.step();
            prop_assert!(world.leaders() <= 1);
        }
        world.faults = false;
        for _ in 0..2000 {
            world.step();
            prop_assert!(world.leaders() <= 1);
        }
        prop_assert_eq!(world.leaders(), 1, "somebody leads once the faults are over");
        prop_assert!(world.terms >= 1);
    }
}

#[test]
fn a_renewal_never_repeats_an_earlier_one_although_the_clock_was_set_back() {
    let now = Instant::now();
    let mut me = leader(now);
    let mut times = std::collections::BTreeSet::new();
    for (renewal, wall) in [100, 105, 110, 95, 100, 105].into_iter().enumerate() {
        let at = now + secs(5) * (u32::try_from(renewal).unwrap() + 1);
        let Next::Replace { record, .. } = me.next(at, Timestamp::from_second(wall).unwrap()) else {
            panic!("expected a renewal")
        };
        assert!(times.insert(record.renew_time), "{times:?}");
        me.wrote(at, at, seen(record, &renewal.to_string()));
    }
}

/// The storage of the hub goes back to the first of three renewals, while the clock has stood hours behind all the time.
#[test]
fn a_renewal_never_repeats_an_earlier_one_although_the_lease_went_back() {
    let now = Instant::now();
    let mut me = leader(now);
    let mut times = std::collections::BTreeSet::new();
    let mut first = None;
    for renewal in 1..=6 {
        let at = now + secs(5) * renewal;
        if renewal == 4 {
            me.observed(at, first.clone());
        }
        let Next::Replace { record, .. } = me.next(at, wall()) else {
            panic!("expected a renewal")
        };
        assert!(times.insert(record.renew_time), "{times:?}");
        let written = seen(record, &renewal.to_string());
        first.get_or_insert_with(|| written.clone());
        me.wrote(at, at, written);
    }
}
