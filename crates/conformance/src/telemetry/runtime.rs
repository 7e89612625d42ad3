//! The recorders of a case while it runs, and what they recorded of one invocation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use singletree::engine::{EventSource, GraphEvent, InvokeOptions, Subscription};
use singletree::llm::Response;
use singletree_telemetry::{
    Attributes, CallMeasurement, EventCollector, LangfuseTrace, PayloadCap, TraceSpan, log_attributes,
    measure_calls, render_langfuse_traces, render_spans,
};

use super::collectors::{EventCounter, TypedCollectorSpec, TypedEventCollector};
use super::langfuse_client::{DeliveredObservations, KEY, build_exporter};
use super::spec::TelemetryCaseSpec;
use super::steps::{LogLineSpec, ObserverReadMethod, ObserverReadSpec};
use crate::failure::{CaseFailure, Outcome};
use crate::llm::GraphModel;
use crate::prompts::GraphPrompts;

/// A line of a log, as it was written.
#[derive(Debug, Clone)]
pub(crate) struct LogLine {
    message: String,
    level: String,
    source: EventSource,
    metadata: Arc<Map<String, Value>>,
}

impl LogLine {
    /// Notes where a line was written.
    #[must_use]
    pub(crate) fn new(line: &LogLineSpec, source: EventSource, metadata: Arc<Map<String, Value>>) -> Self {
        Self { message: line.message.clone(), level: line.level.clone(), source, metadata }
    }
}

/// A read of the caller's metadata in a node.
#[derive(Debug, Clone)]
pub(super) struct CapturedRead {
    pub(super) source: EventSource,
    /// The mapping that was returned.
    pub(super) entries: Arc<Map<String, Value>>,
    /// Its content at that time.
    pub(super) content: Map<String, Value>,
}

impl CapturedRead {
    pub(super) fn new(source: EventSource, entries: Arc<Map<String, Value>>) -> Self {
        Self { source, content: (*entries).clone(), entries }
    }
}

/// What nodes noted since the last cut.
#[derive(Debug, Default)]
pub(crate) struct TelemetryCaptures {
    pub(crate) logs: Vec<LogLine>,
    pub(super) reads: Vec<CapturedRead>,
    pub(super) refused_additions: Vec<Value>,
    pub(super) counter_reads: Vec<Value>,
}

/// The recorders of a case.
#[derive(Debug)]
pub(crate) struct TelemetryRuntime {
    spec: TelemetryCaseSpec,
    model: GraphModel,
    prompts: GraphPrompts,
    collectors: Vec<Arc<TypedEventCollector>>,
    counters: Vec<Arc<EventCounter>>,
    captures: Mutex<TelemetryCaptures>,
    /// Hears all invocations of the case, for what is rendered.
    recorder: Arc<EventCollector>,
    /// Hears the same, and the pieces of streams, for what is measured.
    everything: Arc<TypedEventCollector>,
    /// How many events of each invocation were rendered, and the traces that they made.
    rendered: Mutex<BTreeMap<String, (usize, Vec<LangfuseTrace>)>>,
}

impl TelemetryRuntime {
    /// Makes the recorders of a case.
    #[must_use]
    pub(crate) fn new(spec: TelemetryCaseSpec) -> Self {
        Self {
            model: GraphModel::new(spec.model.clone()),
            prompts: spec.prompts.build_prompts(),
            collectors: spec.collectors.iter().cloned().map(TypedEventCollector::new).collect(),
            counters: spec.counters.iter().cloned().map(EventCounter::new).collect(),
            captures: Mutex::default(),
            recorder: Arc::new(EventCollector::new()),
            everything: TypedEventCollector::new(TypedCollectorSpec::of_everything()),
            rendered: Mutex::default(),
            spec,
        }
    }

    /// Returns the model that nodes call.
    #[must_use]
    pub(crate) fn model(&self) -> &GraphModel {
        &self.model
    }

    pub(super) fn prompts(&self) -> &GraphPrompts {
        &self.prompts
    }

    /// Returns what nodes noted.
    pub(crate) fn lock_captures(&self) -> MutexGuard<'_, TelemetryCaptures> {
        self.captures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a counter.
    pub(super) fn read_observer(&self, read: &ObserverReadSpec) -> Result<Value, String> {
        let counter = self.counters.iter().find(|counter| counter.spec.name == read.observer);
        let counter = counter.ok_or_else(|| format!("no observer is called '{}'", read.observer))?;
        let value = counter.read_counts(read.method);
        self.lock_captures().counter_reads.push(value.clone());
        Ok(value)
    }

    /// Attaches the recorders to an invocation.
    #[must_use]
    pub(crate) fn attach_recorders(&self, mut options: InvokeOptions) -> InvokeOptions {
        for collector in &self.collectors {
            options = options.observer(collector.subscription());
        }
        for counter in &self.counters {
            options = options.observer(Subscription::from_shared_observer(counter.clone()));
        }
        if self.spec.needs_recorders() {
            options = options.observer(self.recorder.subscription());
            options = options.observer(self.everything.subscription());
        }
        options
    }

