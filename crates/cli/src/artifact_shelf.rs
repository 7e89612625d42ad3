//! The artifacts of one session, in a database or behind a server.

use singletree::agent::{ArtifactName, ArtifactOrigin, Artifacts, SessionArtifact};
use singletree::durable::{SessionId, SessionKey, TenantId};
use singletree_client::Client;
use singletree_protocol::native::{AddArtifact, ApproveArtifact, Artifact, ArtifactSource};

use crate::args::ArtifactVersion;
use crate::error::{Error, Result};
use crate::json::format_time;
use crate::print::{TerminalOutput, TextStyle};
use crate::wire::Workspace;

/// Who approves at a terminal, as it is recorded.
const FROM: &str = "terminal";

/// The artifacts of one session.
pub(crate) enum ArtifactShelf<'a> {
    /// In a database.
    Here {
        /// Where they are kept.
        artifacts: Artifacts,
        /// Of which session.
        key: SessionKey,
    },
    /// Behind a server.
    There {
        /// The server.
        client: &'a Client,
        /// Of which session.
        session: String,
    },
}

impl ArtifactShelf<'_> {
    /// Opens those of a session in a database. A session that is not there has none and takes none: they would never
    /// be deleted.
    pub(crate) async fn in_workspace(workspace: &Workspace, session: &str) -> Result<Self> {
        workspace.chat.session(session).info().await?;
        let id = SessionId::parse(session).map_err(|error| Error::Usage(error.to_string()))?;
        let key = SessionKey::new(TenantId::single(), id);
        Ok(Self::Here { artifacts: workspace.artifacts.clone(), key })
    }

    /// Lists all versions, ordered by kind, key and version.
    pub(crate) async fn list(&self) -> Result<Vec<Artifact>> {
        match self {
            Self::Here { artifacts, key } => {
                let all = artifacts.list_artifacts(key).await.map_err(|source| Error::Agent { source })?;
                Ok(all.into_iter().map(convert_artifact).collect())
            }
            Self::There { client, session } => Ok(client.list_artifacts(session).await?.items),
        }
    }

    /// Finds one: the named version, or the newest.
    pub(crate) async fn find(&self, name: &ArtifactVersion) -> Result<Artifact> {
        let ArtifactVersion { kind, key, version } = name;
        let all = self.list().await?;
        let found = all.into_iter().rfind(|artifact| {
            artifact.kind == *kind
                && artifact.key == *key
                && version.is_none_or(|version| artifact.version == version)
        });
        let version = version.map(|version| format!("/{version}")).unwrap_or_default();
        found.ok_or_else(|| Error::Usage(format!("this session has no artifact {kind}/{key}{version}")))
    }

    /// Adds a version.
    pub(crate) async fn propose(&self, (kind, name): (&str, &str), content: String) -> Result<Artifact> {
        match self {
            Self::Here { artifacts, key } => {
                let added = artifacts.add_artifact(key, (kind, name), ArtifactOrigin::User, &content).await;
                Ok(convert_artifact(added.map_err(|source| Error::Agent { source })?))
            }
            Self::There { client, session } => {
                let (kind, key) = (kind.to_owned(), name.to_owned());
                let artifact = AddArtifact { kind, key, source: ArtifactSource::User, content };
                Ok(client.add_artifact(session, &artifact).await?)
            }
        }
    }

    /// Approves one version that says exactly what was read.
    pub(crate) async fn approve(&self, artifact: &Artifact, digest: &str) -> Result<()> {
        let (kind, key, version) = (artifact.kind.clone(), artifact.key.clone(), artifact.version);
        match self {
            Self::Here { artifacts, key: session } => {
                let name = ArtifactName { kind, key, version };
                let approved = artifacts.approve_artifact(session, &name, digest, FROM).await;
                approved.map_err(|source| Error::Agent { source })
            }
            Self::There { client, session } => {
                let approval = ApproveArtifact { kind, key, version, digest: digest.to_owned() };
                client.approve_artifact(session, &approval).await?;
                Ok(())
            }
        }
    }

    /// Prints a line for each.
    pub(crate) async fn print_list(&self, screen: &mut TerminalOutput) -> Result<()> {
        let all = self.list().await?;
        for artifact in &all {
            screen.write_line(&format_artifact_line(artifact))?;
        }
        if all.is_empty() {
            screen.write_line("this session has no artifacts")?;
        }
        Ok(())
    }
}

/// Prints what an artifact says.
pub(crate) fn print_artifact(artifact: &Artifact, screen: &mut TerminalOutput) -> Result<()> {
    screen.write_styled_line(TextStyle::Dim, &format_artifact_line(artifact))?;
    for line in artifact.content.lines() {
        screen.write_line(&format!("    {line}"))?;
    }
    Ok(())
}

fn format_artifact_line(artifact: &Artifact) -> String {
    let Artifact { kind, key, version, digest, .. } = artifact;
    let by = match artifact.source {
        ArtifactSource::User => "by a person",
        ArtifactSource::Agent => "by the agent",
    };
    let approval = match &artifact.approved_by {
        Some(by) => format!("approved by {by}"),
        None => "not approved".to_owned(),
    };
    format!("{kind}/{key}/{version}  {by}  {approval}  {digest}")
}

fn convert_artifact(artifact: SessionArtifact) -> Artifact {
    let SessionArtifact { name, source, content, digest, approved_by, approved_at, .. } = artifact;
    let ArtifactName { kind, key, version } = name;
    let source = match source {
        ArtifactOrigin::User => ArtifactSource::User,
        ArtifactOrigin::Agent => ArtifactSource::Agent,
    };
    let approved_at = approved_at.map(|at| singletree_protocol::native::Time(format_time(at)));
    Artifact { kind, key, version, source, content, digest, approved_by, approved_at }
}
