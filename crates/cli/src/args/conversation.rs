//! Arguments of `chat` and `send`.

use singletree::harness::TurnPromptPolicy;
use singletree_protocol::native::PromptPolicy;

use super::{Common, Db, parse_session_id};
use crate::served::ServerAddress;
use crate::who::Who;

/// Which texts reach the model, as the command line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PolicyName {
    /// The conversation.
    Conversation,
    /// Each command alone, with the state and approved artifacts.
    Command,
}

impl PolicyName {
    /// Returns the policy of a session in this process.
    pub(crate) fn to_prompt_policy(self) -> TurnPromptPolicy {
        match self {
            Self::Conversation => TurnPromptPolicy::Conversation,
            Self::Command => TurnPromptPolicy::Command,
        }
    }

    /// Returns the policy of a session behind a server.
    pub(crate) fn to_native_policy(self) -> PromptPolicy {
        match self {
            Self::Conversation => PromptPolicy::Conversation,
            Self::Command => PromptPolicy::Command,
        }
    }
}

/// `singletree chat`.
#[derive(Debug, clap::Args)]
pub(crate) struct Chat {
    /// Which agent answers, if the session is new.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// What the agent is shown, if the session is new: the conversation, or each command alone; by default as the agent has it.
    #[arg(long, value_name = "POLICY", value_enum)]
    pub(crate) policy: Option<PolicyName>,
    /// Which conversation; by default the last one.
    #[arg(long, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) session: Option<String>,
    /// Start another conversation.
    #[arg(long, conflicts_with = "session")]
    pub(crate) new: bool,
    #[command(flatten)]
    pub(crate) who: Who,
    #[command(flatten)]
    pub(crate) server: ServerAddress,
    #[command(flatten)]
    pub(crate) db: Db,
}

/// `singletree send`.
#[derive(Debug, clap::Args)]
pub(crate) struct Send {
    /// What to say; `-` reads it from the standard input.
    #[arg(value_name = "TEXT")]
    pub(crate) text: String,
    /// Which conversation; by default the last one.
    #[arg(long, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) session: Option<String>,
    /// An idempotency key: sending the same again under the same key does nothing twice.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Which agent answers, if the session is new.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// What the agent is shown, if the session is new: the conversation, or each command alone; by default as the agent has it.
    #[arg(long, value_name = "POLICY", value_enum)]
    pub(crate) policy: Option<PolicyName>,
    #[command(flatten)]
    pub(crate) who: Who,
    #[command(flatten)]
    pub(crate) server: ServerAddress,
    #[command(flatten)]
    pub(crate) common: Common,
}
