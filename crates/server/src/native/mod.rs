//! The native API: everything that the harness offers, as JSON and server-sent events.

mod blobs;
mod problem;

use crate::section::{Route, Section};

/// Returns the native section.
pub(crate) fn section() -> Section {
    let mut routes = vec![Route::get("/healthz", async || "ok").open()];
    routes.extend(blobs::routes());
    Section::new("native", problem::render, routes)
}
