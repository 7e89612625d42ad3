//! What is drawn: the graph of an agent, and what happened in a turn.

use clap::{Subcommand, ValueEnum};
use singletree::TurnId;

use super::{Db, parse_session_id};
use crate::who::Who;

/// `singletree graph`.
#[derive(Debug, Subcommand)]
pub(crate) enum Graph {
    /// Draw the graph of an agent: nodes, edges, and the graphs in nodes as boxes in boxes.
    Show {
        /// Which agent.
        #[arg(value_name = "AGENT")]
        agent: String,
        /// As what: a flowchart for Mermaid, a graph for Graphviz, plain data, or a picture.
        #[arg(long, value_enum, default_value_t = GraphFormat::Mermaid)]
        format: GraphFormat,
        /// The same as --format json.
        #[arg(long, conflicts_with = "format")]
        json: bool,
        #[command(flatten)]
        who: Who,
    },
}

/// What a graph is drawn as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    Mermaid,
    Dot,
    Json,
    Svg,
}

/// `singletree turn`.
#[derive(Debug, Subcommand)]
pub(crate) enum Turn {
    /// Show what is stored of a turn, and of those that resumed it: messages, tool calls, waits, and how it ended. Works
    /// beside a running chat.
    Show {
        /// The id of the turn; by default the last one of the conversation.
        #[arg(value_name = "TURN", value_parser = clap::value_parser!(TurnId))]
        turn: Option<TurnId>,
        /// Which conversation; by default the last one.
        #[arg(long, value_name = "ID", value_parser = parse_session_id, conflicts_with = "turn")]
        session: Option<String>,
        /// As what: lines of text, plain data, or a picture.
        #[arg(long, value_enum, default_value_t = TurnFormat::Text)]
        format: TurnFormat,
        /// The same as --format json.
        #[arg(long, conflicts_with = "format")]
        json: bool,
        #[command(flatten)]
        db: Db,
    },
}

/// What a turn is shown as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TurnFormat {
    Text,
    Svg,
    Json,
}

impl Graph {
    /// Says whether one JSON document is wanted, also for errors.
    pub(crate) fn wants_json(&self) -> bool {
        let Self::Show { format, json, .. } = self;
        *json || *format == GraphFormat::Json
    }
}

impl Turn {
    /// Says whether one JSON document is wanted, also for errors.
    pub(crate) fn wants_json(&self) -> bool {
        let Self::Show { format, json, .. } = self;
        *json || *format == TurnFormat::Json
    }
}
