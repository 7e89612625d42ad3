//! Where artifacts are kept: beside the conversations, in the same store, and gone with their session.

use std::collections::BTreeMap;
use std::sync::Arc;

use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, DocumentStore, JsonDocument, SessionKey,
    StoredDocument, TenantId,
};
use singletree_engine::Clock;

use super::artifact::{
    ApprovedArtifact, ArtifactDraft, ArtifactName, ArtifactOrigin, SessionArtifact, StoredApproval,
    StoredArtifact, digest_content,
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
        let version = self.find_next_version(session, (kind, key)).await?;
        let name = ArtifactName { kind: kind.to_owned(), key: key.to_owned(), version };
        let (content, digest) = (content.to_owned(), digest_content(content));
        let draft = ArtifactDraft {
            name: name.clone(),
            source,
            task: None,
            proposed_by: None,
            content: content.clone(),
            approved_by: None,
        };
        self.documents.change_documents(vec![self.build_draft_change(session, draft)?]).await?;
        let (approved_by, approved_at, task, proposed_by) = Default::default();
        Ok(SessionArtifact { name, source, content, digest, approved_by, approved_at, task, proposed_by })
    }

    /// Returns the number of the next version of an artifact.
    ///
    /// # Errors
    /// `artifact_refused` when kind or key are no names, or the session has 256 artifacts already; `store_unavailable`
    /// and its kin.
    pub async fn find_next_version(&self, session: &SessionKey, (kind, key): (&str, &str)) -> Result<u64> {
        ArtifactName::check_name_parts(kind, key)?;
        let all = self.list_artifacts(session).await?;
        if all.len() as u64 >= ARTIFACTS {
            return Err(Error::Artifact { why: format!("the session has {ARTIFACTS} already") });
        }
        let versions = all.iter().map(|item| &item.name).filter(|it| it.kind == kind && it.key == key);
        Ok(versions.map(|it| it.version).max().unwrap_or_default() + 1)
    }

    /// Returns the change that keeps a version of an artifact, to commit it with others. It is refused when there is a
    /// version of this number.
    ///
    /// # Errors
    /// `artifact_refused` when kind or key are no names, or the content is longer than 64 KiB.
    pub fn build_draft_change(&self, session: &SessionKey, draft: ArtifactDraft) -> Result<DocumentChange> {
        let ArtifactDraft { name, source, task, proposed_by, content, approved_by } = draft;
        ArtifactName::check_name_parts(&name.kind, &name.key)?;
        if content.len() > CONTENT_BYTES {
            let why = format!("it has {} bytes, and {CONTENT_BYTES} are allowed", content.len());
            return Err(Error::Artifact { why });
        }
        let approval = approved_by.map(|by| {
            let (digest, at) = (digest_content(&content), self.clock.now());
            StoredApproval { digest, by, at }
        });
        let stored = StoredArtifact { name, source, content, approval, task, proposed_by };
        build_write_change(session, &stored, DocumentPrecondition::Absent)
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
        let Some(approval) = self.build_approval_change(session, (name, digest), by).await? else {
            return Ok(());
        };
        changes.push(approval);
        Ok(self.documents.change_documents(changes).await?)
    }

    /// Returns the change by which a person approves an artifact, to commit it with others; none where it was approved
    /// before. It is refused when the artifact changes at the same time.
    ///
    /// # Errors
    /// `artifact_refused` when there is none of this name, or it says something else; `store_unavailable` and its kin.
    pub async fn build_approval_change(
        &self,
        session: &SessionKey,
        (name, digest): (&ArtifactName, &str),
        by: &str,
    ) -> Result<Option<DocumentChange>> {
        let found = self.documents.read_document(&document_key(session, name)).await?;
        let document = found.ok_or_else(|| Error::Artifact { why: format!("there is no {name}") })?;
        let artifact = SessionArtifact::from_document(&document)?;
        if artifact.digest != digest {
            return Err(Error::Artifact { why: format!("{name} says something else than was approved") });
        }
        if artifact.approved_by.is_some() {
            return Ok(None);
        }
        let SessionArtifact { name, source, content, digest, task, proposed_by, .. } = artifact;
        let approval = Some(StoredApproval { digest, by: by.to_owned(), at: self.clock.now() });
        let stored = StoredArtifact { name, source, content, approval, task, proposed_by };
        build_write_change(session, &stored, DocumentPrecondition::Version(document.version)).map(Some)
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

    /// Returns the artifacts that the agent of a campaign is shown for a task: the latest approved version of each that
    /// belongs to the task or to none, ordered by kind and key. Of more than 256 KiB together those with the largest
    /// names are left out, so that a long campaign does not end by them.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    pub async fn list_approved_of_task(
        &self,
        session: &SessionKey,
        task: Option<&str>,
    ) -> Result<Vec<ApprovedArtifact>> {
        let mut latest = BTreeMap::new();
        for document in self.load_documents(session).await? {
            let approved = ApprovedArtifact::from_approved_document(&document)?;
            let approved = approved.filter(|artifact| artifact.task().is_none_or(|of| Some(of) == task));
            if let Some(artifact) = approved {
                latest.insert((artifact.name().kind.clone(), artifact.name().key.clone()), artifact);
            }
        }
        let mut bytes = 0;
        let shown = latest.into_values().take_while(|artifact| {
            bytes += artifact.content().len();
            bytes <= SHOWN_BYTES
        });
        Ok(shown.collect())
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
