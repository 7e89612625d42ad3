//! The UI message stream of Vercel's ai.
//!
//! A page keeps messages in which all that was done in answer to the user is one: an invocation, all its turns, is one message of
//! the page, and its id is the invocation's. `wire` makes parts of the pieces of `fold`, `project` makes the same messages of a
//! history, `posted` settles what a body asks for. What the page's chat is called, and which session that is, is settled in
//! `branch`. How to use it: docs/ui-stream.md.

mod branch;
mod messages;
mod post;
mod posted;
mod project;
mod resume;
mod wire;

#[cfg(test)]
mod tests;

use crate::caller::Scope;
use crate::native;
use crate::section::{Route, Section};

/// Returns the section.
pub(crate) fn section() -> Section {
    let routes = vec![
        Route::post("/v1/ui", post::post).needs(Scope::Write),
        Route::get("/v1/ui/{session}/stream", resume::resume).needs(Scope::Read),
        Route::get("/v1/ui/{session}/messages", messages::list).needs(Scope::Read),
    ];
    Section::new("ui_stream", native::render, routes)
}
