//! The log of a campaign: read page by page, and followed.

use axum::Json;
use axum::extract::Path;
use axum::response::Response;
use futures_util::{Stream, StreamExt, stream};
use singletree_campaign::CampaignLogEntry;
use singletree_protocol::native;

use super::context::{CampaignRequest, campaign_problem};
use super::convert;
use super::lifecycle::TAG;
use crate::caller::Scope;
use crate::native::{StreamFailureFramer, StrictQuery, build_json_frame, resolve_page_limit};
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};
use crate::sse::{self, ServerSentEvent};

/// How many bytes a page of the log has before it ends early.
const PAGE_BYTES: usize = 1 << 20;

/// Returns the routes about logs.
pub(super) fn log_routes() -> Vec<ApiRoute> {
    let read = ApiOperation::new("readCampaignLog", "Reads the log of a campaign")
        .with_description(
            "Its audit: each decision and each event, numbered from 1 without gaps, with the caller who gave a command. It is \
             deleted with the campaign. A plan is named and not repeated.",
        )
        .with_tag(TAG)
        .with_query_type::<native::CampaignLogQuery>()
        .with_json_response::<native::CampaignLogPage>(200, "A page of the log.");
    let follow = ApiOperation::new("followCampaign", "Follows the events of a campaign")
        .with_description(
            "Server-sent events: the entries of the log after the one that was seen last, then each new one. The `id:` of a frame \
             is the number of its entry, which `Last-Event-ID` takes: nothing is missed and nothing comes twice, also across \
             restarts of the server. A silent stream says by a comment that it lives. When the campaign is deleted, the stream \
             ends with a failure.",
        )
        .with_tag(TAG)
        .with_header("Last-Event-ID", "The number of the last entry that was seen.")
        .with_query_type::<native::FollowCampaign>()
        .with_event_response::<native::CampaignStreamItem>(200, "The entries, until either side ends the stream.")
        .with_error_statuses(&[429]);
    vec![
        ApiRoute::get("/v1/campaigns/{campaign}/log", read_log)
            .with_required_scope(Scope::Read)
            .with_operation(read),
        ApiRoute::get("/v1/campaigns/{campaign}/events", follow_campaign)
            .with_required_scope(Scope::Read)
            .with_event_stream()
            .with_operation(follow),
    ]
}

async fn read_log(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
    StrictQuery(query): StrictQuery<native::CampaignLogQuery>,
) -> Result<Json<native::CampaignLogPage>, RequestProblem> {
    let limit = resolve_page_limit(query.limit)?.min(convert::LIST_MAX);
    let after = query.after.unwrap_or_default();
    // One more entry than the page tells whether there is another page.
    let read = asked.controller.log(asked.tenant(), &campaign, (after, limit)).await;
    let read = read.map_err(campaign_problem)?;
    let is_full = read.len() as u64 == limit;
    let mut items: Vec<native::CampaignLogItem> = read.into_iter().map(convert::convert_entry).collect();
    let kept = count_within_bytes(&items, PAGE_BYTES);
    let is_cut = kept < items.len();
    items.truncate(kept);
    let next = items.last().filter(|_| is_full || is_cut).map(|item| item.seq);
    Ok(Json(native::CampaignLogPage { items, next }))
}

/// Returns how many of the first entries have so many bytes together; the first one always counts.
fn count_within_bytes(items: &[native::CampaignLogItem], max: usize) -> usize {
    let mut bytes = 0;
    let fitting = items.iter().take_while(|item| {
        let is_first = bytes == 0;
        bytes += serde_json::to_string(item).map_or(max, |text| text.len());
        is_first || bytes <= max
    });
    fitting.count()
}

async fn follow_campaign(
    asked: CampaignRequest,
    Path(campaign): Path<String>,
    StrictQuery(query): StrictQuery<native::FollowCampaign>,
) -> Result<Response, RequestProblem> {
    let after = asked.telling.last_event_id().or(query.after).filter(|id| !id.is_empty());
    let invalid = |_| {
        RequestProblem::invalid_request(
            "the id of an event of a campaign is the number of an entry of its log",
        )
        .with_field("after")
    };
    let after = after.map(|after| after.parse::<u64>()).transpose().map_err(invalid)?.unwrap_or_default();
    // A stream of events of a campaign that does not exist would wait for ever.
    let board = asked.controller.get(asked.tenant(), &campaign).await.map_err(campaign_problem)?;
    if after > board.seq {
        let why = format!("the log has no entry {after}: its last one is {}", board.seq);
        return Err(RequestProblem::not_found("chat_event_unknown", why));
    }
    let entries = asked.controller.follow(asked.tenant(), &campaign, after).map_err(campaign_problem)?;
    let frames = frame_entries(entries, asked.telling.failure_framer());
    Ok(sse::resumable_stream_response(&asked.telling.shared, frames))
}

/// Converts entries to frames, after a comment that reports the open stream. An error is the last frame.
fn frame_entries(
    entries: impl Stream<Item = singletree_controller::Result<CampaignLogEntry>> + Send + 'static,
    framing: StreamFailureFramer,
) -> impl Stream<Item = ServerSentEvent> + Send + 'static {
    let frames = Box::pin(entries).map(move |entry| match entry {
        Ok(entry) => {
            let item = convert::convert_entry(entry);
            ServerSentEvent { id: Some(item.seq.to_string()), ..build_json_frame(&item) }
        }
        Err(error) => framing.frame_failure(&campaign_problem(error)),
    });
    stream::once(std::future::ready(ServerSentEvent::from_comment("open"))).chain(frames)
}
