//! The artifacts of a campaign: listed without their contents, shown one at a time, approved by digest.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use singletree_agent::{ArtifactName, ArtifactOrigin, SessionArtifact};
use singletree_protocol::native;

use super::context::{CampaignRequest, campaign_problem};
use super::lifecycle::TAG;
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::native::{convert_artifact, convert_time};
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

/// Returns the routes about the artifacts of campaigns.
pub(super) fn campaign_artifact_routes() -> Vec<ApiRoute> {
    let list =
        ApiOperation::new("listCampaignArtifacts", "Lists the artifacts of a campaign")
            .with_tag(TAG)
            .with_json_response::<native::ArtifactSummaryList>(200, "All versions, without their contents.");
    let show = ApiOperation::new("showCampaignArtifact", "Shows a version of an artifact")
        .with_tag(TAG)
        .with_json_response::<native::Artifact>(200, "The version, with its content.");
    let approve = ApiOperation::new("approveCampaignArtifact", "Approves an artifact of a campaign")
        .with_description(
            "Exactly the content with this digest. Approval and entry of the log are one commit. Approving again changes nothing.",
        )
        .with_tag(TAG)
        .with_json_body::<native::ApproveArtifact>()
        .with_json_response::<native::Artifact>(200, "It is approved.")
        .with_error_statuses(&[409]);
    vec![
        ApiRoute::get("/v1/campaigns/{campaign}/artifacts", list_artifacts)
            .with_required_scope(Scope::Read)
            .with_operation(list),
        ApiRoute::post("/v1/campaigns/{campaign}/artifacts/approve", approve_artifact)
            .with_required_scope(Scope::Approve)
            .with_operation(approve),
        ApiRoute::get("/v1/campaigns/{campaign}/artifacts/{kind}/{key}/{version}", show_artifact)
            .with_required_scope(Scope::Read)
            .with_operation(show),
    ]
}

async fn list_artifacts(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
) -> Result<Json<native::ArtifactSummaryList>, RequestProblem> {
    let all = asked.controller.artifacts(asked.tenant(), &campaign).await.map_err(campaign_problem)?;
    Ok(Json(native::ArtifactSummaryList { items: all.into_iter().map(convert_summary).collect() }))
}

async fn show_artifact(
    asked: CampaignRequest,
    Path((campaign, kind, key, version)): Path<(String, String, String, String)>,
) -> Result<Json<native::Artifact>, RequestProblem> {
    // A version that is no number is one that is not there.
    let version = version.parse().unwrap_or_default();
    let name = ArtifactName { kind, key, version };
    asked.find_artifact(&campaign, &name).await.map(convert_artifact).map(Json)
}

async fn approve_artifact(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
    JsonPayload(sent): JsonPayload<native::ApproveArtifact>,
) -> Result<Json<native::Artifact>, RequestProblem> {
    let name = ArtifactName { kind: sent.kind, key: sent.key, version: sent.version };
    let found = asked.find_artifact(&campaign, &name).await?;
    if found.digest != sent.digest {
        let why = format!("{name} says something else than was approved");
        let problem = RequestProblem::not_found("artifact_refused", why);
        return Err(RequestProblem { status: StatusCode::CONFLICT, ..problem });
    }
    let details = [("artifact", name.to_string().into()), ("digest", sent.digest.clone().into())];
    let caller = asked.audited_caller(("campaign.artifact_approved", &campaign), &details);
    let approved =
        asked.controller.approve_artifact(asked.tenant(), &campaign, (&name, &sent.digest), &caller).await;
    approved.map_err(campaign_problem)?;
    asked.find_artifact(&campaign, &name).await.map(convert_artifact).map(Json)
}

impl CampaignRequest {
    async fn find_artifact(
        &self,
        campaign: &str,
        name: &ArtifactName,
    ) -> Result<SessionArtifact, RequestProblem> {
        let all = self.controller.artifacts(self.tenant(), campaign).await.map_err(campaign_problem)?;
        let found = all.into_iter().find(|artifact| artifact.name == *name);
        found.ok_or_else(|| RequestProblem::not_found("artifact_refused", format!("there is no {name}")))
    }
}

fn convert_summary(artifact: SessionArtifact) -> native::ArtifactSummary {
    let ArtifactName { kind, key, version } = artifact.name;
    native::ArtifactSummary {
        kind,
        key,
        version,
        source: match artifact.source {
            ArtifactOrigin::User => native::ArtifactSource::User,
            ArtifactOrigin::Agent => native::ArtifactSource::Agent,
        },
        task: artifact.task,
        bytes: artifact.content.len() as u64,
        digest: artifact.digest,
        approved_by: artifact.approved_by,
        approved_at: artifact.approved_at.map(convert_time),
    }
}
