//! Where a run stands, as plain data.
//!
//! The cursor names places, never content: beside it stand the states of its frames, which stores keep in their own
//! way. Checkpoint, paused record and crash recovery all use this one value (docs/decisions/0001-a-run-is-data.md).

use serde::{Deserialize, Serialize};

/// Where a run stands: one frame for each graph that is entered, outermost first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphCursor {
    /// The frames. Never empty.
    pub frames: Vec<CursorFrame>,
    /// The number of the next step; steps count node executions over the whole invocation (graph-engine §6).
    pub next_step: u64,
}

/// How far one graph is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CursorFrame {
    /// The node.
    pub node: String,
    /// Where the run is with respect to it.
    pub at: FramePosition,
    /// The attempt that runs or ran (graph-engine §6).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempt: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Where a run is with respect to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FramePosition {
    /// The node has not run, or must run again.
    Before,
    /// The node is a subgraph and its own graph is entered: the next frame says how far that is.
    Inside,
    /// The node has run and its update is merged; its edge comes next.
    After,
}
