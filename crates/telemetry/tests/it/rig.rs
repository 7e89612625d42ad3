//! Graphs, a model, and the shape of rendered spans.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use singletree_engine::{
    Ctx, END, FieldContent, FieldShape, FieldSpec, Graph, GraphBuilder, GraphEvent, InvocationChange,
    InvokeOptions, NodeError, Reducer, Snapshot, StateSchema, StateUpdate,
};
use singletree_env::BoxFuture;
use singletree_llm::{
    BoxStream, ChatMessage, Error, ModelFinishReason, Provider, ProviderErrorDetail, Request, Response,
    ResponseDelta, Result, TokenUsage,
};
use singletree_telemetry::{
    EventCollector, RecorderLimits, SpanId, SpanProfile, SpanSettings, SpanSubject, StoredTurn,
    StoredTurnEnding, TraceId, TraceSpan, TurnPiece, TurnRecorder, render_spans,
};

pub(crate) fn over(fields: &[(&'static str, FieldShape, Value)]) -> GraphBuilder<Snapshot> {
    let field = |(name, shape, default): &(&'static str, FieldShape, Value)| {
        let spec = FieldSpec::new(*name, shape.clone(), FieldContent::from_json(default.clone()));
        if default.is_array() { spec.reducer(Reducer::Append) } else { spec }
    };
    Graph::builder_with(StateSchema::new("test", fields.iter().map(field).collect()))
}

pub(crate) fn int(name: &'static str) -> (&'static str, FieldShape, Value) {
    (name, FieldShape::Int, json!(0))
}

pub(crate) fn ints(name: &'static str) -> (&'static str, FieldShape, Value) {
    (name, FieldShape::Int.list(), json!([]))
}

pub(crate) async fn does_nothing(_: Ctx<Snapshot>) -> std::result::Result<StateUpdate, NodeError> {
    Ok(StateUpdate::new())
}

pub(crate) async fn fails(_: Ctx<Snapshot>) -> std::result::Result<StateUpdate, NodeError> {
    Err(NodeError::new("boom").with_category("provider_rate_limit"))
}

/// Invokes a graph and returns its events; `i` and `c` are the ids where nothing else is said.
pub(crate) async fn events(
    graph: &Graph<Snapshot>,
    initial: Value,
    options: InvokeOptions,
) -> Vec<GraphEvent> {
    let collector = Arc::new(EventCollector::new());
    let options = options.correlation("c").observer(collector.subscription());
    let fields = initial.as_object().cloned().unwrap_or_default();
    let initial =
        fields.into_iter().fold(StateUpdate::new(), |update, (name, value)| update.with_json(name, value));
    drop(graph.invoke(initial, options).await);
    graph.drain(None).await.unwrap();
    assert_eq!(collector.refused_count(), 0);
    let invocations = collector.invocations();
    assert_eq!(invocations.len(), 1, "{invocations:?}");
    let events = collector.events_of(&invocations[0]);
    assert_records_give_the_same_spans(&events);
    events
}

/// Checks that stored records give the same spans as the events that they were made of, except for fields that are not
/// stored.
pub(crate) fn assert_records_give_the_same_spans(events: &[GraphEvent]) {
    let stored = store(events, RecorderLimits::default());
    let settings = SpanSettings::new().id_seed(*b"a turn");
    for settings in [settings.clone(), settings.profile(SpanProfile::GenAi)] {
        let kept = |events: &[GraphEvent]| -> Vec<_> {
            render_spans(events, &settings).into_iter().map(without_what_is_not_stored).collect()
        };
        assert_eq!(kept(&stored.to_events()), kept(events));
    }
}

/// Returns an invocation of one run as a turn would store it, in pieces of some events each.
pub(crate) fn store(events: &[GraphEvent], limits: RecorderLimits) -> StoredTurn {
    let (mut recorder, mut pieces) = (TurnRecorder::new(limits), Vec::new());
    let (mut ending, mut resumed, mut label) = (None, false, None);
    let last = events.iter().rev().find_map(|event| match event {
        GraphEvent::Invocation(event) => Some(event.at),
        _ => None,
    });
    let at = last.expect("the invocation began");
    for (index, event) in events.iter().enumerate() {
        recorder.record_event(event);
        if let GraphEvent::Invocation(event) = event {
            ending = match &event.change {
                InvocationChange::Started { resumed: again, label: name, .. } => {
                    (resumed, label) = (*again, name.clone());
                    None
                }
                InvocationChange::Completed(_) => Some((event.at, StoredTurnEnding::Completed)),
                InvocationChange::Suspended(it) => {
                    Some((event.at, StoredTurnEnding::Suspended(it.signal_id.clone())))
                }
                InvocationChange::Failed { error, .. } => {
                    Some((event.at, StoredTurnEnding::Failed(error.category.to_string())))
                }
            };
        }
        if let Some(piece) = recorder.take_piece(at, index + 1 == events.len()).filter(|_| index % 3 == 2) {
            recorder.mark_stored(&piece);
            pieces.push(TurnPiece { at, json: piece.json });
        }
    }
    if let Some(piece) = recorder.take_piece(at, true) {
        pieces.push(TurnPiece { at, json: piece.json });
    }
    StoredTurn { identity: events[0].identity().clone(), label, resumed, pieces, ending, texts: None }
}

/// Leaves out of a span the texts and the caller's metadata.
fn without_what_is_not_stored(mut span: TraceSpan) -> TraceSpan {
    span.exception = None;
    span.attributes.retain(|name, _| {
        !name.starts_with("openarmature.suspension.metadata.") && !name.starts_with("openarmature.user.")
    });
    span.subject = SpanSubject::Node;
    span
}

/// Writes each trace as a tree, in the order in which spans began: a name, a status, the link count, and these attributes.
pub(crate) fn trees(spans: &[TraceSpan], shown: &[&str]) -> Vec<String> {
    let ids: HashSet<_> = spans.iter().map(|span| (span.trace_id, span.span_id)).collect();
    assert_eq!(ids.len(), spans.len(), "ids are unique");
    let mut below: BTreeMap<(TraceId, Option<SpanId>), Vec<&TraceSpan>> = BTreeMap::new();
    for span in spans {
        assert!(span.parent_id.is_none_or(|parent| ids.contains(&(span.trace_id, parent))), "{span:#?}");
        below.entry((span.trace_id, span.parent_id)).or_default().push(span);
    }
    below.values_mut().for_each(|spans| spans.sort_by_key(|span| span.order));
    let mut roots: Vec<_> = spans.iter().filter(|span| span.parent_id.is_none()).collect();
    roots.sort_by_key(|span| span.order);
    let mut lines = Vec::new();
    for root in roots {
        write_tree(root, 0, &below, shown, &mut lines);
    }
    lines
}

fn write_tree(
    span: &TraceSpan,
    depth: usize,
    below: &BTreeMap<(TraceId, Option<SpanId>), Vec<&TraceSpan>>,
    shown: &[&str],
    lines: &mut Vec<String>,
) {
    let attributes =
        shown.iter().filter_map(|name| Some(format!(" {}", span.attributes.get(*name)?.to_json())));
    let links = if span.links.is_empty() { String::new() } else { format!(" links {}", span.links.len()) };
    let indent = "  ".repeat(depth);
    lines.push(format!(
        "{indent}{} {}{links}{}",
        span.name,
        span.status.as_str(),
        attributes.collect::<String>()
    ));
    for child in below.get(&(span.trace_id, Some(span.span_id))).into_iter().flatten() {
        write_tree(child, depth + 1, below, shown, lines);
    }
}

/// A model that answers in order.
#[derive(Debug, Default)]
pub(crate) struct Model(Mutex<Vec<Result<Response>>>);

impl Model {
    pub(crate) fn answers(answers: impl IntoIterator<Item = Result<Response>>) -> Arc<Self> {
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.reverse();
        Arc::new(Self(Mutex::new(answers)))
    }
}

pub(crate) fn says(text: &str) -> Result<Response> {
    let usage = TokenUsage {
        prompt_tokens: Some(20),
        completion_tokens: Some(4),
        total_tokens: Some(24),
        cached_tokens: Some(0),
        ..TokenUsage::default()
    };
    let raw = json!({ "id": "r-1", "model": "tested-2026" });
    Ok(Response::new(ChatMessage::assistant(text), ModelFinishReason::Stop, usage, raw))
}

pub(crate) fn unavailable() -> Result<Response> {
    Err(Error::Unavailable(ProviderErrorDetail::new("busy")))
}

pub(crate) fn asks() -> Request {
    Request::new(vec![Arc::new(ChatMessage::user("hello"))])
}

impl Provider for Model {
    fn model_name(&self) -> &'static str {
        "tested"
    }

    fn system_name(&self) -> &'static str {
        "vllm"
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        let next = self.0.lock().unwrap().pop().expect("the test says what comes");
        Box::pin(async move { next?.validate_against(request) })
    }

    fn can_stream(&self) -> bool {
        false
    }

    fn stream_deltas<'a>(
        &'a self,
        _: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        Box::pin(async { Err(Error::InvalidRequest(ProviderErrorDetail::new("it does not stream"))) })
    }
}

/// A node that asks a model.
pub(crate) fn asking(
    model: &Arc<Model>,
    request: Request,
) -> impl Fn(Ctx<Snapshot>) -> BoxFuture<'static, std::result::Result<StateUpdate, NodeError>>
+ Send
+ Sync
+ 'static {
    let model = model.clone();
    move |cx| {
        let (model, request) = (model.clone(), request.clone());
        Box::pin(async move {
            let call = singletree_llm::ProviderCall::of(model.as_ref());
            cx.calls().complete(call, &request).await?;
            Ok(StateUpdate::new())
        })
    }
}

pub(crate) fn one_node<F, Fut>(name: &str, node: F) -> Graph<Snapshot>
where
    F: Fn(Ctx<Snapshot>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = std::result::Result<StateUpdate, NodeError>> + Send + 'static,
{
    over(&[int("v"), int("n"), int("out")])
        .name(name)
        .node("step", node)
        .edge("step", END)
        .entry("step")
        .compile()
        .unwrap()
}
