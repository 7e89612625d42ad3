//! Numbers from a seed (splitmix64).

/// A source of numbers: the same seed, the same numbers, on any machine.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

/// Scatters a number over all 64 bits.
pub(crate) fn scatter(number: u64) -> u64 {
    let mut it = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    it = (it ^ (it >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    it = (it ^ (it >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    it ^ (it >> 31)
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(scatter(seed))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        scatter(self.0)
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns true in so many of a hundred cases.
    pub(crate) fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }
}
