//! A wait, as those who may answer it see it.

use singletree_durable::{InvocationId, SessionKey, WaitRow};
use singletree_engine::Descriptor;
use singletree_session::{SuspensionTerms, decode_wait_descriptor, decode_wait_terms};

use crate::Result;

/// A wait that nobody has ended yet.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingWait {
    /// The session that waits.
    pub session: String,
    /// The invocation that waits.
    pub invocation: InvocationId,
    /// The descriptor of the awaited signal.
    pub descriptor: Descriptor,
    /// The terms of the wait.
    pub wait: SuspensionTerms,
    /// Since when it waits.
    pub since: singletree_durable::Timestamp,
}

/// Converts a wait into its list entry.
pub(crate) fn to_pending_wait(key: &SessionKey, wait: &WaitRow) -> Result<PendingWait> {
    Ok(PendingWait {
        session: key.session.to_string(),
        invocation: wait.invocation.clone(),
        descriptor: decode_wait_descriptor(wait)?,
        wait: decode_wait_terms(wait)?,
        since: wait.created_at,
    })
}
