//! Events about model calls (graph-engine §6, llm-provider §5).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_util::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};
use singletree_durable::{BoxError, BoxFuture};
use singletree_engine::{
    AttemptPhase, Ctx, END, Graph, GraphEvent, InvokeOptions, LlmCall, LlmFailure, LlmOutput, Next,
    NodeError, ObservedCalls, Observer, Snapshot, StateUpdate, Subscription, SystemRandomSource, around,
};
use singletree_llm::{
    ActivePrompt, BoxStream, ChatMessage, Error, InstantTimer, ModelFinishReason, ModelRetryPolicy, Provider,
    ProviderCall, ProviderErrorDetail, Request, Response, ResponseDelta, Result, RetryBackoff, RuntimeConfig,
    Schema, TokenBudget, TokenUsage, ToolCall,
};

use crate::log_spans::lines_of_run;
use crate::rig::{Builder, int, invocation, map, over};

/// A model that answers in order.
#[derive(Debug, Default)]
pub(crate) struct AnswersInOrder(Mutex<VecDeque<Answer>>);

#[derive(Debug)]
enum Answer {
    Whole(Box<Result<Response>>),
    Pieces(Vec<Result<ResponseDelta>>),
    Never,
}

impl AnswersInOrder {
    fn whole(answers: impl IntoIterator<Item = Result<Response>>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(
            answers.into_iter().map(|answer| Answer::Whole(Box::new(answer))).collect(),
        )))
    }

    fn pieces(answers: impl IntoIterator<Item = Vec<Result<ResponseDelta>>>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(answers.into_iter().map(Answer::Pieces).collect())))
    }
}

impl Provider for AnswersInOrder {
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
        let next = self.0.lock().unwrap().pop_front();
        Box::pin(async move {
            request.check()?;
            match next {
                Some(Answer::Whole(answer)) => (*answer)?.validate_against(request),
                Some(Answer::Never) => std::future::pending().await,
                _ => panic!("the test says what comes"),
            }
        })
    }

    fn can_stream(&self) -> bool {
        true
    }

    fn stream_deltas<'a>(
        &'a self,
        _: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        let next = self.0.lock().unwrap().pop_front();
        Box::pin(async move {
            let Some(Answer::Pieces(pieces)) = next else { panic!("the test says what comes") };
            Ok(stream::iter(pieces).boxed())
        })
    }
}

fn usage() -> TokenUsage {
    TokenUsage {
        prompt_tokens: Some(14),
        completion_tokens: Some(4),
        total_tokens: Some(18),
        ..TokenUsage::default()
    }
}

fn raw() -> Value {
    json!({ "id": "r-1", "model": "tested-2026" })
}

fn says(text: &str) -> Result<Response> {
    Ok(Response::new(ChatMessage::assistant(text), ModelFinishReason::Stop, usage(), raw()))
}

fn unavailable() -> Error {
    Error::Unavailable(ProviderErrorDetail::new("busy").with_status(503))
}

fn finish() -> Result<ResponseDelta> {
    Ok(ResponseDelta::Finish { reason: ModelFinishReason::Stop, usage: usage(), raw: raw() })
}

pub(crate) fn asks() -> Request {
    Request::new(vec![Arc::new(ChatMessage::user("hello"))])
}

/// Records events about calls as JSON, and nodes as "phase name".
#[derive(Clone, Default)]
pub(crate) struct CallRecorder(Arc<Mutex<Vec<Value>>>);

