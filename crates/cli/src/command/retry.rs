//! `singletree retry`: another attempt at a turn that failed (D29).

use singletree::durable::StoredTurnStatus;
use singletree::{Chat, SendOptions, TurnId};

use crate::args::Retry;
use crate::error::{Error, Result};
use crate::follow::{InterruptEffect, follow};
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;
use crate::served::{self, ChatLocation, ServedChat};
use crate::turn_view::TurnView;
use crate::wire::Workspace;

/// Runs the command.
pub(crate) async fn run(args: Retry) -> Result<u8> {
    let place = DatabaseLocation::of(args.common.db.db.as_deref())?;
    let open = Workspace::open(&place, &args.who, "retry");
    let house = match served::reach(&place, &args.server, open).await? {
        ChatLocation::Here(house) => *house,
        ChatLocation::There(served) => return retry_there(args, &place, &served).await,
    };
    let code = retry(args, &place, &house).await;
    let code = house.clean(code);
    house.close().await;
    code
}

async fn retry(args: Retry, place: &DatabaseLocation, house: &Workspace) -> Result<u8> {
    let turn = match (args.turn, args.session) {
        (Some(turn), None) => turn,
        (Some(turn), Some(session)) => house.chat.turn_info(&session, &turn).await?.id,
        (None, session) => last_failed(&house.chat, &session_or_last(session, place)?).await?,
    };
    // The turns that a dead process left unfinished run first.
    house.chat.sweep().await?;
    let mut options = SendOptions::new();
    if let Some(key) = args.key {
        options = options.key(key);
    }
    let turn = house.chat.retry(&turn, options).await?;
    let mut screen = TerminalOutput::out();
    let outcome = if args.common.json {
        turn.outcome().await
    } else {
        follow(&house.chat, &turn, TurnView::default(), &mut screen, InterruptEffect::EndsProcess).await?
    };
    super::tell(house, turn.session(), &outcome, (args.common.json, &mut screen)).await
}

async fn retry_there(args: Retry, place: &DatabaseLocation, served: &ServedChat) -> Result<u8> {
    let is_beside = args.server.url.is_none();
    let session = match (args.session, &args.turn) {
        (Some(session), _) => session,
        (None, _) if !is_beside => return Err(Error::Usage("with --url, name the --session".to_owned())),
        (None, Some(turn)) => Workspace::look(place).await?.chat.turn(turn).await?.session().to_owned(),
        (None, None) => session_or_last(None, place)?,
    };
    let turn = match args.turn {
        Some(turn) => turn.to_string(),
        None => served.last_failed(&session).await?,
    };
    let mut screen = TerminalOutput::out();
    served.retry((&session, &turn), args.key.as_deref(), (args.common.json, &mut screen)).await
}

fn session_or_last(session: Option<String>, place: &DatabaseLocation) -> Result<String> {
    session.or_else(|| place.last_session()).ok_or_else(|| {
        Error::Usage("there is no last conversation here; name a TURN or a --session".to_owned())
    })
}

/// Finds the last turn of a session, which is the only one that can be retried.
///
/// # Errors
/// `usage` where it did not fail; those of [`Chat::newest_turn`].
pub(super) async fn last_failed(chat: &Chat, session: &str) -> Result<TurnId> {
    match chat.newest_turn(session).await? {
        Some(turn) if turn.status == StoredTurnStatus::Errored => Ok(turn.id),
        Some(turn) => Err(not_failed(session, turn.status)),
        None => Err(Error::Usage(format!("no turn of session {session} is kept"))),
    }
}

/// Describes why the last turn of a session cannot be retried, and suggests another command.
pub(crate) fn not_failed(session: &str, status: StoredTurnStatus) -> Error {
    let advice = match status {
        StoredTurnStatus::Accepted => "it has not ended: wait for it, or cancel it",
        StoredTurnStatus::Suspended => "it waits for an answer: singletree pending",
        StoredTurnStatus::Completed | StoredTurnStatus::Errored => {
            "only a failed turn can be retried, while it is the last one: send a message instead"
        }
    };
    Error::Usage(format!("the last turn of session {session} did not fail; {advice}"))
}
