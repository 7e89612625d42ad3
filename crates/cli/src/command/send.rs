//! `singletree send`: one message, for scripts.

use std::io;

use singletree::{ChatMessage, SendOptions};

use crate::args::Send;
use crate::error::{Error, Result};
use crate::follow::{InterruptEffect, follow};
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;
use crate::served::{self, ChatLocation, ServedChat};
use crate::turn_view::TurnView;
use crate::wire::{Workspace, fresh};

/// Runs the command.
pub(crate) async fn run(args: Send) -> Result<u8> {
    let place = DatabaseLocation::of(args.common.db.db.as_deref())?;
    let open = Workspace::open(&place, &args.who, "send");
    let house = match served::reach(&place, &args.server, open).await? {
        ChatLocation::Here(house) => *house,
        ChatLocation::There(served) => return send_there(args, &place, &served).await,
    };
    let code = send(args, &place, &house).await;
    let code = house.clean(code);
    house.close().await;
    code
}

async fn send_there(args: Send, place: &DatabaseLocation, served: &ServedChat) -> Result<u8> {
    let text = said(args.text).await?;
    let last = place.last_session().filter(|_| args.server.url.is_none());
    let session = args.session.or(last).unwrap_or_else(fresh);
    let mut screen = TerminalOutput::out();
    let message = (text, args.agent, args.key.as_deref());
    let code = served.send(&session, message, (args.common.json, &mut screen)).await?;
    if args.server.url.is_none() {
        place.remember(&session)?;
    }
    Ok(code)
}

/// Returns the text of the message: the argument, or the whole standard input where the argument is `-`.
async fn said(text: String) -> Result<String> {
    if text != "-" {
        return Ok(text);
    }
    let reading = tokio::task::spawn_blocking(|| io::read_to_string(io::stdin()));
    let text = reading.await.unwrap_or_else(|error| Err(error.into()));
    let text = text.map_err(|source| Error::Input { source })?;
    Ok(text.strip_suffix('\n').map(str::to_owned).unwrap_or(text))
}

async fn send(args: Send, place: &DatabaseLocation, house: &Workspace) -> Result<u8> {
    house.check_agent(args.agent.as_deref())?;
    let text = said(args.text).await?;
    let session = house.session(args.session, place.last_session(), args.agent.as_deref()).await?;
    // The turns that a dead process left unfinished run first.
    house.chat.sweep().await?;
    let mut options = SendOptions::new();
    if let Some(key) = args.key {
        options = options.key(key);
    }
    if let Some(agent) = args.agent {
        options = options.agent(agent);
    }
    let turn = house.chat.submit(&session, ChatMessage::user(text), options).await?;
    place.remember(&session)?;
    let mut screen = TerminalOutput::out();
    let outcome = if args.common.json {
        turn.outcome().await
    } else {
        follow(&house.chat, &turn, TurnView::default(), &mut screen, InterruptEffect::EndsProcess).await?
    };
    super::tell(house, &session, &outcome, (args.common.json, &mut screen)).await
}
