//! Choices that follow from a seed and a name.
//!
//! A choice is a pure function of the seed, the name of what is decided and how often that was decided before. So one fault can
//! be left out and all others stay as they were, which is what makes a story that fails reducible.

/// Makes choices.
#[derive(Clone, Copy, Debug)]
pub struct Choices {
    seed: u64,
}

/// One choice.
#[derive(Clone, Copy, Debug)]
pub struct Choice(u64);

impl Choices {
    /// The choices of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// The choice about the `count`-th occurrence of what is called `name`.
    #[must_use]
    pub fn of(self, name: &str, count: u64) -> Choice {
        self.about("", name, count)
    }

    /// The same, where the name has two parts.
    #[must_use]
    pub fn about(self, what: &str, name: &str, count: u64) -> Choice {
        // FNV-1a over the name, then two rounds of SplitMix64.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in what.bytes().chain(name.bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Choice(mix(mix(hash ^ mix(self.seed)).wrapping_add(count)))
    }
}

impl Choice {
    /// True in `per_mille` of a thousand cases.
    #[must_use]
    pub const fn happens(self, per_mille: u64) -> bool {
        self.0 % 1000 < per_mille
    }

    /// A number from `least` to `most`.
    #[must_use]
    pub const fn between(self, least: u64, most: u64) -> u64 {
        least + mix(self.0) % (most - least + 1)
    }

    /// One of several.
    #[must_use]
    pub fn pick<T: Copy>(self, choices: &[T]) -> Option<T> {
        let count = choices.len() as u64;
        if count == 0 {
            return None;
        }
        let at = usize::try_from(mix(self.0 ^ 0x5bd1) % count).ok()?;
        choices.get(at).copied()
    }

    /// The bits of the choice.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

const fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
