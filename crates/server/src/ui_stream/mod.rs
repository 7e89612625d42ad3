//! The UI message stream of Vercel's `ai` library.
//!
//! A page keeps one message for the whole answer to a message of the user: an invocation, with all its turns, is one
//! message of the page, and its id is the invocation's. `wire` makes parts from the pieces of `fold`, `project` makes
//! the same messages from a history, `posted` reads requests. `branch` maps the page's chat to its session. How to
//! use it: docs/ui-stream.md.

mod approvals;
mod branch;
mod failed;
mod messages;
mod post;
mod posted;
mod project;
mod resume;
mod sdk;
mod stop;
mod wire;

#[cfg(test)]
mod tests;

use singletree_protocol::ui_stream::{Cause, StreamPart};

pub(crate) use sdk::AI_SDK_VERSION;

use crate::caller::Scope;
use crate::native;
use crate::problem::RequestProblem;
use crate::section::{ApiRoute, ProtocolSection, RequestContext};
use crate::sse::ServerSentEvent;

/// Returns the section.
pub(crate) fn build_section() -> ProtocolSection {
    let routes = vec![
        ApiRoute::post("/v1/ui", post::execute_page_request)
            .with_required_scope(Scope::Write)
            .with_event_stream(),
        ApiRoute::get("/v1/ui/{session}/stream", resume::resume_stream)
            .with_required_scope(Scope::Read)
            .with_event_stream(),
        ApiRoute::delete("/v1/ui/{session}/stream", stop::cancel_running_turn)
            .with_required_scope(Scope::Write),
        ApiRoute::get("/v1/ui/{session}/messages", messages::list_messages).with_required_scope(Scope::Read),
    ];
    ProtocolSection::new("ui_stream", native::render_problem, routes)
        .with_stream_failure(render_stream_failure)
}

/// Returns the last frames of a stream that ends with a problem.
fn render_stream_failure(problem: &RequestProblem, _asked: &RequestContext) -> Vec<ServerSentEvent> {
    let error = StreamPart::Error { error_text: problem.end_user_text().to_owned() };
    let finish = StreamPart::Finish { finish_reason: Some(Cause::Error), message_metadata: None };
    let part = |part: &StreamPart| serde_json::to_string(part).expect("a part of strings is JSON");
    vec![
        ServerSentEvent::from_data(part(&error)),
        ServerSentEvent::from_data(part(&finish)),
        ServerSentEvent::from_data("[DONE]"),
    ]
}
