//! The errors of a harness.

use std::time::Duration;

use singletree_durable as durable;
use singletree_engine as engine;
use singletree_session as session;
use singletree_session::ErroredTurn;

/// The result of a harness operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong in a harness.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The graph's state is not fit for chat (harness-chat §4, D6).
    #[error("the graph cannot serve as a chat: {why}")]
    HistoryField {
        /// Why not.
        why: String,
    },
    /// The agent's tools need another durability level (D26), or an agent's declaration is otherwise wrong.
    #[error("agent '{agent}' cannot run so: {why}")]
    Durability {
        /// Which agent.
        agent: String,
        /// Why not.
        why: String,
    },
    /// The session is reserved for a component, such as the controller of campaigns.
    #[error("the session '{session}' is reserved: it takes no messages, forks, edits or imports")]
    SessionReserved {
        /// Which session.
        session: String,
    },
    /// An agent cannot be built of its parts.
    #[error("agent '{agent}' cannot be built")]
    AgentBuild {
        /// Which agent.
        agent: String,
        /// The category of the error of the part.
        category: &'static str,
        /// The error of the part.
        source: durable::BoxError,
    },
    /// The agent does not work under the session's prompt policy (agent-chat-output §8).
    #[error("agent '{agent}' takes no commands: {why}")]
    Policy {
        /// Which agent.
        agent: String,
        /// Why not.
        why: String,
    },
    /// A message is not a message, or too long (harness-chat §3.1, §10.4).
    #[error("the message is not valid: {why}")]
    MessageShape {
        /// The reason.
        why: String,
    },
    /// No session id could be made out (harness §10).
    #[error("the session id cannot be used: {why}")]
    SessionId {
        /// Why not.
        why: String,
    },
    /// The inbound transmission fits more than one path, or none (harness §10).
    #[error("the transmission cannot be classified: {why}")]
    Path {
        /// Why not.
        why: String,
    },
    /// The runtime could not subscribe to a signal (harness §10).
    #[error("the signal '{signal}' could not be subscribed to")]
    Subscription {
        /// Which signal.
        signal: String,
        /// Why not.
        source: durable::BoxError,
    },
    /// A signal belongs to no suspended invocation (harness §10).
    #[error("no suspended invocation awaits this signal: {why}")]
    Correlation {
        /// Why none.
        why: String,
    },
    /// The caller has used up a quota; nothing was stored.
    #[error(transparent)]
    Quota(#[from] crate::agents::admission::QuotaExceeded),
    /// Too many turns wait in the session.
    #[error("{max} turns wait in this session already")]
    QueueFull {
        /// The limit.
        max: usize,
    },
    /// A turn cannot be retried (any more).
    #[error("turn {turn} cannot be retried: {why}")]
    RetrySuperseded {
        /// The turn.
        turn: String,
        /// Why.
        why: &'static str,
    },
    /// As many sessions are busy as may be at once.
    #[error("{max} sessions are busy already")]
    SessionsFull {
        /// The limit.
        max: usize,
    },
    /// The chat was bound to one tenant, and this is another.
    #[error("this chat does not serve the tenant '{tenant}'")]
    TenantForeign {
        /// Which one was asked for.
        tenant: String,
    },
    /// As many listen to the session as may.
    #[error("{max} listen to this session already")]
    SubscriptionsFull {
        /// The limit.
        max: usize,
    },
    /// The turn could not be accepted durably; nothing of it is stored.
    #[error("the turn could not be accepted")]
    Accept {
        /// Why not.
        source: durable::BoxError,
    },
    /// The store says neither that it accepted the turn nor that it did not (D20, D38).
    #[error("it is not known whether the turn was accepted")]
    AcceptUnknown {
        /// The name that the turn has, if it was accepted.
        turn: session::TurnId,
        /// Whether the message has an idempotency key, so that sending it again finds the turn if there is one (D3).
        has_key: bool,
        /// Why not.
        source: durable::BoxError,
    },
    /// The idempotency key was used with another message or options (D3).
    #[error("the idempotency key '{key}' {why}")]
    Idempotency {
        /// The key.
        key: String,
        /// Why it cannot be used.
        why: String,
    },
    /// The session waits for a signal (D1).
    #[error("the conversation waits for an answer to: {}", waits.join(", "))]
    SessionSuspended {
        /// The signals that are awaited.
        waits: Vec<String>,
    },
    /// An answer does not name the wait and the action that it approves (D2).
    #[error("the answer does not match what is asked: {why}")]
    SignalMismatch {
        /// The mismatch.
        why: String,
    },
    /// The wait was answered otherwise already (D2).
    #[error("the signal '{signal}' was answered already, with another payload")]
    SignalConflict {
        /// Which signal.
        signal: String,
    },
    /// The session keeps as many early signals as it may (D2).
    #[error("the mailbox is full: {limit} is {max}")]
    MailboxFull {
        /// Which limit, as it is called in [`Limits`](crate::Limits).
        limit: &'static str,
        /// Its value.
        max: usize,
    },
    /// The signal's payload does not fit (suspension §9).
    #[error("the signal's payload is not valid: {why}")]
    Payload {
        /// The reason.
        why: String,
    },
    /// The wait's deadline passed (D2).
    #[error("nobody answered '{signal}' in time")]
    SignalExpired {
        /// Which signal.
        signal: String,
    },
    /// The turn was cancelled (D10).
    #[error("the turn was cancelled")]
    Cancelled,
    /// The turn died with its process too often (D24).
    #[error("the turn was given up after its process died {deaths} times")]
    Crashed {
        /// How often.
        deaths: u32,
    },
    /// The turn is too old to be taken up again (D28).
    #[error("the turn was given up: it is older than {days} days")]
    Abandoned {
        /// The limit, in days.
        days: u64,
    },
    /// A budget is used up (D13).
    #[error("the budget {budget} of {max} is exhausted: the turn came to {reached}")]
    Budget {
        /// Which one, as it is called in [`Limits`](crate::Limits) and [`Budget`](crate::Budget).
        budget: &'static str,
        /// Its value; times are in seconds.
        max: u64,
        /// The count that exceeded it, or would have.
        reached: u64,
    },
    /// Events are not kept any more from the point that was asked for (D9).
    #[error("events before {oldest} are not kept any more, or belong to another log")]
    EventsExpired {
        /// The oldest id that is kept.
        oldest: String,
    },
    /// There is no such turn.
    #[error("there is no turn '{turn}'")]
    TurnUnknown {
        /// Which one.
        turn: String,
    },
    /// There is no such session.
    #[error("there is no session '{session}'")]
    SessionUnknown {
        /// Which one.
        session: String,
    },
    /// There is such a session already, where a new one was to be made.
    #[error("there is a session '{session}' already")]
    SessionExists {
        /// Which one.
        session: String,
    },
    /// There is no such message, or none that this can be done with.
    #[error("message {message} cannot be used: {why}")]
    MessageUnknown {
        /// Which one.
        message: String,
        /// Why not.
        why: String,
    },
    /// The log has never had an event of this id.
    #[error("there is no event '{event}' in this log")]
    EventUnknown {
        /// Which one.
        event: String,
    },
    /// The session uses no such blob.
    #[error("this session has no blob '{digest}'")]
    BlobUnknown {
        /// Which one.
        digest: String,
    },
    /// This is nothing that is kept as a blob, or that a message shows.
    #[error("this cannot be used as a blob: {why}")]
    BlobRefused {
        /// Why not.
        why: String,
    },
    /// The blob is too large.
    #[error("a blob may have {max} bytes")]
    BlobTooLarge {
        /// The limit.
        max: usize,
    },
    /// The session's blobs would be too large together.
    #[error("the blobs of a session may have {max} bytes together")]
    BlobsFull {
        /// The limit.
        max: u64,
    },
    /// There is no such agent in this process (D28).
    #[error("there is no agent '{agent}' in this process")]
    AgentUnknown {
        /// Which one.
        agent: String,
    },
    /// The agent cannot answer in no session (D16).
    #[error("the agent '{agent}' needs a session: {why}")]
    SessionRequired {
        /// Which one.
        agent: String,
        /// Why.
        why: String,
    },
    /// A message, an answer or a signal was not accepted. The errored turn has its bucket and a text to show; nothing of
    /// it is stored.
    #[error("{0}")]
    Refused(Box<ErroredTurn>),
    /// The harness is shutting down; nothing was accepted.
    #[error("the harness is shutting down")]
    ShuttingDown,
    /// The run of a graph failed.
    #[error("the run failed")]
    Run {
        /// The engine's error.
        source: engine::Error,
    },
    /// The store failed.
    #[error("the store failed")]
    Store {
        /// The store's error.
        source: durable::Error,
    },
}

