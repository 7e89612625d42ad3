//! Where artifacts are kept: beside the conversations, in the same store, and gone with their session.

use std::collections::BTreeMap;
use std::sync::Arc;

use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, JsonDocument, SessionKey,
    StoredDocument, TenantId,
};
use singletree_engine::Clock;

use super::artifact::{
    ApprovedArtifact, ArtifactName, ArtifactOrigin, SessionArtifact, StoredApproval, StoredArtifact,
    digest_content,
};
use crate::error::{Error, Result};

/// The kind of the documents.
const KIND: &str = "artifact";
/// How many bytes a content may have.
const CONTENT_BYTES: usize = 64 << 10;
/// How many artifacts a session may have, all versions counted.
const ARTIFACTS: u64 = 256;
/// How many bytes of artifacts a model is shown.
const SHOWN_BYTES: usize = 256 << 10;

/// Keeps the artifacts of sessions. A model is shown only artifacts that a person has approved.
#[derive(Debug, Clone)]
pub struct Artifacts {
    documents: Arc<dyn DocumentStore>,
    clock: Arc<dyn Clock>,
}

impl Artifacts {
    /// Keeps artifacts in a store.
    #[must_use]
    pub fn new(documents: Arc<dyn DocumentStore>, clock: Arc<dyn Clock>) -> Self {
        Self { documents, clock }
    }

    /// Adds a version of an artifact. It is approved by nobody.
    ///
    /// # Errors
    /// `artifact_refused` when kind or key are no names, the content is longer than 64 KiB, or the session has 256
    /// already; `store_refused` when somebody else adds one at the same time; `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has added it or has not.
    pub async fn add_artifact(
        &self,
        session: &SessionKey,
        (kind, key): (&str, &str),
        source: ArtifactOrigin,
        content: &str,
    ) -> Result<SessionArtifact> {
        ArtifactName::check_name_parts(kind, key)?;
        if content.len() > CONTENT_BYTES {
            let why = format!("it has {} bytes, and {CONTENT_BYTES} are allowed", content.len());
            return Err(Error::Artifact { why });
        }
        let all = self.list_artifacts(session).await?;
        if all.len() as u64 >= ARTIFACTS {
            return Err(Error::Artifact { why: format!("the session has {ARTIFACTS} already") });
        }
        let versions = all.iter().map(|item| &item.name).filter(|it| it.kind == kind && it.key == key);
        let version = versions.map(|it| it.version).max().unwrap_or_default() + 1;
        let name = ArtifactName { kind: kind.to_owned(), key: key.to_owned(), version };
        let stored =
            StoredArtifact { name: name.clone(), source, content: content.to_owned(), approval: None };
        self.documents
            .change_documents(vec![build_write_change(session, &stored, DocumentPrecondition::Absent)?])
            .await?;
        let (content, digest) = (content.to_owned(), digest_content(content));
        Ok(SessionArtifact { name, source, content, digest, approved_by: None, approved_at: None })
    }

    /// Records that a person has approved an artifact: the one with exactly this digest. Approving it again changes
    /// nothing: the first one counts.
    ///
    /// # Errors
    /// `artifact_refused` when there is none of this name, or it says something else; `store_refused` when it changes
    /// at the same time; `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// A dropped call has approved it or has not.
    pub async fn approve_artifact(
        &self,
        session: &SessionKey,
        name: &ArtifactName,
        digest: &str,
        by: &str,
    ) -> Result<()> {
        self.approve_with_changes(session, (name, digest), by, Vec::new()).await
    }

