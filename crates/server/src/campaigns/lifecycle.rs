//! Campaigns: created, listed, shown, paused, resumed, cancelled, deleted.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use singletree_campaign::PersonCommand;
use singletree_controller::NewCampaign;
use singletree_protocol::native;

use super::context::{CampaignRequest, campaign_problem, with_board_responses};
use super::convert;
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::native::{StrictQuery, campaign_location, resolve_page_limit};
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

pub(super) const TAG: &str = "campaigns";

/// Advice for routes that refuse an idempotency key since a repetition finds the campaign changed.
pub(super) const COMPARE_INSTEAD: &str =
    "a repetition is compared with the campaign: it is 409 or changes nothing";

/// Returns the routes about campaigns as a whole.
pub(super) fn lifecycle_routes() -> Vec<ApiRoute> {
    let create = ApiOperation::new("createCampaign", "Creates a campaign")
        .with_description(
            "From a goal, or from a template of the configuration, of which the fields that are given replace its values. The agent \
             is asked for a plan at once; nothing runs before a person has approved one.",
        )
        .with_tag(TAG)
        .refuse_idempotency_key("name the campaign by `id`: sent again, it is 409 `campaign_changed`")
        .with_json_body::<native::CreateCampaign>()
        .with_json_response::<native::CampaignDetail>(201, "The campaign; `Location` is its address.")
        .with_error_statuses(&[404, 409, 429]);
    let list = ApiOperation::new("listCampaigns", "Lists campaigns")
        .with_tag(TAG)
        .with_query_type::<native::CampaignPageQuery>()
        .with_json_response::<native::CampaignPage>(200, "A page of the campaigns, ordered by id.")
        .with_error_statuses(&[404]);
    let templates = ApiOperation::new("listCampaignTemplates", "Lists the templates of campaigns")
        .with_tag(TAG)
        .with_json_response::<native::TemplateList>(200, "The templates of the configuration.")
        .with_error_statuses(&[404]);
    let show = ApiOperation::new("showCampaign", "Shows a campaign")
        .with_tag(TAG)
        .with_json_response::<native::CampaignDetail>(200, "The campaign.");
    let delete = ApiOperation::new("deleteCampaign", "Deletes a campaign")
        .with_description(
            "Its cycle is cancelled, and its log, artifacts, schedules and session are removed in one transaction. A call that has \
             begun may have had its effect.",
        )
        .with_tag(TAG)
        .with_empty_response(204, "There is no such campaign any more.");
    let path = "/v1/campaigns/{campaign}";
    let mut routes = vec![
        ApiRoute::post("/v1/campaigns", create_campaign)
            .with_required_scope(Scope::Write)
            .with_operation(create),
        ApiRoute::get("/v1/campaigns", list_campaigns).with_required_scope(Scope::Read).with_operation(list),
        ApiRoute::get("/v1/campaign-templates", list_templates)
            .with_required_scope(Scope::Read)
            .with_operation(templates),
        ApiRoute::get(path, show_campaign).with_required_scope(Scope::Read).with_operation(show),
        ApiRoute::delete(path, delete_campaign).with_required_scope(Scope::Admin).with_operation(delete),
    ];
    routes.extend(status_routes());
    routes
}

fn status_routes() -> Vec<ApiRoute> {
    let operation = |id, summary, about| {
        let operation = ApiOperation::new(id, summary)
            .with_description(about)
            .with_tag(TAG)
            .refuse_idempotency_key(COMPARE_INSTEAD);
        with_board_responses(operation).with_error_statuses(&[409])
    };
    let pause = operation(
        "pauseCampaign",
        "Pauses a campaign",
        "At once for everything that has not begun: a call that has begun ends, an open approval stays, and its answer is kept.",
    );
    let resume =
        operation("resumeCampaign", "Resumes a campaign", "One that is paused, or that is in `error`.");
    let cancel = operation("cancelCampaign", "Cancels a campaign", "It takes no commands any more.");
    vec![
        ApiRoute::post("/v1/campaigns/{campaign}/pause", pause_campaign)
            .with_required_scope(Scope::Write)
            .with_operation(pause),
        ApiRoute::post("/v1/campaigns/{campaign}/resume", resume_campaign)
            .with_required_scope(Scope::Write)
            .with_operation(resume),
        ApiRoute::post("/v1/campaigns/{campaign}/cancel", cancel_campaign)
            .with_required_scope(Scope::Admin)
            .with_operation(cancel),
    ]
}

