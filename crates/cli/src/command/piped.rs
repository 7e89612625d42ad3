//! `singletree chat` where nobody types: one message a line, and no question.

use std::sync::Arc;

use singletree::{ChatMessage, ChatTurnOutcome, SendOptions};

use super::chat::TerminalConversation;
use crate::error::Result;
use crate::exit::COMPLETED;
use crate::follow::{InterruptEffect, follow_turn};
use crate::prompt::read_stdin_line;
use crate::turn_view::TurnView;
use crate::{ask, exit};

/// Sends each line as a message and returns the code of the last turn.
pub(super) async fn run_piped_chat(talk: &mut TerminalConversation<'_>) -> Result<u8> {
    let mut code = COMPLETED;
    while let Some(line) = read_stdin_line().await? {
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        let outcome = send_message(talk, text).await?;
        code = exit::exit_code_of_outcome(&outcome);
        if matches!(outcome.as_ref(), ChatTurnOutcome::Suspended(_)) {
            show_pending_waits(talk).await?;
        }
    }
    Ok(code)
}

/// Prints the pending waits of the session, with their ids.
pub(super) async fn show_pending_waits(talk: &mut TerminalConversation<'_>) -> Result<()> {
    for wait in ask::list_pending_waits(talk.chat, Some(talk.session)).await? {
        ask::show_pending_wait(&wait, &mut talk.screen)?;
        ask::show_answer_commands(talk.chat, &wait, &talk.workspace.here, &mut talk.screen).await?;
    }
    Ok(())
}

async fn send_message(talk: &mut TerminalConversation<'_>, text: &str) -> Result<Arc<ChatTurnOutcome>> {
    let options = SendOptions::new().listen();
    let options = match talk.agent {
        Some(agent) => options.agent(agent),
        None => options,
    };
    let options = match talk.policy {
        Some(policy) => options.policy(policy.to_prompt_policy()),
        None => options,
    };
    let turn = talk.chat.session(talk.session).submit(ChatMessage::user(text), options).await?;
    follow_turn(talk.chat, &turn, TurnView::default(), &mut talk.screen, InterruptEffect::EndsProcess).await
}
