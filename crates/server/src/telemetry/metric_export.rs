//! Sends the metrics from time to time.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use singletree_telemetry::{MetricReceiver, MetricSnapshot};
use tokio::time::sleep;

use super::families::read_families;
use super::format_current_time;
use crate::shared::ServerState;

/// Where metrics are sent, and how often.
#[derive(Debug, Clone)]
pub(crate) struct MetricExport {
    pub(crate) receiver: Arc<dyn MetricReceiver>,
    pub(crate) every: Duration,
}

/// A change of the export: the receiver takes the metrics no more, or takes them again.
#[derive(Debug, Serialize)]
struct MetricExportLine<'a> {
    at: String,
    /// Always `metric_export`.
    kind: &'static str,
    /// `not_taken` or `taken`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
}

/// Sends the metrics of a server until the future is dropped.
pub(crate) async fn send_metrics(shared: &ServerState, export: &MetricExport) {
    let mut is_taken = true;
    loop {
        sleep(export.every).await;
        let problem = send_metrics_once(shared, export).await;
        if problem.is_none() != is_taken {
            is_taken = problem.is_none();
            let state = if is_taken { "taken" } else { "not_taken" };
            let at = format_current_time(shared.clock.as_ref());
            let line = MetricExportLine { at, kind: "metric_export", state, why: problem.as_deref() };
            shared.telemetry.write_log_line(&line);
        }
    }
}

/// Sends the metrics as they are now. Returns the problem, if they were not taken.
pub(crate) async fn send_metrics_once(shared: &ServerState, export: &MetricExport) -> Option<String> {
    let snapshot = MetricSnapshot {
        started_at: shared.started_at,
        at: shared.now(),
        families: read_families(&super::routes::render_metrics(shared)),
    };
    export.receiver.send_metrics(&snapshot).await.err().map(|refusal| refusal.problem().to_owned())
}
