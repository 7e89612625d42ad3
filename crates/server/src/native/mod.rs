//! The native API: everything that the harness offers, as JSON and server-sent events.

mod problem;

use axum::Router;
use axum::http::Method;
use axum::routing::get;

use crate::section::{Access, Route, Section};

/// Returns the native section.
pub(crate) fn section() -> Section {
    let router = Router::new().route("/healthz", get(async || "ok"));
    let routes = vec![Route { method: Method::GET, path: "/healthz", access: Access::Open }];
    Section { name: "native", router, routes, render: problem::render }
}
