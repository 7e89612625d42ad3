//! The state of a cycle while its turn runs.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use singletree_engine::{Ctx, JsonField, NodeError};
use singletree_harness::{Messages, TurnContext};
use singletree_macros::State;

use crate::core::CampaignKey;
use crate::error::Error;

/// The state of a cycle. The session keeps `messages`, which nothing reads back; the rest lives as long as the turn.
#[derive(Debug, State)]
#[state(engine = singletree_engine)]
pub(crate) struct CycleState {
    /// What was said: commands, proposals, verdicts. Written for people only.
    #[state(append)]
    pub(crate) messages: Messages,
    /// The message that began the turn. The command that counts is the board's.
    pub(crate) current_command: Option<String>,
    /// Where the graph goes after `load` and `decide`.
    pub(crate) route: JsonField<CycleRoute>,
    /// The answer of the model, until it is decided about.
    pub(crate) answer: JsonField<Option<CycleAnswer>>,
    /// The positions of the proofs that were read and have what is expected.
    pub(crate) reads: JsonField<Vec<usize>>,
}

/// Where the graph goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CycleRoute {
    /// The turn is over.
    #[default]
    End,
    /// The model is asked.
    Ask,
    /// The granted call is made.
    Execute,
}

/// The answer of the model in a cycle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CycleAnswer {
    /// In which cycle it was asked.
    pub(crate) cycle: u64,
    /// The last entry of the log that it was shown.
    #[serde(default)]
    pub(crate) seen: Option<u64>,
    /// The arguments of its proposal; none where it made no proposal.
    pub(crate) arguments: Option<Map<String, Value>>,
    /// Why there is none.
    pub(crate) problem: Option<String>,
    /// The ids of the calls of its message, each of which gets an answer.
    pub(crate) calls: Vec<String>,
    /// What it cost.
    pub(crate) tokens: u64,
    /// How long it took, in milliseconds.
    pub(crate) time_ms: u64,
}

/// Names the campaign whose cycle runs.
///
/// # Errors
/// `chat_agent_unknown` in a session that is no campaign's.
pub(crate) fn campaign_of_turn(cx: &Ctx<CycleState>) -> Result<CampaignKey, NodeError> {
    let session = TurnContext::of(cx).and_then(|turn| turn.session().cloned());
    let named = session.as_ref().and_then(|session| {
        let id = session.session.as_str().strip_prefix(super::graph::SESSIONS)?;
        Some(CampaignKey::new(&session.tenant, id))
    });
    named.ok_or_else(|| {
        NodeError::new("this agent answers in the sessions of campaigns only")
            .with_category("chat_agent_unknown")
    })
}

/// Turns an error of the controller into that of a node, with its category.
pub(crate) fn node_error(error: Error) -> NodeError {
    let category = error.category().to_owned();
    NodeError::new(error.to_string()).with_category(category).with_cause(error)
}
