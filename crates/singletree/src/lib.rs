//! A durable chat harness: conversations that never lose a turn.
//!
//! `send(session_id, message)` gives an outcome: completed, suspended or errored. An agent is a graph over typed state; a
//! session is a conversation that lives in a store; a turn runs the graph, may stream, may suspend for a human and resume
//! days later, after any restart, and is never lost.
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
//! let outcome = chat.send("conv-1", ChatMessage::user("Hello")).await;
//! let ChatTurnOutcome::Completed(turn) = outcome else { panic!("it completes") };
//! assert_eq!(turn.replies[0].text(), "You said: Hello");
//! # Ok(())
//! # }
//! ```
//!
//! # Where things are
//! The most used names are at the root. Everything else is in the module of its part: [`engine`] (graphs), [`harness`]
//! (chat), [`llm`] (messages and model calls), [`tools`], [`mcp`] (tools of
//! servers), [`agent`] (the ready agent loop and the demo), [`durable`] (what
//! stores promise), [`draw`] (pictures of graphs and turns), [`narration`].

pub use singletree_agent as agent;
pub use singletree_draw as draw;
pub use singletree_durable as durable;
pub use singletree_engine as engine;
pub use singletree_harness as harness;
pub use singletree_llm as llm;
pub use singletree_mcp as mcp;
pub use singletree_narration as narration;
pub use singletree_store_sqlite as store_sqlite;
pub use singletree_tools as tools;

pub use singletree_durable::MemoryStore;
pub use singletree_engine::{
    Branch, Branches, Ctx, END, FailureIsolation, FanOut, Graph, Middleware, NodeError, NodeResult, Retry,
    Signal, State, Timing,
};
pub use singletree_harness::{
    Agent, Answer, Chat, ChatEvent, ChatEventKind, ChatTurnOutcome, Durability, Messages, SendOptions,
    SignalAddress, Turn, TurnId,
};
pub use singletree_llm::ChatMessage;
pub use singletree_macros::{State, tool};
pub use singletree_store_sqlite::SqliteStore;
