//! Narration in a terminal: held for a while for whoever wants to read it, and shown as it comes where an agent takes
//! commands.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use singletree::http::Redactor;
use singletree::narration::{
    NarrationMessage, NarrationOwner, NarrationPurpose, NarrationSink, NarrationSpeaker,
};
use singletree_protocol::native::{Narration, NarrationKind, NarrationRole};

use crate::print::{TerminalOutput, TextStyle};

/// How many pieces of all sessions are held where nothing else is said.
pub(crate) const PIECES_MAX: usize = 200;
/// How many bytes of one piece are held.
const PIECE_BYTES: usize = 6 << 10;

/// Holds the narration of this process (INV-9): the newest pieces of all sessions. A clone holds the same.
#[derive(Debug, Clone)]
pub(crate) struct TerminalNarration {
    held: Arc<Mutex<VecDeque<HeldPiece>>>,
    pieces_max: usize,
    redactor: Redactor,
}

#[derive(Debug)]
struct HeldPiece {
    session: String,
    is_shown: bool,
    role: NarrationSpeaker,
    kind: NarrationPurpose,
    content: String,
}

impl TerminalNarration {
    /// Holds so many pieces, without these secrets.
    pub(crate) fn new(pieces_max: usize, redactor: Redactor) -> Self {
        Self { held: Arc::default(), pieces_max, redactor }
    }

    /// Prints everything that is held about a session.
    pub(crate) fn print_all(&self, session: &str, screen: &mut TerminalOutput) -> io::Result<()> {
        let mut held = self.lock_held();
        let mut is_empty = true;
        for piece in held.iter_mut().filter(|piece| piece.session == session) {
            piece.is_shown = true;
            is_empty = false;
            print_piece(piece.role.as_str(), piece.kind.as_str(), &piece.content, screen)?;
        }
        if is_empty { screen.write_line(NOTHING_NARRATED) } else { Ok(()) }
    }

    /// Prints what was narrated about a session since the last time, but for the person's own words and for questions:
    /// both are on the screen already.
    pub(crate) fn print_new(&self, session: &str, screen: &mut TerminalOutput) -> io::Result<()> {
        let mut held = self.lock_held();
        for piece in held.iter_mut().filter(|piece| piece.session == session && !piece.is_shown) {
            piece.is_shown = true;
            if piece.role != NarrationSpeaker::User && piece.kind != NarrationPurpose::Ask {
                screen.end_line()?;
                print_piece(piece.role.as_str(), piece.kind.as_str(), &piece.content, screen)?;
            }
        }
        Ok(())
    }

    fn lock_held(&self) -> MutexGuard<'_, VecDeque<HeldPiece>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NarrationSink for TerminalNarration {
    fn emit_narration(&self, whose: NarrationOwner<'_>, narration: NarrationMessage) {
        if self.pieces_max == 0 {
            return;
        }
        let NarrationMessage { role, kind, content, .. } = narration;
        let mut content = self.redactor.redact(&content).into_owned();
        content.truncate(content.floor_char_boundary(PIECE_BYTES));
        let session = whose.session.to_owned();
        let mut held = self.lock_held();
        held.push_back(HeldPiece { session, is_shown: false, role, kind, content });
        while held.len() > self.pieces_max {
            held.pop_front();
        }
    }

    fn forget_session(&self, whose: NarrationOwner<'_>) {
        self.lock_held().retain(|piece| piece.session != whose.session);
    }
}

/// The line instead of narration.
pub(crate) const NOTHING_NARRATED: &str = "nothing is narrated at the moment";

/// Prints a piece that a server holds.
pub(crate) fn print_remote_piece(piece: &Narration, screen: &mut TerminalOutput) -> io::Result<()> {
    let role = match piece.role {
        NarrationRole::System => NarrationSpeaker::System,
        NarrationRole::Agent => NarrationSpeaker::Agent,
        NarrationRole::User => NarrationSpeaker::User,
    };
    let kind = match piece.kind {
        NarrationKind::Status => NarrationPurpose::Status,
        NarrationKind::Explanation => NarrationPurpose::Explanation,
        NarrationKind::Ask => NarrationPurpose::Ask,
        NarrationKind::Progress => NarrationPurpose::Progress,
        NarrationKind::Error => NarrationPurpose::Error,
    };
    print_piece(role.as_str(), kind.as_str(), &piece.content, screen)
}

/// Tells whether a piece of a server is one that is not on the screen already.
pub(crate) fn is_news(piece: &Narration) -> bool {
    piece.role != NarrationRole::User && piece.kind != NarrationKind::Ask
}

fn print_piece(role: &str, kind: &str, content: &str, screen: &mut TerminalOutput) -> io::Result<()> {
    let content = content.replace('\n', "\n      ");
    screen.write_styled_line(TextStyle::Dim, &format!("  [{role}, {kind}] {content}"))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use singletree::http::Secret;

    use super::*;

    fn emit(narration: &TerminalNarration, session: &str, role: NarrationSpeaker, content: &str) {
        let (kind, content) = (NarrationPurpose::Status, content.to_owned());
        let message = NarrationMessage { timestamp: UNIX_EPOCH, role, kind, content };
        narration.emit_narration(NarrationOwner { tenant: "default", session }, message);
    }

    fn held(narration: &TerminalNarration) -> Vec<(String, String)> {
        narration.lock_held().iter().map(|piece| (piece.session.clone(), piece.content.clone())).collect()
    }

    // INV-9, INV-12, INV-16
    #[test]
    fn narration_is_bounded_redacted_and_goes_with_its_session() {
        let narration = TerminalNarration::new(2, Redactor::new([Secret::new("hunter2")]));
        for text in ["one", "a hunter2", "three"] {
            emit(&narration, "s", NarrationSpeaker::System, text);
        }
        let piece = |session: &str, text: &str| (session.to_owned(), text.to_owned());
        assert_eq!(held(&narration), [piece("s", "a [redacted]"), piece("s", "three")]);
        emit(&narration, "t", NarrationSpeaker::Agent, "four");
        narration.forget_session(NarrationOwner { tenant: "default", session: "s" });
        assert_eq!(held(&narration), [piece("t", "four")]);
        let off = TerminalNarration::new(0, Redactor::default());
        emit(&off, "s", NarrationSpeaker::System, "one");
        assert_eq!(held(&off), []);
    }
}
