//! Names of turns and of the messages that they add.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use singletree_durable::InvocationId;

use crate::Error;

/// Names a turn: its invocation, and which turn of it (0 for the message, then one for each end of a wait).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TurnId {
    /// The invocation.
    pub invocation: InvocationId,
    /// Which turn of it.
    pub ordinal: u32,
}

impl TurnId {
    /// Puts the parts together.
    #[must_use]
    pub fn new(invocation: InvocationId, ordinal: u32) -> Self {
        Self { invocation, ordinal }
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ordinal {
            0 => write!(f, "{}", self.invocation),
            ordinal => write!(f, "{}.{ordinal}", self.invocation),
        }
    }
}

impl FromStr for TurnId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown = || Error::TurnUnknown { turn: text.to_owned() };
        let (invocation, ordinal) = match text.rsplit_once('.') {
            Some((invocation, ordinal)) => (invocation, ordinal.parse().map_err(|_| unknown())?),
            None => (text, 0),
        };
        let invocation = InvocationId::parse(invocation).map_err(|_| unknown())?;
        Ok(Self { invocation, ordinal })
    }
}

impl TryFrom<String> for TurnId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<TurnId> for String {
    fn from(id: TurnId) -> Self {
        id.to_string()
    }
}

/// Names a message that a turn adds: the turn and the message's place among those it adds (D17). Known before the first
/// token of it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MessageId {
    /// The turn.
    pub turn: TurnId,
    /// The place, from 0.
    pub k: u64,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.turn, self.k)
    }
}
