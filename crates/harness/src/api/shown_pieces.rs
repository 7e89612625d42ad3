//! How far the text of a message is that a listener was handed out in pieces.

use singletree_session::{ChatEvent, ChatEventKind, MessageId};

/// The last piece of the text and of the thinking that was handed out, so that each one follows the one before: pieces that
/// were part of the text so far are not told again, and those behind a gap not at all.
#[derive(Debug, Default)]
pub(crate) struct ShownPieces {
    text: Option<PiecePosition>,
    thinking: Option<PiecePosition>,
}

/// The position of a piece: its message, run and number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PiecePosition {
    message: MessageId,
    run: u32,
    n: u64,
}

impl PiecePosition {
    fn follows(&self, last: Option<&Self>) -> bool {
        match last.filter(|last| last.message == self.message) {
            Some(last) if last.run == self.run => self.n == last.n + 1,
            Some(last) => self.n == 0 && last.run < self.run,
            None => self.n == 0,
        }
    }
}

impl ShownPieces {
    /// Takes an event that is about to be handed out; false when it is a piece that does not follow the last one. The text so
    /// far, and whatever is no piece, always follows.
    pub(crate) fn take_event(&mut self, event: &ChatEvent) -> bool {
        let (ChatEventKind::Delta { id, run, n, so_far, .. }
        | ChatEventKind::ThinkingDelta { id, run, n, so_far, .. }) = &event.what
        else {
            return true;
        };
        let last = match &event.what {
            ChatEventKind::Delta { .. } => &mut self.text,
            _ => &mut self.thinking,
        };
        let piece = PiecePosition { message: id.clone(), run: *run, n: *n };
        let follows = *so_far || piece.follows(last.as_ref());
        if follows {
            *last = Some(piece);
        }
        follows
    }
}
