//! Reproducible random numbers: every number is a pure function of the seed and of its purpose.
//!
//! There is no generator state, so that the order of events cannot change a result.

/// A seeded source of reproducible random numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeededRng(u64);

impl SeededRng {
    /// The source of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// A derived source for `name` (a cluster, an object, a purpose).
    #[must_use]
    pub fn of(self, name: &str) -> Self {
        // FNV-1a, then mixed. Unlike std's hasher it is stable across releases and platforms.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ self.0, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(mix(hash))
    }

    /// A derived source for the `n`th number.
    #[must_use]
    pub fn nth(self, n: u64) -> Self {
        Self(mix(self.0 ^ mix(n.wrapping_add(1))))
    }

    /// 64 bits.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// A number in `0.0..1.0`.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn unit(self) -> f64 {
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number in `low..high`.
    #[must_use]
    pub fn between(self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A random (version 4, RFC 4122) UUID.
    #[must_use]
    pub fn uuid(self) -> String {
        let high = (self.nth(1).0 & 0xffff_ffff_ffff_0fff) | 0x4000;
        let low = (self.nth(2).0 & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }
}

/// The finaliser of `SplitMix64`.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::SeededRng;

    #[test]
    fn draws_depend_on_seed_and_name_only() {
        let rng = SeededRng::new(7);
        assert_eq!(rng.of("spoke-1").bits(), SeededRng::new(7).of("spoke-1").bits());
        assert_ne!(rng.of("spoke-1").bits(), rng.of("spoke-2").bits());
        assert_ne!(rng.of("spoke-1").bits(), SeededRng::new(8).of("spoke-1").bits());
    }

    #[test]
    fn uuids_are_version_4_of_the_rfc_variant() {
        for n in 0..100 {
            let uuid = SeededRng::new(n).uuid();
            assert_eq!(uuid.len(), 36);
            assert_eq!(&uuid[14..15], "4", "{uuid}");
            assert!(matches!(&uuid[19..20], "8" | "9" | "a" | "b"), "{uuid}");
        }
    }

    #[test]
    fn units_spread_over_the_whole_interval() {
        let rng = SeededRng::new(3);
        let low = (0..1000).filter(|n| rng.nth(*n).unit() < 0.1).count();
        assert!((60..140).contains(&low), "{low} of 1000 below 0.1");
    }
}