impl CallRecorder {
    pub(crate) fn seen(&self) -> Vec<Value> {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for CallRecorder {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        self.0.lock().unwrap().push(describe(event));
        Box::pin(async { Ok(()) })
    }
}

fn source(call: &LlmCall) -> Value {
    let from = &call.source;
    json!([
        call.call_id.as_ref(),
        from.node_name.as_ref(),
        from.namespace.iter().map(ToString::to_string).collect::<Vec<_>>().join("/"),
        from.step,
        from.attempt_index,
        serde_json::to_value(&from.lineage).unwrap(),
        from.identity.correlation_id,
    ])
}

fn output(output: &LlmOutput) -> Value {
    json!({
        "content": output.output_content,
        "calls": output.output_tool_calls,
        "finish": output.finish_reason.as_str(),
        "usage": output.usage,
        "id": output.response_id,
        "model": output.response_model,
    })
}

fn failure(failure: &LlmFailure) -> Value {
    json!({
        "category": failure.error_category,
        "type": failure.error_type,
        "message": failure.error_message,
        "output": failure.output.as_ref().map(output),
    })
}

pub(crate) fn describe(event: &GraphEvent) -> Value {
    match event {
        GraphEvent::Node(event) => json!(format!("{} {}", event.phase.as_str(), event.node_name)),
        GraphEvent::LlmCompletion(event) => {
            assert!(event.latency_ms.is_some_and(|latency| latency >= 0.0));
            json!({ "completion": source(&event.call), "output": output(&event.output) })
        }
        GraphEvent::LlmFailed(event) => {
            assert!(event.latency_ms.is_some_and(|latency| latency >= 0.0));
            json!({ "failed": source(&event.call), "failure": failure(&event.failure) })
        }
        GraphEvent::LlmToken(event) => json!([
            "token",
            event.call.call_id.as_ref(),
            event.chunk_index,
            event.delta_kind.as_str(),
            event.delta
        ]),
        GraphEvent::LlmAttempt(event) => json!({
            "attempt": event.llm_attempt_index,
            "reason": event.retry_reason.map(|reason| format!("{reason:?}")),
            "messages": event.request.input_messages().len(),
            "ended": match &event.outcome {
                Ok(answered) => output(answered)["content"].clone(),
                Err(failed) => failure(failed)["category"].clone(),
            },
        }),
        other => json!(format!("{other:?}")),
    }
}

/// A graph of one node that makes a call with these reports.
fn calling<F>(call: F) -> Builder
where
    F: AsyncCall,
{
    let node = move |cx: Ctx<Snapshot>| {
        let calling = call.make(cx.calls());
        async move {
            calling.await;
            Ok(StateUpdate::new())
        }
    };
    over([int("v")]).node("ask", node).edge("ask", END).entry("ask")
}

/// A function of reports that makes calls.
trait AsyncCall: Send + Sync + 'static {
    fn make(&self, calls: ObservedCalls) -> BoxFuture<'static, ()>;
}

impl<F: Fn(ObservedCalls) -> BoxFuture<'static, ()> + Send + Sync + 'static> AsyncCall for F {
    fn make(&self, calls: ObservedCalls) -> BoxFuture<'static, ()> {
        self(calls)
    }
}

fn completing(
    provider: Arc<AnswersInOrder>,
    request: Request,
) -> impl Fn(ObservedCalls) -> BoxFuture<'static, ()> + Send + Sync + 'static {
    move |calls| {
        let (provider, request) = (provider.clone(), request.clone());
        Box::pin(async move { drop(calls.complete(ProviderCall::of(provider.as_ref()), &request).await) })
    }
}

fn streaming(
    provider: Arc<AnswersInOrder>,
    attempts: u32,
) -> impl Fn(ObservedCalls) -> BoxFuture<'static, ()> + Send + Sync + 'static {
    move |calls| {
        let provider = provider.clone();
        Box::pin(async move {
            let retry = ModelRetryPolicy::new()
                .max_attempts(attempts)
                .backoff(RetryBackoff::Constant(std::time::Duration::ZERO));
            let call =
                ProviderCall::of(provider.as_ref()).retrying(&retry, &InstantTimer, &SystemRandomSource);
            drop(calls.complete_with_updates(call, &asks(), |_| {}).await);
        })
    }
}

