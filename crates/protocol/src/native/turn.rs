//! Turns: one bounded answer to one message or one signal, and how it ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;
use super::error::ErrorBucket;
use super::message::Message;
use super::wait::Wait;
use super::whole::read_query_number;

/// A turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// Its id.
    pub id: String,
    /// The session that it is in.
    pub session: String,
    /// The agent that runs it.
    pub agent: String,
    /// What it answers to.
    pub kind: TurnKind,
    /// How far it is.
    pub status: TurnStatus,
    /// When it was accepted.
    pub accepted_at: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// The failed turn that it retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<String>,
    /// How far it is while it has not ended, where this server runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// How it ended; once it has, and where one turn is asked for: lists leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// How far an open turn is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Activity {
    /// How far.
    pub state: ActivityState,
    /// Since when.
    pub since: Time,
    /// While it retries: the number of the attempt that follows, counted from 1 within the call of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// While it retries: when that attempt is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// While it retries: the category of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
}

/// The states of an open turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActivityState {
    /// It waits until the turns before it have ended.
    Queued,
    /// It runs.
    Running,
    /// A call of its model failed and is made again.
    Retrying,
    /// It waits until somebody answers what the session waits for.
    Waiting,
}

/// What a turn answers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnKind {
    /// A message.
    Message,
    /// A signal, or a deadline with values to go on with.
    Resume,
    /// The end of a wait that is not resumed: cancelled, expired or superseded.
    Close,
}

/// How far a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnStatus {
    /// It was accepted and has not ended: it runs, or waits its place. No crash loses it.
    Accepted,
    /// It ended: something waits for an answer.
    Suspended,
    /// It ended at the end of its graph.
    Completed,
    /// It failed.
    Errored,
}

/// A page of a session's turns, in the order of acceptance, without their outcomes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnList {
    /// The turns.
    pub items: Vec<Turn>,
    /// Where the next page begins, when there is one: what `from` takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Which turns to list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TurnQuery {
    /// Where to begin: the `next` of the page before.
    #[serde(default, deserialize_with = "read_query_number")]
    #[schemars(range(max = u64::MAX))]
    pub from: Option<u64>,
    /// How many at most: 1 to 1000; 100 otherwise.
    #[serde(default, deserialize_with = "read_query_number")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// It reached the end of its graph.
    Completed(Completed),
    /// It waits for an answer.
    Suspended(Suspended),
    /// It failed.
    Errored(Errored),
}

/// A turn that reached the end of its graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Completed {
    /// The turn.
    pub turn: String,
    /// Its session.
    pub session: String,
    /// The messages that it added after the user's own, of all roles, in order; may be empty.
    pub replies: Vec<Message>,
    /// Why the model of its last answer stopped, where that is not as usual: `length`, `content_filter` or `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Whether the model gave no word of an answer, also when it was asked again: then there is no message of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_answer: bool,
}

/// A turn that waits for an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Suspended {
    /// The turn.
    pub turn: String,
    /// Its session.
    pub session: String,
    /// What is awaited: `POST /v1/sessions/{session}/signals/{signal}` answers it.
    pub wait: Wait,
    /// The messages that it added before it suspended, in order; may be empty.
    pub pending: Vec<Message>,
    /// The turn that the end of the wait started, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_by: Option<String>,
}

/// A turn that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Errored {
    /// The turn; none when nothing was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// Its session.
    pub session: String,
    /// What the caller can do.
    pub bucket: ErrorBucket,
    /// The stable, machine-readable category of what went wrong.
    pub category: String,
    /// What to show to the human. It is no part of the history.
    pub reply: String,
    /// What happened, for whoever runs or calls the agent.
    pub message: String,
    /// What whoever runs or calls the agent can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The same as `message`.
    pub diagnostic: String,
    /// Whether sending the same again is known to do nothing twice.
    pub retry_safe: bool,
}