impl Error {
    /// Tells whether the same may succeed when it is tried again: the store could not do it. One that took too long is
    /// not asked again at once.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Store { source: durable::Error::Unavailable { source, .. } } => {
                !source.is::<singletree_env::Elapsed>()
            }
            Self::Store { source: durable::Error::CommitUnknown { .. } } => true,
            _ => false,
        }
    }

    /// As [`Error::is_transient`]; also true of a read that took too long, which may be repeated after a while.
    pub(crate) fn is_unavailable(&self) -> bool {
        self.is_transient() || matches!(self, Self::Store { source: durable::Error::Unavailable { .. } })
    }

    /// Checks whether another owner holds the session now.
    pub(crate) fn is_lease_lost(&self) -> bool {
        matches!(self, Self::Store { source: durable::Error::LeaseLost { .. } })
    }

    /// Checks whether stored data is damaged: trying again does not help.
    pub(crate) fn is_corrupt(&self) -> bool {
        matches!(self, Self::Store { source: singletree_durable::Error::Corrupt { .. } })
    }

    /// Returns how long the model's provider asked to wait, where that is why a run failed.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let Self::Run { source: engine::Error::Node { source: fault, .. } } = self else { return None };
        let mut causes = std::iter::successors(fault.original_error(), |error| error.source());
        causes.find_map(|error| error.downcast_ref::<singletree_llm::Error>())?.retry_after()
    }

    /// Returns the stable, machine-readable category of this error: for a failed run that of its cause (R29).
    #[must_use]
    pub fn category(&self) -> &str {
        match self {
            Self::HistoryField { .. } => "chat_history_field_invalid",
            Self::Durability { .. } => "chat_durability_invalid",
            Self::AgentBuild { category, .. } => category,
            Self::Policy { .. } => "chat_policy_unsupported",
            Self::MessageShape { .. } => "chat_message_shape_invalid",
            Self::SessionId { .. } => "harness_session_id_unresolved",
            Self::Path { .. } => "harness_path_classification_ambiguous",
            Self::Subscription { .. } => "harness_signal_subscription_failed",
            Self::Correlation { .. } => "harness_signal_correlation_failed",
            Self::QueueFull { .. } => "chat_queue_full",
            Self::Quota(_) => "server_quota_exceeded",
            Self::RetrySuperseded { .. } => "chat_retry_superseded",
            Self::SessionsFull { .. } => "chat_sessions_full",
            Self::TenantForeign { .. } => "chat_tenant_foreign",
            Self::SubscriptionsFull { .. } => "chat_subscriptions_full",
            Self::Accept { .. } => "chat_accept_failed",
            Self::AcceptUnknown { .. } => "chat_accept_unknown",
            Self::Idempotency { .. } => "chat_idempotency_conflict",
            Self::SessionSuspended { .. } => "chat_session_suspended",
            Self::SignalMismatch { .. } => "chat_signal_mismatch",
            Self::SignalConflict { .. } => "chat_signal_conflict",
            Self::MailboxFull { .. } => "chat_mailbox_full",
            Self::Payload { .. } => "suspension_resume_payload_invalid",
            Self::SignalExpired { .. } => "chat_signal_expired",
            Self::Cancelled => "chat_turn_cancelled",
            Self::Crashed { .. } => "chat_turn_crashed",
            Self::Abandoned { .. } => "chat_turn_abandoned",
            Self::Budget { .. } => "chat_budget_exhausted",
            Self::EventsExpired { .. } => "chat_events_expired",
            Self::TurnUnknown { .. } => "chat_turn_unknown",
            Self::SessionUnknown { .. } => "chat_session_unknown",
            Self::SessionExists { .. } => "chat_session_exists",
            Self::SessionReserved { .. } => "chat_session_reserved",
            Self::MessageUnknown { .. } => "chat_message_unknown",
            Self::EventUnknown { .. } => "chat_event_unknown",
            Self::BlobUnknown { .. } => "chat_blob_unknown",
            Self::BlobRefused { .. } => "chat_blob_refused",
            Self::BlobTooLarge { .. } => "chat_blob_too_large",
            Self::BlobsFull { .. } => "chat_blobs_full",
            Self::AgentUnknown { .. } => "chat_agent_unknown",
            Self::SessionRequired { .. } => "chat_session_required",
            Self::Refused(errored) => &errored.error_category,
            Self::ShuttingDown => "chat_shutting_down",
            Self::Run { source } => category_of_run_error(source),
            Self::Store { source } => source.category(),
        }
    }
}

