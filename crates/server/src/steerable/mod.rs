//! Steerable chat: its messages, its agent sessions, its stream. A chat is a session with the same id.
//!
//! `send` and `events` stream the events that `wire` makes from the pieces of `fold`; `project` converts a history to
//! the messages of the specification. docs/steerable.md settles the points that the specification leaves open.

mod events;
mod messages;
mod project;
mod resume_id;
mod send;
mod sessions;
mod wire;

#[cfg(test)]
mod tests;

use singletree_protocol::steerable::{EventType, SseEvent};

use crate::caller::Scope;
use crate::native;
use crate::problem::RequestProblem;
use crate::section::{ApiRoute, ProtocolSection, RequestContext};
use crate::sse::ServerSentEvent;

/// Returns the section.
pub(crate) fn section() -> ProtocolSection {
    let routes = vec![
        ApiRoute::post("/v1/chats/{session}/send", send::send).needs(Scope::Write).streams(),
        ApiRoute::post("/v1/chats/{session}/steer", send::steer).needs(Scope::Write),
        ApiRoute::get("/v1/chats/{session}/messages", messages::page).needs(Scope::Read),
        ApiRoute::get("/v1/chats/{session}/events", events::follow).needs(Scope::Read).streams(),
        ApiRoute::get("/v1/agent-sessions", sessions::list).needs(Scope::Read),
        ApiRoute::post("/v1/agent-sessions", sessions::make).needs(Scope::Write),
        ApiRoute::get("/v1/agent-sessions/{session}", sessions::one).needs(Scope::Read),
    ];
    ProtocolSection::new("steerable", native::render, routes).failing_streams(stream_failure)
}

/// Returns the last frames of a stream that ends with a problem.
fn stream_failure(problem: &RequestProblem, _asked: &RequestContext) -> Vec<ServerSentEvent> {
    let (message, code) = (Some(problem.shown().to_owned()), Some(problem.category.clone()));
    let error = SseEvent { message, code, ..SseEvent::new(EventType::Error) };
    vec![send::frame(&error), ServerSentEvent::data("[DONE]")]
}
