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
pub(crate) fn build_section() -> ProtocolSection {
    let routes = vec![
        ApiRoute::post("/v1/chats/{session}/send", send::send_message)
            .with_required_scope(Scope::Write)
            .with_event_stream(),
        ApiRoute::post("/v1/chats/{session}/steer", send::steer_running_turn)
            .with_required_scope(Scope::Write),
        ApiRoute::get("/v1/chats/{session}/messages", messages::list_message_page)
            .with_required_scope(Scope::Read),
        ApiRoute::get("/v1/chats/{session}/events", events::follow_events)
            .with_required_scope(Scope::Read)
            .with_event_stream(),
        ApiRoute::get("/v1/agent-sessions", sessions::list_sessions).with_required_scope(Scope::Read),
        ApiRoute::post("/v1/agent-sessions", sessions::create_session).with_required_scope(Scope::Write),
        ApiRoute::get("/v1/agent-sessions/{session}", sessions::show_session)
            .with_required_scope(Scope::Read),
    ];
    ProtocolSection::new("steerable", native::render_problem, routes)
        .with_stream_failure(render_stream_failure)
}

/// Returns the last frames of a stream that ends with a problem.
fn render_stream_failure(problem: &RequestProblem, _asked: &RequestContext) -> Vec<ServerSentEvent> {
    let (message, code) = (Some(problem.end_user_text().to_owned()), Some(problem.category.clone()));
    let error = SseEvent { message, code, ..SseEvent::new(EventType::Error) };
    vec![send::encode_event_frame(&error), ServerSentEvent::from_data("[DONE]")]
}
