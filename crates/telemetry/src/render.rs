//! Rendering the events of an invocation as spans (spec: observability §4, §6).

use std::collections::HashSet;
use std::sync::Arc;

use singletree_engine::{
    AttemptEnd, AttemptPhase, CallerMetadata, ContainerConfig, EventError, EventSource, GraphEvent,
    InvocationChange, InvocationEvent, LineageBoundary, LlmAttemptEvent, LlmCall, LlmFailure, LlmOutput,
    NodeEvent, NodeLineage, ToolExecution, UnitChange, UnitEvent,
};
use singletree_env::Timestamp;

use crate::attribute::{Attributes, SetAttribute};
use crate::call_spans::{LlmSpanSource, set_llm_attributes, set_tool_attributes};
use crate::draft::{DetachedUnit, SpanDraft};
use crate::genai::{
    add_inference_attributes, add_tool_attributes, add_workflow_attributes, add_workflow_messages,
    name_invocation_span, name_llm_span, name_tool_span,
};
use crate::ids::{IdParts, SpanId, TraceId};
use crate::open_spans::{OpenSpan, OpenSpans, SpanPlace, set_failed};
use crate::settings::{LlmSpanScope, SpanSettings};
use crate::span::{InvocationEnding, SpanException, SpanLink, SpanStatus, SpanSubject, TraceSpan};
use crate::unit_spans::{
    call_attributes, common_attributes, node_attributes, set_invocation_attributes,
    set_suspension_attributes, set_unit_attributes, user_attributes,
};

/// Renders the events of one invocation as spans, in the order in which these end. Spans that have no end, because the
/// run was dropped or is still running, end with the last event.
///
/// The events are those of one [`Subscription::with_lifecycle`](singletree_engine::Subscription::with_lifecycle); without
/// those about lifecycles there are spans of nodes and calls alone.
#[must_use]
pub fn render_spans(events: &[GraphEvent], settings: &SpanSettings) -> Vec<TraceSpan> {
    let mut renderer = SpanRenderer {
        settings,
        seed: Vec::new(),
        spans: OpenSpans::default(),
        rendered_calls: HashSet::new(),
        earlier: None,
        last_at: Timestamp::from_millis(0),
    };
    events.iter().for_each(|event| renderer.add_event(event));
    let at = renderer.last_at;
    renderer.spans.close_all(at);
    renderer.spans.ended
}

struct SpanRenderer<'a> {
    settings: &'a SpanSettings,
    seed: Vec<u8>,
    spans: OpenSpans,
    /// The calls that have spans of their attempts.
    rendered_calls: HashSet<Arc<str>>,
    /// The span of the run that this one goes on with.
    earlier: Option<SpanLink>,
    last_at: Timestamp,
}

