//! Arguments of `cancel` and `retry`.

use singletree::TurnId;

use super::{Common, parse_session_id};
use crate::served::ServerAddress;
use crate::who::Who;

/// `singletree cancel`.
#[derive(Debug, clap::Args)]
pub(crate) struct Cancel {
    /// The id of the turn.
    #[arg(value_name = "TURN", value_parser = clap::value_parser!(TurnId))]
    pub(crate) turn: TurnId,
    /// In which conversation; needed with --url.
    #[arg(long, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) who: Who,
    #[command(flatten)]
    pub(crate) server: ServerAddress,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// `singletree retry`.
#[derive(Debug, clap::Args)]
pub(crate) struct Retry {
    /// The id of the turn; by default the last one of the conversation.
    #[arg(value_name = "TURN", value_parser = clap::value_parser!(TurnId))]
    pub(crate) turn: Option<TurnId>,
    /// Which conversation; by default that of the turn, or the last one where no turn is named. Needed with --url.
    #[arg(long, value_name = "ID", value_parser = parse_session_id)]
    pub(crate) session: Option<String>,
    /// An idempotency key: retrying the same turn again under the same key does nothing twice.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) who: Who,
    #[command(flatten)]
    pub(crate) server: ServerAddress,
    #[command(flatten)]
    pub(crate) common: Common,
}
