//! The random numbers of a simulation: streams that follow from the seed and a name.

use singletree_env::{RandomSource, SeededRandomSource};

use crate::digest::fold_bytes;

/// A stream of random numbers. Streams of different names are independent, so that a draw more in one of them changes
/// nothing in the others.
#[derive(Debug)]
pub(crate) struct SimulationRandom(SeededRandomSource);

impl SimulationRandom {
    /// Makes the stream of this name of a seed.
    pub(crate) fn from_name(seed: u64, name: &str) -> Self {
        let mixed = fold_bytes(fold_bytes(0, &seed.to_le_bytes()), name.as_bytes());
        Self(SeededRandomSource::new(mixed))
    }

    /// Returns a number below `end`; 0 when `end` is 0.
    pub(crate) fn draw_below(&self, end: u64) -> u64 {
        self.0.draw_u64().checked_rem(end).unwrap_or(0)
    }

    /// Returns an index into something of this length; 0 when it is empty.
    pub(crate) fn draw_index(&self, len: usize) -> usize {
        usize::try_from(self.draw_below(len as u64)).unwrap_or(0)
    }

    /// Returns a number from `low` up to and including `high`.
    pub(crate) fn draw_between(&self, low: u64, high: u64) -> u64 {
        low + self.draw_below(high.saturating_sub(low) + 1)
    }

    /// Tells whether something happens that happens so often, of 1.
    pub(crate) fn draw_chance(&self, share: f64) -> bool {
        self.0.draw_fraction() < share
    }

    /// Tells whether something happens that happens so often in a hundred times.
    pub(crate) fn draw_percent(&self, percent: u64) -> bool {
        self.draw_below(100) < percent
    }

    /// Draws one of these.
    pub(crate) fn draw_from<T: Clone>(&self, choices: &[T]) -> Option<T> {
        choices.get(self.draw_index(choices.len())).cloned()
    }

    /// Returns all 64 bits.
    pub(crate) fn draw_u64(&self) -> u64 {
        self.0.draw_u64()
    }
}

impl RandomSource for SimulationRandom {
    fn fill_bytes(&self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}
