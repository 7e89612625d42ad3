//! References to files and pictures (spec: OpenHarness §9.1).

use serde::{Deserialize, Serialize};

use super::given::{read_optional_field, read_optional_whole_number};

/// A reference to a file or a picture; the bytes are elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AttachmentRef {
    /// The name of what was uploaded before.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub ref_id: Option<String>,
    /// Where it is.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Its name among what the engine has.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub asset_id: Option<String>,
    /// What it is, such as `image/png`.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// What it was called.
    #[serde(default, deserialize_with = "read_optional_field", skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// How long it is.
    #[serde(
        default,
        deserialize_with = "read_optional_whole_number",
        skip_serializing_if = "Option::is_none"
    )]
    pub size_bytes: Option<u64>,
}

impl AttachmentRef {
    /// Tells whether it refers to anything.
    #[must_use]
    pub fn has_reference(&self) -> bool {
        [&self.ref_id, &self.uri, &self.asset_id].into_iter().flatten().any(|item| !item.is_empty())
    }
}
