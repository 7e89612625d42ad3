//! `singletree nodes`: lists the processes that share a PostgreSQL database.

use serde::Serialize;
use singletree::NodeSummary;

use crate::args::Nodes;
use crate::conversation_store::ConversationStore;
use crate::error::{Error, Result};
use crate::exit::COMPLETED;
use crate::json::print_json;
use crate::place::DatabaseLocation;
use crate::print::TerminalOutput;

/// `{"nodes": […]}`.
#[derive(Debug, Serialize)]
struct PrintedNodes<'a> {
    nodes: Vec<PrintedNode<'a>>,
}

#[derive(Debug, Serialize)]
struct PrintedNode<'a> {
    incarnation: u64,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<&'a str>,
    alive: bool,
    /// How long the lease lasts; 0 when it has ended.
    lease_left_ms: u64,
    sessions: u64,
}

impl<'a> PrintedNode<'a> {
    fn from_summary(node: &'a NodeSummary) -> Self {
        let left = node.lease_left.unwrap_or_default();
        Self {
            incarnation: node.incarnation,
            name: &node.name,
            address: node.address.as_deref(),
            alive: node.lease_left.is_some(),
            lease_left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            sessions: node.sessions,
        }
    }
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
        let nodes = nodes.iter().map(PrintedNode::from_summary).collect();
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
    let state = if node.lease_left.is_some() { "alive" } else { "dead" };
    let sessions =
        if node.sessions == 1 { "1 session".to_owned() } else { format!("{} sessions", node.sessions) };
    let address = node.address.iter().map(|address| format!(", {address}")).collect::<String>();
    format!("{}  {state}, {sessions}, {}{address}", node.incarnation, node.name)
}
