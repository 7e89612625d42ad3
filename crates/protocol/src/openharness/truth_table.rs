//! What an engine can do, so that shells need not guess (spec: OpenHarness profile im-bot-shell §2).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an engine can do: our extension of the answer to the question for its capabilities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TruthTable {
    /// The versions that are taken.
    pub protocol_versions: String,
    /// The features that are known.
    pub capabilities: Vec<CapabilityEntry>,
    /// The types of directives that are emitted.
    pub action_types: Vec<ActionTypeEntry>,
    /// Why features are denied.
    pub denial_codes: Vec<DenialEntry>,
    /// What can go wrong.
    pub error_codes: Vec<ErrorCodeEntry>,
    /// Which attachments are taken.
    pub attachments: AttachmentTerms,
    /// The procedures that a `sop_id` may name.
    pub sop_ids: Vec<String>,
    /// For how many seconds the same request gets the same answer.
    pub request_id_ttl_sec: u64,
    /// For how many seconds a continuation is kept that has no deadline of its own.
    pub continuation_ttl_sec: u64,
}

/// A feature that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapabilityEntry {
    /// Its name.
    pub capability: String,
    /// Whether who asks gets it.
    pub offered: bool,
    /// Why not, as a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What it means here, or why it is denied.
    pub message: String,
}

/// A type of directive that is emitted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionTypeEntry {
    /// Its name.
    pub action_type: String,
    /// `chat` or `machine`.
    pub class: String,
    /// The fields of its payload that are always there.
    pub payload_required: Vec<String>,
    /// An example of its payload.
    pub payload_example: Value,
}

/// Why a feature is denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenialEntry {
    /// As a word.
    pub code: String,
}

/// What can go wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCodeEntry {
    /// As a word.
    pub code: String,
    /// Whether the same again may go well.
    pub retryable: bool,
}

/// Which attachments are taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentTerms {
    /// How many at once.
    pub count_max: u64,
    /// How long each may be.
    pub size_bytes_max: u64,
    /// What they may be.
    pub mime_types: Vec<String>,
    /// With which schemes an address may begin.
    pub uri_schemes: Vec<String>,
    /// What a `ref_id` looks like.
    pub ref_id: String,
}
