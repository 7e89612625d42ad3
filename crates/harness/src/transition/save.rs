//! A node saves the session in the middle of its turn (sessions §6.2).

use singletree_durable::{Require, TurnStatus};
use singletree_engine::{Progress, SessionState};

use super::step::write_position;
use crate::Error;
use crate::history::HISTORY;
use crate::turning::Turning;
use crate::writing::Writing;

pub(crate) fn save(
    writing: &mut Writing,
    turning: &mut Turning,
    session: &SessionState,
    progress: Option<&Progress>,
) -> Result<(), Error> {
    writing.require(Require::Turn { no: turning.row.no, status: TurnStatus::Accepted });
    let messages = session.fields.iter().find(|(name, _)| name.as_ref() == HISTORY);
    if let Some(messages) = messages.and_then(|(_, slot)| slot.as_list().cloned()) {
        turning.announce(writing, &messages)?;
    }
    turning.write_session(writing, session)?;
    // A run that began again after this would add messages that the history has already: it goes on here instead.
    match progress {
        Some(progress) => write_position(writing, turning, progress, None),
        None => Ok(()),
    }
}
