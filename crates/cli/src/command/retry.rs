//! `singletree retry`: another attempt at a turn that failed (D29).

use singletree::durable::StoredTurnStatus;
use singletree::{Chat, SendOptions, TurnId};

use crate::args::Retry;
use crate::error::{Error, Result};
use crate::follow::{InterruptEffect, follow_turn};
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;
use crate::served::{self, ChatLocation, ServedChat};
use crate::turn_view::TurnView;
use crate::wire::Workspace;

/// Runs the command.
pub(crate) async fn run_retry_command(args: Retry) -> Result<u8> {
    let place = DatabaseLocation::from_options(&args.common.db)?;
    let open = Workspace::open_with_agents(&place, &args.who, "retry");
    let workspace = match served::locate_chat(&place, &args.server, open).await? {
        ChatLocation::Here(workspace) => *workspace,
        ChatLocation::There(served) => return retry_on_server(args, &place, &served).await,
    };
    let code = retry_in_workspace(args, &place, &workspace).await;
    let code = workspace.redact_result(code);
    workspace.close_gracefully().await;
    code
}

async fn retry_in_workspace(args: Retry, place: &DatabaseLocation, workspace: &Workspace) -> Result<u8> {
    let turn = match (args.turn, args.session) {
        (Some(turn), None) => turn,
        (Some(turn), Some(session)) => workspace.chat.session(&session).turn_info(&turn).await?.id,
        (None, session) => {
            find_last_failed_turn(&workspace.chat, &named_or_last_session(session, place)?).await?
        }
    };
    // The turns that a dead process left unfinished run first.
    workspace.chat.sweep().await?;
    let mut options = SendOptions::new();
    if let Some(key) = args.key {
        options = options.key(key);
    }
    let turn = workspace.chat.retry(&turn, options).await?;
    let mut screen = TerminalOutput::standard_output();
    let outcome = if args.common.json {
        turn.outcome().await
    } else {
        follow_turn(&workspace.chat, &turn, TurnView::default(), &mut screen, InterruptEffect::EndsProcess)
            .await?
    };
    super::print_turn_outcome(workspace, turn.session(), &outcome, (args.common.json, &mut screen)).await
}

async fn retry_on_server(args: Retry, place: &DatabaseLocation, served: &ServedChat) -> Result<u8> {
    let is_beside = args.server.url.is_none();
    let session = match (args.session, &args.turn) {
        (Some(session), _) => session,
        (None, _) if !is_beside => return Err(Error::Usage("with --url, name the --session".to_owned())),
        (None, Some(turn)) => {
            Workspace::open_read_only(place).await?.chat.turn(turn).await?.session().to_owned()
        }
        (None, None) => named_or_last_session(None, place)?,
    };
    let turn = match args.turn {
        Some(turn) => turn.to_string(),
        None => served.find_last_failed_turn(&session).await?,
    };
    let mut screen = TerminalOutput::standard_output();
    served.retry_turn((&session, &turn), args.key.as_deref(), (args.common.json, &mut screen)).await
}

fn named_or_last_session(session: Option<String>, place: &DatabaseLocation) -> Result<String> {
    session.or_else(|| place.last_session()).ok_or_else(|| {
        Error::Usage("there is no last conversation here; name a TURN or a --session".to_owned())
    })
}

/// Finds the last turn of a session, which is the only one that can be retried.
///
/// # Errors
/// `usage` where it did not fail; those of [`Session::newest_turn`](singletree::Session::newest_turn).
pub(super) async fn find_last_failed_turn(chat: &Chat, session: &str) -> Result<TurnId> {
    match chat.session(session).newest_turn().await? {
        Some(turn) if turn.status == StoredTurnStatus::Errored => Ok(turn.id),
        Some(turn) => Err(not_failed_error(session, turn.status)),
        None => Err(Error::Usage(format!("no turn of session {session} is kept"))),
    }
}

/// Describes why the last turn of a session cannot be retried, and suggests another command.
pub(crate) fn not_failed_error(session: &str, status: StoredTurnStatus) -> Error {
    let advice = match status {
        StoredTurnStatus::Accepted => "it has not ended: wait for it, or cancel it",
        StoredTurnStatus::Suspended => "it waits for an answer: singletree pending",
        StoredTurnStatus::Completed | StoredTurnStatus::Errored => {
            "only a failed turn can be retried, while it is the last one: send a message instead"
        }
    };
    Error::Usage(format!("the last turn of session {session} did not fail; {advice}"))
}
