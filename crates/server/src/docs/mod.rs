//! The documentation of the API: an OpenAPI document built from the tables of the sections, and an HTML page rendered
//! from it.

mod document;
mod page;
mod schemas;

use std::sync::{Arc, OnceLock};

use crate::native;
use crate::section::{ApiOperation, ApiRoute, ProtocolSection};
use axum::body::Bytes;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};

/// The cached responses. Each is built at its first request, so that it adds nothing to the start time.
#[derive(Debug, Default)]
struct CachedDocuments {
    json: OnceLock<Bytes>,
    page: OnceLock<(Bytes, String)>,
}

/// Returns the section that describes these routes, and itself.
pub(crate) fn build_section(routes: &[ApiRoute]) -> ProtocolSection {
    let made = Arc::new(CachedDocuments::default());
    let open = ApiOperation::new("getOpenApi", "Returns this document")
        .with_tag("documentation")
        .with_bytes_response(200, "application/json", "An OpenAPI 3.1 document of the native API.");
    let page = ApiOperation::new("getDocs", "Shows this document to people")
        .with_tag("documentation")
        .with_bytes_response(200, "text/html", "A page.");
    let described = |handler_of: fn(Arc<CachedDocuments>, Arc<Vec<ApiRoute>>) -> Response| {
        let made = made.clone();
        move |all: Arc<Vec<ApiRoute>>| {
            let made = made.clone();
            move || std::future::ready(handler_of(made.clone(), all.clone()))
        }
    };
    let (json_of, page_of) = (described(answer_openapi_json), described(answer_docs_page));
    let own = |all: Arc<Vec<ApiRoute>>| {
        vec![
            ApiRoute::get("/openapi.json", json_of(all.clone()))
                .allow_anonymous()
                .with_operation(open.clone()),
            ApiRoute::get("/docs", page_of(all)).allow_anonymous().with_operation(page.clone()),
        ]
    };
    let mut all = routes.to_vec();
    all.extend(own(Arc::default()));
    ProtocolSection::new("docs", native::render_problem, own(Arc::new(all)))
}

fn answer_openapi_json(made: Arc<CachedDocuments>, routes: Arc<Vec<ApiRoute>>) -> Response {
    let json = made.json.get_or_init(|| document::build_openapi_document(&routes).to_string().into()).clone();
    ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")], json).into_response()
}

/// The header that carries the page's Content-Security-Policy, which allows nothing but its one style sheet.
const POLICY: HeaderName = HeaderName::from_static("content-security-policy");
const SNIFF: HeaderName = HeaderName::from_static("x-content-type-options");
const REFERRER: HeaderName = HeaderName::from_static("referrer-policy");

fn answer_docs_page(made: Arc<CachedDocuments>, routes: Arc<Vec<ApiRoute>>) -> Response {
    let (page, policy) = made.page.get_or_init(|| {
        let page = page::render_docs_page(&document::build_openapi_document(&routes));
        (page.into(), page::content_security_policy())
    });
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (POLICY, policy.as_str()),
        (SNIFF, "nosniff"),
        (REFERRER, "no-referrer"),
    ];
    (headers, page.clone()).into_response()
}
