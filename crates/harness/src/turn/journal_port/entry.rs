//! The messages that a turn adds to its session before its graph runs.

use std::sync::Arc;

use singletree_engine::{FieldContent, Item, Snapshot, StateUpdate};

use super::{JournalPort, lock_unpoisoned};
use crate::turn::tool_message;
use singletree_session::history_of_state as history_of;
use singletree_session::{COMMAND, ClosingAnswer, HISTORY, HistoryMarks, Records, make_closing_messages};

/// The input of a turn that begins.
pub(crate) struct TurnInput {
    /// The user's message; none for a turn that retries one over the history, in which it stands.
    pub(crate) message: Option<Item>,
    /// Its text, where it is a command.
    pub(crate) command: Option<String>,
}

impl JournalPort {
    /// Closes open calls and appends the user's message. The engine calls this between load and merge (R3, INV-6).
    pub(crate) fn make_entry_update(
        self: &Arc<Self>,
        entering: TurnInput,
    ) -> impl FnOnce(&Snapshot) -> StateUpdate + Send + use<> {
        let port = self.clone();
        let TurnInput { message, command } = entering;
        move |state| {
            let loaded = history_of(state);
            let reason = "the turn that called this ended before it answered";
            let closing = ClosingAnswer { status: "unknown", reason };
            let mut closed = make_closing_messages(&loaded, &Records::new(), closing);
            tool_message::leave_out_answered(&mut closed, message.as_ref());
            let first = loaded.len();
            let boundary = first + closed.len() as u64 + u64::from(message.is_some());
            let mut turning = lock_unpoisoned(&port.turning);
            turning.marks = HistoryMarks { first, boundary, announced: first };
            port.stream.set_history_marks(turning.marks);
            let messages = closed.into_iter().chain(message).collect();
            let update = StateUpdate::new().with(HISTORY, FieldContent::Many(messages));
            match command {
                Some(command) => update.with(COMMAND, FieldContent::One(Item::from_typed(command))),
                None => update,
            }
        }
    }
}
