//! The native API: everything that the harness offers, as JSON and server-sent events.

mod problem;

use crate::section::{Route, Section};

/// Returns the native section.
pub(crate) fn section() -> Section {
    Section::new("native", problem::render, vec![Route::get("/healthz", async || "ok").open()])
}
