//! `singletree answer`: an answer to what waits, for scripts.

use std::sync::Arc;

use singletree::{ChatTurnOutcome, SignalAddress, Turn};

use crate::args::{Answer, Reply};
use crate::ask;
use crate::error::{Error, Result};
use crate::follow::{Interrupt, follow};
use crate::place::Place;
use crate::print::Screen;
use crate::turn_view::TurnView;
use crate::wire::House;

/// Runs the command.
pub(crate) async fn run(args: Answer) -> Result<u8> {
    let place = Place::of(args.common.db.db.as_deref())?;
    let house = House::open(&place, &args.who, "answer").await?;
    let code = answer(args, &place, &house).await;
    let code = house.clean(code);
    house.close().await;
    code
}

async fn answer(args: Answer, place: &Place, house: &House) -> Result<u8> {
    let Answer { signal, reply, session, from, who: _, common } = args;
    house.chat.sweep().await?;
    let turn = take(house, (signal, session), reply, from).await.map_err(|it| searched(it, place))?;
    let mut screen = Screen::out();
    let outcome: Arc<ChatTurnOutcome> = if common.json {
        turn.outcome().await
    } else {
        follow(&house.chat, &turn, TurnView::default(), &mut screen, Interrupt::EndsProcess).await?
    };
    super::tell(house, turn.session(), &outcome, (common.json, &mut screen)).await
}

/// Says in which database was looked, where nothing waits for an answer: it may wait in another one.
fn searched(error: Error, place: &Place) -> Error {
    match error {
        Error::Refused(turn) if turn.error_category == "harness_signal_correlation_failed" => {
            Error::Unawaited { turn, db: place.db().to_owned() }
        }
        other => other,
    }
}

/// Answers the one wait of this name. Where there is none, it was answered already, or there are more: the harness says
/// what that means.
async fn take(
    house: &House,
    (signal, session): (String, Option<String>),
    reply: Reply,
    from: Option<String>,
) -> Result<Turn> {
    let mut waits = ask::waiting(&house.chat, session.as_deref()).await?;
    waits.retain(|it| it.descriptor.signal_id == signal);
    if let [wait] = waits.as_slice() {
        return ask::answer(&house.chat, wait, reply, from).await;
    }
    let mut answer = singletree::Answer::new(reply.payload());
    let address = match session {
        None => SignalAddress::Signal(signal),
        Some(session) => {
            if let Some((wait, action)) = house.action(&session, &signal).await? {
                answer = answer.to(wait, action);
            }
            SignalAddress::Session { session, signal }
        }
    };
    Ok(house.chat.answer(address, answer).await?)
}
