//! From where on a listener hears, and which turn.

use singletree_session::TurnId;

/// Where listening begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenPosition {
    /// At the oldest event that is kept.
    Oldest,
    /// After an event that was seen.
    After(u64),
    /// At an event that was committed.
    At(u64),
}

/// The one turn that a listener wants.
#[derive(Debug)]
pub(crate) struct ListenedTurn {
    pub(crate) id: TurnId,
    /// Its number, when it is known.
    pub(crate) no: Option<u64>,
    /// Whether it has ended: then there is nothing to wait for.
    pub(crate) over: bool,
    /// Whether its beginning was found.
    pub(crate) begun: bool,
}

impl ListenedTurn {
    pub(crate) fn new(id: TurnId, no: Option<u64>, over: bool) -> Self {
        Self { id, no, over, begun: false }
    }
}
