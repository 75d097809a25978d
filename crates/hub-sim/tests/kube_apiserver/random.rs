//! A seeded source of choices.

/// A seeded source of choices.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds begin far from each other.
        let mut random = Self(seed.wrapping_mul(0xd129_0d3a_f5a3_1b27) ^ 0x5851_f42d_4c95_7f2d);
        random.0 = random.next();
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    pub fn pick<T>(&mut self, mut choices: Vec<T>) -> T {
        let at = usize::try_from(self.next() % choices.len() as u64).unwrap();
        choices.swap_remove(at)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}
