//! Artifacts: documents that are shown to models with commands, once a person has approved them.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use singletree_agent::{ArtifactName, ArtifactOrigin, Artifacts, Error, SessionArtifact};
use singletree_durable::{SessionId, SessionKey};
use singletree_protocol::native;

use super::answering::HandlerContext;
use super::convert;
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::keys::KeyAuditEntry;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

const TAG: &str = "artifacts";

/// Returns the routes about artifacts.
pub(super) fn artifact_routes() -> Vec<ApiRoute> {
    let list = ApiOperation::new("listArtifacts", "Lists the artifacts of a session")
        .with_tag(TAG)
        .with_json_response::<native::ArtifactList>(200, "All versions, approved or not.");
    let add = ApiOperation::new("addArtifact", "Adds a version of an artifact")
        .with_description(
            "A document of the session, by kind and key; the first one of a name is version 1. No model is shown it before a person \
             has approved it, and then only in a session of commands (`prompt_policy`).",
        )
        .with_tag(TAG)
        .refuse_idempotency_key("list the artifacts to see whether it was added")
        .with_json_body::<native::AddArtifact>()
        .with_json_response::<native::Artifact>(201, "It is kept, and approved by nobody.")
        .with_error_statuses(&[409]);
    let approve = ApiOperation::new("approveArtifact", "Approves an artifact")
        .with_description(
            "Of each artifact the latest version that is approved is shown with every command from then on. The approval is of what \
             was read: `digest` has to be that of the content. Who approved is recorded, and audited; approving again changes \
             nothing.",
        )
        .with_tag(TAG)
        .with_json_body::<native::ApproveArtifact>()
        .with_json_response::<native::Artifact>(200, "It is approved, by who was the first to do so.")
        .with_error_statuses(&[409]);
    let path = "/v1/sessions/{session}/artifacts";
    vec![
        ApiRoute::get(path, list_artifacts).with_required_scope(Scope::Read).with_operation(list),
        ApiRoute::post(path, add_artifact).with_required_scope(Scope::Write).with_operation(add),
        ApiRoute::post("/v1/sessions/{session}/artifacts/approve", approve_artifact)
            .with_required_scope(Scope::Approve)
            .with_operation(approve),
    ]
}

/// The artifacts of one session.
struct SessionArtifacts {
    artifacts: Artifacts,
    key: SessionKey,
}

impl SessionArtifacts {
    /// Checks that the session exists: artifacts of a missing session would never be deleted.
    async fn for_session(telling: &HandlerContext, session: &str) -> Result<Self, RequestProblem> {
        let unknown = |it: &singletree_harness::Error| RequestProblem::from_chat_error(it);
        telling.caller_chat().session(session).info().await.map_err(|error| unknown(&error))?;
        let parsed = SessionId::parse(session);
        let parsed = parsed
            .map_err(|error| unknown(&singletree_harness::Error::SessionId { why: error.to_string() }))?;
        let key = SessionKey::new(telling.caller.tenant.clone(), parsed);
        let artifacts = Artifacts::new(telling.shared.documents.clone(), telling.shared.clock.clone());
        Ok(Self { artifacts, key })
    }

    /// As [`SessionArtifacts::for_session`], for changes: the artifacts of a campaign are changed by its own routes, which
    /// record the change in its log.
    async fn for_changes(telling: &HandlerContext, session: &str) -> Result<Self, RequestProblem> {
        if telling.shared.campaigns.is_some() && convert::campaign_of_session(session).is_some() {
            let reserved = singletree_harness::Error::SessionReserved { session: session.to_owned() };
            return Err(RequestProblem::from_chat_error(&reserved));
        }
        Self::for_session(telling, session).await
    }

    async fn list_artifacts(&self) -> Result<Vec<SessionArtifact>, RequestProblem> {
        self.artifacts.list_artifacts(&self.key).await.map_err(artifact_problem)
    }

    async fn find_artifact(&self, name: &ArtifactName) -> Result<SessionArtifact, RequestProblem> {
        let found = self.list_artifacts().await?.into_iter().find(|item| item.name == *name);
        found.ok_or_else(|| RequestProblem::not_found("artifact_refused", format!("there is no {name}")))
    }
}

async fn list_artifacts(
    telling: HandlerContext,
    Path(session): Path<String>,
) -> Result<Json<native::ArtifactList>, RequestProblem> {
    let all = SessionArtifacts::for_session(&telling, &session).await?.list_artifacts().await?;
    Ok(Json(native::ArtifactList { items: all.into_iter().map(convert_artifact).collect() }))
}

async fn add_artifact(
    telling: HandlerContext,
    Path(session): Path<String>,
    JsonPayload(sent): JsonPayload<native::AddArtifact>,
) -> Result<(StatusCode, Json<native::Artifact>), RequestProblem> {
    let shelf = SessionArtifacts::for_changes(&telling, &session).await?;
    let source = match sent.source {
        native::ArtifactSource::User => ArtifactOrigin::User,
        native::ArtifactSource::Agent => ArtifactOrigin::Agent,
    };
    let added =
        shelf.artifacts.add_artifact(&shelf.key, (&sent.kind, &sent.key), source, &sent.content).await;
    Ok((StatusCode::CREATED, Json(convert_artifact(added.map_err(artifact_problem)?))))
}

async fn approve_artifact(
    telling: HandlerContext,
    Path(session): Path<String>,
    JsonPayload(sent): JsonPayload<native::ApproveArtifact>,
) -> Result<Json<native::Artifact>, RequestProblem> {
    let shelf = SessionArtifacts::for_changes(&telling, &session).await?;
    let name = ArtifactName { kind: sent.kind, key: sent.key, version: sent.version };
    let found = shelf.find_artifact(&name).await?;
    if found.digest != sent.digest {
        let why = format!("{name} says something else than was approved");
        let problem = RequestProblem::not_found("artifact_refused", why);
        return Err(RequestProblem { status: StatusCode::CONFLICT, ..problem });
    }
    if found.approved_by.is_some() {
        return Ok(Json(convert_artifact(found)));
    }
    let (by, tenant) = (&telling.caller.name, &telling.caller.tenant);
    let deed = KeyAuditEntry::new(by, "artifact.approved", &name.to_string())
        .with_detail("digest", sent.digest.clone());
    let entry = telling.shared.audit.build_entry_change(tenant, deed.with_detail("session", session));
    let approved =
        shelf.artifacts.approve_with_changes(&shelf.key, (&name, &sent.digest), by, vec![entry]).await;
    approved.map_err(artifact_problem)?;
    Ok(Json(convert_artifact(shelf.find_artifact(&name).await?)))
}

/// Converts an error of the artifacts to a problem.
fn artifact_problem(error: Error) -> RequestProblem {
    match error {
        Error::Store { source } => RequestProblem::from_chat_error(&source.into()),
        other => RequestProblem {
            status: StatusCode::BAD_REQUEST,
            ..RequestProblem::not_found(other.category(), other.to_string())
        },
    }
}

/// Converts an artifact to its JSON form.
pub(crate) fn convert_artifact(artifact: SessionArtifact) -> native::Artifact {
    let SessionArtifact { name, source, content, digest, approved_by, approved_at, .. } = artifact;
    let source = match source {
        ArtifactOrigin::User => native::ArtifactSource::User,
        ArtifactOrigin::Agent => native::ArtifactSource::Agent,
    };
    let ArtifactName { kind, key, version } = name;
    let approved_at = approved_at.map(convert::convert_time);
    native::Artifact { kind, key, version, source, content, digest, approved_by, approved_at }
}
