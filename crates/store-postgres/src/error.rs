//! From errors of PostgreSQL to errors of a store.

use deadpool_postgres::PoolError;
use singletree_durable::{BoxError, Error};
use tokio_postgres::error::{DbError, SqlState};

/// The states that the functions of the schema raise.
const LEASE_LOST: &str = "ST001";
const REFUSED: &str = "ST002";
const NODE_ENDED: &str = "ST003";

/// The error of an address that does not name a pooler which shares connections, with the remedy.
pub(crate) const POOLER_NOT_NAMED: &str = "a pooler gives each transaction another connection, where prepared statements \
                                           are missing or those of other processes: add pooler=transaction to the \
                                           address";

/// Why a statement failed, as far as its caller acts differently.
#[derive(Debug)]
pub(crate) enum StatementFailure {
    /// The session is not held under the fence of the batch.
    LeaseLost,
    /// The handle's row among the nodes is gone.
    NodeEnded,
    /// The statement was decided against; nothing of it is stored.
    Refused(String),
    /// It conflicted with another transaction; nothing of it is stored, and it may be tried again.
    Conflict(BoxError),
    /// Nothing of it is stored.
    Failed(Error),
    /// The connection broke, the answer did not come in time, or no standby confirmed it: it may be stored or not.
    Unknown(BoxError),
}

impl StatementFailure {
    /// Sorts the failure of a statement that was sent.
    pub(crate) fn from_statement(error: tokio_postgres::Error, doing: &'static str) -> Self {
        let Some(database) = error.as_db_error() else { return Self::Unknown(error.into()) };
        let code = database.code().clone();
        match code.code() {
            LEASE_LOST => Self::LeaseLost,
            REFUSED => Self::Refused(database.message().to_owned()),
            NODE_ENDED => Self::NodeEnded,
            "40001" | "40P01" => Self::Conflict(error.into()),
            // The server ends the connection, perhaps after the commit.
            "57P01" | "57P02" | "57P03" => Self::Unknown(error.into()),
            // Values that a column does not take, and rows that a constraint forbids.
            class if class.starts_with("22") || class.starts_with("23") => {
                Self::Refused(database.message().to_owned())
            }
            // The handle was opened for reading.
            _ if code == SqlState::READ_ONLY_SQL_TRANSACTION => Self::Failed(Error::Closed),
            _ if code == SqlState::DISK_FULL => Self::Failed(Error::Full { doing, source: error.into() }),
            _ => Self::Failed(Error::Unavailable { doing, source: error.into() }),
        }
    }

    /// Returns the error of a statement whose repetition does no harm.
    pub(crate) fn into_error(self, doing: &'static str) -> Error {
        match self {
            Self::Failed(error) => error,
            Self::Refused(requirement) => Error::Refused { requirement },
            Self::Conflict(source) | Self::Unknown(source) => Error::Unavailable { doing, source },
            Self::LeaseLost => unavailable_error(doing, "the session is held by another owner"),
            Self::NodeEnded => unavailable_error(doing, "the lease of this process has ended"),
        }
    }
}

/// Wraps an error that leaves everything as it was.
pub(crate) fn unavailable_error(doing: &'static str, source: impl Into<BoxError>) -> Error {
    Error::Unavailable { doing, source: source.into() }
}

/// Translates the failure to get a connection.
pub(crate) fn pool_error(error: PoolError, doing: &'static str) -> Error {
    match error {
        PoolError::Closed => Error::Closed,
        // A pooler refuses the options of a connection that only reads with this state.
        PoolError::Backend(error) if error.code() == Some(&SqlState::PROTOCOL_VIOLATION) => {
            let refused = error.as_db_error().map(DbError::message).unwrap_or_default();
            unavailable_error(doing, format!("{POOLER_NOT_NAMED} ({refused})"))
        }
        other => unavailable_error(doing, other),
    }
}

/// Reports a stored value that no version of this store writes.
pub(crate) fn corrupt_error(what: impl Into<String>, source: Option<BoxError>) -> Error {
    Error::Corrupt { what: what.into(), source }
}
