//! `singletree send`: one message, for scripts.

use std::io;

use singletree::{ChatMessage, SendOptions};

use crate::args::Send;
use crate::error::{Error, Result};
use crate::follow::{InterruptEffect, follow_turn};
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;
use crate::served::{self, ChatLocation, ServedChat};
use crate::turn_view::TurnView;
use crate::wire::Workspace;

/// Runs the command.
pub(crate) async fn run_send_command(args: Send) -> Result<u8> {
    let place = DatabaseLocation::from_options(&args.common.db)?;
    let open = Workspace::open_with_agents(&place, &args.who, "send");
    let workspace = match served::locate_chat(&place, &args.server, open).await? {
        ChatLocation::Here(workspace) => *workspace,
        ChatLocation::There(served) => return send_to_server(args, &place, &served).await,
    };
    let code = send_in_workspace(args, &place, &workspace).await;
    let code = workspace.redact_result(code);
    workspace.close_gracefully().await;
    code
}

async fn send_to_server(args: Send, place: &DatabaseLocation, served: &ServedChat) -> Result<u8> {
    let text = read_message_text(args.text).await?;
    let last = place.last_session().filter(|_| args.server.url.is_none());
    let session = served.choose_session((args.session, last), args.policy).await?;
    let mut screen = TerminalOutput::standard_output();
    let message = (text, args.agent, args.policy);
    let json = args.common.json;
    let code = served.send_message(&session, message, args.key.as_deref(), (json, &mut screen)).await?;
    if args.server.url.is_none() {
        place.remember_session(&session)?;
    }
    Ok(code)
}

/// Returns the text of the message: the argument, or the whole standard input where the argument is `-`.
pub(super) async fn read_message_text(text: String) -> Result<String> {
    if text != "-" {
        return Ok(text);
    }
    let reading = tokio::task::spawn_blocking(|| io::read_to_string(io::stdin()));
    let text = reading.await.unwrap_or_else(|error| Err(error.into()));
    let text = text.map_err(|source| Error::Input { source })?;
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}

async fn send_in_workspace(args: Send, place: &DatabaseLocation, workspace: &Workspace) -> Result<u8> {
    workspace.check_agent(args.agent.as_deref())?;
    let text = read_message_text(args.text).await?;
    let session = workspace
        .choose_session(args.session, place.last_session(), (args.agent.as_deref(), args.policy))
        .await?;
    // The turns that a dead process left unfinished run first.
    workspace.chat.sweep().await?;
    let mut options = SendOptions::new();
    if let Some(key) = args.key {
        options = options.key(key);
    }
    if let Some(agent) = args.agent {
        options = options.agent(agent);
    }
    if let Some(policy) = args.policy {
        options = options.policy(policy.to_prompt_policy());
    }
    let turn = workspace.chat.session(&session).submit(ChatMessage::user(text), options).await?;
    place.remember_session(&session)?;
    let mut screen = TerminalOutput::standard_output();
    let outcome = if args.common.json {
        turn.outcome().await
    } else {
        follow_turn(&workspace.chat, &turn, TurnView::default(), &mut screen, InterruptEffect::EndsProcess)
            .await?
    };
    super::print_turn_outcome(workspace, &session, &outcome, (args.common.json, &mut screen)).await
}
