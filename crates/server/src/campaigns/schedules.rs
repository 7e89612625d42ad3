//! The schedules of a campaign: listed, added, removed.

use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use singletree_campaign::{MissedRuns, StoredSchedule};
use singletree_controller::NewSchedule;
use singletree_protocol::native;

use super::context::{CampaignRequest, campaign_problem};
use super::lifecycle::TAG;
use crate::body::JsonPayload;
use crate::caller::Scope;
use crate::native::convert_time;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};

/// The time zone of a schedule that names none.
const ZONE: &str = "UTC";

/// Returns the routes about schedules.
pub(super) fn schedule_routes() -> Vec<ApiRoute> {
    let list = ApiOperation::new("listSchedules", "Lists the schedules of a campaign")
        .with_tag(TAG)
        .with_json_response::<native::ScheduleInfoList>(200, "The schedules, 100 at most.");
    let add = ApiOperation::new("addSchedule", "Adds a schedule to a campaign")
        .with_description(
            "At each due time the next cycle carries out the stored command. Due times are at least 60 s apart; a tenant has 100 \
             schedules at most.",
        )
        .with_tag(TAG)
        .refuse_idempotency_key("list the schedules to see whether it was added")
        .with_json_body::<native::AddSchedule>()
        .with_json_response::<native::ScheduleInfo>(201, "The schedule, with its next due time.")
        .with_error_statuses(&[409]);
    let remove = ApiOperation::new("removeSchedule", "Removes a schedule of a campaign")
        .with_tag(TAG)
        .with_empty_response(204, "There is no such schedule any more.")
        .with_error_statuses(&[409]);
    let path = "/v1/campaigns/{campaign}/schedules";
    vec![
        ApiRoute::get(path, list_schedules).with_required_scope(Scope::Read).with_operation(list),
        ApiRoute::post(path, add_schedule).with_required_scope(Scope::Write).with_operation(add),
        ApiRoute::delete("/v1/campaigns/{campaign}/schedules/{schedule}", remove_schedule)
            .with_required_scope(Scope::Write)
            .with_operation(remove),
    ]
}

async fn list_schedules(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
) -> Result<Json<native::ScheduleInfoList>, RequestProblem> {
    let listed = asked.controller.schedules(asked.tenant(), &campaign).await.map_err(campaign_problem)?;
    Ok(Json(native::ScheduleInfoList { items: listed.into_iter().map(convert_schedule).collect() }))
}

async fn add_schedule(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
    JsonPayload(sent): JsonPayload<native::AddSchedule>,
) -> Result<(StatusCode, Json<native::ScheduleInfo>), RequestProblem> {
    let new = NewSchedule {
        expression: sent.expression,
        zone: sent.zone.unwrap_or_else(|| ZONE.to_owned()),
        missed: match sent.missed {
            native::MissedDueTimes::Once => MissedRuns::Once,
            native::MissedDueTimes::Skip => MissedRuns::Skip,
        },
        command: sent.command,
    };
    let caller = asked.audited_caller(("campaign.schedule_added", &campaign), &[]);
    let added = asked.controller.add_schedule(asked.tenant(), &campaign, new, &caller).await;
    Ok((StatusCode::CREATED, Json(convert_schedule(added.map_err(campaign_problem)?))))
}

async fn remove_schedule(
    asked: CampaignRequest,
    Path((campaign, schedule)): Path<(String, String)>,
) -> Result<StatusCode, RequestProblem> {
    let details = [("schedule", schedule.clone().into())];
    let caller = asked.audited_caller(("campaign.schedule_removed", &campaign), &details);
    let removed = asked.controller.remove_schedule(asked.tenant(), &campaign, &schedule, &caller).await;
    removed.map_err(campaign_problem)?;
    Ok(StatusCode::NO_CONTENT)
}

fn convert_schedule(stored: StoredSchedule) -> native::ScheduleInfo {
    let StoredSchedule { id, schedule, .. } = stored;
    native::ScheduleInfo {
        id,
        campaign: schedule.campaign,
        expression: schedule.expression,
        zone: schedule.zone,
        missed: match schedule.missed {
            MissedRuns::Once => native::MissedDueTimes::Once,
            MissedRuns::Skip => native::MissedDueTimes::Skip,
        },
        command: schedule.command,
        next_at: convert_time(schedule.next_at),
    }
}
