//! Events: what happens in a session, as one closed list.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Time;
use super::error::ApiError;
use super::message::{Message, Side};
use super::turn::Outcome;

/// One event of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its id, for events that are kept: also the `id:` of its frame, and what `Last-Event-ID` and `after` take. Deltas and tool
    /// activity are provisional and have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The session.
    pub session: String,
    /// The turn that it tells of.
    pub turn: String,
    /// When.
    pub at: Time,
    /// What.
    #[serde(flatten)]
    pub what: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum EventKind {
    /// A turn was accepted: it is kept now.
    #[serde(rename = "turn.accepted")]
    TurnAccepted {
        /// The user's message; none for a turn that resumes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Message>,
    },
    /// The turn has left the queue and runs. Not kept: without an id.
    #[serde(rename = "turn.started")]
    TurnStarted {},
    /// The turn runs again, since the process that ran it before died or was stopped. Not kept: without an id.
    #[serde(rename = "turn.restarted")]
    TurnRestarted {},
    /// A call of the turn's model failed and is made again. Not kept: without an id.
    #[serde(rename = "turn.retrying")]
    TurnRetrying {
        /// The number of the attempt that follows, counted from 1 within the call: the first retry is 2.
        attempt: u32,
        /// When it is made.
        until: Time,
        /// The category of the failure.
        category: String,
    },
    /// A piece of what the model thinks, of agents that show it. A piece of a higher run takes all earlier ones back. Not
    /// kept: without an id.
    #[serde(rename = "thinking.delta")]
    ThinkingDelta {
        /// The id that the message will have.
        message_id: String,
        /// Which attempt at the message this is, from 1.
        run: u32,
        /// The number of the piece in its run, from 0, counted apart from the deltas of the text.
        n: u64,
        /// The text.
        text: String,
        /// Whether this is everything so far, for a reader that came late.
        so_far: bool,
    },
    /// The turn takes a message that steers it, before its next call of the model. Not kept: the message that is appended under
    /// the same id says that it was taken. When the turn ends and there is none, it was not, and has the next turn.
    #[serde(rename = "message.taken")]
    MessageTaken {
        /// The id that the message will have.
        message_id: String,
        /// The message.
        message: Message,
        /// What is known beside it: `taken_by`, `accepted_as`.
        side: Side,
    },
    /// A message was recorded. When its turn ends errored, it does not become history, unless the history says so.
    #[serde(rename = "message.appended")]
    MessageAppended {
        /// Its id.
        message_id: String,
        /// The message.
        message: Message,
        /// What is known beside it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side: Option<Side>,
    },
    /// A piece of a message that is on its way. The message that is appended under the same id replaces all pieces, and a piece
    /// of a higher run takes all earlier ones back.
    #[serde(rename = "delta")]
    Delta {
        /// The id that the message will have.
        message_id: String,
        /// Which attempt at the message this is, from 1.
        run: u32,
        /// The number of the piece in its run, from 0.
        n: u64,
        /// The text.
        text: String,
        /// Whether this is all the text so far, for who came late.
        so_far: bool,
        /// What is known beside the message before it begins, such as whose it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        side: Option<Side>,
    },
    /// A tool starts.
    #[serde(rename = "tool.started")]
    ToolStarted {
        /// The id of the call.
        call: String,
        /// The tool.
        name: String,
        /// The arguments.
        arguments: Value,
    },
    /// A tool has ended.
    #[serde(rename = "tool.finished")]
    ToolFinished {
        /// The id of the call.
        call: String,
        /// The tool.
        name: String,
        /// Whether it succeeded.
        success: bool,
        /// What it gave.
        content: String,
    },
    /// The turn ended: it waits for an answer.
    #[serde(rename = "turn.suspended")]
    TurnSuspended {
        /// The outcome.
        outcome: Outcome,
    },
    /// A wait ended; or its signal had come early and did not fit, and it goes on.
    #[serde(rename = "signal.received")]
    SignalReceived {
        /// The number of the wait.
        wait: u64,
        /// The signal's id.
        signal: String,
        /// How.
        how: SignalEnd,
        /// Who answered, when known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
    /// The turn ended at the end of its graph.
    #[serde(rename = "turn.completed")]
    TurnCompleted {
        /// The outcome.
        outcome: Outcome,
    },
    /// The turn failed.
    #[serde(rename = "turn.errored")]
    TurnErrored {
        /// The outcome.
        outcome: Outcome,
    },
    /// The session was made as a copy of another one's beginning.
    #[serde(rename = "session.forked")]
    SessionForked {
        /// The other session.
        parent: String,
        /// How many messages were copied.
        offset: u64,
    },
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignalEnd {
    /// Its signal came.
    Consumed,
    /// Its deadline passed.
    Expired,
    /// It was given up.
    Cancelled,
    /// Its signal had come early and did not fit: the wait goes on.
    Refused,
}

/// What a frame of a stream holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(
    clippy::large_enum_variant,
    reason = "a failure is the last frame of its stream, and held by nobody"
)]
pub enum StreamItem {
    /// An event.
    Event(Box<Event>),
    /// The stream broke.
    Failed(StreamFailed),
}

/// Why a stream broke: its last frame, which is no event and has no id. Who comes again with the id that it saw last misses
/// nothing, where anything is left to see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamFailed {
    /// That it is one.
    #[serde(rename = "type")]
    pub kind: StreamFailedType,
    /// What went wrong.
    pub error: ApiError,
}

/// How a frame says that its stream broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StreamFailedType {
    /// It did.
    #[serde(rename = "stream.failed")]
    Failed,
}

/// Where a stream of events begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventQuery {
    /// The id of the last event that was seen: the stream goes on after it. As the header `Last-Event-ID`, which goes before.
    /// Without either, the stream begins with the oldest event that is kept.
    #[serde(default)]
    pub after: Option<String>,
}
