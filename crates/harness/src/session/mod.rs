//! The session core: the in-memory state of a session, and the decisions about it.
//!
//! Everything here is pure: no tasks, no clock, no I/O (checked by: tidy). The fields of [`SessionState`] are private to
//! this module; the runtime changes a state by its methods only, under the one lock of the session.
//!
//! # The commit path
//! A decision reads the state and fills a batch. The batch is handed to the journal under the same lock, so that the
//! order of decisions is the order of batches (INV-1). A change of the state that must not be visible before its commit
//! has landed is a [`LandedChange`] of the batch. Only [`SessionState::commit_landed`] makes such a change.

pub(crate) mod apply;
pub(crate) mod batch;
mod held_bytes;
mod landed;
mod queue;
mod state;
mod steering;
#[cfg(test)]
mod tests;
pub(crate) mod turn;

pub(crate) use landed::{LandedChange, WaitChange};
pub(crate) use queue::{CallerHandle, PendingAnswer, QueueDecision, QueuedTurn, QueuedWork};
pub(crate) use state::SessionState;
