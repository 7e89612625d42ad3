//! The properties of a tool without the tool.

use singletree_llm::ToolDefinition;

use crate::effect::{Effect, Recovery};
use crate::tool::Tool;

/// The properties by which a tool is offered, approved and recovered: enough to put another implementation in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolTraits {
    /// The definition for the model.
    pub definition: ToolDefinition,
    /// How much a call may change.
    pub effect: Effect,
    /// How a call is recovered that was begun and never recorded as done.
    pub recovery: Recovery,
}

impl ToolTraits {
    /// Describes a tool.
    #[must_use]
    pub fn of_tool(tool: &dyn Tool) -> Self {
        Self {
            definition: tool.definition().clone(),
            effect: tool.effect(),
            recovery: tool.on_unknown_outcome(),
        }
    }

    /// Tells whether a call may change something and cannot be repeated: after a crash its outcome may stay unknown.
    #[must_use]
    pub fn may_stay_unknown(&self) -> bool {
        self.effect.has_side_effects() && self.recovery == Recovery::Report
    }
}
