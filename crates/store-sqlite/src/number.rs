//! Numbers between the journal, which counts to 2^64, and SQLite, which counts to 2^63.
//!
//! The largest integer of SQLite is never stored, so that a bound of a query that is too large can be cut to it.

use crate::error::{BatchFailure, refused};

/// Converts a number that is to be stored.
pub(crate) fn stored(number: u64) -> Result<i64, BatchFailure> {
    match i64::try_from(number) {
        Ok(it) if it < i64::MAX => Ok(it),
        _ => refused(format!("number {number} is below {}", i64::MAX)),
    }
}

/// Converts an optional number that is to be stored.
pub(crate) fn stored_opt(number: Option<u64>) -> Result<Option<i64>, BatchFailure> {
    number.map(stored).transpose()
}

/// Converts a number that a query compares with.
pub(crate) fn bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// How many bits of a packed key are the number; the session's id is above them.
pub(crate) const NUMBER_BITS: u32 = 32;

/// How many numbers a session has for each kind of row.
const NUMBERS: i64 = 1 << NUMBER_BITS;

/// How many sessions a file has room for: so many that one past the last key is a number, too.
pub(crate) const SESSIONS: i64 = (1 << 31) - 1;

/// Packs the key of a row that is to be stored: it lies with the other rows of its session, in order of numbers.
pub(crate) fn packed(session: i64, no: u64) -> Result<i64, BatchFailure> {
    match i64::try_from(no) {
        Ok(no) if no < NUMBERS => Ok(session << NUMBER_BITS | no),
        _ => refused(format!("number {no} is below {NUMBERS}")),
    }
}

/// Converts a number that a query puts into a range of packed keys: never beyond the session's own.
pub(crate) fn within(number: u64) -> i64 {
    bound(number).min(NUMBERS)
}

/// Returns the keys of all rows of a session: the first, and the one past the last.
pub(crate) fn rows_of(session: i64) -> (i64, i64) {
    let first = session << NUMBER_BITS;
    (first, first + NUMBERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_too_large_for_sqlite_is_refused_and_never_wrapped() {
        assert_eq!(stored(7).ok(), Some(7));
        assert!(matches!(stored(u64::MAX), Err(BatchFailure::Refused(_))));
        assert!(matches!(stored(bound(u64::MAX).unsigned_abs()), Err(BatchFailure::Refused(_))));
    }

    #[test]
    fn a_packed_key_keeps_session_and_number_apart_or_is_refused() {
        assert_eq!(packed(3, 5).ok(), Some(0x3_0000_0005));
        let last = SESSIONS - 1;
        assert_eq!(packed(last, 0xffff_ffff).ok(), Some(rows_of(last).1 - 1));
        assert!(matches!(packed(1, 1 << 32), Err(BatchFailure::Refused(_))));
        assert!(matches!(packed(1, u64::MAX), Err(BatchFailure::Refused(_))));
        let (first, end) = rows_of(7);
        assert_eq!((packed(7, 0).ok(), packed(7, 0xffff_ffff).ok()), (Some(first), Some(end - 1)));
        assert_eq!(first + within(u64::MAX), end);
    }
}
