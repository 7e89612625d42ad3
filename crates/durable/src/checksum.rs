//! Checksums of rows: whether a value is the one that was written.
//!
//! They detect changes by a disk, a tool or a person. They have no key, so anybody can compute a matching checksum for
//! changed values.

/// The checksum of a group of values, in 31 bits: so short that a row pays five bytes for it, and long enough that one
/// change in two thousand million goes unseen.
///
/// A row whose parts change at different times has the [`sum_part_checksums`] of the checksums of its parts: whoever changes one part
/// needs the old and the new value of that part, and no other.
#[derive(Debug, Clone, Copy)]
pub struct Checksum(u64);

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Checksum {
    /// The bits of a checksum.
    pub const MASK: u64 = 0x7fff_ffff;

    /// Begins the checksum of a part; the same values in another part have another checksum.
    #[must_use]
    pub fn for_part(part: u64) -> Self {
        Self(0).mix_word(part.wrapping_add(1))
    }

    fn mix_word(self, word: u64) -> Self {
        // For a given state every word leads to another state, so that a change of one word is never lost on the way.
        let mixed = (self.0 ^ word).wrapping_mul(FACTOR);
        Self((mixed ^ (mixed >> 29)).wrapping_add(FACTOR))
    }

    /// Adds a value that is absent.
    #[must_use]
    pub fn add_null(self) -> Self {
        self.mix_word(0)
    }

    /// Adds a number.
    #[must_use]
    pub fn add_number(self, number: i64) -> Self {
        self.mix_word(1).mix_word(number.cast_unsigned())
    }

    /// Adds a text or bytes.
    #[must_use]
    pub fn add_bytes(self, bytes: &[u8]) -> Self {
        let whole = bytes.chunks_exact(8);
        let rest = whole.remainder();
        let mut state = self.mix_word(2).mix_word(bytes.len() as u64);
        for chunk in whole {
            state = state.mix_word(u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        state.mix_word(u64::from_le_bytes(last))
    }

    /// Returns the checksum.
    #[must_use]
    pub fn finish(self) -> u64 {
        (self.0 ^ (self.0 >> 32)) & Self::MASK
    }
}

/// Returns the checksum of a row from those of its parts.
#[must_use]
pub fn sum_part_checksums(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, |sum, part| (sum + part) & Checksum::MASK)
}

/// Returns the difference to add to the checksum of a row when one of its parts changes.
#[must_use]
pub fn checksum_difference(old: u64, new: u64) -> u64 {
    new.wrapping_sub(old) & Checksum::MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> u64 {
        texts.iter().fold(Checksum::for_part(0), |it, text| it.add_bytes(text.as_bytes())).finish()
    }

    #[test]
    fn values_keep_their_place_their_kind_and_their_part() {
        let same = ["ab", "c"];
        for other in [["a", "bc"], ["c", "ab"], ["ab", "d"], ["ab", "c\0"], ["abc", ""]] {
            assert_ne!(texts(&same), texts(&other), "{other:?}");
        }
        let one = |part| Checksum::for_part(part).add_number(1).finish();
        let absent = Checksum::for_part(0).add_null().finish();
        let text = Checksum::for_part(0).add_bytes(b"1").finish();
        for other in [one(1), absent, text, Checksum::for_part(0).add_number(-1).finish()] {
            assert_ne!(one(0), other);
        }
    }

    #[test]
    fn a_change_of_one_part_is_added() {
        let [first, old, new] = ["x", "y", "z"].map(|item| texts(&[item]));
        assert_eq!(
            sum_part_checksums([sum_part_checksums([first, old]), checksum_difference(old, new)]),
            sum_part_checksums([first, new])
        );
        assert_eq!(
            sum_part_checksums([sum_part_checksums([first, new]), checksum_difference(new, old)]),
            sum_part_checksums([first, old])
        );
    }

    #[test]
    fn every_bit_of_a_text_counts() {
        let text = b"{\"role\":\"user\",\"content\":\"pay ten\"}".to_vec();
        let whole = Checksum::for_part(0).add_bytes(&text).finish();
        for bit in 0..text.len() * 8 {
            let mut changed = text.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Checksum::for_part(0).add_bytes(&changed).finish(), whole, "bit {bit}");
        }
    }
}
