//! Pseudo-random numbers that are the same in every run.

/// The generator "splitmix64".
pub struct Random(u64);

impl Random {
    /// Creates a generator with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`; 0 for an empty range.
    pub fn below(&mut self, bound: usize) -> usize {
        match bound as u64 {
            0 => 0,
            bound => (self.next() % bound) as usize,
        }
    }

    /// Returns true once in `times` calls on average.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns a number below `bound`, with small ones far more often, similar to how often files change.
    pub fn skewed(&mut self, bound: usize) -> usize {
        let unit = self.below(1 << 20) as f64 / f64::from(1 << 20);
        ((bound as f64) * unit.powi(3)) as usize
    }
}
