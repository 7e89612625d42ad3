//! `singletree turn`: shows the events of a turn.

use singletree::TurnId;
use singletree::draw::{TextLine, TimelinePicture, Tone};

use crate::args::{Turn, TurnFormat};
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json;
use crate::place::Place;
use crate::print::{Screen, Style};
use crate::wire::House;

/// Runs the command, beside a writer or alone.
pub(crate) async fn run(args: Turn) -> Result<u8> {
    let Turn::Show { turn, session, format, json, db } = args;
    let format = if json { TurnFormat::Json } else { format };
    let place = Place::of(db.db.as_deref())?;
    let house = House::look(&place).await?;
    let turn = match turn {
        Some(turn) => turn,
        None => last(&house, &place, session).await?,
    };
    let timeline = house.chat.timeline(&turn).await?;
    let picture = TimelinePicture::new(&timeline, &turn);
    let mut screen = Screen::out();
    match format {
        TurnFormat::Text => {
            for TextLine { tone, text } in picture.text(screen.columns()) {
                screen.styled(style(tone), &text)?;
            }
        }
        TurnFormat::Svg => screen.line(&picture.svg())?,
        TurnFormat::Json => json::print(&mut screen, &timeline)?,
    }
    Ok(COMPLETED)
}

/// Finds the last turn of a conversation that is kept.
async fn last(house: &House, place: &Place, session: Option<String>) -> Result<TurnId> {
    let session = session.or_else(|| place.last_session());
    let session = session.ok_or_else(|| {
        Error::Usage("there is no last conversation here; name a TURN or a --session".to_owned())
    })?;
    let last = house.chat.last_turns(&session, 1).await?.pop();
    last.ok_or_else(|| Error::Usage(format!("no turn of session {session} is kept")))
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::Plain,
        Tone::Quiet => Style::Dim,
        Tone::Strong => Style::Strong,
        Tone::Wrong => Style::Wrong,
    }
}
