//! Tools that come and go.

use std::fmt;
use std::sync::Arc;

use singletree_llm::BoxFuture;

use crate::error::{Error, Result};
use crate::tool::Tool;

/// The tools that a set has now. As long as nothing changes it is the same `Arc`: by that it is seen that nothing
/// changed.
pub type Offer = Result<Arc<[Arc<dyn Tool>]>>;

/// A group of tools that may come and go while an agent runs, as those of a server elsewhere.
///
/// # Contract
///
/// - `tools` is asked before each call of a model: it answers from memory when it can, and has its own time limit.
/// - Its tools outlive it: a tool whose set has dropped it answers `tool_unavailable`.
pub trait Toolset: fmt::Debug + Send + Sync {
    /// Returns the name of the set, for people.
    fn name(&self) -> &str;

    /// Returns the tools as they are now.
    ///
    /// # Errors
    ///
    /// `tool_unavailable` when they cannot be had and were never known.
    ///
    /// # Cancellation
    ///
    /// Dropping the future changes nothing.
    fn offer_tools(&self) -> BoxFuture<'_, Offer>;
}

/// A set or a tool that could not be offered, and why.
#[derive(Debug, Clone)]
pub struct UnavailableToolset {
    /// The name of the set.
    pub set: String,
    /// Why not.
    pub error: Arc<Error>,
}
