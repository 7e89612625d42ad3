//! Commands: the prompt of a model in a session whose prompt policy is `command` (agent-chat-output §8).
//!
//! The model proposes one action at a time. Each request is made anew of the rules, a snapshot of the state, the
//! command and approved artifacts; nothing here takes a message of a conversation.

mod action;
mod artifact;
mod cycle;
mod prompt;
mod scripted;
mod shelf;
mod snapshot;

pub use action::{CommandAction, CommandActions};
pub use artifact::{ApprovedArtifact, ArtifactDraft, ArtifactName, ArtifactOrigin, SessionArtifact};
pub(crate) use cycle::{CommandCycle, ProposalVerdict, is_command_session};
pub use prompt::CommandPrompt;
pub use scripted::ScriptedCommands;
pub use shelf::Artifacts;
pub use snapshot::SnapshotSource;
