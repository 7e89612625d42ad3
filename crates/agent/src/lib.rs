//! The agent loop as a graph, and the scripted demo agent.
//!
//! # Vocabulary
//! The *loop* asks a model, runs the tools that it calls, and asks again, until it calls none. A call that a policy
//! ([`Approve`]) holds back waits at the *gate* for a *decision* of a person. The *ordinal* of an assistant message is its
//! number within the invocation, from 0; with the index of a call it names that call for ever (D7).
//!
//! # The graph
//! ```text
//! model ──no calls──────────────► END
//!   ▲ ├──calls──────────► tools
//!   │ └──held back──► gate ┘│       the gate comes back to itself until every call is decided
//!   └───────────────────────┘
//! ```
//! At durability level `step` the commit after `model` is the record of what is about to be called, and the commit after
//! `tools` that of what came of it.
//!
//! # Example
//! ```
//! use std::sync::Arc;
//! use singletree_agent::AgentLoop;
//! use singletree_llm::{Script, ScriptedProvider};
//!
//! let provider = Arc::new(ScriptedProvider::new(Script::replies(["Hello."])));
//! let agent = AgentLoop::builder(provider).system("Be brief.").agent("greeter")?;
//! assert_eq!(agent.name(), "greeter");
//! # Ok::<(), singletree_agent::Error>(())
//! ```

mod error;

mod approve;
mod asking;
mod parts;
mod state;

mod agent_loop;
mod call_retry;
mod gate;
mod model;
mod tools;

pub mod demo;

pub use agent_loop::{AgentLoop, AgentLoopBuilder};
pub use approve::Approve;
pub use call_retry::call_retry;
pub use error::{Error, Result};
pub use state::{AgentState, AgentStateUpdate, Decision, Decisions};
