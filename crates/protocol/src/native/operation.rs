//! What an operator asks a server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// That a server is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ready {
    /// Always true: one that is not answers 503.
    pub ready: bool,
}

/// What a server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Version {
    /// The program.
    pub name: String,
    /// Its version.
    pub version: String,
}
