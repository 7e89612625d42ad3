//! Randomness.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bits of an `f64`'s precision.
const PRECISION: u32 = f64::MANTISSA_DIGITS;

/// A source of random numbers.
///
/// Keys, tokens and codes are drawn from it as well as jitter, so a source for production must be one that nobody can
/// predict, such as `SystemRandomSource`.
pub trait RandomSource: fmt::Debug + Send + Sync {
    /// Fills the slice with random bytes.
    fn fill_bytes(&self, bytes: &mut [u8]);

    /// Returns a number of which all 64 bits are random.
    fn draw_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    /// Returns a number from 0 up to, but not including, 1.
    #[expect(clippy::cast_precision_loss, reason = "a fraction has 53 bits")]
    fn draw_fraction(&self) -> f64 {
        (self.draw_u64() >> (u64::BITS - PRECISION)) as f64 / (1_u64 << PRECISION) as f64
    }
}

/// Randomness that is equal for equal seeds (SplitMix64). It is predictable: never draw secrets from it in production.
#[derive(Debug, Default)]
pub struct SeededRandomSource(AtomicU64);

impl SeededRandomSource {
    /// Makes a source from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl RandomSource for SeededRandomSource {
    fn fill_bytes(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.draw_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    fn draw_u64(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut mixed = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Randomness that draws the same number each time, for tests: the jitter of a wait is then a fixed part of it.
#[derive(Debug, Clone, Copy)]
pub struct ConstantRandomSource(u64);

impl ConstantRandomSource {
    /// Makes a source of one fraction, from 0 to 1. The fraction 1 is drawn as the largest number below it.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the conversion saturates, and a fraction has 53 bits"
    )]
    pub const fn from_fraction(fraction: f64) -> Self {
        Self((fraction * u64::MAX as f64) as u64)
    }
}

impl RandomSource for ConstantRandomSource {
    fn fill_bytes(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.0.to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_numbers_of_splitmix64() {
        let source = SeededRandomSource::new(1_234_567);
        let numbers: Vec<u64> = (0..3).map(|_| source.draw_u64()).collect();
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn bytes_are_those_of_the_numbers_whatever_the_length() {
        let numbers = SeededRandomSource::new(7);
        let wanted: Vec<u8> = (0..3).flat_map(|_| numbers.draw_u64().to_le_bytes()).collect();
        for length in 0..=wanted.len() {
            let mut bytes = vec![0; length];
            SeededRandomSource::new(7).fill_bytes(&mut bytes);
            assert_eq!(bytes, wanted[..length]);
        }
    }

    #[derive(Debug)]
    struct AllBits(u8);

    impl RandomSource for AllBits {
        fn fill_bytes(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn a_fraction_is_below_one() {
        assert_eq!(AllBits(0).draw_fraction().to_bits(), 0.0_f64.to_bits());
        let highest = AllBits(u8::MAX).draw_fraction();
        assert!(highest < 1.0 && highest > 0.999_999, "{highest}");
        assert_eq!(AllBits(u8::MAX).draw_u64(), u64::MAX);
    }

    #[test]
    fn a_constant_source_draws_its_fraction() {
        for (fraction, drawn) in [(0.0, 0.0), (0.5, 0.5), (1.0, highest_fraction())] {
            let source = ConstantRandomSource::from_fraction(fraction);
            assert!((source.draw_fraction() - drawn).abs() < f64::EPSILON, "{fraction}");
            assert!(source.draw_fraction() < 1.0);
        }
    }

    fn highest_fraction() -> f64 {
        AllBits(u8::MAX).draw_fraction()
    }
}
