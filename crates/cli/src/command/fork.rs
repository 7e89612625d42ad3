//! `singletree fork`: another conversation with the same beginning.

use singletree::harness::ForkOptions;

use crate::args::Fork;
use crate::error::Result;
use crate::exit::COMPLETED;
use crate::json::{self, PrintedCommandEffect};
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;
use crate::served::{self, ChatLocation};
use crate::wire::Workspace;

/// Runs the command.
pub(crate) async fn run_fork_command(args: Fork) -> Result<u8> {
    let place = DatabaseLocation::from_options(&args.common.db)?;
    let fork = match served::locate_chat(&place, &args.server, Workspace::open_without_agents(&place, "fork"))
        .await?
    {
        ChatLocation::There(served) => served.fork_session(&args.session, args.at, args.to).await?,
        ChatLocation::Here(workspace) => {
            let mut options = ForkOptions::new();
            if let Some(at) = args.at {
                options = options.at(at);
            }
            if let Some(to) = args.to {
                options = options.session(to);
            }
            let forked = workspace.chat.session(&args.session).fork(options).await;
            workspace.close_gracefully().await;
            forked?.id().to_owned()
        }
    };
    let mut screen = TerminalOutput::standard_output();
    match args.common.json {
        true => json::print_json(&mut screen, &PrintedCommandEffect::Forked(&fork))?,
        false => screen.write_line(&fork)?,
    }
    Ok(COMPLETED)
}
