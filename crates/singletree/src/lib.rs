//! A durable chat harness: conversations that never lose a turn.
//!
//! `send(session_id, message)` gives an outcome: completed, suspended or errored. An agent is a graph over typed state;
//! a session is a conversation that lives in a store; a turn runs the graph, may stream, may suspend for a human and
//! resume days later, after any restart, and is never lost.
//!
//! ```
//! use singletree::{
//!     Chat, ChatMessage, ChatTurnOutcome, Ctx, END, Graph, MemoryStore, Messages, NodeResult, State,
//! };
//!
//! #[derive(State)]
//! struct Echo {
//!     #[state(append)]
//!     messages: Messages,
//! }
//!
//! async fn reply(cx: Ctx<Echo>) -> NodeResult<Echo> {
//!     let said = cx.state().messages.last().map(|it| it.text().into_owned()).unwrap_or_default();
//!     Ok(Echo::update().messages([ChatMessage::assistant(format!("You said: {said}"))]))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let graph = Graph::<Echo>::builder().node("reply", reply).edge("reply", END).entry("reply").compile()?;
//! let chat = Chat::new(graph, MemoryStore::new())?;
//! let outcome = chat.session("conv-1").send("Hello").await;
//! let ChatTurnOutcome::Completed(turn) = outcome else { panic!("it completes") };
//! assert_eq!(turn.replies[0].text(), "You said: Hello");
//! # Ok(())
//! # }
//! ```
//!
//! # Prompts
//! Prompts are templates with a name and a version; they lie in a folder, in memory, or where a backend of yours has
//! them.
//!
//! ```
//! use singletree::prompts::{ChatSegment, MemoryBackend, Prompt, PromptInputs, PromptManager, SegmentRole};
//! use singletree::ChatMessage;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let support = Prompt::chat("support", "1", [
//!     ChatSegment::text(SegmentRole::System, "You answer for {{ shop }}."),
//!     ChatSegment::placeholder("history"),
//! ]);
//! let prompts = PromptManager::builder(MemoryBackend::new().with(support)).build();
//! let inputs = PromptInputs::new()
//!     .variable("shop", "Tea & Co")
//!     .placeholder("history", [ChatMessage::user("Where is my order?")]);
//! let result = prompts.get("support", &inputs).await?;
//! assert_eq!(result.messages()[0].text(), "You answer for Tea & Co.");
//! assert_eq!(result.messages().len(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # Where things are
//! The most used names are at the root. Everything else is in the module of its part: [`engine`] (graphs), [`harness`]
//! (chat), [`llm`] (messages and model calls), [`providers`] (models over HTTP) and [`http`] (their client), [`tools`],
//! [`mcp`] (tools of servers), [`agent`] (the ready agent loop, teams and the demo), [`config`] (agents as files),
//! [`durable`] (the contracts of stores), [`prompts`] (templates rendered to messages), [`draw`] (pictures of graphs
//! and turns), [`telemetry`] (spans of runs), [`narration`]; with the feature `campaigns`, `campaign` and `controller` (goals that agents pursue over many
//! cycles).

#[cfg(doctest)]
mod pages;

pub use singletree_agent as agent;
#[cfg(feature = "campaigns")]
pub use singletree_campaign as campaign;
#[cfg(feature = "config")]
pub use singletree_config as config;
#[cfg(feature = "campaigns")]
pub use singletree_controller as controller;
pub use singletree_draw as draw;
pub use singletree_durable as durable;
pub use singletree_engine as engine;
pub use singletree_env as env;
#[cfg(feature = "export")]
pub use singletree_export as export;
pub use singletree_harness as harness;
pub use singletree_http as http;
pub use singletree_llm as llm;
#[cfg(feature = "mcp")]
pub use singletree_mcp as mcp;
pub use singletree_narration as narration;
#[cfg(feature = "export")]
pub use singletree_otlp as otlp;
#[cfg(feature = "prompts")]
pub use singletree_prompts as prompts;
#[cfg(feature = "providers")]
pub use singletree_providers as providers;
#[cfg(feature = "postgres")]
pub use singletree_store_postgres as store_postgres;
pub use singletree_store_sqlite as store_sqlite;
pub use singletree_telemetry as telemetry;
pub use singletree_tools as tools;

pub use singletree_agent::{Agent, Team};
pub use singletree_durable::MemoryStore;
pub use singletree_engine::{
    Branch, Branches, Ctx, END, FailureIsolation, FanOut, Graph, Middleware, NodeError, NodeResult, Retry,
    Signal, State, Target, Timing,
};
pub use singletree_harness::{
    Answer, Blobs, Chat, ChatEvent, ChatEventKind, ChatTurnOutcome, Durability, GraphAgent, Messages,
    SendOptions, Session, SessionWait, SignalAddress, Turn, TurnId,
};
pub use singletree_llm::ChatMessage;
pub use singletree_macros::{State, tool};
#[cfg(feature = "postgres")]
pub use singletree_store_postgres::{ImportCounts, NodeSummary, PostgresOptions, PostgresStore};
pub use singletree_store_sqlite::{Damage, ErasedName, ErasureList, SqliteStore};
pub use singletree_tools::{Effect, ToolContext};
