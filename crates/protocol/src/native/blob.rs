//! Pictures and files that messages name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A picture or a file that a session uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blob {
    /// What messages name it by, as the `url` of a picture: `blob:` and the SHA-256 of its bytes.
    pub blob: String,
    /// What it is, by its own first bytes, whatever was said of it.
    pub media_type: String,
    /// How many bytes it has.
    pub bytes: u64,
}
