//! The slash commands of a chat.

use singletree::TurnId;

use super::artifact_command::ArtifactCommand;
use super::chat::TerminalConversation;
use super::{retry, sessions};
use crate::artifact_shelf::ArtifactShelf;
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
/narration  shows what was told of the work in this conversation
/artifacts  lists the documents that the agent is shown with commands
/show       shows one of them: /show letter/spring
/propose    adds one: /propose letter/spring Dear all
/approve    shows one and asks whether to approve it: /approve letter/spring
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
pub(super) async fn run_slash_command(
    talk: &mut TerminalConversation<'_>,
    prompt: &mut PromptEditor,
    command: &str,
) -> Result<SlashOutcome> {
    if let Some(command) = ArtifactCommand::from_line(command) {
        run_artifact_command(talk, prompt, command).await?;
        return Ok(SlashOutcome::GoOn);
    }
    match command {
        "narration" => talk.workspace.narration.print_all(talk.session, &mut talk.screen)?,
        "sessions" => sessions::list_sessions(talk.chat, false, &mut talk.screen).await?,
        "history" => show_history(talk).await?,
        "pending" => show_pending_waits(talk, prompt).await?,
        "cancel" => cancel_pending_waits(talk).await?,
        "retry" => retry_last_failed_turn(talk, prompt).await?,
        "help" => talk.screen.write_line(HELP)?,
        "quit" => return Ok(SlashOutcome::Leave),
        other => talk.screen.write_line(&format!("there is no command /{other}; /help lists them"))?,
    }
    Ok(SlashOutcome::GoOn)
}

/// Says how many messages `/history` leaves out.
pub(crate) fn earlier_messages_note(count: u64) -> String {
    format!("  ({count} earlier messages)")
}

async fn run_artifact_command(
    talk: &mut TerminalConversation<'_>,
    prompt: &mut PromptEditor,
    command: ArtifactCommand,
) -> Result<()> {
    let ran = match ArtifactShelf::in_workspace(talk.workspace, talk.session).await {
        Ok(shelf) => command.run_at_shelf(&shelf, prompt, &mut talk.screen).await,
        Err(error) => Err(error),
    };
    match ran {
        Err(Error::Harness(singletree::harness::Error::SessionUnknown { .. })) => {
            Ok(talk.screen.write_line(NOTHING_SAID)?)
        }
        // Refused: nothing happened, and the conversation goes on.
        Err(error @ (Error::Agent { .. } | Error::Harness(_) | Error::Usage(_))) => {
            Ok(error.show_error(&mut talk.screen)?)
        }
        ran => ran,
    }
}

async fn show_history(talk: &mut TerminalConversation<'_>) -> Result<()> {
    let count = match talk.chat.session(talk.session).info().await {
        Ok(info) => info.messages,
        Err(singletree::harness::Error::SessionUnknown { .. }) => 0,
        Err(error) => return Err(error.into()),
    };
    let from = count.saturating_sub(HISTORY_MAX);
    if from > 0 {
        talk.screen.write_styled_line(TextStyle::Dim, &earlier_messages_note(from))?;
    }
    if count == 0 {
        return Ok(talk.screen.write_line(NOTHING_SAID)?);
    }
    let mut view = TurnView::with_user_messages();
    for entry in talk.chat.session(talk.session).history(from..from + HISTORY_MAX).await? {
        view.show_message(None, &entry.message, entry.side.as_ref(), &mut talk.screen)?;
    }
    Ok(())
}

async fn show_pending_waits(talk: &mut TerminalConversation<'_>, prompt: &mut PromptEditor) -> Result<()> {
    let all = ask::list_pending_waits(talk.chat, None).await?;
    for wait in all.iter().filter(|item| item.session != talk.session) {
        ask::show_pending_wait(wait, &mut talk.screen)?;
        talk.screen.write_styled_line(TextStyle::Dim, &format!("    in session {}", wait.session))?;
    }
    if all.is_empty() {
        talk.screen.write_line("nothing waits for an answer")?;
    }
    talk.ask_about_all_waits(prompt).await
}

async fn cancel_pending_waits(talk: &mut TerminalConversation<'_>) -> Result<()> {
    let waits = ask::list_pending_waits(talk.chat, Some(talk.session)).await?;
    if waits.is_empty() {
        talk.screen.write_line("nothing waits for an answer")?;
    }
    for wait in waits {
        let turn = talk.chat.cancel(&TurnId::new(wait.invocation, 0)).await?;
        turn.outcome().await;
        talk.screen.write_line(&format!("given up: {}", wait.descriptor.signal_id))?;
    }
    Ok(())
}

async fn retry_last_failed_turn(
    talk: &mut TerminalConversation<'_>,
    prompt: &mut PromptEditor,
) -> Result<()> {
    let retried = match retry::find_last_failed_turn(talk.chat, talk.session).await {
        Ok(failed) => talk.retry_turn(&failed).await,
        Err(error) => Err(error),
    };
    match retried {
        Ok(true) => talk.ask_about_all_waits(prompt).await,
        Ok(false) => Ok(()),
        Err(Error::Harness(singletree::harness::Error::SessionUnknown { .. })) => {
            Ok(talk.screen.write_line(NOTHING_SAID)?)
        }
        // Refused: nothing happened, and the conversation goes on.
        Err(error @ (Error::Refused(_) | Error::Harness(_) | Error::Usage(_))) => {
            Ok(error.show_error(&mut talk.screen)?)
        }
        Err(error) => Err(error),
    }
}
