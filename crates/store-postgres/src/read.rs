//! The reads.

mod item;
mod session;
mod turn;
mod wait;

pub(crate) use item::event_from_row;

use singletree_durable::{JsonDocument, Result};
use tokio_postgres::Row;

use crate::error::corrupt_error;

/// The highest number that a column holds: a query beyond it finds nothing more.
pub(crate) fn to_bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a number that is never negative.
pub(crate) fn read_number(row: &Row, at: usize) -> Result<u64> {
    let number: i64 = row.get(at);
    u64::try_from(number).map_err(|_| corrupt_error(format!("the number {number}"), None))
}

pub(crate) fn read_optional_number(row: &Row, at: usize) -> Result<Option<u64>> {
    match row.get::<_, Option<i64>>(at) {
        None => Ok(None),
        Some(_) => read_number(row, at).map(Some),
    }
}

pub(crate) fn read_json(row: &Row, at: usize) -> JsonDocument {
    JsonDocument::from_text(row.get::<_, String>(at))
}

pub(crate) fn read_optional_json(row: &Row, at: usize) -> Option<JsonDocument> {
    row.get::<_, Option<String>>(at).map(JsonDocument::from_text)
}
