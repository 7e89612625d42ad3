//! A turn reached the end of its graph: state, history, outcome and events in one commit (INV-3).

use std::sync::Arc;

use singletree_durable::{Require, TurnStatus};
use singletree_engine::{SessionState, Snapshot};

use crate::Error;
use crate::outcome::{AnswerEnd, ChatTurnOutcome, CompletedTurn};
use crate::record::{Recorded, Tail, TurnRowExt};
use crate::turning::{Turning, history, messages_from};
use crate::writing::Writing;

pub(crate) fn finish(
    writing: &mut Writing,
    turning: &mut Turning,
    state: &Snapshot,
    session: Option<&SessionState>,
) -> Result<Arc<ChatTurnOutcome>, Error> {
    writing.require(Require::Turn { no: turning.row.no, status: TurnStatus::Accepted });
    let messages = history(state);
    turning.announce(writing, &messages)?;
    if let Some(session) = session {
        turning.write_session(writing, session)?;
    }
    let answer = AnswerEnd::of(&turning.sides, messages.len());
    let outcome = Arc::new(ChatTurnOutcome::Completed(CompletedTurn {
        turn: turning.row.id(),
        replies: messages_from(&messages, turning.marks.boundary)?,
        final_state: Some(state.clone()),
        path: turning.path,
        answer,
    }));
    let recorded = Recorded::Completed(Tail { answer, ..turning.tail(messages.len()) });
    turning.write_end(writing, &recorded, outcome.clone())?;
    Ok(outcome)
}
