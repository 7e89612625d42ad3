//! The native API: everything that the harness offers, as JSON and server-sent events.

use axum::response::{IntoResponse, Response};

use crate::problem::Problem;
use crate::section::{Asked, Route, Section};

/// Returns the native section.
pub(crate) fn section() -> Section {
    Section::new("native", render, vec![Route::get("/healthz", async || "ok").open()])
}

fn render(problem: &Problem, _asked: &Asked) -> Response {
    (problem.status, problem.message.clone()).into_response()
}
