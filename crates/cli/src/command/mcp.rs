//! `singletree mcp`: accepts changed tool definitions of MCP servers.

use serde::Serialize;

use crate::args::Mcp;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json;
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;
use crate::who::build_definition_pins;
use crate::wire::Workspace;

#[derive(Debug, Serialize)]
struct PrintedAcceptance<'a> {
    server: &'a str,
    tools: u64,
}

/// Runs the command.
pub(crate) async fn run_mcp_command(args: Mcp) -> Result<u8> {
    let Mcp::Accept { server, common } = args;
    let workspace =
        Workspace::open_without_agents(&DatabaseLocation::from_options(&common.db)?, "mcp").await?;
    let removed = build_definition_pins(&workspace.store).remove_pins(&server).await;
    workspace.close_gracefully().await;
    let tools = removed.map_err(|source| Error::Agent { source })?;
    let mut screen = TerminalOutput::standard_output();
    match common.json {
        true => json::print_json(&mut screen, &PrintedAcceptance { server: &server, tools })?,
        false => screen
            .write_line(&format!("{server}: {tools} definitions are pinned anew when they are seen next"))?,
    }
    Ok(COMPLETED)
}
