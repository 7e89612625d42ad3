//! One route: its method, path, access and handler, and its description in the OpenAPI document.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, MethodRouter, on};

use super::ApiOperation;
use crate::caller::{RequestCaller, Scope};
use crate::shared::ServerState;

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteAccess {
    /// Anybody, also without a key.
    Open,
    /// Callers, if they have the scope that is needed.
    Keyed,
}

/// One route of a section's table.
#[derive(Clone)]
pub(crate) struct ApiRoute {
    /// The method.
    pub(crate) method: Method,
    /// The path, with `{names}`.
    pub(crate) path: &'static str,
    /// Who may use it.
    pub(crate) access: RouteAccess,
    /// The scope that a caller needs.
    pub(crate) scope: Option<Scope>,
    /// Whether it answers with a stream of events whatever `Accept` names.
    pub(crate) streams: bool,
    /// Its description in the OpenAPI document.
    pub(crate) operation: Option<ApiOperation>,
    handler: MethodRouter<Arc<ServerState>, Infallible>,
}

impl ApiRoute {
    /// Makes a route of a handler that reads.
    pub(crate) fn get<T: 'static>(path: &'static str, handler: impl Handler<T, Arc<ServerState>>) -> Self {
        Self::new(Method::GET, path, on(MethodFilter::GET, handler))
    }

    /// Makes a route of a handler that does something.
    pub(crate) fn post<T: 'static>(path: &'static str, handler: impl Handler<T, Arc<ServerState>>) -> Self {
        Self::new(Method::POST, path, on(MethodFilter::POST, handler))
    }

    /// Makes a route of a handler that replaces.
    pub(crate) fn put<T: 'static>(path: &'static str, handler: impl Handler<T, Arc<ServerState>>) -> Self {
        Self::new(Method::PUT, path, on(MethodFilter::PUT, handler))
    }

    /// Makes a route of a handler that removes.
    pub(crate) fn delete<T: 'static>(path: &'static str, handler: impl Handler<T, Arc<ServerState>>) -> Self {
        Self::new(Method::DELETE, path, on(MethodFilter::DELETE, handler))
    }

    fn new(method: Method, path: &'static str, handler: MethodRouter<Arc<ServerState>>) -> Self {
        let (access, scope, operation) = (RouteAccess::Keyed, None, None);
        Self { method, path, access, scope, streams: false, operation, handler }
    }

    /// Lets anybody use it, also without a key.
    pub(crate) fn allow_anonymous(mut self) -> Self {
        self.access = RouteAccess::Open;
        self
    }

    /// Sets the scope that a caller needs; it is checked before the handler runs.
    pub(crate) fn with_required_scope(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// Declares that the response is a stream of events even if `Accept` does not name one. The caller's stream quota
    /// is then taken before the handler runs, so that no request is accepted whose stream would be refused.
    pub(crate) fn with_event_stream(mut self) -> Self {
        self.streams = true;
        self
    }

    /// Sets its description in the OpenAPI document.
    pub(crate) fn with_operation(mut self, operation: ApiOperation) -> Self {
        self.operation = Some(operation);
        self
    }

    /// Returns the handler behind the check of its scope.
    pub(super) fn scoped_handler(&self) -> MethodRouter<Arc<ServerState>> {
        let Some(scope) = self.scope else { return self.handler.clone() };
        let check = move |RequestCaller(caller): RequestCaller, request: Request, next: Next| async move {
            match caller.require_scope(scope) {
                Ok(()) => next.run(request).await,
                Err(problem) => problem.into_response(),
            }
        };
        // With another method there is nothing to check: that is 405.
        self.handler.clone().route_layer(from_fn(check))
    }
}

impl fmt::Debug for ApiRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Route({} {})", self.method, self.path)
    }
}
