//! Steerable chat: its messages, its agent sessions, its stream. A chat is a session, and its id that session's.
//!
//! `send` and `events` stream what `wire` makes of the pieces of `fold`; `project` writes a history as the specification has
//! messages. What the specification leaves open is settled in docs/steerable.md.

mod events;
mod messages;
mod project;
mod resume_id;
mod send;
mod sessions;
mod wire;

#[cfg(test)]
mod tests;

use crate::caller::Scope;
use crate::native;
use crate::section::{Route, Section};

/// Returns the section.
pub(crate) fn section() -> Section {
    let routes = vec![
        Route::post("/v1/chats/{session}/send", send::send).needs(Scope::Write),
        Route::post("/v1/chats/{session}/steer", send::steer).needs(Scope::Write),
        Route::get("/v1/chats/{session}/messages", messages::page).needs(Scope::Read),
        Route::get("/v1/chats/{session}/events", events::follow).needs(Scope::Read),
        Route::get("/v1/agent-sessions", sessions::list).needs(Scope::Read),
        Route::post("/v1/agent-sessions", sessions::make).needs(Scope::Write),
        Route::get("/v1/agent-sessions/{session}", sessions::one).needs(Scope::Read),
    ];
    Section::new("steerable", native::render, routes)
}