impl SpanRenderer<'_> {
    fn add_event(&mut self, event: &GraphEvent) {
        match event {
            GraphEvent::Node(event) => self.add_node_event(event),
            GraphEvent::Invocation(event) => self.add_invocation_event(event),
            GraphEvent::Unit(event) => self.add_unit_event(event),
            GraphEvent::MetadataAdded(event) => {
                self.last_at = event.at;
                let place = SpanPlace::new(&event.source.namespace, event.source.lineage.boundaries());
                self.spans.augment(&place, &user_attributes(&event.entries));
            }
            GraphEvent::LlmAttempt(event) => self.add_llm_attempt(event),
            GraphEvent::LlmCompletion(event) => {
                let times = (event.started_at, event.at);
                self.add_llm_call(&event.call, times, &event.caller_invocation_metadata, Ok(&event.output));
            }
            GraphEvent::LlmFailed(event) => {
                let times = (event.started_at, event.at);
                self.add_llm_call(&event.call, times, &event.caller_invocation_metadata, Err(&event.failure));
            }
            GraphEvent::ToolCall(event) => {
                let times = (event.started_at, event.at);
                let span = self.add_tool(
                    &event.execution,
                    times,
                    &event.caller_invocation_metadata,
                    Some(&event.result),
                );
                span.status = SpanStatus::Ok;
            }
            GraphEvent::ToolCallFailed(event) => {
                let times = (event.started_at, event.at);
                let span = self.add_tool(&event.execution, times, &event.caller_invocation_metadata, None);
                span.attributes.set_some("error.type", event.error_type.as_deref());
                span.status = SpanStatus::Error { description: event.error_type.clone() };
                span.exception = Some(SpanException {
                    exception_type: event.error_type.clone().unwrap_or_default(),
                    message: event.error_message.clone(),
                });
            }
            // No span is made of pieces and of failures that were caught; nothing makes retrieval calls yet, and saves
            // have no spans in the specification.
            _ => {}
        }
    }

    fn add_invocation_event(&mut self, event: &InvocationEvent) {
        self.last_at = event.at;
        match &event.change {
            InvocationChange::Started { entry_node, label, resumed, state } => {
                let around = self.settings.context_around(&event.identity);
                self.seed = self.settings.seed.clone().unwrap_or_else(|| {
                    let (id, at) = (&event.identity.invocation_id, event.at.as_millis());
                    format!("{id}\n{at}\n{resumed}").into_bytes()
                });
                let mut attributes = common_attributes(&event.identity, &event.caller_invocation_metadata);
                set_invocation_attributes(&mut attributes, self.settings, &event.identity, entry_node);
                let name = label.as_deref();
                add_workflow_attributes(&mut attributes, self.settings, &event.identity, name);
                let draft = SpanDraft {
                    span_id: SpanId::of_invocation(&self.seed),
                    name: name_invocation_span(self.settings, name).into(),
                    namespace: Arc::new([]),
                    lineage: NodeLineage::default(),
                    at: event.at,
                    attributes,
                    subject: SpanSubject::Invocation {
                        identity: event.identity.clone(),
                        entry_node: entry_node.clone(),
                        label: label.clone(),
                        detached: false,
                        initial_state: state.clone(),
                        ending: None,
                        final_node: None,
                    },
                };
                // A run that was dropped has no end.
                self.spans.close_all(event.at);
                let order = self.spans.take_order();
                let mut span = draft.into_span(around, order);
                let before =
                    self.settings.earlier.map(|span_id| SpanLink { trace_id: span.trace_id, span_id });
                if let Some(earlier) = self.earlier.take().or(before).filter(|_| *resumed) {
                    if earlier.trace_id == span.trace_id {
                        span.parent_id = Some(earlier.span_id);
                    }
                    span.links.push(earlier);
                }
                self.spans.invocation = Some(OpenSpan::new(span));
            }
            InvocationChange::Completed(state) => {
                let ending = InvocationEnding::Completed(Some(state.clone()));
                self.end_invocation(event.at, ending, |span| span.status = SpanStatus::Ok);
            }
            InvocationChange::Suspended(_) => {
                self.end_invocation(event.at, InvocationEnding::Suspended, |span| {
                    span.status = SpanStatus::Ok;
                    span.attributes.set("openarmature.outcome", "suspended");
                })
            }
            InvocationChange::Failed { error, at_boundary, state } => {
                let ending = InvocationEnding::Failed(state.clone());
                self.end_invocation(event.at, ending, |span| match at_boundary {
                    true => set_failed(span, &error.category, &error.derived_category, &error.message),
                    // The node that failed says why (§4.2).
                    false => span.status = SpanStatus::Error { description: None },
                });
            }
        }
    }

    fn end_invocation(&mut self, at: Timestamp, how: InvocationEnding, end: impl FnOnce(&mut TraceSpan)) {
        if let Some(invocation) = &mut self.spans.invocation {
            end(&mut invocation.span);
            if let SpanSubject::Invocation { ending, .. } = &mut invocation.span.subject {
                *ending = Some(how);
            }
            let (trace_id, span_id) = (invocation.span.trace_id, invocation.span.span_id);
            self.earlier = Some(SpanLink { trace_id, span_id });
        }
        self.spans.close_all(at);
    }

    fn add_node_event(&mut self, event: &NodeEvent) {
        self.last_at = event.at;
        let place = SpanPlace::new(&event.namespace, event.lineage.boundaries());
        match event.phase {
            AttemptPhase::Started => {
                // A branch that is a function is one unit: its span is that of its dispatch (§5.7).
                if self.spans.enclosing(&place).is_some_and(|around| around.is_function) {
                    return;
                }
                let parts = IdParts {
                    namespace: &event.namespace,
                    lineage: event.lineage.boundaries(),
                    step: Some(event.step),
                    attempt: event.attempt_index,
                    call: None,
                };
                let draft = SpanDraft {
                    span_id: parts.span_id(&self.seed, "node"),
                    name: event.node_name.clone(),
                    namespace: event.namespace.clone(),
                    lineage: event.lineage.clone(),
                    at: event.at,
                    attributes: node_attributes(event),
                    subject: SpanSubject::Node,
                };
                let parent = self.context_of(self.spans.enclosing(&place), event);
                let order = self.spans.take_order();
                self.spans.open(place, OpenSpan::new(draft.into_span(parent, order)), event.at);
            }
            AttemptPhase::Completed | AttemptPhase::Suspended => {
                self.spans.note_final_node(&place);
                let Some(open) = self.spans.get_mut(&place) else { return };
                let span = &mut open.span;
                match &event.end {
                    Some(AttemptEnd::Failed(error)) => {
                        set_failed(span, &error.category, &error.derived_category, &error.message);
                    }
                    Some(AttemptEnd::Merged(_)) | None => span.status = SpanStatus::Ok,
                }
                if let Some(descriptor) = &event.descriptor {
                    set_suspension_attributes(&mut span.attributes, descriptor);
                }
                let branches = match &event.container {
                    Some(ContainerConfig::Branches(config)) => config.branch_names.clone(),
                    Some(ContainerConfig::FanOut(_)) | None => Arc::new([]),
                };
                self.spans.close(&place, event.at, &branches);
            }
        }
    }

    /// Returns the trace and the id of a parent; without one, of a root of the invocation's own trace.
    fn context_of(&self, parent: Option<&OpenSpan>, event: &NodeEvent) -> (TraceId, Option<SpanId>) {
        match parent {
            Some(open) => (open.span.trace_id, Some(open.span.span_id)),
            None => self.settings.context_around(&event.identity),
        }
    }

    fn add_unit_event(&mut self, event: &UnitEvent) {
        self.last_at = event.at;
        let place = SpanPlace::new(&event.namespace, event.lineage.boundaries());
        match &event.change {
            UnitChange::Entered { graph_name, entry_node } => {
                self.open_unit(event, place, (graph_name.as_ref(), entry_node.as_ref()));
            }
            UnitChange::Completed => self.end_unit(event, &place, None),
            UnitChange::Failed(error) => self.end_unit(event, &place, Some(error)),
        }
    }

    fn open_unit(
        &mut self,
        event: &UnitEvent,
        place: SpanPlace,
        (graph_name, entry_node): (Option<&Arc<str>>, Option<&Arc<str>>),
    ) {
        let graph = graph_name.map(AsRef::as_ref);
        let (kind, name, subject) = match event.lineage.boundaries().last() {
            Some(LineageBoundary::Instance(_)) => {
                ("instance", event.node_name.clone(), SpanSubject::Instance)
            }
            Some(LineageBoundary::Branch(branch)) => ("branch", branch.clone(), SpanSubject::Branch),
            Some(LineageBoundary::Subgraph) | None => {
                ("subgraph", event.node_name.clone(), SpanSubject::Subgraph)
            }
        };
        let around = self.spans.dispatcher(&place).map(|open| (open.span.trace_id, Some(open.span.span_id)));
        let around = around.unwrap_or_else(|| self.settings.context_around(&event.identity));
        let is_detached = match kind {
            "instance" => self.settings.detached_fan_outs.contains(event.node_name.as_ref()),
            "subgraph" => self.settings.detaches_subgraph(graph, &event.node_name),
            _ => false,
        };
        if is_detached {
            let unit = DetachedUnit { kind, name, subject, around, graph_name, entry_node };
            return self.open_detached_unit(event, place, unit);
        }
        let inner = self.draft_unit(event, (kind, name), graph, subject);
        let order = self.spans.take_order();
        let open =
            OpenSpan { is_function: entry_node.is_none(), ..OpenSpan::new(inner.into_span(around, order)) };
        self.spans.open(place, open, event.at);
    }

    /// Opens the spans of a detached unit: the root of its own trace, its span there, and the span of its dispatch in
    /// the trace around it, which of an instance is the span of its node (§4.4).
    fn open_detached_unit(&mut self, event: &UnitEvent, place: SpanPlace, unit: DetachedUnit<'_>) {
        let DetachedUnit { kind, name, subject, around, graph_name, entry_node } = unit;
        let trace_id = around.0.of_detached_unit(&IdParts::of_unit(event));
        let graph = graph_name.map(AsRef::as_ref);
        let entry_node = entry_node.cloned().unwrap_or_else(|| event.node_name.clone());
        let mut attributes = common_attributes(&event.identity, &event.caller_invocation_metadata);
        set_invocation_attributes(&mut attributes, self.settings, &event.identity, &entry_node);
        add_workflow_attributes(&mut attributes, self.settings, &event.identity, graph);
        let opened = SpanSubject::Invocation {
            identity: event.identity.clone(),
            entry_node,
            label: None,
            detached: true,
            initial_state: None,
            ending: None,
            final_node: None,
        };
        let root_name = name_invocation_span(self.settings, graph).into();
        let mut root = self.draft_unit(event, ("detached", root_name), graph, opened);
        root.attributes = attributes;
        let link = SpanLink { trace_id, span_id: root.span_id };
        let mut companions = Vec::new();
        // In its own trace a subgraph has the name of its graph.
        let mut inner_name = name.clone();
        if kind == "subgraph" {
            inner_name = graph_name.cloned().unwrap_or(inner_name);
            let dispatch = self.draft_unit(event, ("dispatch", name), graph, subject.clone());
            let order = self.spans.take_order();
            companions.push(TraceSpan { links: vec![link], ..dispatch.into_span(around, order) });
        } else if let Some(node) = self.spans.get_mut(&OpenSpans::node_of(&place)) {
            node.span.links.push(link);
        }
        let order = self.spans.take_order();
        companions.insert(0, root.into_span((trace_id, None), order));
        let inner = self.draft_unit(event, (kind, inner_name), graph, subject);
        let order = self.spans.take_order();
        let span = inner.into_span((trace_id, Some(link.span_id)), order);
        self.spans.open(place, OpenSpan { companions, ..OpenSpan::new(span) }, event.at);
    }

    fn draft_unit(
        &self,
        event: &UnitEvent,
        (kind, name): (&str, Arc<str>),
        graph: Option<&str>,
        subject: SpanSubject,
    ) -> SpanDraft {
        let mut attributes = common_attributes(&event.identity, &event.caller_invocation_metadata);
        let at_unit = (&event.lineage, event.attempt_index, event.step);
        set_unit_attributes(&mut attributes, &event.node_name, &event.namespace, at_unit, graph);
        SpanDraft {
            span_id: IdParts::of_unit(event).span_id(&self.seed, kind),
            name,
            namespace: event.namespace.clone(),
            lineage: event.lineage.clone(),
            at: event.at,
            attributes,
            subject,
        }
    }

    fn end_unit(&mut self, event: &UnitEvent, place: &SpanPlace, error: Option<&EventError>) {
        let Some(open) = self.spans.get_mut(place) else { return };
        for span in open.spans_mut() {
            match error {
                Some(error) => set_failed(span, &error.category, &error.derived_category, &error.message),
                None => span.status = SpanStatus::Ok,
            }
            if let SpanSubject::Invocation { ending, .. } = &mut span.subject {
                *ending = Some(match error {
                    Some(_) => InvocationEnding::Failed(None),
                    None => InvocationEnding::Completed(None),
                });
            }
        }
        // The spans of branches end with that of their node (§6).
        if matches!(place.lineage.last(), Some(LineageBoundary::Branch(_))) {
            open.is_settled = true;
            return;
        }
        if matches!(place.lineage.last(), Some(LineageBoundary::Subgraph)) {
            self.spans.note_final_node(&OpenSpans::node_of(place));
        }
        self.spans.close(place, event.at, &[]);
    }

    fn add_llm_attempt(&mut self, event: &LlmAttemptEvent) {
        if self.settings.llm_spans == LlmSpanScope::Call {
            return;
        }
        self.rendered_calls.insert(event.call.call_id.clone());
        let source = LlmSpanSource {
            call: &event.call,
            request: &event.request,
            attempt: event.llm_attempt_index,
            reason: event.retry_reason,
            outcome: event.outcome.as_deref().map_err(AsRef::as_ref),
        };
        let times = (event.started_at, event.at);
        self.add_llm_span(&source, &event.call, times, &event.caller_invocation_metadata);
    }

    /// Adds the span of a whole call, unless its attempts have spans.
    fn add_llm_call(
        &mut self,
        call: &Arc<LlmCall>,
        times: (Timestamp, Timestamp),
        metadata: &CallerMetadata,
        outcome: Result<&LlmOutput, &LlmFailure>,
    ) {
        if self.rendered_calls.contains(&call.call_id) {
            return;
        }
        let source = LlmSpanSource { call, request: call.request(), attempt: 0, reason: None, outcome };
        self.add_llm_span(&source, call, times, metadata);
    }

    fn add_llm_span(
        &mut self,
        source: &LlmSpanSource<'_>,
        call: &Arc<LlmCall>,
        times: (Timestamp, Timestamp),
        metadata: &CallerMetadata,
    ) {
        if self.settings.disable_llm_spans {
            self.last_at = times.1;
            return;
        }
        let mut attributes = call_attributes(&call.source, metadata);
        set_llm_attributes(&mut attributes, self.settings, source);
        add_inference_attributes(&mut attributes, self.settings, source);
        let place = SpanPlace::new(&call.source.namespace, call.source.lineage.boundaries());
        if let Some(invocation) = self.spans.invocation_around(&place) {
            add_workflow_messages(&mut invocation.span.attributes, &attributes, self.settings, source);
        }
        let name = name_llm_span(self.settings, &call.model);
        let subject = SpanSubject::Llm(call.clone());
        let outcome = source.outcome;
        let span = self.add_call_span(
            &call.source,
            (&call.call_id, source.attempt),
            (("llm", &name), times),
            (attributes, subject),
        );
        match outcome {
            Ok(_) => span.status = SpanStatus::Ok,
            Err(failure) => {
                set_failed(span, &failure.error_category, &failure.error_category, &failure.error_message);
            }
        }
    }

    fn add_tool(
        &mut self,
        execution: &Arc<ToolExecution>,
        times: (Timestamp, Timestamp),
        metadata: &CallerMetadata,
        result: Option<&serde_json::Value>,
    ) -> &mut TraceSpan {
        let mut attributes = call_attributes(&execution.source, metadata);
        set_tool_attributes(&mut attributes, self.settings, execution, result);
        add_tool_attributes(&mut attributes, self.settings, execution, result);
        let name = name_tool_span(self.settings, &execution.tool_name);
        let subject = SpanSubject::Tool(execution.clone());
        let call = (execution.call_id.as_ref(), 0);
        self.add_call_span(&execution.source, call, (("tool", &name), times), (attributes, subject))
    }

    /// Adds the span of a call, which is told of when it has ended.
    fn add_call_span(
        &mut self,
        source: &EventSource,
        call: (&str, u32),
        ((kind, name), (started_at, at)): ((&str, &str), (Timestamp, Timestamp)),
        (attributes, subject): (Attributes, SpanSubject),
    ) -> &mut TraceSpan {
        self.last_at = at;
        let place = SpanPlace::new(&source.namespace, source.lineage.boundaries());
        let span_id = IdParts::of_call(source, call).span_id(&self.seed, kind);
        let draft = SpanDraft {
            span_id,
            name: name.into(),
            namespace: source.namespace.clone(),
            lineage: source.lineage.clone(),
            at: started_at,
            attributes,
            subject,
        };
        let parent = self.spans.caller(&place).map(|open| (open.span.trace_id, Some(open.span.span_id)));
        let parent = parent.unwrap_or_else(|| self.settings.context_around(&source.identity));
        let order = self.spans.take_order();
        let span = TraceSpan { ended_at: at, ..draft.into_span(parent, order) };
        self.spans.ended.push(span);
        self.spans.ended.last_mut().expect("it was pushed")
    }
}
