//! The session store of the sessions specification: whole records under a session id.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{BoxFuture, JsonDocument, Result, SessionKey, TenantId, Timestamp};

/// How often a session record was written; counts from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordVersion(pub u64);

/// The version that the caller expects to be stored (sessions §8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// Anything: the last write wins (sessions §8.1).
    Any,
    /// Nothing.
    Absent,
    /// Exactly this version.
    Exactly(RecordVersion),
}

/// The state of a session, as stored (sessions §2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The version of the state's schema.
    pub schema_version: String,
    /// The state: each field's value.
    pub state: BTreeMap<String, JsonDocument>,
    /// When it was written, by the writer's clock.
    pub updated_at: Timestamp,
}

/// The entry of a session in a listing: no state (sessions §5.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its name.
    pub key: SessionKey,
    /// The version of its state's schema.
    pub schema_version: String,
    /// When it was first written.
    pub created_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
}

/// Which sessions a listing shows; everything absent means all of the tenant (sessions §5.4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFilter {
    /// Only those written after this time.
    pub updated_after: Option<Timestamp>,
    /// Only those first written after this time.
    pub created_after: Option<Timestamp>,
    /// Only those of this schema version.
    pub schema_version: Option<String>,
}

/// Where sessions live between turns (sessions §5).
///
/// # Contract
/// - `save` is atomic: a reader sees the old record or the new one, never a mix.
/// - A save that returned `Ok` is durable, for stores that outlive the process, and its version is higher than any
///   version that this session had before.
/// - `delete` is idempotent; a later load finds nothing.
/// - Futures may be dropped at any point: a dropped `save` or `delete` has happened or has not, nothing between.
///
/// Failures of `load` become `session_load_failed`, failures of `save` `session_save_failed` (sessions §10), except
/// [`Error::Conflict`](crate::Error::Conflict), which stays `session_write_conflict`.
pub trait SessionStore: fmt::Debug + Send + Sync {
    /// Returns the record and its version, or `None` when nothing is stored.
    fn load<'a>(
        &'a self,
        key: &'a SessionKey,
    ) -> BoxFuture<'a, Result<Option<(SessionRecord, RecordVersion)>>>;

    /// Saves the record if `expected` holds, and returns its new version.
    fn save<'a>(
        &'a self,
        key: &'a SessionKey,
        record: &'a SessionRecord,
        expected: ExpectedVersion,
    ) -> BoxFuture<'a, Result<RecordVersion>>;

    /// Removes the record, if there is one.
    fn delete<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<()>>;

    /// Lists the sessions of a tenant that pass the filter, ordered by session id.
    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        filter: &'a SessionFilter,
    ) -> BoxFuture<'a, Result<Vec<SessionSummary>>>;
}
