//! The metrics, in the format of Prometheus.

use std::time::Duration;

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use singletree_harness::{ChatWorkload, TurnEndReport};

use super::call_metrics::CallMetrics;
use super::error_category;
use super::label_values::LabelValues;
use super::line::DeliveryEnd;
use super::system_gauges::SystemGauges;
use super::trace_exports::TraceExportMetrics;
use crate::system::SystemUsage;

/// Names and values of labels.
type Labels<const N: usize> = [(&'static str, String); N];

type Counters<const N: usize> = Family<Labels<N>, Counter>;
type Spans<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// The metrics of a chat and its server.
pub(crate) struct ServerMetrics {
    registry: Registry,
    /// The metrics whose names are the specification's.
    named_registry: Registry,
    requests: Counters<2>,
    request_seconds: Spans<1>,
    turns: Counters<3>,
    turn_seconds: Spans<1>,
    queue_seconds: Histogram,
    commit_seconds: Histogram,
    commit_failures: Counters<1>,
    tokens: Counters<3>,
    deliveries: Counters<1>,
    quota_refusals: Counters<2>,
    connections: Gauge,
    streams: Gauge,
    store_writable: Gauge,
    pending_waits: Gauge,
    system: SystemGauges,
    pub(super) trace_exports: TraceExportMetrics,
    /// Where model calls are measured.
    pub(super) calls: Option<CallMetrics>,
    sessions: Gauge,
    running: Gauge,
    waiting: Gauge,
    /// The values so far of each label that comes from outside.
    tenants: LabelValues,
    models: LabelValues,
    categories: LabelValues,
}

/// From a tenth of a millisecond to ten minutes.
fn seconds_histogram() -> Histogram {
    Histogram::new([
        0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
        60.0, 300.0, 600.0,
    ])
}

impl ServerMetrics {
    /// Makes metrics that measure model calls, too.
    pub(super) fn with_calls() -> Self {
        let (calls, mut named_registry) = (CallMetrics::default(), Registry::default());
        calls.register_instruments(&mut named_registry);
        Self { calls: Some(calls), named_registry, ..Self::default() }
    }

    /// Counts a request that was answered.
    pub(super) fn count_request(&self, section: &'static str, status: u16, seconds: f64) {
        let of = [("section", section.to_owned())];
        self.request_seconds.get_or_create(&of).observe(seconds);
        let [section] = of;
        self.requests.get_or_create(&[section, ("status", status.to_string())]).inc();
    }

    /// Counts a turn that has ended.
    pub(super) fn count_ended_turn(&self, end: &TurnEndReport) {
        let outcome = ("outcome", end.outcome.as_str().to_owned());
        let category = error_category(&end.outcome)
            .map(|category| self.categories.bounded_value(category))
            .unwrap_or_default();
        let labels = [("agent", end.agent.clone()), outcome.clone(), ("category", category)];
        self.turns.get_or_create(&labels).inc();
        if let Some(started) = end.started_at {
            let seconds = end.ended_at.duration_since(started).as_secs_f64();
            self.turn_seconds.get_or_create(&[outcome]).observe(seconds);
            self.queue_seconds.observe(started.duration_since(end.accepted_at).as_secs_f64());
        }
        for used in &end.usage {
            let (model, tenant) = (
                self.models.bounded_value(&used.model),
                self.tenants.bounded_value(end.session.tenant.as_str()),
            );
            for (kind, count) in [("prompt", used.prompt_tokens), ("completion", used.completion_tokens)] {
                let labels =
                    [("model", model.clone()), ("tenant", tenant.clone()), ("kind", kind.to_owned())];
                self.tokens.get_or_create(&labels).inc_by(count);
            }
        }
    }

    /// Measures a commit.
    pub(super) fn measure_commit(&self, failed: Option<&'static str>, took: Duration) {
        match failed {
            None => self.commit_seconds.observe(took.as_secs_f64()),
            Some(category) => {
                self.commit_failures.get_or_create(&[("category", category.to_owned())]).inc();
            }
        }
    }

    /// Counts a try to deliver a notice.
    pub(super) fn count_delivery(&self, end: DeliveryEnd) {
        self.deliveries.get_or_create(&[("outcome", end.as_str().to_owned())]).inc();
    }

    /// Counts a request that was refused because a quota is used up. Both names are constants of ours, so there are
    /// few.
    pub(crate) fn count_quota_refusal(&self, quota: &'static str, scope: &'static str) {
        let labels = [("quota", quota.to_owned()), ("scope", scope.to_owned())];
        self.quota_refusals.get_or_create(&labels).inc();
    }

    /// Says whether the store could be written when it was probed last.
    pub(crate) fn set_store_writable(&self, is_writable: bool) {
        self.store_writable.set(is_writable.into());
    }

    /// Counts an open connection until the returned guard is dropped.
    pub(crate) fn count_connection(&self) -> GaugeGuard {
        GaugeGuard::increment_gauge(&self.connections)
    }

    /// Counts an open stream until the returned guard is dropped.
    pub(crate) fn count_stream(&self) -> GaugeGuard {
        GaugeGuard::increment_gauge(&self.streams)
    }

    /// Writes everything out, with how much there is to do now.
    pub(super) fn render_openmetrics(&self, load: ChatWorkload, usage: Option<SystemUsage>) -> String {
        self.system.set_from_usage(usage.unwrap_or_default());
        let number = |it: usize| i64::try_from(it).unwrap_or(i64::MAX);
        self.sessions.set(number(load.sessions));
        self.running.set(number(load.running));
        self.waiting.set(number(load.waiting));
        self.pending_waits.set(number(load.pending_waits));
        let mut text = String::new();
        let written = encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, &self.named_registry))
            .and_then(|()| encode_eof(&mut text));
        written.expect("a text takes what is written to it");
        text
    }
}

