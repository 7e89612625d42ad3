//! A message is accepted: from here on it is kept (INV-2).

use std::sync::Arc;

use singletree_durable::{
    BatchPrecondition, InvocationId, JsonDocument, ListItemRow, RowMutation, SessionHead, StoredTurnKind,
    StoredTurnStatus, SubjectId, TurnRow,
};
use singletree_llm::ChatMessage;

use crate::agent::Agent;
use crate::event::ChatEventKind;
use crate::idempotency::ReusableKey;
use crate::policy::TurnPromptPolicy;
use crate::record::TurnRowExt;
use crate::retry::RetriedTurn;
use crate::session::batch::{BatchBuilder, TurnIdentity};

/// A message to accept, and the values that its turn is made of.
pub(crate) struct AcceptedMessage<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) invocation: InvocationId,
    pub(crate) message: Arc<ChatMessage>,
    pub(crate) body: JsonDocument,
    /// The idempotency key and the digest of the request that it identifies (D3).
    pub(crate) key: Option<(String, String)>,
    /// The failed turn from which it takes the key over.
    pub(crate) reusable: Option<ReusableKey>,
    /// The side record that its sender gave it, which is not part of the message (D17).
    pub(crate) side: Option<JsonDocument>,
    /// Whether the session is there.
    pub(crate) exists: bool,
    /// Which texts reach the model, where the session is made now.
    pub(crate) policy: TurnPromptPolicy,
    /// The failed turn that it retries.
    pub(crate) retried: Option<RetriedTurn>,
    /// On whose behalf the session is made, where it is made now.
    pub(crate) subject: Option<SubjectId>,
}

pub(crate) fn accept_message(writing: &mut BatchBuilder, accepted: AcceptedMessage<'_>) -> TurnRow {
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
        agent: accepted.agent.name.clone(),
        graph: accepted.agent.graph.digest().to_owned(),
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
    let AcceptedMessage { body, side, .. } = accepted;
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
    writing.add_event(&author, item, None, what);
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
    agent: &Agent,
    policy: TurnPromptPolicy,
    subject: Option<SubjectId>,
) -> SessionHead {
    SessionHead {
        agent: agent.name.clone(),
        graph: agent.graph.digest().to_owned(),
        schema_version: agent.graph.session_version().to_owned(),
        version: 0,
        prompt_policy: policy.as_str().into(),
        parent: None,
        subject,
        created_at: writing.now,
        updated_at: writing.now,
    }
}
