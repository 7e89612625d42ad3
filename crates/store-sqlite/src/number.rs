//! Numbers between the journal, which counts to 2^64, and SQLite, which counts to 2^63.
//!
//! The largest integer of SQLite is never stored, so that a bound of a query that is too large can be cut to it.

use crate::error::{Failure, refused};

/// Converts a number that is to be stored.
pub(crate) fn stored(number: u64) -> Result<i64, Failure> {
    match i64::try_from(number) {
        Ok(it) if it < i64::MAX => Ok(it),
        _ => refused(format!("number {number} is below {}", i64::MAX)),
    }
}

/// Converts an optional number that is to be stored.
pub(crate) fn stored_opt(number: Option<u64>) -> Result<Option<i64>, Failure> {
    number.map(stored).transpose()
}

/// Converts a number that a query compares with.
pub(crate) fn bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_too_large_for_sqlite_is_refused_and_never_wrapped() {
        assert_eq!(stored(7).ok(), Some(7));
        assert!(matches!(stored(u64::MAX), Err(Failure::Refused(_))));
        assert!(matches!(stored(bound(u64::MAX).unsigned_abs()), Err(Failure::Refused(_))));
    }
}
