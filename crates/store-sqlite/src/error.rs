//! From SQLite's errors to the store's.

use std::sync::Arc;

use rusqlite::ErrorCode;
use singletree_durable::{BoxError, Error};

/// Why a member of a group was not applied.
#[derive(Debug)]
pub(crate) enum BatchFailure {
    /// Its own fault: it alone is rolled back.
    Refused(String),
    /// The file's or the disk's fault: the whole group is rolled back.
    Store(rusqlite::Error),
}

impl From<rusqlite::Error> for BatchFailure {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => Self::Refused(error.to_string()),
            _ => Self::Store(error),
        }
    }
}

/// Makes a refusal.
pub(crate) fn refuse_batch<T>(requirement: impl Into<String>) -> Result<T, BatchFailure> {
    Err(BatchFailure::Refused(requirement.into()))
}

/// Translates an error of SQLite into an error of the store.
pub(crate) fn translate_error(error: rusqlite::Error, doing: &'static str) -> Error {
    translate_shared_error(&Arc::new(error), doing)
}

/// As [`translate`], for an error that several callers get.
pub(crate) fn translate_shared_error(error: &Arc<rusqlite::Error>, doing: &'static str) -> Error {
    let source: BoxError = Box::new(Arc::clone(error));
    if is_corruption(error) {
        Error::Corrupt { what: format!("the database, found while it should {doing}"), source: Some(source) }
    } else if error.sqlite_error_code() == Some(ErrorCode::DiskFull) {
        Error::Full { doing, source }
    } else {
        Error::Unavailable { doing, source }
    }
}

/// Wraps an error of the file system.
pub(crate) fn unavailable_error(doing: &'static str, source: impl Into<BoxError>) -> Error {
    Error::Unavailable { doing, source: source.into() }
}

fn is_corruption(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(cause, _) => {
            matches!(cause.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        }
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => true,
        _ => false,
    }
}
