//! The routes of narration, in the native API's words.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use singletree_narration::{NarrationOwner, NarrationPurpose, NarrationSpeaker};
use singletree_protocol::native;

use super::view::DisplayedNarration;
use crate::caller::{RequestCaller, Scope};
use crate::forward::{defer_to_owner, follow_owner};
use crate::native::{StrictQuery, check_session_id, convert_time, render_problem, wants_events};
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute, ProtocolSection};
use crate::shared::ServerState;
use crate::sse::{self, ServerSentEvent};

/// The header in which browsers send the id of the last event that they received.
const LAST_EVENT_ID: &str = "last-event-id";

/// Returns the section of narration.
pub(crate) fn build_section() -> ProtocolSection {
    let read = ApiOperation::new("readNarration", "Reads what was narrated")
        .with_description(
            "Status, explanations, questions, progress and errors, told for people. It is held for a while and not for ever, is \
             empty after a restart, and may be empty at any time: nothing depends on it, and what counts is read elsewhere \
             (messages, turns, pending waits). With `Accept: text/event-stream` what is said follows, as it is said. A session \
             that is not there has no narration.",
        )
        .with_tag("narration")
        .with_header("Last-Event-ID", "The id of the last piece that was seen; as `after`.")
        .with_query_type::<native::NarrationQuery>()
        .with_json_response::<native::NarrationList>(200, "What is held.")
        .with_event_response::<native::Narration>(200, "What is held, then what is said, until either side ends the stream.")
        .without_not_found();
    let delete = ApiOperation::new("deleteNarration", "Deletes what was narrated")
        .with_description("At any time, as often as one likes. Nothing else changes by it.")
        .with_tag("narration")
        .with_empty_response(204, "Nothing is held of it any more.")
        .without_not_found();
    let path = "/v1/sessions/{session}/narration";
    let routes = vec![
        ApiRoute::get(path, read_narration).with_required_scope(Scope::Read).with_operation(read),
        ApiRoute::delete(path, delete_narration).with_required_scope(Scope::Write).with_operation(delete),
    ];
    ProtocolSection::new("narration", render_problem, routes)
}

async fn read_narration(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    Path(session): Path<String>,
    StrictQuery(query): StrictQuery<native::NarrationQuery>,
    headers: HeaderMap,
) -> Result<Response, RequestProblem> {
    check_session_id(&session)?;
    let view = shared.narration_of(&caller.tenant, &session);
    let seen =
        headers.get(LAST_EVENT_ID).map(|header| String::from_utf8_lossy(header.as_bytes()).into_owned());
    let after = seen.or(query.after);
    if wants_events(&headers) {
        let frames = view.follow_entries(after.as_deref()).map(|piece| build_narration_frame(&piece));
        let frames = follow_owner(&shared, (&caller.tenant, &session), frames).await;
        return Ok(sse::resumable_stream_response(&shared, frames));
    }
    let items = view.entries_after(after.as_deref()).iter().map(convert_narration).collect();
    let held = Json(native::NarrationList { items, enabled: shared.narration.is_enabled() }).into_response();
    Ok(defer_to_owner(&shared, (&caller.tenant, &session), held).await)
}

async fn delete_narration(
    State(shared): State<Arc<ServerState>>,
    RequestCaller(caller): RequestCaller,
    Path(session): Path<String>,
) -> Result<Response, RequestProblem> {
    check_session_id(&session)?;
    shared.narration.forget_session(NarrationOwner { tenant: caller.tenant.as_str(), session: &session });
    Ok(defer_to_owner(&shared, (&caller.tenant, &session), StatusCode::NO_CONTENT.into_response()).await)
}

fn build_narration_frame(told: &DisplayedNarration) -> ServerSentEvent {
    let data = serde_json::to_string(&convert_narration(told)).unwrap_or_default();
    ServerSentEvent { id: Some(told.id.clone()), ..ServerSentEvent::from_data(data) }
}

/// Writes a piece as the wire has it.
fn convert_narration(told: &DisplayedNarration) -> native::Narration {
    let narration = &told.narration;
    native::Narration {
        id: told.id.clone(),
        timestamp: convert_time(narration.timestamp.into()),
        role: match narration.role {
            NarrationSpeaker::System => native::NarrationRole::System,
            NarrationSpeaker::Agent => native::NarrationRole::Agent,
            NarrationSpeaker::User => native::NarrationRole::User,
        },
        kind: match narration.kind {
            NarrationPurpose::Status => native::NarrationKind::Status,
            NarrationPurpose::Explanation => native::NarrationKind::Explanation,
            NarrationPurpose::Ask => native::NarrationKind::Ask,
            NarrationPurpose::Progress => native::NarrationKind::Progress,
            NarrationPurpose::Error => native::NarrationKind::Error,
        },
        content: narration.content.clone(),
    }
}
