//! Provenance: which node made a record. It is stored in the bodies of events, so that it needs no rows of its own.

use serde::Serialize;
use singletree_durable::JsonDocument;
use singletree_graph::{FramePosition, GraphCursor};

/// Where the run stands at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitProvenance {
    /// The node of the outermost graph.
    outer: String,
    /// The node, after those that contain it.
    path: String,
    /// Which attempt of it runs; of a node that has completed this is not known any more.
    attempt: Option<u32>,
}

/// The body of a message's event.
#[derive(Serialize)]
struct MessageProvenance<'a> {
    k: u64,
    node: &'a str,
}

/// The body of the event that ends a turn.
#[derive(Serialize)]
struct TurnEndProvenance<'a> {
    node: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
}

impl CommitProvenance {
    /// Reads the provenance off the cursor of a run.
    pub fn from_cursor(cursor: &GraphCursor) -> Option<Self> {
        let (first, last) = (cursor.frames.first()?, cursor.frames.last()?);
        let path: Vec<&str> = cursor.frames.iter().map(|frame| frame.node.as_str()).collect();
        let attempt = (last.at == FramePosition::Before).then_some(last.attempt);
        Some(Self { outer: first.node.clone(), path: path.join("/"), attempt })
    }

    /// Returns the node, after those that contain it.
    pub(crate) fn node_path(&self) -> &str {
        &self.path
    }
}

/// The provenance of the next commit, as far as it is known.
#[derive(Debug, Clone)]
pub struct ProvenanceTracker {
    /// Whether each node is committed by itself: then everything new in a commit was made by one node.
    by_step: bool,
    /// Where the run stands, where that is known; set by each transition anew.
    pub at: Option<CommitProvenance>,
    /// The node of the outermost graph that the run stood inside of at the last commit, if it did.
    pub inside: Option<String>,
}

impl ProvenanceTracker {
    /// Begins without a known place. `by_step` says whether each node is committed by itself.
    pub fn new(by_step: bool) -> Self {
        Self { by_step, at: None, inside: None }
    }

    /// Returns the body of the event of a turn's end.
    pub(crate) fn encode_turn_end_event(&self) -> Option<JsonDocument> {
        self.at.as_ref().and_then(|it| {
            JsonDocument::from_serializable(&TurnEndProvenance { node: &it.path, attempt: it.attempt }).ok()
        })
    }

    /// Returns the body of a message's event: its index among the messages that its turn adds, and, where it is known,
    /// the node of the outermost graph that made it. Leaving a subgraph is no commit of its own: new messages of a
    /// commit after one inside a subgraph are known to be the subgraph's only while the run still stands in it.
    pub(crate) fn encode_message_event(&self, k: u64) -> JsonDocument {
        let made = self.at.as_ref().filter(|_| self.by_step);
        let made = made.filter(|at| self.inside.as_ref().is_none_or(|inside| *inside == at.outer));
        let said = made.and_then(|made| {
            JsonDocument::from_serializable(&MessageProvenance { k, node: &made.outer }).ok()
        });
        said.unwrap_or_else(|| JsonDocument::from_text(format!("{{\"k\":{k}}}")))
    }
}

/// Returns the node of the outermost graph that a run stands inside of, if it does.
pub fn entered_outer_node(cursor: &GraphCursor) -> Option<String> {
    cursor.frames.first().filter(|_| cursor.frames.len() > 1).map(|frame| frame.node.clone())
}
