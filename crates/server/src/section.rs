//! A section: the routes of one protocol, and how it words what went wrong.
//!
//! # One table
//! What is served, what the document of the API says and what the tests of all routes drive is one list of [`Route`]s: a
//! section makes it, [`Section::new`] makes its router of it, and nothing is served that is not in it. To add a route, add a
//! line to the list of its section:
//!
//! ```text
//! Route::post("/v1/sessions/{session}/blobs", upload)      // path and handler; the access is `Keyed` unless it says `.open()`
//!     .needs(Scope::Write)                                 // checked before the handler, and said in the document
//!     .documented(
//!         Operation::new("uploadBlob", "Uploads a blob")   // the operation's id and summary
//!             .tag("blobs")
//!             .header("X-Name", "What it is called.")      // headers, except Accept, Content-Type, Authorization
//!             .query::<native::UploadQuery>()              // one parameter for each property of the type
//!             .bytes("application/octet-stream")           // or `.body::<T>()` for JSON
//!             .answers::<native::BlobInfo>(201, "The blob.")
//!             .fails(&[413]),                              // beside those that its scope and path bring: 400, 401, 403, 404, ...
//!     )
//! ```
//!
//! A route without `documented` is served and tested and is not part of the document: those of protocols that are described
//! elsewhere. Each route, documented or not, needs a line in `tests/it/tenants.rs`, which fails without.

mod operation;
mod route;

use std::sync::Arc;

use axum::Router;
use axum::response::Response;

pub(crate) use operation::{Answer, Content, Header, Operation, SchemaOf, schema_of};
pub(crate) use route::{Access, Route};

use crate::problem::Problem;
use crate::shared::Shared;
use crate::sse::Frame;

/// What a request was, for those who word a problem.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The request's id: the caller's own `X-Request-ID`, if it sent one that is fit, else one of ours.
    pub(crate) request_id: String,
}

/// Words a problem in a section's own protocol; status and headers that the problem asks for are set by whoever calls it.
pub(crate) type Render = fn(&Problem, &Asked) -> Response;

/// Words, as the last frames of a stream, why it ends before its time. A protocol without a word for it has none.
pub(crate) type StreamFailure = fn(&Problem, &Asked) -> Vec<Frame>;

/// One protocol.
pub(crate) struct Section {
    /// Its name, as metrics and logs have it.
    pub(crate) name: &'static str,
    /// Its routes, served.
    pub(crate) router: Router<Arc<Shared>>,
    /// The same routes as a list.
    pub(crate) routes: Vec<Route>,
    /// How it words a problem.
    pub(crate) render: Render,
    /// How it words the failure of a stream.
    pub(crate) stream_failure: StreamFailure,
    /// Beginnings of paths that its clients ask for and that are not served: their 404 is worded as its other problems.
    pub(crate) unserved: &'static [&'static str],
}

impl Section {
    /// Makes a section of its table.
    pub(crate) fn new(name: &'static str, render: Render, routes: Vec<Route>) -> Self {
        let router = routes.iter().fold(Router::new(), |all, it| all.route(it.path, it.served()));
        Self { name, router, routes, render, stream_failure: |_, _| Vec::new(), unserved: &[] }
    }

    /// Names beginnings of paths that its clients ask for and that are not served.
    pub(crate) fn without(mut self, unserved: &'static [&'static str]) -> Self {
        self.unserved = unserved;
        self
    }

    /// Sets how it words the failure of a stream.
    pub(crate) fn failing_streams(mut self, failure: StreamFailure) -> Self {
        self.stream_failure = failure;
        self
    }
}
