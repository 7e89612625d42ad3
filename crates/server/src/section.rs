//! A section: the routes of one protocol, and how it renders problems.
//!
//! # One table
//! One list of [`ApiRoute`]s defines the routes that are served, their descriptions in the OpenAPI document and the cases
//! of the tests of all routes. A section makes the list, [`ProtocolSection::new`] makes its router of it, and a route outside
//! of the list is not served. To add a route, add an entry to the list of its section:
//!
//! ```text
//! ApiRoute::post("/v1/sessions/{session}/blobs", upload)   // path, handler; access `Keyed` unless `.open()`
//!     .needs(Scope::Write)                                 // checked before the handler, and said in the document
//!     .documented(
//!         ApiOperation::new("uploadBlob", "Uploads a blob") // the operation's id and summary
//!             .tag("blobs")
//!             .header("X-Name", "Its name.")               // headers, except Accept, Content-Type, Authorization
//!             .query::<native::UploadQuery>()              // one parameter for each property of the type
//!             .bytes("application/octet-stream")           // or `.body::<T>()` for JSON
//!             .answers::<native::BlobInfo>(201, "The blob.")
//!             .fails(&[413]),                              // besides those of its scope and path: 400, 401, ...
//!     )
//! ```
//!
//! A route without `documented` is served and tested but is not part of the document: use this for protocols that are
//! described elsewhere. Each route, documented or not, needs a line in `tests/it/tenants.rs`, which fails without.

mod operation;
mod route;

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use tower_http::CompressionLevel;

pub(crate) use operation::{
    ApiOperation, BodyContent, OperationHeader, OperationResponse, SchemaOf, schema_of,
};
pub(crate) use route::{ApiRoute, RouteAccess};

use crate::compression::compression_layer;
use crate::problem::RequestProblem;
use crate::shared::ServerState;
use crate::sse::ServerSentEvent;

/// The data of a request that the response to a problem needs.
#[derive(Debug, Clone)]
pub(crate) struct RequestContext {
    /// The request's id: the caller's own `X-Request-ID`, if it is fit for logs and headers, otherwise a new one.
    pub(crate) request_id: String,
}

/// Renders a problem in a section's own protocol. The caller of this function sets the status and the headers of the
/// problem.
pub(crate) type Render = fn(&RequestProblem, &RequestContext) -> Response;

/// Renders a problem as the last frames of a stream that fails; none in a protocol without a form for it.
pub(crate) type StreamFailure = fn(&RequestProblem, &RequestContext) -> Vec<ServerSentEvent>;

/// One protocol.
pub(crate) struct ProtocolSection {
    /// The name in metrics and logs.
    pub(crate) name: &'static str,
    /// The router of the routes.
    pub(crate) router: Router<Arc<ServerState>>,
    /// The same routes as a list.
    pub(crate) routes: Vec<ApiRoute>,
    /// Renders a problem.
    pub(crate) render: Render,
    /// Renders the failure of a stream.
    pub(crate) stream_failure: StreamFailure,
    /// Prefixes of paths that clients of the protocol request but that are not served: this section renders their 404.
    pub(crate) unserved: &'static [&'static str],
}

impl ProtocolSection {
    /// Makes a section from its list of routes.
    pub(crate) fn new(name: &'static str, render: Render, routes: Vec<ApiRoute>) -> Self {
        let router = routes.iter().fold(Router::new(), |all, it| all.route(it.path, it.scoped_handler()));
        Self { name, router, routes, render, stream_failure: |_, _| Vec::new(), unserved: &[] }
    }

    /// Sets the prefixes of paths that clients of the protocol request but that are not served.
    pub(crate) fn with_unserved_prefixes(mut self, unserved: &'static [&'static str]) -> Self {
        self.unserved = unserved;
        self
    }

    /// Compresses the responses of this section with the given effort: the server's own compression is the fastest.
    pub(crate) fn with_compression(mut self, effort: CompressionLevel) -> Self {
        self.router = self.router.layer(compression_layer(effort));
        self
    }

    /// Sets the function that renders the failure of a stream.
    pub(crate) fn with_stream_failure(mut self, failure: StreamFailure) -> Self {
        self.stream_failure = failure;
        self
    }
}