async fn create_campaign(
    asked: CampaignRequest,
    JsonPayload(sent): JsonPayload<native::CreateCampaign>,
) -> Result<Response, RequestProblem> {
    let caller = &asked.telling.caller;
    if let Some(admission) = asked.telling.shared.quotas.admission_of_caller(caller) {
        // A campaign is a session of the tenant.
        admission.admit_session().map_err(|exceeded| RequestProblem::quota_exceeded(&exceeded))?;
    }
    let new = NewCampaign {
        id: sent.id,
        template: sent.template,
        name: sent.name,
        goal: sent.goal,
        agent: sent.agent,
        budget: sent.budget.map(convert::read_budget),
        tasks: sent.tasks.map(convert::read_tasks).unwrap_or_default(),
        subject: caller.subject.as_ref().map(ToString::to_string),
    };
    let created = asked.controller.create(asked.tenant(), new, &asked.campaign_caller()).await;
    let board = created.map_err(campaign_problem)?;
    let place = [(LOCATION, campaign_location(&board.campaign.id))];
    Ok((StatusCode::CREATED, place, Json(convert::convert_detail(&board))).into_response())
}

async fn list_campaigns(
    asked: CampaignRequest,
    StrictQuery(query): StrictQuery<native::CampaignPageQuery>,
) -> Result<Json<native::CampaignPage>, RequestProblem> {
    let limit = resolve_page_limit(query.limit)?;
    let from = query.from.as_deref().filter(|from| !from.is_empty());
    let boards = asked.controller.list(asked.tenant(), from, limit).await.map_err(campaign_problem)?;
    // A page that is full may be the last one: then the next one is empty.
    let is_full = boards.len() as u64 == limit.min(convert::LIST_MAX);
    let next = boards.last().filter(|_| is_full).map(|board| board.campaign.id.clone());
    Ok(Json(native::CampaignPage { items: boards.iter().map(convert::convert_summary).collect(), next }))
}

async fn list_templates(asked: CampaignRequest) -> Json<native::TemplateList> {
    let templates = asked.controller.templates().iter().map(|template| native::TemplateInfo {
        name: template.name.clone(),
        description: template.description.clone(),
        goal: template.goal.clone(),
        agent: template.agent.clone(),
        budget: convert::convert_budget(&template.budget),
        tasks: template.tasks.len() as u64,
        schedules: template.schedules.len() as u64,
    });
    Json(native::TemplateList {
        items: templates.collect(),
        agents: asked.controller.agents().map(str::to_owned).collect(),
    })
}

async fn show_campaign(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
) -> Result<Json<native::CampaignDetail>, RequestProblem> {
    let board = asked.controller.get(asked.tenant(), &campaign).await.map_err(campaign_problem)?;
    Ok(Json(convert::convert_detail(&board)))
}

async fn delete_campaign(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
) -> Result<StatusCode, RequestProblem> {
    let deleted = asked.controller.delete(asked.tenant(), &campaign, &asked.campaign_caller()).await;
    deleted.map_err(campaign_problem)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn pause_campaign(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
) -> Result<Response, RequestProblem> {
    asked.change_status((&campaign, "campaign.paused"), PersonCommand::Pause).await
}

async fn resume_campaign(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
) -> Result<Response, RequestProblem> {
    asked.change_status((&campaign, "campaign.resumed"), PersonCommand::Resume).await
}

async fn cancel_campaign(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
) -> Result<Response, RequestProblem> {
    asked.change_status((&campaign, "campaign.cancelled"), PersonCommand::Cancel).await
}

impl CampaignRequest {
    async fn change_status(
        &self,
        (campaign, action): (&str, &str),
        command: PersonCommand,
    ) -> Result<Response, RequestProblem> {
        let caller = self.audited_caller((action, campaign), &[]);
        let board = self.controller.command(self.tenant(), campaign, command, &caller).await;
        board.map(|board| self.respond_with_board(&board)).map_err(campaign_problem)
    }
}
