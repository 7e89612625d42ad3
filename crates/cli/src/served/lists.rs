//! Conversations of a server, printed as those of a database are.

use singletree_protocol::native::{HistoryMessage, PromptPolicy};

use super::{ServedChat, turn_event};
use crate::command::sessions::{NO_SESSION, format_session_line};
use crate::command::slash::{HISTORY_MAX, NOTHING_SAID, earlier_messages_note};
use crate::error::{Error, Result};
use crate::narration_screen::{NOTHING_NARRATED, is_news, print_remote_piece};
use crate::print::{TerminalOutput, TextStyle};
use crate::turn_view::TurnView;

/// How many sessions are read at once.
const PAGE: u64 = 256;

impl ServedChat {
    /// Shows the newest messages of a session.
    pub(crate) async fn show_history(&self, session: &str, screen: &mut TerminalOutput) -> Result<()> {
        let count = match self.client.fetch_session(session).await {
            Ok(session) => session.messages,
            // A session is created by its first message.
            Err(error) if error.category() == "chat_session_unknown" => 0,
            Err(error) => return Err(error.into()),
        };
        if count == 0 {
            return Ok(screen.write_line(NOTHING_SAID)?);
        }
        let mut from = count.saturating_sub(HISTORY_MAX);
        if from > 0 {
            screen.write_styled_line(TextStyle::Dim, &earlier_messages_note(from))?;
        }
        let mut view = TurnView::with_user_messages();
        // A page may end before its limit. Messages that come meanwhile are left out.
        while from < count {
            let page = self.client.list_messages(session, from, Some(count - from)).await?;
            for entry in &page.items {
                show_history_message(entry, &mut view, screen)?;
            }
            let Some(next) = page.next else { break };
            from = next;
        }
        Ok(())
    }

    /// Shows the narration of a session that the server holds.
    pub(crate) async fn show_narration(&self, session: &str, screen: &mut TerminalOutput) -> Result<()> {
        let held = self.client.list_narration(session, None).await?.items;
        for piece in &held {
            print_remote_piece(piece, screen)?;
        }
        if held.is_empty() {
            screen.write_line(NOTHING_NARRATED)?;
        }
        Ok(())
    }

    /// Shows what was narrated of a session after the piece `seen`, but for what is on the screen already, and moves
    /// `seen` to the last piece. Without a permission to read nothing is shown.
    pub(crate) async fn show_new_narration(
        &self,
        session: &str,
        seen: &mut Option<String>,
        screen: &mut TerminalOutput,
    ) -> Result<()> {
        let Ok(held) = self.client.list_narration(session, seen.as_deref()).await else { return Ok(()) };
        for piece in held.items.iter().filter(|piece| is_news(piece)) {
            print_remote_piece(piece, screen)?;
        }
        *seen = held.items.into_iter().next_back().map(|piece| piece.id).or(seen.take());
        Ok(())
    }

    /// Lists the sessions, ordered by id.
    pub(crate) async fn list_sessions(&self, screen: &mut TerminalOutput) -> Result<()> {
        let (mut from, mut is_empty) = (None, true);
        loop {
            let page = self.client.list_sessions(from.as_deref(), Some(PAGE)).await?;
            for session in &page.items {
                let updated = turn_event::parse_time(&session.updated_at)?;
                screen.write_line(&format_session_line(
                    &session.id,
                    &session.agent,
                    updated,
                    (session.messages, session.prompt_policy == PromptPolicy::Command),
                ))?;
            }
            is_empty &= page.items.is_empty();
            from = page.next;
            if from.is_none() {
                break;
            }
        }
        if is_empty {
            screen.write_line(NO_SESSION)?;
        }
        Ok(())
    }
}

fn show_history_message(
    entry: &HistoryMessage,
    view: &mut TurnView,
    screen: &mut TerminalOutput,
) -> Result<()> {
    let message = turn_event::convert_message(&entry.message)?;
    let side = turn_event::convert_side_record(entry.side.clone())?;
    view.show_message(None, &message, side.as_ref(), screen).map_err(Error::from)
}
