//! The events of a session, as one closed list (D9).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value;
use singletree_durable::{SessionId, Timestamp};
use singletree_llm::ChatMessage;

use crate::Error;
use crate::outcome::ChatTurnOutcome;
use crate::turn_id::{MessageId, TurnId};

/// Names a durable event: the log's epoch and the event's sequence number in its session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChatEventId {
    /// The epoch: another one is another log.
    pub epoch: String,
    /// The sequence number.
    pub seq: u64,
}

impl fmt::Display for ChatEventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.seq)
    }
}

impl FromStr for ChatEventId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = text.rsplit_once('.').and_then(|(epoch, seq)| Some((epoch, seq.parse().ok()?)));
        let (epoch, seq) = parts.ok_or_else(|| Error::EventUnknown { event: text.to_owned() })?;
        Ok(Self { epoch: epoch.to_owned(), seq })
    }
}

/// One event of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatEvent {
    /// Its id, for events that are kept. Deltas, tool activity and the activity of the turn are provisional and have
    /// none.
    pub id: Option<ChatEventId>,
    /// The session.
    pub session: SessionId,
    /// The turn that it tells of.
    pub turn: TurnId,
    /// The time of the event.
    pub at: Timestamp,
    /// The kind of the event, with its data.
    pub what: ChatEventKind,
}

/// The kinds of events, with their data.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatEventKind {
    /// A turn was accepted: it is kept now. The message is the user's, none for a resume.
    TurnAccepted {
        /// The user's message.
        message: Option<Arc<ChatMessage>>,
    },
    /// The turn has left the queue and runs. Provisional, as are the next three; none of them is stored (D36).
    TurnStarted,
    /// The turn runs again, from its last committed step: the process that ran it before died or was stopped.
    TurnRestarted,
    /// A call of the turn's model failed and is made again.
    TurnRetrying {
        /// The number of the attempt that follows, counted from 1 within the call: the first retry is 2.
        attempt: u32,
        /// When it is made.
        until: Timestamp,
        /// The category of the failure.
        category: String,
    },
    /// A piece of the model's thinking before or during its answer. Only of agents that show it, and never history by
    /// itself: the thinking is part of the message that is appended under the same name. A piece of a higher run takes
    /// all earlier ones back.
    ThinkingDelta {
        /// The name that the message will have.
        id: MessageId,
        /// Which attempt at the message this is, from 1; the same number as that of the message's deltas.
        run: u32,
        /// The number of the piece in its run, from 0, counted apart from the deltas of the text.
        n: u64,
        /// The text.
        text: String,
        /// Whether this is everything so far, for a listener that came late.
        so_far: bool,
    },
    /// The turn takes a message that steers it (`Session::steer`), before its next call of the model. Provisional: the message
    /// that is appended under the same name says that it was taken. It may be told more than once, by a node that is tried
    /// again. When the turn ends and no such message was appended, it was not taken, and has the next turn.
    MessageTaken {
        /// The name that the message will have.
        id: MessageId,
        /// The message.
        message: Arc<ChatMessage>,
        /// Its side record (D17): that of its sender, with `{"taken_by": TURN, "accepted_as": TURN}`.
        side: Value,
    },
    /// A message was recorded. When its turn ends errored it does not become history, unless the end says so. One of
    /// the user is told here when the turn took it as one that steers (`Session::steer`).
    MessageAppended {
        /// Its name.
        id: MessageId,
        /// The message.
        message: Arc<ChatMessage>,
        /// The side records of the message (D17), such as an interruption, or the turn that took it and the one as which
        /// it was accepted: `{"taken_by": TURN, "accepted_as": TURN}`.
        side: Option<Value>,
    },
    /// A piece of a message that is on its way. Provisional: the message that is appended under the same name replaces
    /// all pieces, and a piece of a higher run takes all earlier ones back.
    Delta {
        /// The name that the message will have.
        id: MessageId,
        /// Which attempt at the message this is, from 1.
        run: u32,
        /// The number of the piece in its run, from 0.
        n: u64,
        /// The text.
        text: String,
        /// Whether this is all the text so far, for who came late.
        so_far: bool,
        /// The side records that were added before the message began to be shown (D17), such as its author.
        side: Option<Value>,
        /// How many messages of the turn come before it that are not recorded yet, those not counted that steer: at
        /// level `Durability::Turn` all that the turn has made. Who shows messages in their
        /// order shows those first.
        unrecorded: u64,
    },
    /// A tool starts.
    ToolStarted {
        /// The id of the call.
        call: String,
        /// The tool.
        name: String,
        /// The arguments.
        arguments: Value,
    },
    /// A tool has ended.
    ToolFinished {
        /// The id of the call.
        call: String,
        /// The tool.
        name: String,
        /// Whether it succeeded.
        success: bool,
        /// The content of its result.
        content: String,
    },
    /// The turn ended: it waits for a signal.
    TurnSuspended {
        /// The outcome.
        outcome: Arc<ChatTurnOutcome>,
    },
    /// A wait ended: its signal came, or it expired or was cancelled. Or its signal had come early and did not fit:
    /// then it goes on.
    SignalReceived {
        /// The number of the wait.
        wait: u64,
        /// The signal's id.
        signal: String,
        /// How the wait ended: `consumed`, `expired` or `cancelled`; `refused` when it goes on.
        how: &'static str,
        /// Who answered, when known.
        from: Option<String>,
    },
    /// The turn ended at the end of its graph.
    TurnCompleted {
        /// The outcome.
        outcome: Arc<ChatTurnOutcome>,
    },
    /// The turn failed.
    TurnErrored {
        /// The outcome.
        outcome: Arc<ChatTurnOutcome>,
    },
    /// The session was made as a copy of another one's beginning.
    SessionForked {
        /// The other session.
        parent: SessionId,
        /// How many messages were copied.
        offset: u64,
    },
}