/// Returns the category of the cause of a failed run: the category that the node named, or that of a model call's error
/// anywhere among the causes.
fn category_of_run_error(error: &engine::Error) -> &str {
    // Wherever the exhausted budget was detected (run, node or commit) and however the error was wrapped.
    if has_exhausted_budget(error) {
        return "chat_budget_exhausted";
    }
    // A failure of the disk is not a failure of the conversation, whichever save it interrupted.
    if let Some(trouble) = find_store_failure(error) {
        return trouble.category();
    }
    let engine::Error::Node { source: fault, .. } = error else { return error.category() };
    if let Some(category) = fault.category() {
        return category;
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = fault.original_error();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<singletree_llm::Error>() {
            return error.category();
        }
        if let Some(error) = error.downcast_ref::<engine::Error>() {
            return error.category();
        }
        cause = error.source();
    }
    error.category()
}

/// Finds among the causes of an error that the store cannot be written for want of space, of its file or of the right
/// to write.
fn find_store_failure<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a durable::Error> {
    use durable::Error::{Displaced, Fenced, Full};

    let causes = std::iter::successors(error.source(), |it| it.source());
    causes
        .filter_map(|cause| cause.downcast_ref::<durable::Error>())
        .find(|cause| matches!(cause, Full { .. } | Fenced { .. } | Displaced))
}

