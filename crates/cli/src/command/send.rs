//! `singletree send`: one message, for scripts.

use singletree::{ChatMessage, SendOptions};

use crate::args::Send;
use crate::error::Result;
use crate::follow::{Interrupt, follow};
use crate::place::Place;
use crate::print::Screen;
use crate::turn_view::TurnView;
use crate::wire::House;

/// Runs the command.
pub(crate) async fn run(args: Send) -> Result<u8> {
    let place = Place::of(args.common.db.db.as_deref())?;
    let house = House::open(&place, &args.who, "send").await?;
    let code = send(args, &place, &house).await;
    let code = house.clean(code);
    house.close().await;
    code
}

async fn send(args: Send, place: &Place, house: &House) -> Result<u8> {
    house.check_agent(args.agent.as_deref())?;
    let session = house.session(args.session, place.last_session(), args.agent.as_deref()).await?;
    // What a process that died has left runs first.
    house.chat.sweep().await?;
    let mut options = SendOptions::new();
    if let Some(key) = args.key {
        options = options.key(key);
    }
    if let Some(agent) = args.agent {
        options = options.agent(agent);
    }
    let turn = house.chat.submit(&session, ChatMessage::user(args.text), options).await?;
    place.remember(&session)?;
    let mut screen = Screen::out();
    let outcome = if args.common.json {
        turn.outcome().await
    } else {
        follow(&house.chat, &turn, TurnView::default(), &mut screen, Interrupt::EndsProcess).await?
    };
    super::tell(house, &session, &outcome, (args.common.json, &mut screen)).await
}
