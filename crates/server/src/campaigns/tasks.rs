//! The tasks of a campaign, with their proofs and how far they are.

use axum::Json;
use axum::extract::Path;
use singletree_protocol::native;

use super::context::{CampaignRequest, campaign_problem};
use super::convert;
use super::lifecycle::TAG;
use crate::caller::Scope;
use crate::native::{StrictQuery, resolve_page_limit};
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

/// Returns the routes about tasks.
pub(super) fn task_routes() -> Vec<ApiRoute> {
    let list = ApiOperation::new("listCampaignTasks", "Lists the tasks of a campaign")
        .with_description(
            "In the order of the plan, each with its state and, for each proof, whether it was found.",
        )
        .with_tag(TAG)
        .with_query_type::<native::TaskPageQuery>()
        .with_json_response::<native::CampaignTaskPage>(200, "A page of the tasks.");
    vec![
        ApiRoute::get("/v1/campaigns/{campaign}/tasks", list_tasks)
            .with_required_scope(Scope::Read)
            .with_operation(list),
    ]
}

async fn list_tasks(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
    StrictQuery(query): StrictQuery<native::TaskPageQuery>,
) -> Result<Json<native::CampaignTaskPage>, RequestProblem> {
    let limit = resolve_page_limit(query.limit)?;
    let board = asked.controller.get(asked.tenant(), &campaign).await.map_err(campaign_problem)?;
    Ok(Json(convert::convert_tasks(&board, query.from.unwrap_or_default(), limit)))
}
