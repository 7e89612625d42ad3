//! The events of the caller's tenant, for clients that show many sessions at once.

use axum::response::Response;
use futures_core::Stream;
use futures_util::{StreamExt, stream};
use singletree_harness::{LiveTenantEvent, LiveTenantEventKind, TenantEventId, TenantEvents};
use singletree_protocol::native;

use super::answering::{HandlerContext, build_json_frame};
use super::ask::StrictQuery;
use super::convert::convert_time;
use crate::caller::Scope;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};
use crate::sse::{self, ServerSentEvent};

/// Returns the routes about the events of a tenant.
pub(super) fn tenant_event_routes() -> Vec<ApiRoute> {
    let follow = ApiOperation::new("followTenantEvents", "Follows what happens in all sessions")
        .with_description(
            "Server-sent events of the caller's tenant: a session was made, forked or deleted; a session began to wait; its wait \
             ended; a turn ended. Each frame's data is an event. They name what to read, and do not replace reading: nothing \
             of them is stored. The server keeps the last 512 of a tenant in memory, so that a reader which comes again with the \
             id that it saw last goes on without a gap. Where a gap cannot be ruled out, as after a restart of the server, the \
             next event is `events.missed`: list sessions and waits again. A silent stream says by a comment that it lives.",
        )
        .with_tag("events")
        .with_header("Last-Event-ID", "The id of the last event that was seen.")
        .with_query_type::<native::TenantEventQuery>()
        .with_event_response::<native::TenantStreamItem>(200, "The events, until either side ends the stream.")
        .with_error_statuses(&[404]);
    vec![
        ApiRoute::get("/v1/events", follow_tenant_events)
            .with_required_scope(Scope::Read)
            .with_event_stream()
            .with_operation(follow),
    ]
}

async fn follow_tenant_events(
    telling: HandlerContext,
    StrictQuery(query): StrictQuery<native::TenantEventQuery>,
) -> Result<Response, RequestProblem> {
    let after = telling.last_event_id().or(query.after).filter(|event_id| !event_id.is_empty());
    let after = after.map(|after| after.parse::<TenantEventId>()).transpose();
    let after = after.map_err(|error| RequestProblem::from_chat_error(&error))?;
    let events = telling
        .caller_chat()
        .tenant_events(after.as_ref())
        .await
        .map_err(|error| RequestProblem::from_chat_error(&error))?;
    Ok(sse::resumable_stream_response(&telling.shared, frame_tenant_events(events)))
}

fn frame_tenant_events(events: TenantEvents) -> impl Stream<Item = ServerSentEvent> + Send + 'static {
    let frames = stream::unfold(events, async |mut events| {
        let event = events.next_event().await?;
        Some((frame_tenant_event(&event), events))
    });
    stream::once(std::future::ready(ServerSentEvent::from_comment("open"))).chain(frames)
}

fn frame_tenant_event(event: &LiveTenantEvent) -> ServerSentEvent {
    let written = native::TenantEvent {
        id: event.id.to_string(),
        at: convert_time(event.at),
        session: event.session.as_ref().map(ToString::to_string),
        what: convert_event_kind(&event.kind),
    };
    ServerSentEvent { id: Some(written.id.clone()), ..build_json_frame(&written) }
}

fn convert_event_kind(kind: &LiveTenantEventKind) -> native::TenantEventKind {
    match kind {
        LiveTenantEventKind::SessionCreated { agent } => {
            native::TenantEventKind::SessionCreated { agent: agent.clone() }
        }
        LiveTenantEventKind::SessionForked { parent, offset } => {
            native::TenantEventKind::SessionForked { parent: parent.to_string(), offset: *offset }
        }
        LiveTenantEventKind::SessionDeleted => native::TenantEventKind::SessionDeleted,
        LiveTenantEventKind::WaitBegan { turn, awaited, preview } => native::TenantEventKind::WaitBegan {
            turn: turn.to_string(),
            wait: awaited.wait,
            signal: awaited.signal.clone(),
            approval: awaited.approval,
            tool: awaited.tool.clone(),
            effect: awaited.effect.clone(),
            preview: preview.clone(),
            deadline: awaited.deadline.map(convert_time),
        },
        LiveTenantEventKind::WaitEnded { turn, wait, signal, how } => native::TenantEventKind::WaitEnded {
            turn: turn.to_string(),
            wait: *wait,
            signal: signal.clone(),
            how: match *how {
                "expired" => native::WaitEnd::Expired,
                "cancelled" => native::WaitEnd::Cancelled,
                _ => native::WaitEnd::Consumed,
            },
        },
        LiveTenantEventKind::TurnEnded { turn, outcome, category } => native::TenantEventKind::TurnEnded {
            turn: turn.to_string(),
            outcome: match *outcome {
                "suspended" => native::TurnEnd::Suspended,
                "errored" => native::TurnEnd::Errored,
                _ => native::TurnEnd::Completed,
            },
            category: category.clone(),
        },
        LiveTenantEventKind::Missed => native::TenantEventKind::Missed,
    }
}