/// Makes the error for stored data that cannot be read.
pub(crate) fn store_corrupt_error(what: String, source: Option<durable::BoxError>) -> Error {
    durable::Error::Corrupt { what, source }.into()
}

/// Describes an error whose cause is wanted elsewhere, too: its text, and the category where the store is in trouble.
pub(crate) fn describe_cause(error: &Error) -> durable::BoxError {
    let text = engine::format_error_chain(error).into();
    match find_store_failure(error) {
        Some(durable::Error::Full { doing, .. }) => Box::new(durable::Error::Full { doing, source: text }),
        Some(durable::Error::Fenced { held, found }) => {
            Box::new(durable::Error::Fenced { held: *held, found: *found })
        }
        Some(durable::Error::Displaced) => Box::new(durable::Error::Displaced),
        _ => text,
    }
}

/// Tells whether an exhausted budget is among the causes of a failed run.
fn has_exhausted_budget(error: &engine::Error) -> bool {
    let cause = match error {
        engine::Error::Node { source, .. } => source.original_error(),
        other => std::error::Error::source(other),
    };
    let is_budget = |cause: &(dyn std::error::Error + 'static)| {
        matches!(cause.downcast_ref(), Some(Error::Budget { .. }))
            || matches!(cause.downcast_ref(), Some(session::Error::Budget { .. }))
    };
    std::iter::successors(cause, |cause| cause.source()).any(is_budget)
}

impl From<engine::Error> for Error {
    fn from(source: engine::Error) -> Self {
        Self::Run { source }
    }
}

impl From<session::Error> for Error {
    fn from(error: session::Error) -> Self {
        match error {
            session::Error::Policy { agent, why } => Self::Policy { agent, why },
            session::Error::MessageShape { why } => Self::MessageShape { why },
            session::Error::Correlation { why } => Self::Correlation { why },
            session::Error::SignalMismatch { why } => Self::SignalMismatch { why },
            session::Error::SignalConflict { signal } => Self::SignalConflict { signal },
            session::Error::MailboxFull { limit, max } => Self::MailboxFull { limit, max },
            session::Error::Payload { why } => Self::Payload { why },
            session::Error::SignalExpired { signal } => Self::SignalExpired { signal },
            session::Error::Budget { budget, max, reached } => Self::Budget { budget, max, reached },
            session::Error::TurnUnknown { turn } => Self::TurnUnknown { turn },
            session::Error::EventUnknown { event } => Self::EventUnknown { event },
            session::Error::SessionExists { session } => Self::SessionExists { session },
            session::Error::Store { source } => Self::Store { source },
            other => {
                Self::Store { source: durable::Error::Corrupt { what: other.to_string(), source: None } }
            }
        }
    }
}

impl From<durable::Error> for Error {
    fn from(source: durable::Error) -> Self {
        Self::Store { source }
    }
}

#[cfg(test)]
mod tests {
    use singletree_session::{BucketTable, Disposition, FailureBucket, HarnessSurface};

    use super::*;

    // Finding S9
    #[test]
    fn a_full_disk_is_a_failure_that_passes_and_no_end_of_a_conversation() {
        use singletree_durable::Error as StoreError;
        use singletree_engine::Error as RunError;

        let full = StoreError::Full { doing: "write", source: "no space".into() };
        let failed = |source| Error::from(RunError::SessionSave { source, completed: None });
        let saved = failed(Box::new(Error::from(full)));
        let told_again = failed(describe_cause(&saved));
        let other = failed("the process died".into());
        let of = |error: &Error| error.category().to_owned();
        assert_eq!(
            [of(&saved), of(&told_again), of(&other)],
            ["store_full", "store_full", "session_save_failed"]
        );
        let expected = Disposition { bucket: FailureBucket::RetryableTransient, retry_safe: false };
        assert_eq!(BucketTable::default().look_up_category("store_full", HarnessSurface::Chat), expected);
    }
}
