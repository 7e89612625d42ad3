//! Everything that grows has a limit (INV-12).

use std::time::Duration;

/// The bounds of a chat. The error category of each stands beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Turns that may wait in one session; one more is `chat_queue_full`.
    pub queue: usize,
    /// Bytes of one message, as JSON; a longer one is `chat_message_shape_invalid`.
    pub message_bytes: usize,
    /// Bytes of one state field that is no list of rows; a longer one is `chat_budget_exhausted`.
    pub field_bytes: usize,
    /// Bytes of one item of a list that is kept as rows, as JSON, messages among them; a longer one is
    /// `chat_budget_exhausted`.
    pub item_bytes: usize,
    /// Items of a list of rows beside the history; more are `chat_budget_exhausted`.
    pub list_items: u64,
    /// Bytes of such a list, as JSON; more are `chat_budget_exhausted`.
    pub list_bytes: u64,
    /// Levels of nested arrays and objects in one stored document: a message, a payload, a field, an item, a side
    /// record, the metadata or terms of a wait. A deeper message is `chat_message_shape_invalid`, a deeper payload
    /// `suspension_resume_payload_invalid`, anything else `chat_budget_exhausted`. The position of a turn and its
    /// records may have 16 levels more, since they contain the others. At most 100: a document of 128 levels cannot be
    /// read.
    pub nesting: usize,
    /// Bytes of the position of an unfinished turn: the fields of its state that the session does not hold, as JSON.
    /// More is `chat_budget_exhausted`.
    pub position_bytes: usize,
    /// Bytes of the records of one node execution before it completes (D7); more is `chat_budget_exhausted`.
    pub record_bytes: usize,
    /// Bytes of a wait: its signal's id, metadata and terms; more is `chat_budget_exhausted`.
    pub wait_bytes: usize,
    /// Bytes of the text that is shown of one message before it is recorded; text beyond that is visible once the
    /// message is recorded.
    pub shown_bytes: usize,
    /// Bytes of a signal's payload; a longer one is `suspension_resume_payload_invalid`.
    pub payload_bytes: usize,
    /// Early signals that a session keeps; one more is `chat_mailbox_full`.
    pub mail: usize,
    /// Bytes of their payloads in all; more are `chat_mailbox_full`.
    pub mail_bytes: usize,
    /// How long an early signal is kept; after that it is as if it had not come.
    pub mail_age: Duration,
    /// Bytes of an idempotency key; a longer one is `chat_idempotency_conflict`. Of the name of who answers a signal; a
    /// longer one is `suspension_resume_payload_invalid`. Of the id of an early signal; a longer one is not kept.
    pub key_bytes: usize,
    /// Bytes of the diagnostic in an error reply; the rest is cut off (D15).
    pub diagnostic_bytes: usize,
    /// Node executions of a turn; one more is `chat_budget_exhausted` (D13). Agents may lower this and the next five:
    /// `Agent::budget`.
    pub steps: u64,
    /// Tool calls of a turn; one more is `chat_budget_exhausted`.
    pub tool_calls: u64,
    /// Tokens of a turn, as far as its nodes count them; more are `chat_budget_exhausted`.
    pub tokens: u64,
    /// Messages of a session's history; a turn that would add more is `chat_budget_exhausted`.
    pub messages: u64,
    /// Bytes of a session's history, as JSON; a turn that would add more is `chat_budget_exhausted`.
    pub history_bytes: u64,
    /// How long a turn may run, without the time it is suspended; longer is `chat_budget_exhausted` (D13).
    pub turn_time: Duration,
    /// How long a read of the store may take; a slower read fails with `session_load_failed` or with the category of
    /// the read operation (D20).
    pub read_time: Duration,
    /// How old an unfinished turn may be at a sweep; an older one is `chat_turn_abandoned` (D28).
    pub turn_age: Duration,
    /// How often a turn may die with its process before it is not run again; `chat_turn_crashed` (D24).
    pub deaths: u32,
    /// Sessions that are kept in memory while nothing happens in them.
    pub hot_sessions: usize,
    /// Bytes of states and histories that the sessions in memory may hold, as `Chat::loaded`
    /// counts them: about twice their JSON. Beyond it, idle sessions free them, least recently used first, and read
    /// them again when needed. Sessions in which a turn is queued or running are not limited by it.
    pub loaded_bytes: u64,
    /// Sessions that may be busy at the same time: with a queued or running turn, a call or a listener. A call that
    /// needs one more fails with `chat_sessions_full` before anything of it is stored. Takeovers at start, and
    /// deadlines, wait for room.
    pub busy_sessions: usize,
    /// Callbacks that one session may have, and as many event streams; one more is `chat_subscriptions_full`.
    pub subscriptions: usize,
    /// Bytes of the messages that one read of a transcript returns, and that an event stream reads at a time. The page
    /// ends after the message that reaches this number and names the position of the next page.
    pub page_bytes: u64,
    /// Turns that a sweep returns; it takes over all there are.
    pub swept: usize,
    /// Events that a slow listener may be behind before it reads them from the store instead.
    pub feed_backlog: usize,
    /// How long to wait before an end that could not be recorded is tried again (D20).
    pub record_retry: Duration,
    /// How long a run waits for a store that is away, where other processes write it, too: with the read that it begins with, with
    /// each of its commits, and before those who wait for a turn are told that its end is not recorded. A store of this
    /// process alone is not waited for.
    pub store_outage: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue: 64,
            message_bytes: 1 << 20,
            field_bytes: 1 << 20,
            item_bytes: 16 << 20,
            list_items: 1_000_000,
            list_bytes: 1 << 32,
            nesting: 64,
            position_bytes: 16 << 20,
            record_bytes: 16 << 20,
            wait_bytes: 1 << 20,
            shown_bytes: 1 << 20,
            payload_bytes: 256 << 10,
            mail: 64,
            mail_bytes: 1 << 20,
            mail_age: Duration::from_secs(24 * 3600),
            key_bytes: 256,
            diagnostic_bytes: 500,
            steps: 100_000,
            tool_calls: 10_000,
            tokens: 100_000_000,
            messages: 1_000_000,
            history_bytes: 1 << 32,
            turn_time: Duration::from_secs(30 * 60),
            read_time: Duration::from_secs(30),
            turn_age: Duration::from_secs(30 * 24 * 3600),
            deaths: 3,
            hot_sessions: 1024,
            loaded_bytes: 256 << 20,
            busy_sessions: 1 << 16,
            subscriptions: 1024,
            page_bytes: 2 << 20,
            swept: 10_000,
            feed_backlog: 1024,
            record_retry: Duration::from_secs(1),
            store_outage: Duration::from_secs(60),
        }
    }
}