    /// As [`Artifacts::approve_artifact`], with changes that land in the same commit, such as an entry of an audit; with none of
    /// them where it was approved before.
    ///
    /// # Errors
    /// Those of [`Artifacts::approve_artifact`], and those of the changes.
    ///
    /// # Cancellation
    /// A dropped call has made all of it or nothing.
    pub async fn approve_with_changes(
        &self,
        session: &SessionKey,
        (name, digest): (&ArtifactName, &str),
        by: &str,
        mut changes: Vec<DocumentChange>,
    ) -> Result<()> {
        let found = self.documents.read_document(&document_key(session, name)).await?;
        let document = found.ok_or_else(|| Error::Artifact { why: format!("there is no {name}") })?;
        let artifact = SessionArtifact::from_document(&document)?;
        if artifact.digest != digest {
            return Err(Error::Artifact { why: format!("{name} says something else than was approved") });
        }
        if artifact.approved_by.is_some() {
            return Ok(());
        }
        let SessionArtifact { name, source, content, digest, .. } = artifact;
        let approval = Some(StoredApproval { digest, by: by.to_owned(), at: self.clock.now() });
        let stored = StoredArtifact { name, source, content, approval };
        changes.push(build_write_change(session, &stored, DocumentPrecondition::Version(document.version))?);
        Ok(self.documents.change_documents(changes).await?)
    }

    /// Lists the artifacts of a session, ordered by kind, key and version.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    pub async fn list_artifacts(&self, session: &SessionKey) -> Result<Vec<SessionArtifact>> {
        self.load_documents(session).await?.iter().map(SessionArtifact::from_document).collect()
    }

    /// Returns the artifacts that a model may be shown: the latest approved version of each, ordered by kind and key.
    ///
    /// # Errors
    /// `artifact_refused` when they have more than 256 KiB together; `store_unavailable` and its kin.
    pub async fn list_approved(&self, session: &SessionKey) -> Result<Vec<ApprovedArtifact>> {
        let mut latest = BTreeMap::new();
        for document in self.load_documents(session).await? {
            if let Some(artifact) = ApprovedArtifact::from_approved_document(&document)? {
                // Ordered by version: a later one takes the place.
                latest.insert((artifact.name().kind.clone(), artifact.name().key.clone()), artifact);
            }
        }
        let bytes: usize = latest.values().map(|it| it.content().len()).sum();
        if bytes > SHOWN_BYTES {
            let why =
                format!("those that are approved have {bytes} bytes, and a model is shown {SHOWN_BYTES}");
            return Err(Error::Artifact { why });
        }
        Ok(latest.into_values().collect())
    }

    async fn load_documents(&self, session: &SessionKey) -> Result<Vec<StoredDocument>> {
        let prefix = session_id_prefix(session);
        let found =
            self.documents.read_documents(&session.tenant, KIND, Some(&prefix), ARTIFACTS + 1).await?;
        Ok(found.into_iter().filter(|item| item.key.id.starts_with(&prefix)).collect())
    }
}

/// Returns the change that keeps an artifact.
fn build_write_change(
    session: &SessionKey,
    stored: &StoredArtifact,
    expect: DocumentPrecondition,
) -> Result<DocumentChange> {
    let body = JsonDocument::from_serializable(stored).map_err(|error| {
        let what = "an artifact that JSON cannot represent".to_owned();
        singletree_durable::Error::Corrupt { what, source: Some(error.into()) }
    })?;
    let key = document_key(session, &stored.name);
    Ok(DocumentChange::Write { key, expect, session: Some(session.session.clone()), body, expires_at: None })
}

/// Begins the ids of a session's artifacts. The length tells where the session's name ends, whatever is in it.
fn session_id_prefix(session: &SessionKey) -> String {
    let session = session.session.as_str();
    format!("{}:{session}/", session.len())
}

fn document_key(session: &SessionKey, name: &ArtifactName) -> DocumentKey {
    let ArtifactName { kind, key, version } = name;
    let tenant: TenantId = session.tenant.clone();
    DocumentKey::new(tenant, KIND, format!("{}{kind}/{key}/{version:010}", session_id_prefix(session)))
}

impl From<singletree_durable::Error> for Error {
    fn from(source: singletree_durable::Error) -> Self {
        Self::Store { source }
    }
}
