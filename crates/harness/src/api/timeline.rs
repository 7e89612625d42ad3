//! The timeline of an invocation: the types for its stored data in the order of time.

use serde::Serialize;
use serde_json::{Map, Value};
use singletree_durable::{InvocationId, Timestamp};
use singletree_session::{FailureBucket, TurnId};

use crate::runtime::call_status::CallStatus;

/// The stored data of an invocation: the turn of its message, every turn that resumed or closed it, and the waits
/// between.
///
/// Times are those of the commits that recorded the entries, in milliseconds since the Unix epoch: at level
/// [`Durability::Turn`](crate::Durability::Turn) everything that a turn made has the time of its end. Data that is not
/// stored is absent: nodes that added no message, attempts of nodes that completed, and at that level all nodes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timeline {
    /// The session.
    pub session: String,
    /// The agent.
    pub agent: String,
    /// The invocation.
    pub invocation: InvocationId,
    /// Its turns that are kept, in order.
    pub turns: Vec<TurnSpan>,
    /// Its waits, in order.
    pub waits: Vec<WaitSpan>,
    /// Where it stands, when it is not over and that is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stands: Option<InvocationPosition>,
}

/// One turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnSpan {
    /// Its name.
    pub turn: TurnId,
    /// The cause of the turn.
    pub answers: TurnCause,
    /// How far it is.
    pub status: SpanStatus,
    /// When it was accepted. It may have waited for others before it ran.
    pub accepted_at: Timestamp,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How often its process died.
    pub deaths: u32,
    /// How much of its events is kept.
    pub kept: KeptEvents,
    /// Its recorded entries, in order.
    pub entries: Vec<TimelineEntry>,
    /// The node at which it suspended or failed, where that is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_in: Option<NodeProvenance>,
    /// Why it failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<TurnError>,
}

/// The cause of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnCause {
    /// A message.
    Message,
    /// A signal, or a deadline.
    Signal,
    /// The end of a wait that is not resumed.
    Close,
}

/// How far a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanStatus {
    /// It was accepted: it runs, waits for its place, or for a process that takes it over.
    Open,
    /// It ended: its invocation waits or waited for a signal.
    Suspended,
    /// It ended at the end of its graph.
    Completed,
    /// It failed.
    Errored,
}

/// How much of a turn's events is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeptEvents {
    /// All of them.
    Whole,
    /// The later ones; a retention has forgotten the others.
    Partly,
    /// None; a retention has forgotten them.
    Nothing,
}

/// Something that was recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimelineEntry {
    /// When it was recorded.
    pub at: Timestamp,
    /// The node that made it, where that is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_by: Option<NodeProvenance>,
    /// The entry itself.
    #[serde(flatten)]
    pub what: TimelineEntryKind,
}

/// A node that made something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeProvenance {
    /// The node; the nodes around it before it, parted by `/`.
    pub node: String,
    /// Which attempt of it, from 0; of a node that completed this is not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum TimelineEntryKind {
    /// The turn was accepted, with the user's message if it has one.
    Accepted {
        /// The text of the message.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// A wait ended or goes on.
    Signal {
        /// The number of the wait.
        wait: u64,
        /// The signal's id.
        signal: String,
        /// `consumed`, `expired`, `cancelled`, or `refused` when the wait goes on.
        how: &'static str,
        /// Who answered, when known.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
    /// A message of the model, or of the graph.
    Message {
        /// Its role.
        role: &'static str,
        /// Its text.
        text: String,
        /// The names of the tools that it calls.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        calls: Vec<String>,
        /// Whether it was interrupted.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
    },
    /// A tool call has its answer.
    ToolResult {
        /// The call.
        #[serde(flatten)]
        call: CallSpan,
        /// How it ended.
        status: CallStatus,
        /// The text of the result.
        text: String,
    },
    /// A message that a failed turn had made and no event has told: kept, and no part of the conversation (D11).
    Discarded {
        /// The role of the message.
        role: &'static str,
        /// Its text.
        text: String,
        /// The names of the tools that it calls.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        calls: Vec<String>,
    },
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CallSpan {
    /// Its id.
    pub call: String,
    /// The tool; empty when the message that called is not kept.
    pub tool: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// When the message that calls was recorded; none when it is not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
}

/// One wait.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaitSpan {
    /// Its number in the session.
    pub wait: u64,
    /// The signal that ends it.
    pub signal: String,
    /// `pending`, `consumed`, `cancelled` or `expired`.
    pub status: &'static str,
    /// The metadata that the node gave the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// When it began.
    pub since: Timestamp,
    /// When it expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Who answered, when known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
}

/// Where an invocation stands that is not over.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InvocationPosition {
    /// The node of each graph that is entered, outermost first.
    pub at: Vec<NodeProvenance>,
    /// Where it is with respect to the innermost one: `before`, `inside` or `after`.
    pub place: &'static str,
    /// The tool calls that have no answer yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open_calls: Vec<OpenCall>,
}

/// A tool call that has no answer yet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OpenCall {
    /// The call.
    #[serde(flatten)]
    pub call: CallSpan,
    /// How far it is, as far as it was recorded.
    pub state: OpenCallState,
}

/// How far a tool call is that has no answer yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OpenCallState {
    /// Nothing was recorded of it: it waits, or it is one whose beginning is not recorded.
    Asked,
    /// That it begins was recorded (D7).
    Begun,
    /// Its result was recorded.
    Gave,
}

/// Why a turn failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnError {
    /// The category of the error.
    pub category: String,
    /// The action that the caller can take.
    pub bucket: FailureBucket,
    /// A description of the error for people: redacted and cut to length (D15).
    pub diagnostic: String,
    /// Whether sending the same again is known to do nothing twice.
    pub retry_safe: bool,
}

impl SpanStatus {
    /// Returns the word that JSON has for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Suspended => "suspended",
            Self::Completed => "completed",
            Self::Errored => "errored",
        }
    }
}
