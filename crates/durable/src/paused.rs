//! The paused-invocation record of the suspension specification.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{BoxFuture, InvocationId, JsonDocument, Result, TenantId};

/// Whether a paused record can be resumed (suspension §7; a claim keeps two signals from resuming it both).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PausedStatus {
    /// It waits for its signal.
    Suspended,
    /// A resume has claimed it and runs.
    Resuming,
    /// Its invocation reached the end.
    Completed,
    /// Its invocation failed.
    Errored,
}

/// The persisted state of a suspended invocation (suspension §2, §5).
///
/// The body is the engine's: cursor, the state of each frame, descriptor and identities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PausedRecord {
    /// Whether it can be resumed.
    pub status: PausedStatus,
    /// Everything that a resume needs.
    pub body: JsonDocument,
}

/// Where suspended invocations live until their signal comes (suspension §7, §8.5).
///
/// # Contract
/// - `save` overwrites; one that returned `Ok` is durable, for stores that outlive the process.
/// - `claim` moves a record from `suspended` to `resuming` and returns it as it was, or returns `None` and changes
///   nothing when it is absent or in another status: of any number of concurrent claims exactly one gets the record.
/// - `close` sets the status of an existing record and does nothing to an absent one.
/// - `delete` is idempotent.
pub trait PausedStore: fmt::Debug + Send + Sync {
    /// Stores a record, whatever was there.
    fn save<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        record: &'a PausedRecord,
    ) -> BoxFuture<'a, Result<()>>;

    /// Returns the record, if there is one.
    fn load<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>>;

    /// Takes a suspended record for a resume.
    fn claim<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<Option<PausedRecord>>>;

    /// Sets the status of a record.
    fn close<'a>(
        &'a self,
        tenant: &'a TenantId,
        invocation: &'a InvocationId,
        status: PausedStatus,
    ) -> BoxFuture<'a, Result<()>>;

    /// Removes the record, if there is one: this is how an application cancels a suspended invocation.
    fn delete<'a>(&'a self, tenant: &'a TenantId, invocation: &'a InvocationId) -> BoxFuture<'a, Result<()>>;
}
