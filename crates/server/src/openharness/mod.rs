//! The strict OpenHarness engine (spec: OpenHarness PROTOCOL; D1, D2, D3, D16, D18).
//!
//! # Vocabulary
//! A *wish* is what a request comes down to: say something, decide something, or show how a run stands. A *failure* is an
//! answer with an error: the request was understood as a message, so HTTP says 200. A *pair* is the two tokens of one
//! question, one for each decision; a *ledger* remembers which request got which answer.
//!
//! # Inside
//! `opening` is what is read of a request whatever else it says; `admission` turns a message into a wish, and `negotiation` its
//! capabilities into terms: both are pure. `engine` runs through all of it; `saying`, `deciding` and `showing` carry the three
//! wishes out; `directives` words what came of it. `ledger` answers the same request with the same bytes, `tokens` keeps the
//! tokens of questions, `sealed` keeps text in the store that only who asked can have again. `attachments` gets pictures,
//! `pairing` gives devices keys of their own.

mod admission;
mod answer;
mod approval;
mod attachments;
mod capabilities;
mod deciding;
mod digest;
mod directives;
mod engine;
mod environments;
mod failure;
mod ledger;
mod negotiation;
mod opening;
mod pairing;
mod render;
mod saying;
mod sealed;
mod showing;
mod tokens;

use std::time::Duration;

pub use environments::Environments;

use crate::section::{Route, Section};

/// How long the same request gets the same answer.
const REQUEST_TTL: Duration = Duration::from_hours(24);

/// How long a question can be answered that has no deadline of its own.
const QUESTION_TTL: Duration = Duration::from_hours(7 * 24);

/// Returns the section.
pub(crate) fn section() -> Section {
    let mut routes = vec![
        Route::post("/v1/openharness", engine::answer),
        Route::post("/openharness", engine::answer),
        Route::get("/v1/openharness/capabilities", capabilities::show),
        Route::get("/openharness/capabilities", capabilities::show),
    ];
    routes.extend(pairing::routes());
    Section::new("openharness", render::render, routes)
}