pub(crate) async fn observe(
    graph: &Graph<Snapshot>,
    subscribe: impl FnOnce(Subscription) -> Subscription,
) -> Vec<Value> {
    let seen = CallRecorder::default();
    let options = InvokeOptions::new()
        .invocation(invocation("i"))
        .correlation("c")
        .observer(subscribe(Subscription::new(seen.clone())));
    graph.invoke(StateUpdate::new(), options).await.unwrap();
    graph.drain(None).await.unwrap();
    seen.seen()
}

fn completion(call_id: &str, content: &str) -> Value {
    json!({
        "completion": [call_id, "ask", "ask", 0, 0, [], "c"],
        "output": {
            "content": content, "calls": null, "finish": "stop", "usage": usage(), "id": "r-1", "model": "tested-2026",
        },
    })
}

// spec: graph-engine §6: one event of each call, between the events of its node; a phase does not filter it.
#[tokio::test]
async fn an_answer_is_one_event_between_those_of_its_node() {
    let graph = || calling(completing(AnswersInOrder::whole([says("Done.")]), asks())).compile().unwrap();
    let told = completion("i:0.0.0", "Done.");
    let all = observe(&graph(), |subscription| subscription).await;
    assert_eq!(all, [json!("started ask"), told.clone(), json!("completed ask")]);
    let completed =
        |subscription: Subscription| subscription.limit_to_phases([AttemptPhase::Completed]).unwrap();
    assert_eq!(observe(&graph(), completed).await, [told, json!("completed ask")]);
}

#[derive(Default)]
struct Requests(Mutex<Vec<Value>>);

impl Observer for Requests {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        if let GraphEvent::LlmCompletion(event) = event {
            let (call, request) = (&event.call, event.call.request());
            self.0.lock().unwrap().push(json!([
                [call.provider.as_ref(), call.model.as_ref()],
                request.input_messages(),
                request.request_params(),
                request.request_extras(),
                request.active_prompt().map(|prompt| prompt.name.as_str()),
                request.active_prompt_group(),
                request.token_budget(),
                event.output.output_content,
                event.output.output_tool_calls,
            ]));
        }
        Box::pin(async { Ok(()) })
    }
}

// spec: graph-engine §6: only what the caller set is among the parameters; calls and text are both null where missing.
#[tokio::test]
async fn an_event_carries_the_request_and_the_prompt_of_its_call() {
    let config = RuntimeConfig {
        temperature: Some(0.0),
        stop_sequences: Some(vec!["x".into()]),
        extras: map(json!({"top_k": 3})),
        ..RuntimeConfig::default()
    };
    let prompt = ActivePrompt {
        name: "classify".into(),
        token_budget: Some(TokenBudget { input_max_tokens: Some(5), total_max_tokens: None }),
        ..ActivePrompt::default()
    };
    let tool = singletree_llm::ToolDefinition::new("t", "a tool", json!({"type": "object"})).unwrap();
    let request = asks().with_config(config).with_tools([tool]).with_prompt(prompt.in_group("pipeline"));
    let mut message = ChatMessage::assistant("");
    message.tool_calls = vec![ToolCall::new("1", "t", map(json!({"a": 1})))];
    let answer = Response::new(message, ModelFinishReason::ToolCalls, usage(), raw());
    let seen = Arc::new(Requests::default());
    let graph = calling(completing(AnswersInOrder::whole([Ok(answer)]), request)).compile().unwrap();
    graph.attach_observer(Subscription::from_shared_observer(seen.clone()));
    graph.invoke(StateUpdate::new(), InvokeOptions::new()).await.unwrap();
    graph.drain(None).await.unwrap();
    let budget = TokenBudget { input_max_tokens: Some(5), total_max_tokens: None };
    let expected = json!([
        ["vllm", "tested"],
        [{"role": "user", "content": "hello"}],
        {"temperature": 0.0, "stop_sequences": ["x"]},
        {"top_k": 3},
        "classify",
        "pipeline",
        budget,
        null,
        [{"id": "1", "name": "t", "arguments": {"a": 1}}],
    ]);
    assert_eq!(*seen.0.lock().unwrap(), [expected]);
}

