//! The events of a session, from any event on, as they happen (D9).

use axum::extract::Path;
use axum::response::Response;
use singletree_harness::ChatEventId;
use singletree_protocol::native;

use super::answering::{HandlerContext, frame_events};
use super::ask::StrictQuery;
use crate::caller::Scope;
use crate::forward::follow_owner;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};
use crate::sse;

/// Returns the routes about events.
pub(super) fn event_routes() -> Vec<ApiRoute> {
    let follow = ApiOperation::new("followEvents", "Follows the events of a session")
        .with_description(
            "Server-sent events: what happened since the event that was seen last, then what happens. Each frame's data is an \
             event; its `id`, where it has one, is what `Last-Event-ID` takes, so that a browser that lost the stream goes on \
             without a gap and without a repeat, also after a restart of the server. Deltas and tool activity come only \
             while they happen; who comes late gets the text so far. A silent stream says by a comment that it lives. Frames \
             have no `event:` name: all arrive as `message`. An id of which the log has forgotten what came after is 409, with \
             the `oldest_event` that is kept: read the history, and begin there.",
        )
        .with_tag("events")
        .with_header("Last-Event-ID", "The id of the last event that was seen.")
        .with_query_type::<native::EventQuery>()
        .with_event_response::<native::StreamItem>(200, "The events, until either side ends the stream.")
        .with_error_statuses(&[409]);
    vec![
        ApiRoute::get("/v1/sessions/{session}/events", follow_session_events)
            .with_required_scope(Scope::Read)
            .with_event_stream()
            .with_operation(follow),
    ]
}

async fn follow_session_events(
    telling: HandlerContext,
    Path(session): Path<String>,
    StrictQuery(query): StrictQuery<native::EventQuery>,
) -> Result<Response, RequestProblem> {
    let chat = telling.caller_chat();
    // A stream of events of a session that does not exist would wait for ever.
    chat.session(&session).info().await.map_err(|error| RequestProblem::from_chat_error(&error))?;
    let after = telling.last_event_id().or(query.after).filter(|event_id| !event_id.is_empty());
    let after = after
        .map(|after| after.parse::<ChatEventId>())
        .transpose()
        .map_err(|error| RequestProblem::from_chat_error(&error.into()))?;
    let view = telling.load_visibility(&session).await?;
    let events = chat
        .session(&session)
        .events()
        .after(after)
        .stream()
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    let frames = frame_events(events, telling.event_framer(view));
    let frames = follow_owner(&telling.shared, (&telling.caller.tenant, &session), frames).await;
    Ok(sse::resumable_stream_response(&telling.shared, frames))
}
