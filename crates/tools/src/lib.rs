//! Tools of agents, and the built-in tools.
//!
//! # Vocabulary
//!
//! A *tool* is something that a model may ask for by name. Its *effect* says how much it may change; its *recovery*
//! says how to recover a call that was begun and never recorded as done (D7). A *toolbox* is the ordered set of tools
//! of an agent, and the one place where calls are checked, limited and caught. A *toolset* is a group of tools that
//! come and go; a *live toolbox* asks the sets and gives out the toolbox of the moment. An *invocation* is one call
//! with its idempotency key. The *output* of a call is the text that the model gets to read.
//!
//! Approval is not decided here: the agent asks the effect and decides.
//!
//! # Example
//!
//! With the facade, `#[singletree::tool]` makes the same of an async function with a doc comment.
//!
//! ```
//! use singletree_tools::{Effect, Output, Toolbox, TypedTool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Greet {
//!     /// Whom to greet.
//!     name: String,
//! }
//!
//! let greet = TypedTool::new("greet", "Greets someone.", Effect::Read, async |args: Greet, _| {
//!     Ok(Output::text(format!("Hello, {}!", args.name)))
//! });
//! # let _: Result<TypedTool, singletree_tools::Error> = greet;
//! ```

mod error;

mod effect;
mod key;
mod limits;
mod origin;
mod output;
mod tool;
mod traits;

mod definition_pins;
mod live;
mod toolbox;
mod toolset;
mod typed;

mod calculator;
mod clock;
mod http_get;
mod notes;
mod outbox;
mod unavailable_store;

pub use calculator::Calculator;
pub use clock::ClockTool;
pub use definition_pins::{DefinitionPins, MemoryDefinitionPins};
pub use effect::{Effect, Recovery};
pub use error::{Error, Result};
pub use http_get::HttpGet;
pub use key::IdempotencyKey;
pub use limits::ToolLimits;
pub use live::LiveToolbox;
pub use notes::{NoteStore, Notes};
pub use origin::CallOrigin;
pub use outbox::{OutboxMessage, OutboxStore, OutboxTool};
pub use output::{Output, OutputPicture};
pub use singletree_env::BoxError;
pub use tool::{IntoTool, Invocation, Tool};
pub use toolbox::Toolbox;
pub use toolset::{Offer, Toolset, UnavailableToolset};
pub use traits::ToolTraits;
pub use typed::{ToolContext, TypedTool};
pub use unavailable_store::UnavailableStore;

/// The names that the code written by `#[tool]` uses, so that its crate needs no dependencies of its own for it, and the
/// kinds of [`IntoTool`].
#[doc(hidden)]
pub mod generated {
    pub use crate::tool::{OwnedToolKind, SharedToolKind, ToolFunctionKind};
    pub use schemars;
    pub use serde;
}
