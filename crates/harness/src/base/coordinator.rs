//! How signals find the invocations that wait for them: the contract with runtimes (harness §6).

use std::fmt;

use singletree_durable::{BoxError, BoxFuture, InvocationId};
use singletree_engine::Descriptor;

use super::inbound::SignalTarget;

/// Leads signals to suspended invocations: a callback address, a topic of an event bus, a scheduled wake-up.
///
/// # Contract
/// - An invocation has at most one subscription: `subscribe` replaces an older one of the same invocation, whatever
///   signal that was for.
/// - Once `subscribe` returned `Ok`, every signal that matches reaches [`Harness::handle`](super::Harness::handle), in
///   this process or another, for as long as the paused record lives (completeness). A signal that arrived earlier than
///   that is the coordinator's to keep, or the sender's to repeat.
/// - `resolve` changes nothing: a signal that is refused, because its payload does not fit, can be sent again. It
///   returns only invocations that this coordinator holds a subscription of. Several that match are an error, not a
///   choice.
/// - `unsubscribe` is idempotent.
/// - Futures may be dropped at any point: the requested change has happened completely or not at all.
///
/// A call that takes longer than [`Limits::read_time`](crate::Limits::read_time) counts as failed.
pub trait SignalCoordinator: fmt::Debug + Send + Sync {
    /// Lets signals that match the descriptor lead to this invocation.
    ///
    /// # Errors
    /// Any: the turn ends with `harness_signal_subscription_failed`.
    fn subscribe<'a>(
        &'a self,
        descriptor: &'a Descriptor,
        invocation: &'a InvocationId,
    ) -> BoxFuture<'a, Result<(), BoxError>>;

    /// Returns the invocation that a signal belongs to, if one waits for it.
    ///
    /// # Errors
    /// Any: the turn ends with `harness_signal_correlation_failed`.
    fn resolve_signal<'a>(
        &'a self,
        target: &'a SignalTarget,
    ) -> BoxFuture<'a, Result<Option<InvocationId>, BoxError>>;

    /// Ends an invocation's subscription: its signal was consumed, or its pause was given up.
    ///
    /// # Errors
    /// Any; nothing follows from it. A subscription that stays leads to a record that cannot be resumed again.
    fn unsubscribe<'a>(&'a self, invocation: &'a InvocationId) -> BoxFuture<'a, Result<(), BoxError>>;
}