/// Counts one more of something while it is kept.
#[derive(Debug)]
pub(crate) struct GaugeGuard(Gauge);

impl GaugeGuard {
    fn increment_gauge(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for ServerMetrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("singletree");
        let spans = || Family::new_with_constructor(seconds_histogram as fn() -> Histogram);
        let metrics = Self {
            requests: Family::default(),
            request_seconds: spans(),
            turns: Family::default(),
            turn_seconds: Family::new_with_constructor(seconds_histogram as fn() -> Histogram),
            queue_seconds: seconds_histogram(),
            commit_seconds: seconds_histogram(),
            commit_failures: Family::default(),
            tokens: Family::default(),
            deliveries: Family::default(),
            quota_refusals: Family::default(),
            connections: Gauge::default(),
            streams: Gauge::default(),
            store_writable: Gauge::default(),
            pending_waits: Gauge::default(),
            system: SystemGauges::default(),
            trace_exports: TraceExportMetrics::default(),
            calls: None,
            sessions: Gauge::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
            tenants: LabelValues::default(),
            models: LabelValues::default(),
            categories: LabelValues::default(),
            registry: Registry::default(),
            named_registry: Registry::default(),
        };
        metrics.register_metrics(&mut registry);
        Self { registry, ..metrics }
    }
}

impl ServerMetrics {
    fn register_metrics(&self, to: &mut Registry) {
        to.register("requests", "Requests that were answered", self.requests.clone());
        let timed = "How long requests took to be answered, or until their streams began";
        to.register_with_unit("request", timed, Unit::Seconds, self.request_seconds.clone());
        to.register("turns", "Turns that have ended", self.turns.clone());
        to.register_with_unit("turn", "How long turns ran", Unit::Seconds, self.turn_seconds.clone());
        let queue = "How long turns waited their place";
        to.register_with_unit("queue", queue, Unit::Seconds, self.queue_seconds.clone());
        let commit = "How long commits took until they were durable";
        to.register_with_unit("commit", commit, Unit::Seconds, self.commit_seconds.clone());
        to.register("commit_failures", "Commits that were refused or failed", self.commit_failures.clone());
        to.register("tokens", "Tokens that were used of models", self.tokens.clone());
        // All are there from the beginning: who watches them sees the first one that fails.
        for end in DeliveryEnd::ALL {
            drop(self.deliveries.get_or_create(&[("outcome", end.as_str().to_owned())]));
        }
        to.register("deliveries", "Tries to deliver notices", self.deliveries.clone());
        let refused = "Requests that were refused because a quota is used up";
        to.register("quota_refusals", refused, self.quota_refusals.clone());
        to.register("connections", "Connections that are open", self.connections.clone());
        to.register("streams", "Streams of events that are open", self.streams.clone());
        let writable = "Whether the store could be written when it was probed last: 1 or 0";
        to.register("store_writable", writable, self.store_writable.clone());
        let waits = "Sessions in memory that wait for an answer";
        to.register("pending_waits", waits, self.pending_waits.clone());
        self.system.register_gauges(to);
        self.trace_exports.register_counters(to);
        to.register("sessions", "Sessions in memory", self.sessions.clone());
        to.register("turns_running", "Turns that run", self.running.clone());
        let waiting = "Turns that wait their place, or behind what waits for an answer";
        to.register("turns_waiting", waiting, self.waiting.clone());
    }
}

impl std::fmt::Debug for ServerMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerMetrics").finish_non_exhaustive()
    }
}
