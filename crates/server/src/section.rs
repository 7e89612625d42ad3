//! A section: the routes of one protocol, and how it words what went wrong.

use std::sync::Arc;

use axum::Router;
use axum::http::Method;
use axum::response::Response;

use crate::problem::Problem;
use crate::shared::Shared;

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody, also without a key.
    Open,
    /// Callers; the handler checks the scope.
    Keyed,
}

/// One route, as lists and tests of all routes need it. What it says is what is served: `Section::router` is made of
/// the same paths.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    /// The method.
    pub(crate) method: Method,
    /// The path, with `{names}`.
    pub(crate) path: &'static str,
    /// Who may use it.
    pub(crate) access: Access,
}

/// What a request was, for those who word a problem.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The request's id: the caller's own `X-Request-ID`, if it sent one that is fit, else one of ours.
    pub(crate) request_id: String,
}

/// Words a problem in a section's own protocol; status and headers that the problem asks for are set by whoever calls it.
pub(crate) type Render = fn(&Problem, &Asked) -> Response;

/// One protocol.
pub(crate) struct Section {
    /// Its name, as metrics and logs have it.
    pub(crate) name: &'static str,
    /// Its routes.
    pub(crate) router: Router<Arc<Shared>>,
    /// The same routes as a list.
    pub(crate) routes: Vec<Route>,
    /// How it words a problem.
    pub(crate) render: Render,
}
