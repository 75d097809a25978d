//! Where a replica gets what differs from run to run: wall-clock time and random numbers.
//!
//! A simulation passes its own, so that a run can be repeated and each replica can have a clock that is wrong. Monotonic time is
//! that of the tokio runtime ([`crate::clock::now`]), which can be virtual.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::{DateTime, Utc};
use k8s_openapi::jiff::Timestamp;

/// Returns the wall-clock time.
type Wall = dyn Fn() -> DateTime<Utc> + Send + Sync;

/// Wall-clock time and random numbers of one replica. Cheap to clone; clones continue the same sequence of numbers.
#[derive(Clone)]
pub struct Sources {
    wall: Arc<Wall>,
    /// The state of the seeded generator; `None` takes random numbers from the operating system.
    seeded: Option<Arc<AtomicU64>>,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources")
            .field("seeded", &self.seeded)
            .finish_non_exhaustive()
    }
}

impl Default for Sources {
    fn default() -> Self {
        Self::system()
    }
}

impl Sources {
    /// The clock of this machine and random numbers from the operating system.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place where the time is read"
    )]
    pub fn system() -> Self {
        Self {
            wall: Arc::new(Utc::now),
            seeded: None,
        }
    }

    /// A clock of a simulation, and numbers that follow from a seed.
    #[must_use]
    pub fn simulated(wall: impl Fn() -> DateTime<Utc> + Send + Sync + 'static, seed: u64) -> Self {
        Self {
            wall: Arc::new(wall),
            seeded: Some(Arc::new(AtomicU64::new(seed))),
        }
    }

    /// The same with a random sequence of its own: drawing from it does not advance that of the others.
    #[must_use]
    pub fn with_own_sequence(&self) -> Self {
        const OTHER: u64 = 0x5851_f42d_4c95_7f2d;
        let seed = self
            .seeded
            .as_ref()
            .map(|state| state.load(Ordering::Relaxed) ^ OTHER);
        Self {
            wall: Arc::clone(&self.wall),
            seeded: seed.map(|seed| Arc::new(AtomicU64::new(seed))),
        }
    }

    /// The wall-clock time.
    #[must_use]
    pub fn wall(&self) -> DateTime<Utc> {
        (self.wall)()
    }

    /// The wall-clock time as Leases and Events have it.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        let wall = self.wall();
        // Every time that chrono can express in nanoseconds is in the range of jiff.
        let nanos = wall.timestamp_nanos_opt().map_or(0, i128::from);
        Timestamp::from_nanosecond(nanos).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// 64 random bits.
    #[must_use]
    pub fn random(&self) -> u64 {
        match &self.seeded {
            Some(state) => {
                // SplitMix64.
                const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
                let mut mixed = state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
                mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                mixed ^ (mixed >> 31)
            }
            // The standard library draws the keys of its hash maps from the operating system.
            None => RandomState::new().build_hasher().finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_clones_continue_them() {
        let sources = || Sources::simulated(|| DateTime::UNIX_EPOCH, 7);
        let (one, two) = (sources(), sources());
        let first: Vec<u64> = (0..4).map(|_| one.clone().random()).collect();
        let second: Vec<u64> = (0..4).map(|_| two.random()).collect();
        assert_eq!(first, second);
        assert_ne!(first[0], first[1]);
        assert_eq!(one.timestamp(), Timestamp::UNIX_EPOCH);
        let (own, again) = (one.with_own_sequence(), one.with_own_sequence());
        let drawn = own.random();
        assert_eq!(drawn, again.random());
        assert_ne!(drawn, one.random());
        let _ = two.random();
        assert_eq!(one.random(), two.random());
    }
}
