//! `singletree pending`: lists the pending waits.

use crate::args::Pending;
use crate::error::Result;
use crate::exit::COMPLETED;
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;
use crate::who::Who;
use crate::wire::Workspace;
use crate::{ask, json};

/// Runs the command, beside a writer or alone.
pub(crate) async fn run(args: Pending) -> Result<u8> {
    let place = DatabaseLocation::of(args.common.db.db.as_deref())?;
    let who = Who { config: args.config, ..Who::default() };
    let house = Workspace::look_as(&place, &who).await?;
    let waits = ask::waiting(&house.chat, args.session.as_deref()).await?;
    let mut screen = TerminalOutput::out();
    if args.common.json {
        json::print(&mut screen, &json::PrintedPendingWaits::of(&waits))?;
        return Ok(COMPLETED);
    }
    for wait in &waits {
        ask::show(wait, &mut screen)?;
        ask::show_how(&house.chat, wait, &house.here, &mut screen).await?;
    }
    if waits.is_empty() {
        screen.line("nothing waits for an answer")?;
    } else {
        screen.line(&ask::count(&waits, ""))?;
    }
    Ok(COMPLETED)
}
