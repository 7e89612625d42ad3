//! The protocol on the pipes: one JSON document a line.

use serde::{Deserialize, Serialize};
use singletree_audit::{AuditedOutcome, ClientOperation};

use crate::heartbeat::ChildPhase;
use crate::phase::BatchPurpose;

/// A request of a client to the child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum ChildRequest {
    /// Something new.
    Do {
        /// The call's number.
        call: u64,
        /// In which session.
        session: String,
        /// The operation.
        deed: ClientOperation,
        /// The number of the wait and the digest of the action that an answer is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<(u64, String)>,
    },
    /// A message in a fork of another session, which is made for it.
    Branch {
        /// The call's number.
        call: u64,
        /// The session that is forked.
        from: String,
        /// The fork.
        to: String,
        /// The text of the message that is sent there.
        text: String,
        /// Which of the user's messages is said otherwise, counted modulo their number; without one the whole session
        /// is forked.
        edits: Option<u64>,
    },
    /// The same, by a client that goes away after so many polls of the call.
    Disconnect {
        /// After how many polls.
        after: u32,
        /// The request.
        asked: Box<Self>,
    },
    /// How a turn ended that an earlier process had given.
    Outcome {
        /// The call that was given the turn.
        call: u64,
        /// The turn.
        turn: String,
    },
}

impl ChildRequest {
    /// Returns the number of the call.
    #[must_use]
    pub fn call(&self) -> u64 {
        match self {
            Self::Do { call, .. } | Self::Branch { call, .. } | Self::Outcome { call, .. } => *call,
            Self::Disconnect { asked, .. } => asked.call(),
        }
    }

    /// Returns the session in which it changes something.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        match self {
            Self::Do { session, .. } => Some(session),
            Self::Branch { to, .. } => Some(to),
            Self::Disconnect { asked, .. } => asked.session(),
            Self::Outcome { .. } => None,
        }
    }
}

/// Which side of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitSide {
    /// It is about to be handed to the store.
    Begin,
    /// The store has made it.
    End,
    /// The store has refused it, or it is not known whether it was made.
    Failed,
}

/// A line of the child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum ChildReport {
    /// It serves from here on.
    Ready {
        /// How many turns of dead processes it has taken over.
        taken: u64,
    },
    /// It lives.
    Alive {
        /// Its phase.
        phase: ChildPhase,
        /// How often it has said so.
        beats: u64,
    },
    /// A call was given its turn.
    Given {
        /// The call.
        call: u64,
        /// The turn.
        turn: String,
    },
    /// A call has its outcome, or was refused.
    Told {
        /// The call.
        call: u64,
        /// The turn that the outcome is of.
        turn: Option<String>,
        /// The outcome.
        end: AuditedOutcome,
        /// The digest of the action that is asked about.
        action: Option<String>,
    },
    /// A call without an outcome has succeeded.
    Done {
        /// The call.
        call: u64,
    },
    /// A call failed without an outcome.
    Failed {
        /// The call.
        call: u64,
        /// The error category.
        category: String,
    },
    /// A durable event was told.
    Event {
        /// In which session.
        session: String,
        /// Its sequence number.
        seq: u64,
        /// Of which turn.
        turn: String,
        /// Its type.
        kind: String,
    },
    /// A commit is under way.
    Commit {
        /// Its number in this process.
        n: u64,
        /// The phase of the commit.
        phase: BatchPurpose,
        /// In which session.
        session: String,
        /// Of which turn, by its number.
        turn: Option<u64>,
        /// Which side.
        at: CommitSide,
    },
    /// It has acquired a session.
    Acquired {
        /// Which.
        session: String,
        /// Under which fence.
        fence: u64,
    },
    /// A commit was refused for a reason that an owner who has read its session never meets (INV-1).
    Refused {
        /// In which session.
        session: String,
        /// Why.
        why: String,
    },
}
