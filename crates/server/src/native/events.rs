//! The events of a session, from any event on, as they happen (D9).

use axum::extract::Path;
use axum::response::Response;
use singletree_harness::ChatEventId;
use singletree_protocol::native;

use super::answering::{HandlerContext, framed};
use super::ask::StrictQuery;
use crate::caller::Scope;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};
use crate::sse;

/// Returns the routes about events.
pub(super) fn routes() -> Vec<ApiRoute> {
    let follow = ApiOperation::new("followEvents", "Follows the events of a session")
        .about(
            "Server-sent events: what happened since the event that was seen last, then what happens. Each frame's data is an \
             event; its `id`, where it has one, is what `Last-Event-ID` takes, so that a browser that lost the stream goes on \
             without a gap and without a repeat, also after a restart of the server. Deltas and tool activity come only \
             while they happen; who comes late gets the text so far. A silent stream says by a comment that it lives. Frames \
             have no `event:` name: all arrive as `message`. An id of which the log has forgotten what came after is 409, with \
             the `oldest_event` that is kept: read the history, and begin there.",
        )
        .tag("events")
        .header("Last-Event-ID", "The id of the last event that was seen.")
        .query::<native::EventQuery>()
        .streams::<native::StreamItem>(200, "The events, until either side ends the stream.")
        .fails(&[409]);
    vec![
        ApiRoute::get("/v1/sessions/{session}/events", follow_session)
            .needs(Scope::Read)
            .streams()
            .documented(follow),
    ]
}

async fn follow_session(
    telling: HandlerContext,
    Path(session): Path<String>,
    StrictQuery(query): StrictQuery<native::EventQuery>,
) -> Result<Response, RequestProblem> {
    let chat = telling.chat();
    // A stream of events of a session that does not exist would wait for ever.
    chat.session_info(&session).await.map_err(|error| RequestProblem::of(&error))?;
    let after = telling.last_event_id().or(query.after).filter(|event_id| !event_id.is_empty());
    let after = after
        .map(|after| after.parse::<ChatEventId>())
        .transpose()
        .map_err(|error| RequestProblem::of(&error))?;
    let view = telling.view(&session).await?;
    let events = chat.events(&session, after).await.map_err(|error| RequestProblem::of(&error))?;
    Ok(sse::resumable_stream(&telling.shared, framed(events, telling.framing(view))))
}
