//! The agent loop as a graph, and the scripted demo agent.
//!
//! # Vocabulary
//! The *loop* asks a model, runs the tools that it calls, and asks again, until it calls none. A call that a policy
//! ([`ApprovalPolicy`]) holds back waits at the *gate* for a *decision* of a person. The *ordinal* of an assistant message is
//! its number within the invocation, from 0; with the index of a call it names that call for ever (D7). A *team* is
//! several agents that share a conversation: it belongs to one of them at a time, and a *hand-off* is a tool call that
//! transfers it to another agent.
//!
//! # The graph
//! ```text
//! model ──no calls──────────────► END
//!   ▲ ├──calls──────────► tools
//!   │ └──held back──► gate ┘│       the gate comes back to itself until every call is decided
//!   └───────────────────────┘
//! ```
//! In a session whose prompt policy is `command` the model is shown a [`CommandPrompt`] in place of the conversation,
//! and proposes one action at a time; see [`SnapshotSource`] and [`Artifacts`].
//!
//! With a [`Compaction`] a node `compact` stands before all others. Messages that steer the turn are taken by `model`.
//!
//! In no session there is neither gate nor compaction, and no tool but those that only read: a call that is not the
//! agent's own to run ([`ClientTools`]) ends the run.
//!
//! At durability level `step` the commit after `model` records the calls that are about to run, and the commit after
//! `tools` records their results.
//!
//! # Example
//! ```
//! use singletree_agent::Agent;
//! use singletree_llm::{Script, ScriptedProvider};
//!
//! let model = ScriptedProvider::new(Script::replies(["Hello."]));
//! let agent = Agent::new("greeter", model).instructions("Be brief.").build()?;
//! assert_eq!(agent.name(), "greeter");
//! # Ok::<(), singletree_agent::Error>(())
//! ```

mod error;

mod approval_policy;
mod call_options;
mod chat_settings;
mod client_tools;
mod compaction;
mod hand_off;
mod kit;
mod member;
mod profile;
mod summary;

mod command;
mod document_pins;

mod asking;
mod parts;
mod place;
mod prompt;
mod repair;
mod state;

mod agent;
mod compact;
mod gate;
mod graph;
mod model;
mod resources;
mod team;
mod tool_documents;
mod tools;

pub mod demo;

pub use agent::Agent;
pub use approval_policy::ApprovalPolicy;
pub use call_options::CallOptions;
pub use client_tools::ClientTools;
pub use command::{
    ApprovedArtifact, ArtifactDraft, ArtifactName, ArtifactOrigin, Artifacts, CommandAction, CommandActions,
    CommandPrompt, ScriptedCommands, SessionArtifact, SnapshotSource,
};
pub use compaction::Compaction;
pub use document_pins::DocumentPins;
pub use error::{Error, Result};
pub use profile::{AgentProfile, list_active_agents};
pub use resources::{AgentResources, AgentTools, ModelAnswer, ToolCallTerms};
pub use state::{AgentState, AgentStateUpdate, CallDecision, CallDecisions, UnreadCall};
pub use summary::ConversationSummary;
pub use team::Team;
pub use tool_documents::{ToolDocumentLimits, ToolDocuments, WaitingMessage};
