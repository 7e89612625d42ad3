//! A turn reached the end of its graph: state, history, outcome and events in one commit (INV-3).

use std::sync::Arc;

use singletree_durable::{BatchPrecondition, StoredTurnStatus};
use singletree_graph::{SessionState, Snapshot};

use crate::Error;
use crate::batch::BatchBuilder;
use crate::codec::record::{OutcomeRecord, ReplyRange, TurnRowExt};
use crate::outcome::{AnswerEnd, ChatTurnOutcome, CompletedTurn};
use crate::turn::{TurnState, history_of_state, messages_from};

/// Ends the running turn as completed, and returns the outcome.
///
/// # Errors
/// `chat_budget_exhausted` when the history exceeds a limit; `store_corrupt`.
pub fn complete_turn(
    writing: &mut BatchBuilder,
    turning: &mut TurnState,
    state: &Snapshot,
    session: Option<&SessionState>,
) -> Result<Arc<ChatTurnOutcome>, Error> {
    writing.require(BatchPrecondition::Turn { no: turning.row.no, status: StoredTurnStatus::Accepted });
    let messages = history_of_state(state);
    turning.announce_messages(writing, &messages)?;
    if let Some(session) = session {
        turning.write_session(writing, session)?;
    }
    let answer = AnswerEnd::from_side_records(&turning.sides, messages.len());
    let outcome = Arc::new(ChatTurnOutcome::Completed(CompletedTurn {
        turn: turning.row.turn_id(),
        replies: messages_from(&messages, turning.marks.boundary)?,
        final_state: Some(state.clone()),
        path: turning.path,
        answer,
    }));
    let recorded = OutcomeRecord::Completed(ReplyRange { answer, ..turning.reply_range(messages.len()) });
    turning.write_turn_end(writing, &recorded, outcome.clone())?;
    Ok(outcome)
}
