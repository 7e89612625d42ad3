//! Numbers between the journal, which counts to 2^64, and SQLite, which counts to 2^63.
//!
//! The largest integer of SQLite is never stored, so that a bound of a query that is too large can be cut to it.

use crate::error::{BatchFailure, refuse_batch};

/// Converts a number that is to be stored.
pub(crate) fn to_stored_number(number: u64) -> Result<i64, BatchFailure> {
    match i64::try_from(number) {
        Ok(it) if it < i64::MAX => Ok(it),
        _ => refuse_batch(format!("number {number} is below {}", i64::MAX)),
    }
}

/// Converts an optional number that is to be stored.
pub(crate) fn to_stored_optional(number: Option<u64>) -> Result<Option<i64>, BatchFailure> {
    number.map(to_stored_number).transpose()
}

/// Converts a number that a query compares with.
pub(crate) fn to_query_bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// How many bits of a packed key are the number; the session's id is above them.
pub(crate) const NUMBER_BITS: u32 = 32;

/// How many numbers a session has for each kind of row.
const NUMBERS: i64 = 1 << NUMBER_BITS;

/// How many sessions a file has room for: so many that one past the last key is a number, too.
pub(crate) const SESSIONS: i64 = (1 << 31) - 1;

/// Packs the key of a row that is to be stored: it lies with the other rows of its session, in order of numbers.
pub(crate) fn pack_row_key(session: i64, no: u64) -> Result<i64, BatchFailure> {
    match i64::try_from(no) {
        Ok(no) if no < NUMBERS => Ok(session << NUMBER_BITS | no),
        _ => refuse_batch(format!("number {no} is below {NUMBERS}")),
    }
}

/// Converts a number that a query puts into a range of packed keys: never beyond the session's own.
pub(crate) fn to_packed_bound(number: u64) -> i64 {
    to_query_bound(number).min(NUMBERS)
}

/// Returns the keys of all rows of a session: the first, and the one past the last.
pub(crate) fn session_key_range(session: i64) -> (i64, i64) {
    let first = session << NUMBER_BITS;
    (first, first + NUMBERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_too_large_for_sqlite_is_refused_and_never_wrapped() {
        assert_eq!(to_stored_number(7).ok(), Some(7));
        assert!(matches!(to_stored_number(u64::MAX), Err(BatchFailure::Refused(_))));
        assert!(matches!(
            to_stored_number(to_query_bound(u64::MAX).unsigned_abs()),
            Err(BatchFailure::Refused(_))
        ));
    }

    #[test]
    fn a_packed_key_keeps_session_and_number_apart_or_is_refused() {
        assert_eq!(pack_row_key(3, 5).ok(), Some(0x3_0000_0005));
        let last = SESSIONS - 1;
        assert_eq!(pack_row_key(last, 0xffff_ffff).ok(), Some(session_key_range(last).1 - 1));
        assert!(matches!(pack_row_key(1, 1 << 32), Err(BatchFailure::Refused(_))));
        assert!(matches!(pack_row_key(1, u64::MAX), Err(BatchFailure::Refused(_))));
        let (first, end) = session_key_range(7);
        assert_eq!(
            (pack_row_key(7, 0).ok(), pack_row_key(7, 0xffff_ffff).ok()),
            (Some(first), Some(end - 1))
        );
        assert_eq!(first + to_packed_bound(u64::MAX), end);
    }
}
