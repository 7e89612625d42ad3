//! A node saves the session in the middle of its turn (sessions §6.2).

use singletree_durable::{BatchPrecondition, StoredTurnStatus};
use singletree_graph::{RunProgress, SessionState};

use super::step::write_position;
use crate::Error;
use crate::batch::BatchBuilder;
use crate::history::HISTORY;
use crate::turn::TurnState;

/// Writes the session as a node left it in the middle of its turn.
///
/// # Errors
/// `chat_budget_exhausted`; `store_corrupt`.
pub fn save_session(
    writing: &mut BatchBuilder,
    turning: &mut TurnState,
    session: &SessionState,
    progress: Option<&RunProgress>,
) -> Result<(), Error> {
    writing.require(BatchPrecondition::Turn { no: turning.row.no, status: StoredTurnStatus::Accepted });
    let messages = session.fields.iter().find(|(name, _)| name.as_ref() == HISTORY);
    if let Some(messages) = messages.and_then(|(_, slot)| slot.as_list().cloned()) {
        turning.announce_messages(writing, &messages)?;
    }
    turning.write_session(writing, session)?;
    // A run that began again after this would add messages that the history has already: it goes on here instead.
    match progress {
        Some(progress) => write_position(writing, turning, progress, None),
        None => Ok(()),
    }
}
