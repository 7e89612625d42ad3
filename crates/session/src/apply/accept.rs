//! A message is accepted: from here on it is kept (INV-2).

use std::sync::Arc;

use serde_json::Value;
use singletree_durable::{
    BatchPrecondition, InvocationId, JsonDocument, ListItemRow, RowMutation, SessionHead, StoredTurnKind,
    StoredTurnStatus, SubjectId, TurnRow,
};
use singletree_env::TraceHeaders;
use singletree_graph::Item;
use singletree_llm::ChatMessage;

use crate::Error;
use crate::agent::AgentVersion;
use crate::batch::{BatchBuilder, TurnIdentity};
use crate::codec::record::TurnRowExt;
use crate::codec::telemetry::StoredTrace;
use crate::event::ChatEventKind;
use crate::policy::TurnPromptPolicy;
use crate::queue::{CallerHandle, QueuedTurn, QueuedWork};
use crate::state::SessionState;

/// The key of a failed turn whose message may be sent again.
#[derive(Debug, Clone, Copy)]
pub struct ReusableKey {
    /// The number of the turn that has the key.
    pub holder: u64,
    /// The turn that could still be retried instead: the failed turn or the last of its retries, as long as it is the
    /// newest one of its session.
    pub newest: Option<u64>,
}

impl ReusableKey {
    /// Checks that no retry was accepted since the key was found reusable; `next` is the session's next turn number.
    pub(crate) fn is_still_free(&self, next: u64) -> bool {
        self.newest.is_none_or(|newest| newest + 1 == next)
    }
}

/// The failed turn that a new turn retries.
#[derive(Debug, Clone, Copy)]
pub struct RetriedTurn {
    /// The number of the failed turn.
    pub turn: u64,
    /// Whether the message is said again: otherwise the graph runs over the history, in which it stands.
    pub says_again: bool,
}

/// A message to accept, and the values that its turn is made of.
#[derive(Debug)]
pub struct AcceptedMessage<'a> {
    /// The agent that answers it.
    pub agent: AgentVersion<'a>,
    /// The invocation that it starts.
    pub invocation: InvocationId,
    /// The message.
    pub message: Arc<ChatMessage>,
    /// The message as it is stored.
    pub body: JsonDocument,
    /// The idempotency key and the digest of the request that it identifies (D3).
    pub key: Option<(String, String)>,
    /// The failed turn from which it takes the key over.
    pub reusable: Option<ReusableKey>,
    /// The side record that its sender gave it, which is not part of the message (D17).
    pub side: Option<JsonDocument>,
    /// Whether the session exists; [`accept_into_queue`] sets it.
    pub exists: bool,
    /// Which texts reach the model, where the session is made now.
    pub policy: TurnPromptPolicy,
    /// The failed turn that it retries.
    pub retried: Option<RetriedTurn>,
    /// The trace in which the message was sent.
    pub trace: Option<Arc<TraceHeaders>>,
    /// On whose behalf the session is made, where it is made now.
    pub subject: Option<SubjectId>,
}

/// Writes the acceptance of a message, in a new session where there is none, and returns the row of its turn.
pub fn accept_message(writing: &mut BatchBuilder, accepted: AcceptedMessage<'_>) -> TurnRow {
    if !accepted.exists {
        writing.require(BatchPrecondition::SessionAbsent);
        writing.add_mutation(RowMutation::Head(new_session_head(
            writing,
            accepted.agent,
            accepted.policy,
            accepted.subject.clone(),
        )));
    }
    let no = writing.counters.turns;
    writing.counters.turns += 1;
    if let Some(retried) = &accepted.retried {
        // Decided where it is written: once, and only while nothing came after it (D29).
        writing.require(BatchPrecondition::Turn { no: retried.turn, status: StoredTurnStatus::Errored });
        writing.require(BatchPrecondition::NewestTurn(retried.turn));
    }
    let item = match &accepted.retried {
        Some(RetriedTurn { says_again: false, .. }) => None,
        _ => {
            let item = writing.counters.items;
            writing.counters.items += 1;
            Some(item)
        }
    };
    let (key, digest) = accepted.key.unzip();
    match accepted.reusable {
        Some(reusable) => take_key_over(writing, reusable),
        None => key.iter().for_each(|key| writing.require(BatchPrecondition::KeyFree(key.clone()))),
    }
    let row = TurnRow {
        no,
        invocation: accepted.invocation,
        ordinal: 0,
        kind: StoredTurnKind::Message,
        status: StoredTurnStatus::Accepted,
        fence: writing.batch.fence,
        deaths: 0,
        agent: accepted.agent.name.to_owned(),
        graph: accepted.agent.graph.to_owned(),
        message: item,
        wait: None,
        key,
        digest,
        accepted_at: writing.now,
        ended_at: None,
        outcome: None,
        retries: accepted.retried.map(|retried| retried.turn),
    };
    let author = TurnIdentity { no, id: row.turn_id() };
    let AcceptedMessage { body, side, trace, .. } = accepted;
    if let Some(item) = item {
        writing.add_mutation(RowMutation::Item(ListItemRow {
            no: item,
            turn: no,
            placement: None,
            body,
            side,
        }));
    }
    writing.add_mutation(RowMutation::Turn(row.clone()));
    let what = ChatEventKind::TurnAccepted { message: item.map(|_| accepted.message) };
    let traced = trace.as_deref().and_then(StoredTrace::to_body);
    writing.add_event(&author, item, traced, what);
    row
}

