//! `singletree retain`: removes data whose retention time has passed.

use std::time::Duration;

use singletree::harness::Retention;

use crate::args::Retain;
use crate::error::Result;
use crate::exit::COMPLETED;
use crate::json;
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;
use crate::wire::Workspace;

/// How long a day is.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Runs the command.
pub(crate) async fn run_retain_command(args: Retain) -> Result<u8> {
    let place = DatabaseLocation::from_options(&args.common.db)?;
    let age = args.days.map(|it| DAY.saturating_mul(it));
    let retention = Retention { turns: args.turns, events: args.events, age };
    let workspace = Workspace::open_without_agents(&place, "retain").await?;
    let forgotten = workspace.chat.retain(&retention).await;
    workspace.close_gracefully().await;
    let forgotten = forgotten?;
    let mut screen = TerminalOutput::standard_output();
    match args.common.json {
        true => json::print_json(&mut screen, &json::PrintedRemovalCounts::from_retention_report(forgotten))?,
        false => {
            let (turns, events) = (forgotten.turns, forgotten.events);
            screen.write_line(&format!("forgotten: {turns} turns, {events} events"))?;
        }
    }
    Ok(COMPLETED)
}
