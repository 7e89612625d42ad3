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
pub(crate) fn build_section() -> ProtocolSection {
    let tag = "operation";
    let alive = ApiOperation::new("health", "Tells whether the server lives")
        .with_tag(tag)
        .with_bytes_response(200, "text/plain", "It does.");
    let is_ready = ApiOperation::new("readiness", "Tells whether the server is ready")
        .with_description("It is once what a process before it left was taken over, as long as a commit to its store succeeds: that is tried at most \
             once a second. Otherwise the category of the answer says why: `server_unready`, `store_full`, `store_displaced`, \
             `store_fenced`, `store_unavailable`, `store_corrupt`.",
        )
        .with_tag(tag)
        .with_json_response::<Ready>(200, "It is.")
        .with_error_statuses(&[503]);
    let what = ApiOperation::new("version", "Tells what the server is")
        .with_tag(tag)
        .with_json_response::<Version>(200, "Its name and its version.");
    let measures = ApiOperation::new("metrics", "Shows metrics")
        .with_description("Where everybody is asked for a key, they have a port of their own (`[server] metrics`), and are not here.")
        .with_tag(tag)
        .with_bytes_response(200, "application/openmetrics-text", "Metrics, as Prometheus reads them.")
        .with_error_statuses(&[403]);
    let routes = vec![
        ApiRoute::get("/healthz", async || "ok").allow_anonymous().with_operation(alive),
        ApiRoute::get("/readyz", show_readiness).allow_anonymous().with_operation(is_ready),
        ApiRoute::get("/version", show_version).allow_anonymous().with_operation(what),
        ApiRoute::get("/metrics", show_metrics).allow_anonymous().with_operation(measures),
    ];
    ProtocolSection::new("operation", native::render_problem, routes)
}

/// Returns the router of a port for metrics alone.
pub(crate) fn build_metrics_router(shared: Arc<ServerState>) -> Router {
    let alone = async |State(shared): State<Arc<ServerState>>| answer_metrics(&shared);
    Router::new().route("/metrics", get(alone)).route("/healthz", get(async || "ok")).with_state(shared)
}

async fn show_readiness(State(shared): State<Arc<ServerState>>) -> Result<Json<Ready>, RequestProblem> {
    let unready =
        |why: &str| Err(RequestProblem::from_kind(RequestProblemKind::Unready, why).with_retry_after(1));
    if *shared.closing.borrow() {
        return unready("the server ends");
    }
    if !shared.ready.load(Ordering::Acquire) {
        return unready("what a process before this one left is being taken over");
    }
    match shared.store_health.check_writable(&shared).await {
        Ok(()) => Ok(Json(Ready { ready: true })),
        // Its words on the top say nothing of paths; the causes below them are in the log.
        Err(trouble) => {
            let (status, category) = (StatusCode::SERVICE_UNAVAILABLE, trouble.category());
            Err(RequestProblem::new(status, category, FailureBucket::RetryableTransient, trouble.to_string()))
        }
    }
}

async fn show_version() -> Json<Version> {
    Json(Version { name: "singletree".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Shows metrics beside everything else: they tell of all tenants, and so only where there is nobody to keep them from.
async fn show_metrics(State(shared): State<Arc<ServerState>>) -> Result<Response, RequestProblem> {
    if shared.access.is_key_required() {
        let why = "metrics tell of all tenants: they have a port of their own";
        return Err(
            RequestProblem::from_kind(RequestProblemKind::Forbidden, why).with_hint("see `[server] metrics`")
        );
    }
    Ok(answer_metrics(&shared))
}

fn answer_metrics(shared: &ServerState) -> Response {
    ([(CONTENT_TYPE, TYPE)], render_metrics(shared)).into_response()
}

/// Writes the metrics as they are now.
pub(super) fn render_metrics(shared: &ServerState) -> String {
    let metrics = shared.telemetry.metrics();
    if let Some(exporter) = &shared.trace_exporter {
        metrics.trace_exports.set_from_counts(exporter.counts());
    }
    let usage = shared.system.as_ref().map(|probe| probe.measure_usage());
    metrics.render_openmetrics(shared.chat.load(), usage)
}
