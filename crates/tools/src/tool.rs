//! The contract of a tool.

use std::fmt;
use std::sync::Arc;

use singletree_llm::{BoxFuture, Map, ToolDefinition};

use crate::effect::{Effect, Recovery};
use crate::error::Result;
use crate::key::IdempotencyKey;
use crate::limits::ToolLimits;
use crate::origin::CallOrigin;
use crate::output::Output;

/// Something that a model may ask for.
///
/// # Contract
///
/// - Calls of one tool may run at once.
/// - `call` gets arguments that fit the definition's schema: [`crate::Toolbox`] sees to that.
/// - A tool whose recovery is [`Recovery::Rerun`] has one effect per key, however often it is
///   called with it.
/// - No time limit of its own: the toolbox sets one (D20), that of [`limits`](Self::limits) if there is one.
///
/// # Cancellation
///
/// Dropping the future of `call` gives the call up. Effects up to then stay; its outcome is unknown.
pub trait Tool: fmt::Debug + Send + Sync {
    /// Returns the definition for the model.
    fn definition(&self) -> &ToolDefinition;

    /// Returns how much a call may change.
    fn effect(&self) -> Effect;

    /// Returns how to recover a call that was begun and never recorded as done.
    fn on_unknown_outcome(&self) -> Recovery;

    /// Returns the limits of this tool, where those of its toolbox do not fit: a tool far away may need longer.
    fn limits(&self) -> Option<ToolLimits> {
        None
    }

    /// Returns a notice for the person who is asked to approve a call, beside the tool's definition: none for most
    /// tools.
    fn approval_notice(&self) -> Option<&str> {
        None
    }

    /// Returns the name of the MCP server that has the tool; none for tools of this process.
    fn server(&self) -> Option<&str> {
        None
    }

    /// Runs the call.
    ///
    /// # Errors
    ///
    /// `tool_failed`, `tool_arguments_invalid`, `tool_unavailable` when nothing was begun, `tool_interrupted` when
    /// the effect is unknown; the model reads the text.
    fn call<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, Result<Output>>;
}

/// One call of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Invocation<'a> {
    /// Under which the effect happens once.
    pub key: &'a IdempotencyKey,
    /// The provider's id of the call; unique within one message only.
    pub call_id: &'a str,
    /// The arguments.
    pub arguments: &'a Map,
    /// The conversation that the call is made in; none outside of a session.
    pub origin: Option<&'a CallOrigin>,
}

/// A value that is a tool or makes one: a [`Tool`], one that is shared, or a function that returns one, such as those
/// that `#[tool]` writes and [`Calculator::new`](crate::Calculator::new).
///
/// The compiler infers `Kind`, which only separates the three implementations.
pub trait IntoTool<Kind> {
    /// Returns the tool.
    ///
    /// # Errors
    ///
    /// Those of the function that makes it: `tool_definition_invalid`.
    fn into_tool(self) -> Result<Arc<dyn Tool>>;
}

/// Kind of [`IntoTool`]: a tool.
#[derive(Debug)]
pub struct OwnedToolKind;

/// Kind of [`IntoTool`]: a tool that is shared.
#[derive(Debug)]
pub struct SharedToolKind;

/// Kind of [`IntoTool`]: a function that returns a tool.
#[derive(Debug)]
pub struct ToolFunctionKind;

impl<T: Tool + 'static> IntoTool<OwnedToolKind> for T {
    fn into_tool(self) -> Result<Arc<dyn Tool>> {
        Ok(Arc::new(self))
    }
}

impl IntoTool<SharedToolKind> for Arc<dyn Tool> {
    fn into_tool(self) -> Result<Arc<dyn Tool>> {
        Ok(self)
    }
}

impl<T: Tool + 'static, F: FnOnce() -> Result<T>> IntoTool<ToolFunctionKind> for F {
    fn into_tool(self) -> Result<Arc<dyn Tool>> {
        Ok(Arc::new(self()?))
    }
}
