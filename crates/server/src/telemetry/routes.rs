//! The routes of operation: liveness, readiness, version and metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use singletree_harness::Bucket;
use singletree_protocol::native::{Ready, Version};

use crate::native;
use crate::problem::{Kind, Problem};
use crate::section::{Operation, Route, Section};
use crate::shared::Shared;

/// The type of metrics (OpenMetrics 1.0).
const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the section of the operation routes.
pub(crate) fn section() -> Section {
    let tag = "operation";
    let alive = Operation::new("health", "Tells whether the server lives").tag(tag).answers_bytes(
        200,
        "text/plain",
        "It does.",
    );
    let is_ready = Operation::new("readiness", "Tells whether the server is ready")
        .about("It is once what a process before it left was taken over, as long as a commit to its store succeeds: that is tried at most \
             once a second. Otherwise the category of the answer says why: `server_unready`, `store_full`, `store_displaced`, \
             `store_fenced`, `store_unavailable`, `store_corrupt`.",
        )
        .tag(tag)
        .answers::<Ready>(200, "It is.")
        .fails(&[503]);
    let what = Operation::new("version", "Tells what the server is")
        .tag(tag)
        .answers::<Version>(200, "Its name and its version.");
    let measures = Operation::new("metrics", "Shows metrics")
        .about("Where everybody is asked for a key, they have a port of their own (`[server] metrics`), and are not here.")
        .tag(tag)
        .answers_bytes(200, "application/openmetrics-text", "Metrics, as Prometheus reads them.")
        .fails(&[403]);
    let routes = vec![
        Route::get("/healthz", async || "ok").open().documented(alive),
        Route::get("/readyz", ready).open().documented(is_ready),
        Route::get("/version", version).open().documented(what),
        Route::get("/metrics", beside).open().documented(measures),
    ];
    Section::new("operation", native::render, routes)
}

/// Returns the router of a port for metrics alone.
pub(crate) fn metrics_alone(shared: Arc<Shared>) -> Router {
    let alone = async |State(shared): State<Arc<Shared>>| metrics(&shared);
    Router::new().route("/metrics", get(alone)).route("/healthz", get(async || "ok")).with_state(shared)
}

async fn ready(State(shared): State<Arc<Shared>>) -> Result<Json<Ready>, Problem> {
    let unready = |why: &str| Err(Problem::of_kind(Kind::Unready, why).retry_after(1));
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
            Err(Problem::new(status, category, Bucket::RetryableTransient, trouble.to_string()))
        }
    }
}

async fn version() -> Json<Version> {
    Json(Version { name: "singletree".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Shows metrics beside everything else: they tell of all tenants, and so only where there is nobody to keep them from.
async fn beside(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    if shared.access.is_required() {
        let why = "metrics tell of all tenants: they have a port of their own";
        return Err(Problem::of_kind(Kind::Forbidden, why).hint("see `[server] metrics`"));
    }
    Ok(metrics(&shared))
}

fn metrics(shared: &Shared) -> Response {
    let metrics = shared.telemetry.metrics();
    let usage = shared.system.as_ref().map(|probe| probe.usage());
    let text = metrics.text(shared.chat.load(), usage);
    ([(CONTENT_TYPE, TYPE)], text).into_response()
}
