//! Artifacts: documents of a session, of which those that a person has approved may be shown to a model.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use singletree_durable::{StoredDocument, Timestamp};

use crate::error::{Error, Result};

/// How long a kind or a key may be, in bytes.
const NAME_BYTES: usize = 128;

/// Names one version of an artifact of a session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactName {
    /// Its kind, such as `plan`.
    pub kind: String,
    /// Which one of its kind.
    pub key: String,
    /// Which version, from 1.
    pub version: u64,
}

/// A version of an artifact that is to be kept, with changes of other documents in one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactDraft {
    /// Its name; the version is the one that [`Artifacts::find_next_version`](super::Artifacts::find_next_version) found.
    pub name: ArtifactName,
    /// Who made it.
    pub source: ArtifactOrigin,
    /// The task of a campaign that it belongs to; none where it belongs to all.
    pub task: Option<String>,
    /// The agent that has proposed it, if one has.
    pub proposed_by: Option<String>,
    /// Its content.
    pub content: String,
    /// Who has approved it; nobody yet where it is none.
    pub approved_by: Option<String>,
}

/// Who made an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactOrigin {
    /// A person.
    User,
    /// The agent.
    Agent,
}

/// An artifact as it is stored. Its content never changes; another content is another version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionArtifact {
    /// Its name.
    pub name: ArtifactName,
    /// Who made it.
    pub source: ArtifactOrigin,
    /// Its content.
    pub content: String,
    /// The SHA-256 of the content, in lower-case hexadecimal: an approval refers to this digest.
    pub digest: String,
    /// Who has approved it, once somebody has.
    pub approved_by: Option<String>,
    /// When.
    pub approved_at: Option<Timestamp>,
    /// The task of a campaign that it belongs to, if it does.
    pub task: Option<String>,
    /// The agent that has proposed it, where that is recorded.
    pub proposed_by: Option<String>,
}

/// An artifact that a person has approved. Only a store returns one, from a stored approval. There is no other way to
/// make it:
///
/// ```compile_fail,E0451
/// let forged = singletree_agent::ApprovedArtifact { artifact: todo!() };
/// ```
///
/// ```compile_fail,E0277
/// let forged: singletree_agent::ApprovedArtifact = serde_json::from_str("{}").unwrap();
/// ```
///
/// ```compile_fail,E0277
/// fn forged(artifact: singletree_agent::SessionArtifact) -> singletree_agent::ApprovedArtifact {
///     artifact.into()
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovedArtifact {
    artifact: SessionArtifact,
}

/// The stored form of an artifact.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredArtifact {
    pub(super) name: ArtifactName,
    pub(super) source: ArtifactOrigin,
    pub(super) content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) approval: Option<StoredApproval>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) proposed_by: Option<String>,
}

/// That a person has approved it: exactly this content.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredApproval {
    pub(super) digest: String,
    pub(super) by: String,
    pub(super) at: Timestamp,
}

impl ArtifactName {
    /// Checks the parts of a name: letters, digits, `-`, `_` and `.` of ASCII.
    pub(super) fn check_name_parts(kind: &str, key: &str) -> Result<()> {
        let plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
        for part in [kind, key] {
            if part.is_empty() || part.len() > NAME_BYTES || !part.chars().all(plain) {
                let why =
                    format!("a kind or a key has 1 to {NAME_BYTES} of the characters A-Z a-z 0-9 - _ .");
                return Err(Error::Artifact { why });
            }
        }
        Ok(())
    }
}

impl fmt::Display for ArtifactName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.key, self.version)
    }
}

impl SessionArtifact {
    /// Reads a stored artifact.
    ///
    /// # Errors
    /// `store_corrupt`, also when the approved content is not the stored content.
    pub(super) fn from_document(document: &StoredDocument) -> Result<Self> {
        let corrupt = |source: Option<serde_json::Error>| {
            let what = format!("the artifact '{}'", document.key.id);
            let source = source.map(Into::into);
            Error::Store { source: singletree_durable::Error::Corrupt { what, source } }
        };
        let StoredArtifact { name, source, content, approval, task, proposed_by } =
            document.body.decode().map_err(|error| corrupt(Some(error)))?;
        let digest = digest_content(&content);
        if approval.as_ref().is_some_and(|approval| approval.digest != digest) {
            return Err(corrupt(None));
        }
        let (approved_by, approved_at) = approval.map(|approval| (approval.by, approval.at)).unzip();
        Ok(Self { name, source, content, digest, approved_by, approved_at, task, proposed_by })
    }
}

impl ApprovedArtifact {
    /// Takes a stored artifact, if it is approved.
    pub(super) fn from_approved_document(document: &StoredDocument) -> Result<Option<Self>> {
        let artifact = SessionArtifact::from_document(document)?;
        Ok(artifact.approved_by.is_some().then_some(Self { artifact }))
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &ArtifactName {
        &self.artifact.name
    }

    /// Returns the task of a campaign that it belongs to, if it does.
    #[must_use]
    pub fn task(&self) -> Option<&str> {
        self.artifact.task.as_deref()
    }

    /// Returns its content.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.artifact.content
    }

    /// Returns the JSON that a model is shown of it.
    pub(super) fn to_prompt_json(&self) -> Value {
        let SessionArtifact { name, source, content, .. } = &self.artifact;
        json!({ "kind": name.kind, "key": name.key, "version": name.version, "source": source, "content": content })
    }
}

/// Digests a content.
pub(super) fn digest_content(content: &str) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
