//! The events of the caller's tenant, for clients that show many sessions at once.

use axum::response::Response;
use futures_core::Stream;
use futures_util::{StreamExt, stream};
use singletree_harness::{LiveTenantEvent, LiveTenantEventKind, TenantEventId, TenantEvents};
use singletree_protocol::native;

use super::answering::{HandlerContext, data};
use super::ask::StrictQuery;
use super::convert::time;
use crate::caller::Scope;
use crate::problem::RequestProblem;
use crate::section::{ApiOperation, ApiRoute};
use crate::sse::{self, ServerSentEvent};

/// Returns the routes about the events of a tenant.
pub(super) fn routes() -> Vec<ApiRoute> {
    let follow = ApiOperation::new("followTenantEvents", "Follows what happens in all sessions")
        .about(
            "Server-sent events of the caller's tenant: a session was made, forked or deleted; a session began to wait; its wait \
             ended; a turn ended. Each frame's data is an event. They name what to read, and do not replace reading: nothing \
             of them is stored. The server keeps the last 512 of a tenant in memory, so that a reader which comes again with the \
             id that it saw last goes on without a gap. Where a gap cannot be ruled out, as after a restart of the server, the \
             next event is `events.missed`: list sessions and waits again. A silent stream says by a comment that it lives.",
        )
        .tag("events")
        .header("Last-Event-ID", "The id of the last event that was seen.")
        .query::<native::TenantEventQuery>()
        .streams::<native::TenantStreamItem>(200, "The events, until either side ends the stream.")
        .fails(&[404]);
    vec![ApiRoute::get("/v1/events", follow_tenant).needs(Scope::Read).streams().documented(follow)]
}

async fn follow_tenant(
    telling: HandlerContext,
    StrictQuery(query): StrictQuery<native::TenantEventQuery>,
) -> Result<Response, RequestProblem> {
    let after = telling.last_event_id().or(query.after).filter(|event_id| !event_id.is_empty());
    let after = after.map(|after| after.parse::<TenantEventId>()).transpose();
    let after = after.map_err(|error| RequestProblem::of(&error))?;
    let events = telling.chat().tenant_events(after.as_ref()).map_err(|error| RequestProblem::of(&error))?;
    Ok(sse::resumable_stream(&telling.shared, frames(events)))
}

fn frames(events: TenantEvents) -> impl Stream<Item = ServerSentEvent> + Send + 'static {
    let frames = stream::unfold(events, async |mut events| {
        let event = events.next().await?;
        Some((frame(&event), events))
    });
    stream::once(std::future::ready(ServerSentEvent::comment("open"))).chain(frames)
}

fn frame(event: &LiveTenantEvent) -> ServerSentEvent {
    let written = native::TenantEvent {
        id: event.id.to_string(),
        at: time(event.at),
        session: event.session.as_ref().map(ToString::to_string),
        what: kind(&event.kind),
    };
    ServerSentEvent { id: Some(written.id.clone()), ..data(&written) }
}

fn kind(kind: &LiveTenantEventKind) -> native::TenantEventKind {
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
            deadline: awaited.deadline.map(time),
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
