//! The events before the one after which listening begins: a process whose turn was lost tells of it although it has ended
//! elsewhere, and the listener has heard that end.

use singletree_durable::TurnRow;
use singletree_session::TurnId;

use super::{EventListener, PAGE};
use crate::Result;
use crate::api::listen_scope::ListenPosition;
use crate::api::replay::EventReplay;

impl EventListener {
    /// Reads the events of a turn that runs for this process, up to the one after which listening began: this
    /// process may not know of its last events yet, and the listener has heard them. Tells whether the turn has ended there.
    pub(super) async fn read_course_before(&mut self, turn: &TurnId) -> Result<bool> {
        let ListenPosition::After(seq) = self.begin else { return Ok(false) };
        let Some(row) = self.read_open_turn(turn).await? else { return Ok(true) };
        let (chat, loaded) = (self.chat.clone(), self.loaded.clone());
        let next = seq.saturating_add(1);
        // This process may have told of a later event, and not of one before it yet.
        let from = next.saturating_sub(PAGE);
        let reading = chat.inner.journal.read_events(&loaded.key, from, next - from);
        let rows = chat.inner.await_store_read(reading).await?;
        let mut replay = EventReplay::new(&chat, &loaded.key);
        for event in rows.into_iter().filter(|event| event.turn == row.no && event.seq < next) {
            self.read_ahead.note_event(&replay.replay_event(event).await?);
        }
        Ok(false)
    }

    /// Tells whether a turn, of which a provisional event was published, had ended where listening began, or whether that cannot
    /// be read now.
    pub(super) async fn may_have_ended_before(&mut self, turn: &TurnId) -> Result<bool> {
        let is_open = self.known_open.as_ref() == Some(turn);
        if is_open || !matches!(self.begin, ListenPosition::After(_)) {
            return Ok(false);
        }
        match self.read_open_turn(turn).await {
            Ok(open) => Ok(open.is_none()),
            Err(error) if error.is_unavailable() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Reads a turn; none where it has ended, or there is none: then nothing provisional of it is handed out any more.
    async fn read_open_turn(&mut self, turn: &TurnId) -> Result<Option<TurnRow>> {
        let open = self.read_turn_row(turn).await?.filter(|row| !row.status.is_ended());
        match open {
            Some(_) => self.known_open = Some(turn.clone()),
            None => self.read_ahead.note_end(turn),
        }
        Ok(open)
    }
}
