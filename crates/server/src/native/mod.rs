//! The native API: everything that the harness offers, as JSON and server-sent events.

use axum::Router;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::problem::Problem;
use crate::section::{Access, Asked, Route, Section};

/// Returns the native section.
pub(crate) fn section() -> Section {
    let router = Router::new().route("/healthz", get(async || "ok"));
    let routes = vec![Route { method: Method::GET, path: "/healthz", access: Access::Open }];
    Section { name: "native", router, routes, render }
}

fn render(problem: &Problem, _asked: &Asked) -> Response {
    (problem.status, problem.message.clone()).into_response()
}
