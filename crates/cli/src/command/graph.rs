//! `singletree graph`: pictures of agents.

use singletree::draw::GraphPicture;

use crate::args::{Graph, GraphFormat};
use crate::error::Result;
use crate::exit::COMPLETED;
use crate::json;
use crate::print::TerminalOutput;
use crate::wire;

/// Runs the command. It needs no database.
pub(crate) async fn run(args: Graph) -> Result<u8> {
    let Graph::Show { agent, format, json, who } = args;
    let format = if json { GraphFormat::Json } else { format };
    let outline = wire::outline(&agent, &who).await?;
    let picture = GraphPicture::new(&agent, &outline);
    let mut screen = TerminalOutput::out();
    match format {
        GraphFormat::Mermaid => screen.line(&picture.render_mermaid())?,
        GraphFormat::Dot => screen.line(&picture.render_dot())?,
        GraphFormat::Svg => screen.line(&picture.render_svg())?,
        GraphFormat::Json => json::print(&mut screen, &outline)?,
    }
    Ok(COMPLETED)
}
