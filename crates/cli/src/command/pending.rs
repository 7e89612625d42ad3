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
pub(crate) async fn run_pending_command(args: Pending) -> Result<u8> {
    let place = DatabaseLocation::from_options(&args.common.db)?;
    let who = Who { config: args.config, ..Who::default() };
    let workspace = Workspace::open_read_only_with_agents(&place, &who).await?;
    let waits = ask::list_pending_waits(&workspace.chat, args.session.as_deref()).await?;
    let mut screen = TerminalOutput::standard_output();
    if args.common.json {
        json::print_json(&mut screen, &json::PrintedPendingWaits::from_waits(&waits))?;
        return Ok(COMPLETED);
    }
    for wait in &waits {
        ask::show_pending_wait(wait, &mut screen)?;
        ask::show_answer_commands(&workspace.chat, wait, &workspace.here, &mut screen).await?;
    }
    if waits.is_empty() {
        screen.write_line("nothing waits for an answer")?;
    } else {
        screen.write_line(&ask::describe_wait_count(&waits, ""))?;
    }
    Ok(COMPLETED)
}