    /// Takes the events since the last call, of all invocations.
    fn take_new_events(&self) -> Outcome<Vec<GraphEvent>> {
        let settings = self.spec.langfuse_settings()?;
        let mut rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = Vec::new();
        for invocation in self.recorder.invocations() {
            let events = self.recorder.events_of(&invocation);
            let known = rendered.get(&invocation).map_or(0, |(count, _)| *count);
            if known < events.len() {
                fresh.extend_from_slice(&events[known..]);
                let traces = render_langfuse_traces(&events, &settings);
                rendered.insert(invocation, (events.len(), traces));
            }
        }
        Ok(fresh)
    }

    /// Renders the traces of all invocations again; each is as it was when its invocation ended.
    ///
    /// # Errors
    /// Which one is not.
    pub(super) fn ensure_traces_unchanged(&self) -> Result<(), String> {
        let settings = self.spec.langfuse_settings().map_err(|failure| failure.to_string())?;
        let rendered = self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = rendered.iter().find(|(invocation, (_, traces))| {
            render_langfuse_traces(&self.recorder.events_of(invocation), &settings) != *traces
        });
        match changed {
            Some((invocation, _)) => Err(format!("the trace of invocation {invocation} has changed")),
            None if rendered.len() < 2 => Err("there are no two invocations".into()),
            None => Ok(()),
        }
    }

    /// Hands the traces of an invocation to the case's client of Langfuse.
    ///
    /// # Errors
    /// When the client does not take them.
    pub(crate) async fn export_traces(&self, recorded: &mut RunTelemetry) -> Outcome<()> {
        let Some(client) = self.spec.client else { return Ok(()) };
        let delivered = DeliveredObservations::default();
        let exporter = build_exporter(client, self.spec.langfuse_settings()?, &delivered)?;
        let exported = exporter.export_traces(&recorded.traces).await;
        exported.map_err(|error| CaseFailure::build_error(KEY, error.to_string()))?;
        recorded.delivered_observations = delivered.take_names();
        Ok(())
    }

    /// Renders what was recorded of an invocation, under the case's settings.
    ///
    /// # Errors
    /// When the settings are none.
    pub(crate) fn render_recording(
        &self,
        baseline: Map<String, Value>,
        supplied_invocation: Option<String>,
    ) -> Outcome<RunTelemetry> {
        let events = self.take_new_events()?;
        let spans = render_spans(&events, &self.spec.spans);
        let full_payloads = render_spans(
            &events,
            &self.spec.spans.clone().payload_cap(PayloadCap::new(usize::MAX).unwrap_or_default()),
        );
        let captures = std::mem::take(&mut *self.lock_captures());
        let logs = captures.logs.iter().map(|line| CapturedLog::new(line, &spans)).collect();
        let measurements = if self.spec.enable_metrics { measure_calls(&events) } else { Vec::new() };
        let typed = self.collectors.iter().map(|it| (it.spec.name.clone(), it.take_events())).collect();
        Ok(RunTelemetry {
            traces: render_langfuse_traces(&events, &self.spec.langfuse_settings()?),
            events: self.everything.take_events(),
            spans,
            full_payloads,
            measurements,
            logs,
            typed,
            baseline,
            supplied_invocation,
            reads: captures.reads,
            refused_additions: captures.refused_additions,
            counter_reads: captures.counter_reads,
            counters: self.counters.iter().map(|it| it.read_counts(ObserverReadMethod::Snapshot)).collect(),
            answers: self.model.answers(),
            sent_bodies: self.model.sent_bodies(),
            delivered_observations: Vec::new(),
        })
    }
}

/// What was recorded of one invocation.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunTelemetry {
    /// The events, with those of lifecycles.
    pub(super) events: Vec<GraphEvent>,
    /// The spans, in the order in which they ended.
    pub(super) spans: Vec<TraceSpan>,
    /// The same, with payloads that are not cut.
    pub(super) full_payloads: Vec<TraceSpan>,
    /// The traces of Langfuse.
    pub(super) traces: Vec<LangfuseTrace>,
    /// The measurements; none unless they are enabled.
    pub(super) measurements: Vec<CallMeasurement>,
    /// The lines of logs.
    pub(super) logs: Vec<CapturedLog>,
    /// The events of each collector.
    pub(super) typed: BTreeMap<String, Vec<GraphEvent>>,
    /// The metadata that the caller began with.
    pub(super) baseline: Map<String, Value>,
    /// The id that the caller gave to the invocation.
    pub(super) supplied_invocation: Option<String>,
    /// Reads of the metadata, in order.
    pub(super) reads: Vec<CapturedRead>,
    /// Additions to the metadata that were refused.
    pub(super) refused_additions: Vec<Value>,
    /// Reads of counters.
    pub(super) counter_reads: Vec<Value>,
    /// The counts at the end.
    pub(super) counters: Vec<Value>,
    /// The answers of the model.
    pub(super) answers: Vec<Response>,
    /// The bodies that the model's server sent.
    pub(super) sent_bodies: Vec<Value>,
    /// The observations that the client of Langfuse got, by name.
    pub(super) delivered_observations: Vec<String>,
}

/// A line of a log, with the attributes that tell where it was written.
#[derive(Debug, Clone)]
pub(super) struct CapturedLog {
    pub(super) body: String,
    pub(super) level: String,
    pub(super) source: EventSource,
    pub(super) attributes: Attributes,
}

impl CapturedLog {
    fn new(line: &LogLine, spans: &[TraceSpan]) -> Self {
        Self {
            body: line.message.clone(),
            level: line.level.clone(),
            attributes: log_attributes(spans, &line.source, &line.metadata),
            source: line.source.clone(),
        }
    }
}
