//! The plan of a campaign: shown, edited, approved, rejected.

use axum::Json;
use axum::extract::Path;
use axum::response::Response;
use singletree_campaign::PersonCommand;
use singletree_protocol::native;

use super::context::{CampaignRequest, campaign_problem, with_board_responses};
use super::convert;
use super::lifecycle::{COMPARE_INSTEAD, TAG};
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

/// Returns the routes about plans.
pub(super) fn plan_routes() -> Vec<ApiRoute> {
    let show = ApiOperation::new("showCampaignPlan", "Shows the plan of a campaign")
        .with_description("All that an approval is about: tasks, their needs and their proofs.")
        .with_tag(TAG)
        .with_json_response::<native::CampaignPlan>(200, "The newest version of the plan.");
    let change = |id, summary, about| {
        ApiOperation::new(id, summary)
            .with_description(about)
            .with_tag(TAG)
            .refuse_idempotency_key(COMPARE_INSTEAD)
            .with_error_statuses(&[409])
    };
    let edit = change(
        "editCampaignPlan",
        "Edits the plan of a campaign",
        "Makes another version, which nobody has approved: an approval of the version before ends. The progress of tasks that \
         stay is kept where they are done.",
    )
    .with_json_body::<native::EditPlan>()
    .with_json_response::<native::CampaignPlan>(200, "The new version.");
    let approve = change(
        "approveCampaignPlan",
        "Approves the plan of a campaign",
        "Exactly the version with this digest, of which the proofs are a part.",
    )
    .with_json_body::<native::ApprovePlan>();
    let reject = change(
        "rejectCampaignPlan",
        "Rejects the plan of a campaign",
        "The agent is told the reason, and proposes another plan.",
    )
    .with_json_body::<native::RejectPlan>();
    let path = "/v1/campaigns/{campaign}/plan";
    vec![
        ApiRoute::get(path, show_plan).with_required_scope(Scope::Read).with_operation(show),
        ApiRoute::put(path, edit_plan).with_required_scope(Scope::Write).with_operation(edit),
        ApiRoute::post("/v1/campaigns/{campaign}/plan/approve", approve_plan)
            .with_required_scope(Scope::Approve)
            .with_operation(with_board_responses(approve)),
        ApiRoute::post("/v1/campaigns/{campaign}/plan/reject", reject_plan)
            .with_required_scope(Scope::Approve)
            .with_operation(with_board_responses(reject)),
    ]
}

async fn show_plan(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
) -> Result<Json<native::CampaignPlan>, RequestProblem> {
    let board = asked.controller.get(asked.tenant(), &campaign).await.map_err(campaign_problem)?;
    let without = || RequestProblem::not_found("campaign_plan_invalid", "the campaign has no plan yet");
    convert::convert_plan(&board).map(Json).ok_or_else(without)
}

async fn edit_plan(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
    JsonPayload(sent): JsonPayload<native::EditPlan>,
) -> Result<Json<native::CampaignPlan>, RequestProblem> {
    let version = sent.version;
    let command = PersonCommand::EditPlan { version, tasks: convert::read_tasks(sent.tasks) };
    let caller =
        asked.audited_caller(("campaign.plan_edited", &campaign), &[("edited_version", version.into())]);
    let board = asked.controller.command(asked.tenant(), &campaign, command, &caller).await;
    let plan = convert::convert_plan(&board.map_err(campaign_problem)?);
    plan.map(Json).ok_or_else(|| RequestProblem::not_found("campaign_plan_invalid", "there is no plan"))
}

async fn approve_plan(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
    JsonPayload(sent): JsonPayload<native::ApprovePlan>,
) -> Result<Response, RequestProblem> {
    let native::ApprovePlan { version, digest } = sent;
    let details = [("version", version.into()), ("digest", digest.clone().into())];
    let caller = asked.audited_caller(("campaign.plan_approved", &campaign), &details);
    let command = PersonCommand::ApprovePlan { version, digest };
    let board = asked.controller.command(asked.tenant(), &campaign, command, &caller).await;
    board.map(|board| asked.respond_with_board(&board)).map_err(campaign_problem)
}

async fn reject_plan(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
    JsonPayload(sent): JsonPayload<native::RejectPlan>,
) -> Result<Response, RequestProblem> {
    let native::RejectPlan { version, reason } = sent;
    let caller = asked.audited_caller(("campaign.plan_rejected", &campaign), &[("version", version.into())]);
    let command = PersonCommand::RejectPlan { version, reason };
    let board = asked.controller.command(asked.tenant(), &campaign, command, &caller).await;
    board.map(|board| asked.respond_with_board(&board)).map_err(campaign_problem)
}
