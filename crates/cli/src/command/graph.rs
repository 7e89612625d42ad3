//! `singletree graph`: pictures of agents.

use singletree::draw::GraphPicture;

use crate::args::{Graph, GraphFormat};
use crate::error::Result;
use crate::exit::COMPLETED;
use crate::json;
use crate::print::TerminalOutput;
use crate::wire;

/// Runs the command. It needs no database.
pub(crate) async fn run_graph_command(args: Graph) -> Result<u8> {
    let Graph::Show { agent, format, json, who } = args;
    let format = if json { GraphFormat::Json } else { format };
    let outline = wire::describe_graph(&agent, &who).await?;
    let picture = GraphPicture::new(&agent, &outline);
    let mut screen = TerminalOutput::standard_output();
    match format {
        GraphFormat::Mermaid => screen.write_line(&picture.render_mermaid())?,
        GraphFormat::Dot => screen.write_line(&picture.render_dot())?,
        GraphFormat::Svg => screen.write_line(&picture.render_svg())?,
        GraphFormat::Json => json::print_json(&mut screen, &outline)?,
    }
    Ok(COMPLETED)
}
