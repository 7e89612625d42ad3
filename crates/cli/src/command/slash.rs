//! The slash commands of a chat.

use singletree::TurnId;

use super::chat::TerminalConversation;
use super::{retry, sessions};
use crate::ask;
use crate::error::{Error, Result};
use crate::print::TextStyle;
use crate::prompt::PromptEditor;
use crate::turn_view::TurnView;

/// How many messages `/history` shows.
pub(crate) const HISTORY_MAX: u64 = 100;

/// The line instead of a history without messages.
pub(crate) const NOTHING_SAID: &str = "nothing was said yet";

const HELP: &str = "\
/sessions   lists the conversations in this database
/history    shows this conversation
/pending    shows what waits for an answer, and asks about it
/cancel     gives up what waits for an answer
/retry      tries the last turn again, if it failed
/help       shows this
/quit       leaves; so does Ctrl-C or Ctrl-D
Ctrl-C cancels a reply while it runs. Everything else is a message.";

/// The next step after a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlashOutcome {
    /// The next line.
    GoOn,
    /// The end.
    Leave,
}

/// Runs a command, given without its slash.
pub(super) async fn run(
    talk: &mut TerminalConversation<'_>,
    prompt: &mut PromptEditor,
    command: &str,
) -> Result<SlashOutcome> {
    match command {
        "sessions" => sessions::list(talk.chat, false, &mut talk.screen).await?,
        "history" => history(talk).await?,
        "pending" => pending(talk, prompt).await?,
        "cancel" => cancel(talk).await?,
        "retry" => retry(talk, prompt).await?,
        "help" => talk.screen.line(HELP)?,
        "quit" => return Ok(SlashOutcome::Leave),
        other => talk.screen.line(&format!("there is no command /{other}; /help lists them"))?,
    }
    Ok(SlashOutcome::GoOn)
}

/// Says how many messages `/history` leaves out.
pub(crate) fn earlier_messages(count: u64) -> String {
    format!("  ({count} earlier messages)")
}

async fn history(talk: &mut TerminalConversation<'_>) -> Result<()> {
    let count = match talk.chat.session_info(talk.session).await {
        Ok(info) => info.messages,
        Err(singletree::harness::Error::SessionUnknown { .. }) => 0,
        Err(error) => return Err(error.into()),
    };
    let from = count.saturating_sub(HISTORY_MAX);
    if from > 0 {
        talk.screen.styled(TextStyle::Dim, &earlier_messages(from))?;
    }
    if count == 0 {
        return Ok(talk.screen.line(NOTHING_SAID)?);
    }
    let mut view = TurnView::echoing();
    for entry in talk.chat.history(talk.session, from, HISTORY_MAX).await? {
        view.message(None, &entry.message, entry.side.as_ref(), &mut talk.screen)?;
    }
    Ok(())
}

async fn pending(talk: &mut TerminalConversation<'_>, prompt: &mut PromptEditor) -> Result<()> {
    let all = ask::waiting(talk.chat, None).await?;
    for wait in all.iter().filter(|item| item.session != talk.session) {
        ask::show(wait, &mut talk.screen)?;
        talk.screen.styled(TextStyle::Dim, &format!("    in session {}", wait.session))?;
    }
    if all.is_empty() {
        talk.screen.line("nothing waits for an answer")?;
    }
    talk.ask_all(prompt).await
}

async fn cancel(talk: &mut TerminalConversation<'_>) -> Result<()> {
    let waits = ask::waiting(talk.chat, Some(talk.session)).await?;
    if waits.is_empty() {
        talk.screen.line("nothing waits for an answer")?;
    }
    for wait in waits {
        let turn = talk.chat.cancel(&TurnId::new(wait.invocation, 0)).await?;
        turn.outcome().await;
        talk.screen.line(&format!("given up: {}", wait.descriptor.signal_id))?;
    }
    Ok(())
}

async fn retry(talk: &mut TerminalConversation<'_>, prompt: &mut PromptEditor) -> Result<()> {
    let retried = match retry::last_failed(talk.chat, talk.session).await {
        Ok(failed) => talk.retry(&failed).await,
        Err(error) => Err(error),
    };
    match retried {
        Ok(true) => talk.ask_all(prompt).await,
        Ok(false) => Ok(()),
        Err(Error::Harness(singletree::harness::Error::SessionUnknown { .. })) => {
            Ok(talk.screen.line(NOTHING_SAID)?)
        }
        // Refused: nothing happened, and the conversation goes on.
        Err(error @ (Error::Refused(_) | Error::Harness(_) | Error::Usage(_))) => {
            Ok(error.show(&mut talk.screen)?)
        }
        Err(error) => Err(error),
    }
}
