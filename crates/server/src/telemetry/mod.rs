//! The telemetry of an operator: a log line for each request, each turn, each failed delivery of a notice and each
//! missing tool, and metrics. They contain names, numbers and categories; no content of conversations.

mod call_metrics;
mod families;
mod label_values;
mod line;
mod metered;
mod metric_export;
mod metrics;
mod routes;
mod system_gauges;
mod trace_exports;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use singletree_durable::{Error as StoreError, Journal, JournalMaintenance, Timestamp};
use singletree_engine::{Clock, GraphEvent};
use singletree_export::ExportProblem;
use singletree_harness::{ChatTurnOutcome, TurnEndReport, TurnWatcher};
use singletree_http::Redactor;

pub(crate) use line::{DeliveryAttempt, DeliveryEnd};
use line::{
    DeliveryLine, DescriptorLine, EndedTurnLine, ReloadLine, RequestLine, StoreStateLine, TokenBudgetLine,
    ToolsLine,
};
pub(crate) use metric_export::{MetricExport, send_metrics, send_metrics_once};
pub(crate) use metrics::ServerMetrics;
pub(crate) use routes::{build_metrics_router, build_section};

use crate::system::SystemUsage;
use metered::MeteredStore;
use trace_exports::TraceExportLine;

/// A sink for the lines of a log.
///
/// It must return at once: a line that it cannot write, it drops.
pub trait LogSink: fmt::Debug + Send + Sync {
    /// Takes a line, without its end.
    fn write_line(&self, line: &str);
}

/// The log and the metrics of a chat and its server. Create it first, and give it to both; a clone shares the same
/// state.
#[derive(Clone)]
pub struct Telemetry {
    log: Option<Arc<dyn LogSink>>,
    redactor: Redactor,
    metrics: Arc<ServerMetrics>,
}

impl Telemetry {
    /// Counts, and writes lines to a log, without secrets (INV-16).
    #[must_use]
    pub fn new(log: Arc<dyn LogSink>, redactor: Redactor) -> Self {
        Self { log: Some(log), redactor, metrics: Arc::default() }
    }

    /// Counts only.
    #[must_use]
    pub fn without_log() -> Self {
        Self { log: None, redactor: Redactor::default(), metrics: Arc::default() }
    }

    /// Sets whether model calls are measured: tokens, durations and budgets, as the specification says (spec: observability
    /// §11). They are not by default. It is called before the telemetry is given to a chat or a server.
    #[must_use]
    pub fn enable_metrics(mut self, enabled: bool) -> Self {
        self.metrics = Arc::new(if enabled { ServerMetrics::with_calls() } else { ServerMetrics::default() });
        self
    }

    /// Returns who looks on as turns end: for [`ChatBuilder::watcher`](singletree_harness::ChatBuilder::watcher).
    #[must_use]
    pub fn turn_watcher(&self) -> Arc<dyn TurnWatcher> {
        Arc::new(self.clone())
    }

