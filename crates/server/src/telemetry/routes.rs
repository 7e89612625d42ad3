//! The routes of operation: liveness, readiness, version and metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use singletree_harness::FailureBucket;
use singletree_protocol::native::{Ready, Version};

use crate::native;
use crate::problem::{RequestProblem, RequestProblemKind};
use crate::section::{ApiOperation, ApiRoute, ProtocolSection};
use crate::shared::ServerState;

/// The type of metrics (OpenMetrics 1.0).
const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the section of the operation routes.
pub(crate) fn section() -> ProtocolSection {
    let tag = "operation";
    let alive = ApiOperation::new("health", "Tells whether the server lives").tag(tag).answers_bytes(
        200,
        "text/plain",
        "It does.",
    );
    let is_ready = ApiOperation::new("readiness", "Tells whether the server is ready")
        .about("It is once what a process before it left was taken over, as long as a commit to its store succeeds: that is tried at most \
             once a second. Otherwise the category of the answer says why: `server_unready`, `store_full`, `store_displaced`, \
             `store_fenced`, `store_unavailable`, `store_corrupt`.",
        )
        .tag(tag)
        .answers::<Ready>(200, "It is.")
        .fails(&[503]);
    let what = ApiOperation::new("version", "Tells what the server is")
        .tag(tag)
        .answers::<Version>(200, "Its name and its version.");
    let measures = ApiOperation::new("metrics", "Shows metrics")
        .about("Where everybody is asked for a key, they have a port of their own (`[server] metrics`), and are not here.")
        .tag(tag)
        .answers_bytes(200, "application/openmetrics-text", "Metrics, as Prometheus reads them.")
        .fails(&[403]);
    let routes = vec![
        ApiRoute::get("/healthz", async || "ok").open().documented(alive),
        ApiRoute::get("/readyz", ready).open().documented(is_ready),
        ApiRoute::get("/version", version).open().documented(what),
        ApiRoute::get("/metrics", beside).open().documented(measures),
    ];
    ProtocolSection::new("operation", native::render, routes)
}

/// Returns the router of a port for metrics alone.
pub(crate) fn metrics_alone(shared: Arc<ServerState>) -> Router {
    let alone = async |State(shared): State<Arc<ServerState>>| metrics(&shared);
    Router::new().route("/metrics", get(alone)).route("/healthz", get(async || "ok")).with_state(shared)
}

async fn ready(State(shared): State<Arc<ServerState>>) -> Result<Json<Ready>, RequestProblem> {
    let unready = |why: &str| Err(RequestProblem::of_kind(RequestProblemKind::Unready, why).retry_after(1));
    if *shared.closing.borrow() {
        return unready("the server ends");
    }
    if !shared.ready.load(Ordering::Acquire) {
        return unready("what a process before this one left is being taken over");
    }
    match shared.store_health.check(&shared).await {
        Ok(()) => Ok(Json(Ready { ready: true })),
        // Its words on the top say nothing of paths; the causes below them are in the log.
        Err(trouble) => {
            let (status, category) = (StatusCode::SERVICE_UNAVAILABLE, trouble.category());
            Err(RequestProblem::new(status, category, FailureBucket::RetryableTransient, trouble.to_string()))
        }
    }
}

async fn version() -> Json<Version> {
    Json(Version { name: "singletree".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Shows metrics beside everything else: they tell of all tenants, and so only where there is nobody to keep them from.
async fn beside(State(shared): State<Arc<ServerState>>) -> Result<Response, RequestProblem> {
    if shared.access.is_required() {
        let why = "metrics tell of all tenants: they have a port of their own";
        return Err(
            RequestProblem::of_kind(RequestProblemKind::Forbidden, why).hint("see `[server] metrics`")
        );
    }
    Ok(metrics(&shared))
}

fn metrics(shared: &ServerState) -> Response {
    let metrics = shared.telemetry.metrics();
    let usage = shared.system.as_ref().map(|probe| probe.usage());
    let text = metrics.text(shared.chat.load(), usage);
    ([(CONTENT_TYPE, TYPE)], text).into_response()
}