// spec: observability §7, §5.5.15
#[tokio::test]
async fn a_call_that_exceeds_the_budget_of_its_prompt_is_logged() {
    let used = usage().prompt_tokens.unwrap();
    let lines_of = async |most: u64| {
        let prompt = ActivePrompt {
            name: "classify".into(),
            token_budget: Some(TokenBudget { input_max_tokens: Some(most), total_max_tokens: None }),
            ..ActivePrompt::default()
        };
        let request = asks().with_prompt(prompt);
        let graph = calling(completing(AnswersInOrder::whole([says("Done.")]), request)).compile().unwrap();
        graph.attach_observer(Subscription::from_shared_observer(Arc::<Requests>::default()));
        lines_of_run(&graph, InvokeOptions::new()).await
    };
    assert_eq!(lines_of(used).await, []);
    let lines = lines_of(used - 1).await;
    let [(message, fields)] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(message, "a model call exceeded the token budget of its prompt");
    assert_eq!(fields["openarmature.prompt.name"], "classify");
    assert_eq!(
        (&fields["kind"], &fields["budget"], &fields["used"]),
        (&json!("input"), &json!(used - 1), &json!(used))
    );
    assert_eq!(fields["openarmature.node.name"], "ask");
}

// spec: graph-engine §6, llm-provider §7: one failed event, also of a request that was never sent; a response side for
// structured_output_invalid alone.
#[tokio::test]
async fn a_failure_is_one_event_with_the_answer_that_did_not_fit() {
    let schema = json!({"type": "object", "required": ["age"]});
    let shaped = asks().with_response_schema(Arc::new(Schema::compile(schema).unwrap()));
    let answer = json!({
        "content": "{}", "calls": null, "finish": "stop", "usage": usage(), "id": "r-1", "model": "tested-2026",
    });
    let message = "at the root: \"age\" is a required property";
    for (answers, request, expected) in [
        (
            vec![Err(unavailable())],
            asks(),
            json!({"category": "provider_unavailable", "type": "503", "message": "busy", "output": null}),
        ),
        (
            vec![],
            Request::new(Vec::new()),
            json!({"category": "provider_invalid_request", "type": null, "message": "messages: must not be empty", "output": null}),
        ),
        (
            vec![says("{}")],
            shaped,
            json!({"category": "structured_output_invalid", "type": null, "message": message, "output": answer}),
        ),
    ] {
        let graph = calling(completing(AnswersInOrder::whole(answers), request)).compile().unwrap();
        let seen = observe(&graph, |subscription| subscription).await;
        let told = json!({ "failed": ["i:0.0.0", "ask", "ask", 0, 0, [], "c"], "failure": expected });
        assert_eq!(seen, [json!("started ask"), told, json!("completed ask")]);
    }
}

// spec: graph-engine §6, llm-provider §7.1: attempts share one call, and pieces are numbered through; attempts are told to
// observers of lifecycles alone.
#[tokio::test]
async fn pieces_and_attempts_come_before_the_one_event_of_their_call() {
    let answers = || {
        AnswersInOrder::pieces([
            vec![Ok(ResponseDelta::from_text("Pa")), Err(unavailable())],
            vec![
                Ok(ResponseDelta::from_thinking("hm")),
                Ok(ResponseDelta::from_text("Do")),
                Ok(ResponseDelta::from_text("")),
                Ok(ResponseDelta::from_text("ne.")),
                finish(),
            ],
        ])
    };
    let token = |at: u64, kind: &str, text: &str| json!(["token", "i:0.0.0", at, kind, text]);
    let attempt = |at: u32, reason: Option<&str>, ended: &str| json!({"attempt": at, "reason": reason, "messages": 1, "ended": ended});
    let (pa, failed) = (token(0, "content", "Pa"), attempt(0, None, "provider_unavailable"));
    let pieces = [token(1, "reasoning", "hm"), token(2, "content", "Do"), token(3, "content", "ne.")];
    let ended = [completion("i:0.0.0", "Done."), json!("completed ask")];

    let graph = calling(streaming(answers(), 2)).compile().unwrap();
    let plain = observe(&graph, |subscription| subscription).await;
    let expected = [&[json!("started ask"), pa.clone()][..], &pieces, &ended].concat();
    assert_eq!(plain, expected);

    let graph = calling(streaming(answers(), 2)).compile().unwrap();
    let whole = observe(&graph, Subscription::with_lifecycle).await;
    let second = attempt(1, Some("Transient"), "Done.");
    let expected = [&[json!("started ask"), pa, failed][..], &pieces, &[second], &ended].concat();
    assert_eq!(whole[1..whole.len() - 1], expected, "between the events of the invocation");
}