impl ChatEventKind {
    /// Returns the event's type, as it is logged and sent.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::TurnAccepted { .. } => event_kinds::ACCEPTED,
            Self::TurnStarted => "turn.started",
            Self::TurnRestarted => "turn.restarted",
            Self::TurnRetrying { .. } => "turn.retrying",
            Self::ThinkingDelta { .. } => "thinking.delta",
            Self::MessageTaken { .. } => "message.taken",
            Self::MessageAppended { .. } => event_kinds::APPENDED,
            Self::Delta { .. } => "delta",
            Self::ToolStarted { .. } => "tool.started",
            Self::ToolFinished { .. } => "tool.finished",
            Self::TurnSuspended { .. } => event_kinds::SUSPENDED,
            Self::SignalReceived { .. } => event_kinds::SIGNAL,
            Self::TurnCompleted { .. } => event_kinds::COMPLETED,
            Self::TurnErrored { .. } => event_kinds::ERRORED,
            Self::SessionForked { .. } => event_kinds::FORKED,
        }
    }

    /// Tells whether the event says how far the turn is: started, restarted or retrying.
    #[must_use]
    pub fn is_activity(&self) -> bool {
        matches!(self, Self::TurnStarted | Self::TurnRestarted | Self::TurnRetrying { .. })
    }

    /// Tells whether this is the first durable event of its turn.
    pub fn begins_turn(&self) -> bool {
        match self {
            Self::TurnAccepted { .. } | Self::SignalReceived { .. } | Self::SessionForked { .. } => true,
            Self::TurnStarted
            | Self::TurnRestarted
            | Self::TurnRetrying { .. }
            | Self::ThinkingDelta { .. }
            | Self::MessageTaken { .. }
            | Self::MessageAppended { .. }
            | Self::Delta { .. }
            | Self::ToolStarted { .. }
            | Self::ToolFinished { .. }
            | Self::TurnSuspended { .. }
            | Self::TurnCompleted { .. }
            | Self::TurnErrored { .. } => false,
        }
    }

    /// Returns the outcome, when the event is the end of its turn.
    #[must_use]
    pub fn outcome(&self) -> Option<&Arc<ChatTurnOutcome>> {
        match self {
            Self::TurnSuspended { outcome }
            | Self::TurnCompleted { outcome }
            | Self::TurnErrored { outcome } => Some(outcome),
            Self::TurnAccepted { .. }
            | Self::TurnStarted
            | Self::TurnRestarted
            | Self::TurnRetrying { .. }
            | Self::ThinkingDelta { .. }
            | Self::MessageTaken { .. }
            | Self::MessageAppended { .. }
            | Self::Delta { .. }
            | Self::ToolStarted { .. }
            | Self::ToolFinished { .. }
            | Self::SignalReceived { .. }
            | Self::SessionForked { .. } => None,
        }
    }
}

/// The types of durable events, as they are stored.
pub mod event_kinds {
    /// A turn was accepted.
    pub const ACCEPTED: &str = "turn.accepted";
    /// A message was appended to the history.
    pub const APPENDED: &str = "message.appended";
    /// A turn was suspended.
    pub const SUSPENDED: &str = "turn.suspended";
    /// A wait ended, or an early signal was refused.
    pub const SIGNAL: &str = "signal.received";
    /// A turn completed.
    pub const COMPLETED: &str = "turn.completed";
    /// A turn failed.
    pub const ERRORED: &str = "turn.errored";
    /// The session was made by a fork.
    pub const FORKED: &str = "session.forked";
    /// Tells whether an event of this kind is the end of its turn.
    #[must_use]
    pub fn ends_turn(kind: &str) -> bool {
        matches!(kind, SUSPENDED | COMPLETED | ERRORED)
    }

    /// Tells whether the body of an event of this kind may hold records for telemetry.
    #[must_use]
    pub fn carries_telemetry(kind: &str) -> bool {
        kind == APPENDED || ends_turn(kind)
    }
}