    /// Measures the commits of a store: give the returned store to the chat.
    #[must_use]
    pub fn measure_store<S: Journal + JournalMaintenance + 'static>(
        &self,
        store: Arc<S>,
    ) -> impl Journal + JournalMaintenance + use<S> {
        MeteredStore::new(store, self.metrics.clone())
    }

    /// Logs that agents do not have the tools of an MCP server, or one of them, and the reason. The caller makes sure
    /// that this is not logged with every turn.
    pub fn log_tools_not_offered(
        &self,
        (server, tool): (&str, Option<&str>),
        (why, hint): (&str, Option<&str>),
        clock: &dyn Clock,
    ) {
        let (at, kind) = (format_current_time(clock), "tools_not_offered");
        self.write_log_line(&ToolsLine { at, kind, server, tool, why, hint });
    }

    /// Takes down that the store can be written no more, with its own words, or that it can be written again.
    pub(crate) fn log_store_change(&self, trouble: Option<&StoreError>, clock: &dyn Clock) {
        let state = if trouble.is_some() { "failed" } else { "writable" };
        let category = trouble.map(StoreError::category);
        let why = trouble.map(|error| singletree_engine::format_error_chain(error));
        self.write_log_line(&StoreStateLine {
            at: format_current_time(clock),
            kind: "store",
            state,
            category,
            why,
        });
    }

    /// Logs that the process has nearly used up its descriptors, or that it has enough again.
    pub(crate) fn log_descriptor_change(&self, usage: SystemUsage, is_near_limit: bool, clock: &dyn Clock) {
        let state = if is_near_limit { "near_limit" } else { "normal" };
        let (open, limit) = (usage.open_descriptors, usage.descriptor_limit);
        self.write_log_line(&DescriptorLine {
            at: format_current_time(clock),
            kind: "descriptors",
            state,
            open,
            limit,
        });
    }

    /// Logs a problem of the export of traces. Texts of a receiver may be in it.
    pub(crate) fn log_trace_export(&self, problem: &ExportProblem, clock: &dyn Clock) {
        if let Some(line) = TraceExportLine::new(format_current_time(clock), problem) {
            self.write_log_line(&line);
        }
    }

    /// Logs the limit of open descriptors when the process starts.
    pub fn log_descriptor_limit(&self, limit: u64, clock: &dyn Clock) {
        let (at, kind, state) = (format_current_time(clock), "descriptors", "start");
        self.write_log_line(&DescriptorLine { at, kind, state, open: None, limit: Some(limit) });
    }

    /// Logs that the configuration was read again: `state` is `refused`, with the reason, or `accepted`, and later
    /// `applied` once the server runs with it.
    pub fn log_configuration_reload(&self, state: &'static str, why: Option<&str>, clock: &dyn Clock) {
        self.write_log_line(&ReloadLine { at: format_current_time(clock), kind: "reload", state, why });
    }

    pub(crate) fn metrics(&self) -> &Arc<ServerMetrics> {
        &self.metrics
    }

    /// Takes down that a request was answered.
    pub(crate) fn record_request(&self, line: &RequestLine<'_>, seconds: f64) {
        self.metrics.count_request(line.section, line.status, seconds);
        // Each visit loads many files of the page: only failures are logged.
        if !(line.section == "page" && line.method == "GET" && line.status < 400) {
            self.write_log_line(line);
        }
    }

    /// Counts a try to deliver a notice, and takes it down unless it arrived.
    pub(crate) fn record_delivery(&self, tried: &DeliveryAttempt<'_>, now: Timestamp) {
        self.metrics.count_delivery(tried.end);
        if tried.end != DeliveryEnd::Delivered {
            self.write_log_line(&DeliveryLine {
                at: crate::native::convert_time(now).0,
                kind: "delivery",
                of: tried,
            });
        }
    }

    fn write_log_line(&self, line: &impl Serialize) {
        let Some(log) = &self.log else { return };
        // Lines are texts and numbers: there is nothing in them that JSON cannot say.
        if let Ok(text) = serde_json::to_string(line) {
            log.write_line(&self.redactor.redact(&text));
        }
    }
}

impl TurnWatcher for Telemetry {
    fn on_turn_end(&self, end: &TurnEndReport) {
        self.metrics.count_ended_turn(end);
        self.write_log_line(&EndedTurnLine::from_report(end));
    }

    fn wants_events(&self) -> bool {
        self.metrics.calls.is_some()
    }

    fn on_event(&self, event: &GraphEvent) {
        if let Some(calls) = &self.metrics.calls {
            calls.measure_event(event);
        }
        for line in TokenBudgetLine::of_event(event) {
            self.write_log_line(&line);
        }
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self::without_log()
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("log", &self.log).finish_non_exhaustive()
    }
}

/// Returns the category of how a turn ended, where it failed.
fn error_category(outcome: &ChatTurnOutcome) -> Option<&str> {
    match outcome {
        ChatTurnOutcome::Errored(it) => Some(&it.error_category),
        ChatTurnOutcome::Completed(_) | ChatTurnOutcome::Suspended(_) => None,
    }
}

/// Writes the time as lines have it.
pub(crate) fn format_current_time(clock: &dyn Clock) -> String {
    crate::native::convert_time(clock.now()).0
}

pub(crate) use line::RequestLine as Line;
