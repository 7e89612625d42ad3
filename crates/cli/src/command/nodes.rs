//! `singletree nodes`: lists the processes that share a PostgreSQL database.

use serde::Serialize;
use singletree::NodeSummary;

use crate::args::Nodes;
use singletree_protocol::native::Node;

use crate::conversation_store::{self, ConversationStore};
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json::print_json;
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;

/// `{"nodes": […]}`.
#[derive(Debug, Serialize)]
struct PrintedNodes {
    nodes: Vec<Node>,
}

/// Runs the command, beside the processes.
pub(crate) async fn run_nodes_command(args: Nodes) -> Result<u8> {
    let place = DatabaseLocation::from_options(&args.common.db)?;
    let ConversationStore::Postgres(store) = ConversationStore::open_read_only(&place).await? else {
        let why = format!("{} has one process; this command lists those of a --store", place.shown_name());
        return Err(Error::Usage(why));
    };
    let nodes = store.nodes().await.map_err(|source| Error::Open { source })?;
    let mut screen = TerminalOutput::standard_output();
    if args.common.json {
        let nodes = nodes.into_iter().map(conversation_store::describe_node).collect();
        print_json(&mut screen, &PrintedNodes { nodes })?;
        return Ok(COMPLETED);
    }
    for node in &nodes {
        screen.write_line(&describe_node(node))?;
    }
    if nodes.is_empty() {
        screen.write_line("no process uses this database")?;
    }
    Ok(COMPLETED)
}

fn describe_node(node: &NodeSummary) -> String {
    let state = match (node.lease_left, node.is_draining) {
        (None, _) => "dead",
        (Some(_), true) => "draining",
        (Some(_), false) => "alive",
    };
    let sessions =
        if node.sessions == 1 { "1 session".to_owned() } else { format!("{} sessions", node.sessions) };
    let address = node.address.iter().map(|address| format!(", {address}")).collect::<String>();
    format!("{}  {state}, {sessions}, {}{address}", node.incarnation, node.name)
}
