//! `singletree turn`: shows the events of a turn.

use singletree::TurnId;
use singletree::draw::{TextLine, TextTone, TimelinePicture, WaterfallPicture};
use singletree::telemetry::SpanSettings;

use crate::args::{Turn, TurnFormat};
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json;
use crate::place::DatabaseLocation;
use crate::print::{TerminalOutput, TextStyle};
use crate::wire::Workspace;

/// Runs the command, beside a writer or alone.
pub(crate) async fn run_turn_command(args: Turn) -> Result<u8> {
    let Turn::Show { turn, session, format, json, db } = args;
    let format = if json { TurnFormat::Json } else { format };
    let place = DatabaseLocation::from_options(&db)?;
    let workspace = Workspace::open_read_only(&place).await?;
    let turn = match turn {
        Some(turn) => turn,
        None => find_last_turn(&workspace, &place, session).await?,
    };
    let timeline = workspace.chat.timeline(&turn).await?;
    let picture = TimelinePicture::new(&timeline, &turn);
    let mut screen = TerminalOutput::standard_output();
    match format {
        TurnFormat::Text => {
            for TextLine { tone, text } in picture.render_text_lines(screen.column_count()) {
                screen.write_styled_line(style_of_tone(tone), &text)?;
            }
            for span in &timeline.turns {
                print_spans(&workspace, &span.turn, &mut screen).await?;
            }
        }
        TurnFormat::Svg => screen.write_line(&picture.render_svg())?,
        TurnFormat::Json => json::print_json(&mut screen, &timeline)?,
    }
    Ok(COMPLETED)
}

/// Prints the spans of a turn: its nodes, model calls and tools.
async fn print_spans(workspace: &Workspace, turn: &TurnId, screen: &mut TerminalOutput) -> Result<()> {
    let trace = workspace.chat.turn_trace(turn).await?;
    if trace.is_partial {
        return Ok(());
    }
    let spans = trace.render_spans(&SpanSettings::new());
    screen.write_line("")?;
    screen.write_styled_line(TextStyle::Strong, &format!("spans of {turn}"))?;
    for TextLine { tone, text } in WaterfallPicture::new(&spans).render_text_lines(screen.column_count()) {
        screen.write_styled_line(style_of_tone(tone), &text)?;
    }
    Ok(())
}

/// Finds the last turn of a conversation that is kept.
async fn find_last_turn(
    workspace: &Workspace,
    place: &DatabaseLocation,
    session: Option<String>,
) -> Result<TurnId> {
    let session = session.or_else(|| place.last_session());
    let session = session.ok_or_else(|| {
        Error::Usage("there is no last conversation here; name a TURN or a --session".to_owned())
    })?;
    let last = workspace.chat.session(&session).last_turns(1).await?.pop();
    last.ok_or_else(|| Error::Usage(format!("no turn of session {session} is kept")))
}

fn style_of_tone(tone: TextTone) -> TextStyle {
    match tone {
        TextTone::Plain => TextStyle::Plain,
        TextTone::Quiet => TextStyle::Dim,
        TextTone::Strong => TextStyle::Strong,
        TextTone::Wrong => TextStyle::Wrong,
    }
}
