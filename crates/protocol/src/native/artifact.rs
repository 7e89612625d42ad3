//! Artifacts: documents of a session, of which those that a person has approved are shown with commands.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Time;
use super::whole::read_whole_number;

/// Who made an artifact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactSource {
    /// A person.
    #[default]
    User,
    /// The agent.
    Agent,
}

/// One version of an artifact. Its content never changes; another content is another version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// What it is, such as `plan`.
    pub kind: String,
    /// Which one of its kind.
    pub key: String,
    /// Which version, from 1.
    pub version: u64,
    /// Who made it.
    pub source: ArtifactSource,
    /// What it says.
    pub content: String,
    /// The SHA-256 of what it says, in lower-case hexadecimal: what an approval is about.
    pub digest: String,
    /// Who has approved it, once somebody has: as the audit names callers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<Time>,
}

/// A version of an artifact of a campaign, without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactSummary {
    /// Its kind, such as `report`.
    pub kind: String,
    /// Its key, unique in its kind.
    pub key: String,
    /// Its version, from 1.
    pub version: u64,
    /// Who made it.
    pub source: ArtifactSource,
    /// The task that it belongs to; it belongs to all tasks while this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The size of its content.
    pub bytes: u64,
    /// The SHA-256 of its content, in lower-case hexadecimal: an approval names it.
    pub digest: String,
    /// Who has approved it, once somebody has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// When it was approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<Time>,
}

/// The artifacts of a campaign, ordered by kind, key and version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactSummaryList {
    /// The artifacts, 256 at most.
    pub items: Vec<ArtifactSummary>,
}

/// The artifacts of a session, ordered by kind, key and version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactList {
    /// The artifacts, 256 at most.
    pub items: Vec<Artifact>,
}

/// A version that is added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddArtifact {
    /// What it is: 1 to 128 of the characters `A-Z a-z 0-9 - _ .`.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.-]{1,128}$"))]
    pub kind: String,
    /// Which one of its kind, of the same characters.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.-]{1,128}$"))]
    pub key: String,
    /// Who made it.
    #[serde(default)]
    pub source: ArtifactSource,
    /// What it says: 64 KiB at most.
    #[schemars(length(max = 65_536))]
    pub content: String,
}

/// An approval: of the version that has this name and says exactly this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveArtifact {
    /// Its kind.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.-]{1,128}$"))]
    pub kind: String,
    /// Its key.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.-]{1,128}$"))]
    pub key: String,
    /// Its version.
    #[serde(deserialize_with = "read_whole_number")]
    #[schemars(range(min = 1, max = u64::MAX))]
    pub version: u64,
    /// The digest of what was read.
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"))]
    pub digest: String,
}
