//! Events of a whole tenant: which sessions come and go, which wait, and how turns end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;
use super::event::StreamFailed;

/// One event of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TenantEvent {
    /// Its id: also the `id:` of its frame, and what `Last-Event-ID` and `after` take.
    pub id: String,
    /// When.
    pub at: Time,
    /// The session; none of `events.missed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What.
    #[serde(flatten)]
    pub what: TenantEventKind,
}

/// What happened in a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum TenantEventKind {
    /// A session was made.
    #[serde(rename = "session.created")]
    SessionCreated {
        /// The agent that answers in it.
        agent: String,
    },
    /// A session was made as a copy of the beginning of another one.
    #[serde(rename = "session.forked")]
    SessionForked {
        /// The other session.
        parent: String,
        /// How many messages were copied.
        offset: u64,
    },
    /// A session was deleted.
    #[serde(rename = "session.deleted")]
    SessionDeleted,
    /// A turn suspended: its session waits for an answer.
    #[serde(rename = "wait.began")]
    WaitBegan {
        /// The turn that suspended.
        turn: String,
        /// The number of the wait in its session.
        wait: u64,
        /// The id of the signal that answers it.
        signal: String,
        /// Whether an exact action is to be approved.
        approval: bool,
        /// The tool that would run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// The effect of the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<String>,
        /// The first 200 characters of the arguments. Approve nothing by it: `GET …/pending` has all of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preview: Option<String>,
        /// When the wait expires.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Time>,
    },
    /// A wait ended.
    #[serde(rename = "wait.ended")]
    WaitEnded {
        /// The turn that its end started.
        turn: String,
        /// The number of the wait in its session.
        wait: u64,
        /// The signal's id.
        signal: String,
        /// How.
        how: WaitEnd,
    },
    /// A turn ended.
    #[serde(rename = "turn.ended")]
    TurnEnded {
        /// The turn.
        turn: String,
        /// How.
        outcome: TurnEnd,
        /// The category of the error, if it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        category: Option<String>,
    },
    /// Events were lost for this reader: read the lists anew.
    #[serde(rename = "events.missed")]
    Missed,
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitEnd {
    /// Its signal came.
    Consumed,
    /// Its deadline passed.
    Expired,
    /// It was given up.
    Cancelled,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnEnd {
    /// It reached the end of its graph.
    Completed,
    /// It waits for an answer.
    Suspended,
    /// It failed.
    Errored,
}

/// A frame of a stream of a tenant's events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TenantStreamItem {
    /// An event.
    Event(TenantEvent),
    /// The stream broke.
    Failed(StreamFailed),
}

/// Where a stream of a tenant's events begins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantEventQuery {
    /// The id of the last event that was seen: the stream goes on after it. As the header `Last-Event-ID`, which goes before.
    /// Without either, the stream begins now.
    #[serde(default)]
    pub after: Option<String>,
}