/// A message in the queue, as the running turn or its own turn takes it.
#[derive(Debug)]
pub struct MessageToQueue<H> {
    /// The handle of its callers.
    pub handle: H,
    /// The message.
    pub message: Item,
    /// Whether the running turn may take it.
    pub steers: bool,
    /// The side record that its sender gave it.
    pub side: Option<Value>,
}

/// Why a message is not accepted now.
#[derive(Debug)]
pub enum AcceptanceRefusal {
    /// Something was decided in the meantime: look again.
    Again,
    /// As many turns wait as may: the limit.
    QueueFull(usize),
    /// The session does not take it.
    Refused(Error),
}

/// Checks that a message may be accepted now, with at most `max` turns that wait. Returns the policy of the session;
/// `begins_as` is the head of the source, where the session begins as a fork.
///
/// # Errors
/// `chat_queue_full`, `chat_policy_unsupported`, `chat_message_shape_invalid`, `store_corrupt`; or that it is to be
/// looked at again.
pub fn check_acceptable<H: CallerHandle>(
    state: &SessionState<H>,
    max: usize,
    accepted: &AcceptedMessage<'_>,
    begins_as: Option<&SessionHead>,
) -> Result<TurnPromptPolicy, AcceptanceRefusal> {
    let is_key_taken = accepted.key.as_ref().is_some_and(|(key, _)| state.find_turn_by_key(key).is_some());
    let is_key_free =
        accepted.reusable.is_none_or(|reusable| reusable.is_still_free(state.next_numbers().turns));
    if !state.can_accept_messages() || is_key_taken || !is_key_free {
        return Err(AcceptanceRefusal::Again);
    }
    if state.count_waiting_turns() >= max {
        return Err(AcceptanceRefusal::QueueFull(max));
    }
    let head = state.session_head().or(begins_as);
    let policy = head
        .map_or(Ok(accepted.policy), |head| TurnPromptPolicy::from_stored_text(&head.prompt_policy))
        .map_err(AcceptanceRefusal::Refused)?;
    policy.check_message(&accepted.agent, &accepted.message).map_err(AcceptanceRefusal::Refused)?;
    Ok(policy)
}

/// Accepts a message into the queue: its place there and the place of its row in the store's order are taken under one
/// lock (INV-1). It runs once its commit has landed ([`SessionState::settle_message`]). Returns the row of its turn.
pub fn accept_into_queue<H: CallerHandle>(
    state: &mut SessionState<H>,
    writing: &mut BatchBuilder,
    accepted: AcceptedMessage<'_>,
    queued: MessageToQueue<H>,
) -> TurnRow {
    let exists = state.session_head().is_some();
    let row = accept_message(writing, AcceptedMessage { exists, ..accepted });
    state.begin_session_by_message(writing.find_written_head());
    let MessageToQueue { handle, message, steers, side } = queued;
    let work = QueuedWork::Message { row: row.clone(), message, committed: false, steers, side };
    state.append_turn(QueuedTurn { handle, work });
    row
}

/// Takes the key off a failed turn, where it is written: only if no retry of that turn was accepted since (D3).
fn take_key_over(writing: &mut BatchBuilder, reusable: ReusableKey) {
    writing.require(BatchPrecondition::Turn { no: reusable.holder, status: StoredTurnStatus::Errored });
    if let Some(newest) = reusable.newest {
        writing.require(BatchPrecondition::NewestTurn(newest));
    }
    writing.add_mutation(RowMutation::FreeKey { turn: reusable.holder });
}

/// Makes the head of a session that begins.
pub(crate) fn new_session_head(
    writing: &BatchBuilder,
    agent: AgentVersion<'_>,
    policy: TurnPromptPolicy,
    subject: Option<SubjectId>,
) -> SessionHead {
    SessionHead {
        agent: agent.name.to_owned(),
        graph: agent.graph.to_owned(),
        schema_version: agent.schema_version.to_owned(),
        version: 0,
        prompt_policy: policy.as_str().into(),
        parent: None,
        subject,
        created_at: writing.now,
        updated_at: writing.now,
    }
}
