//! The UI message stream of Vercel's `ai` library.
//!
//! A page keeps one message for the whole answer to a message of the user: an invocation, with all its turns, is one
//! message of the page, and its id is the invocation's. `wire` makes parts from the pieces of `fold`, `project` makes
//! the same messages from a history, `posted` reads requests. `branch` maps the page's chat to its session. How to
//! use it: docs/ui-stream.md.

mod approvals;
mod branch;
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
use crate::problem::Problem;
use crate::section::{Asked, Route, Section};
use crate::sse::Frame;

/// Returns the section.
pub(crate) fn section() -> Section {
    let routes = vec![
        Route::post("/v1/ui", post::post).needs(Scope::Write).streams(),
        Route::get("/v1/ui/{session}/stream", resume::resume).needs(Scope::Read).streams(),
        Route::delete("/v1/ui/{session}/stream", stop::stop).needs(Scope::Write),
        Route::get("/v1/ui/{session}/messages", messages::list).needs(Scope::Read),
    ];
    Section::new("ui_stream", native::render, routes).failing_streams(stream_failure)
}

/// Returns the last frames of a stream that ends with a problem.
fn stream_failure(problem: &Problem, _asked: &Asked) -> Vec<Frame> {
    let error = StreamPart::Error { error_text: problem.shown().to_owned() };
    let finish = StreamPart::Finish { finish_reason: Some(Cause::Error), message_metadata: None };
    let part = |part: &StreamPart| serde_json::to_string(part).expect("a part of strings is JSON");
    vec![Frame::data(part(&error)), Frame::data(part(&finish)), Frame::data("[DONE]")]
}