// A time limit of the caller's ends the attempt that runs.
#[tokio::test]
async fn a_call_that_its_caller_gives_up_ends_with_the_callers_error() {
    let call = |calls: ObservedCalls| -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let provider = AnswersInOrder::default();
            provider.0.lock().unwrap().push_back(Answer::Never);
            let scope = calls.begin_model_call(&provider, &asks());
            let attempt = ProviderCall::of(&provider).reporting_to(&scope);
            assert!(attempt.complete(&asks()).now_or_never().is_none());
            scope.end(Err(&unavailable()));
        })
    };
    let seen = observe(&calling(call).compile().unwrap(), Subscription::with_lifecycle).await;
    let failed = seen.iter().filter(|event| event.get("failed").is_some()).count();
    let attempts = seen.iter().filter(|event| event.get("attempt").is_some()).count();
    assert_eq!((failed, attempts), (1, 1), "{seen:#?}");
}

// spec: observability §5.5: a call of a middleware is told with the node that it surrounds, before that one has begun.
#[tokio::test]
async fn a_call_of_a_middleware_is_told_at_the_node_that_it_surrounds() {
    let provider = AnswersInOrder::whole([says("a"), says("b")]);
    let guard = around(move |state: Arc<Snapshot>, mut next: Next<'_>| {
        let provider = provider.clone();
        Box::pin(async move {
            let answered = next.calls().complete(ProviderCall::of(provider.as_ref()), &asks()).await;
            let ambient = singletree_engine::current_calls();
            let again = ambient.complete(ProviderCall::of(provider.as_ref()), &asks()).await;
            answered.and(again).map_err(NodeError::from)?;
            next.run(&state).await
        })
    });
    let node = |_: Ctx<Snapshot>| async { Ok(StateUpdate::new()) };
    let graph =
        over([int("v")]).node("ask", node).edge("ask", END).entry("ask").node_middleware("ask", guard);
    let seen = observe(&graph.compile().unwrap(), |subscription| subscription).await;
    let call = |number: u64| json!([format!("i:middleware.{number}"), "ask", "ask", null, 0, [], "c"]);
    let sources: Vec<_> = seen[..2].iter().map(|event| event["completion"].clone()).collect();
    assert_eq!(sources, [call(0), call(1)]);
    assert_eq!(seen[2..], [json!("started ask"), json!("completed ask")]);
}

// INV-10: nothing is made of a call that nobody observes.
#[tokio::test]
async fn without_observers_calls_are_made_all_the_same() {
    let graph = calling(|calls: ObservedCalls| -> BoxFuture<'static, ()> {
        Box::pin(async move {
            assert_eq!(format!("{calls:?}"), "ObservedCalls(unobserved)");
            let provider = AnswersInOrder::whole([says("Done.")]);
            let answered = calls.complete(ProviderCall::of(provider.as_ref()), &asks()).await.unwrap();
            assert_eq!(answered.message.text(), "Done.");
        })
    });
    graph.compile().unwrap().invoke(StateUpdate::new(), InvokeOptions::new()).await.unwrap();
    let provider = AnswersInOrder::whole([says("Done.")]);
    let outside =
        singletree_engine::current_calls().complete(ProviderCall::of(provider.as_ref()), &asks()).await;
    assert_eq!(outside.unwrap().message.text(), "Done.");
}
