//! Making a call, and all that is seen of it.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use singletree::durable::BoxFuture;
use singletree::engine::ObservedCalls;
use singletree::llm::{
    ConstantRandomSource, Error, ModelRetryPolicy, ModelStreamUpdate, Provider, ProviderCall, Request,
    Response, ResponseDelta, RetryBackoff,
};
use singletree_providers::HttpProvider;
use singletree_telemetry::TraceSpan;

use super::attempts::{AttemptRecorder, PauseRecorder, RecordedAttempt};
use super::call::{CallRetrySpec, ProviderCallSpec, ProviderOperation};
use super::node;
use super::observed::run_observed_work;
use super::peer::{BASE_URL, CapturedRequest, MockHttpAnswer, MockProviderServer};
use super::spec::ProviderMapping;
use crate::failure::Outcome;

/// The results of a call.
#[derive(Debug)]
pub(super) struct ProviderCallResult {
    /// The request as the caller wrote it; none for a probe, and none when the request cannot be constructed.
    pub(super) asked: Option<Request>,
    /// The same, after the call.
    pub(super) asked_after: Option<Request>,
    /// Whether it was asked delta by delta.
    pub(super) is_streamed: bool,
    /// How it was tried again.
    pub(super) retry: Option<CallRetrySpec>,
    /// The requests that were sent.
    pub(super) sent: Vec<CapturedRequest>,
    /// How it ended.
    pub(super) ended: Result<CallCompletion, Error>,
    /// The deltas that were shown of the last attempt.
    pub(super) shown: Vec<ResponseDelta>,
    /// How many deltas were shown in all.
    pub(super) shown_ever: usize,
    /// Its attempts.
    pub(super) tried: Vec<RecordedAttempt>,
    /// The waits between them.
    pub(super) pauses: Vec<Duration>,
    /// How often a retry was announced.
    pub(super) announced: usize,
    /// The correction messages of the reask callback.
    pub(super) corrections: Vec<String>,
    /// The spans of its attempts, in order.
    pub(super) spans: Vec<TraceSpan>,
    /// The same answer, asked whole: of a stream that succeeded.
    pub(super) whole: Option<Result<Response, Error>>,
    /// How many answers were left after it.
    pub(super) left: usize,
}

/// How a call that succeeded ended.
#[derive(Debug)]
pub(super) enum CallCompletion {
    /// The model would answer.
    Ready,
    /// It answered.
    Answered(Box<Response>),
}

impl ProviderCallResult {
    /// Returns the answer, if there is one.
    pub(super) fn require_response(&self) -> Result<&Response, String> {
        match &self.ended {
            Ok(CallCompletion::Answered(response)) => Ok(response),
            Ok(CallCompletion::Ready) => Err("nothing was asked".into()),
            Err(error) => Err(format!("it failed: {} ({error})", error.category())),
        }
    }

    /// Returns the error, if there is one.
    pub(super) fn require_error(&self) -> Result<&Error, String> {
        match &self.ended {
            Err(error) => Ok(error),
            Ok(CallCompletion::Ready | CallCompletion::Answered(_)) => Err("it did not fail".into()),
        }
    }

    /// Returns the answers that it got, one for each request.
    pub(super) fn received_answers(&self) -> impl DoubleEndedIterator<Item = &MockHttpAnswer> {
        self.sent.iter().filter_map(|it| it.answer.as_ref())
    }
}

/// Makes a call.
///
/// # Errors
/// When something that the case describes cannot be built.
pub(super) async fn run_provider_call(
    spec: &ProviderCallSpec,
    provider: &Arc<HttpProvider>,
    peer: &MockProviderServer,
) -> Outcome<ProviderCallResult> {
    let mut called = ProviderCallResult {
        asked: None,
        asked_after: None,
        is_streamed: spec.is_streamed,
        retry: spec.retry.clone(),
        sent: Vec::new(),
        ended: Ok(CallCompletion::Ready),
        shown: Vec::new(),
        shown_ever: 0,
        tried: Vec::new(),
        pauses: Vec::new(),
        announced: 0,
        corrections: Vec::new(),
        spans: Vec::new(),
        whole: None,
        left: 0,
    };
    match (spec.operation, &spec.request) {
        (ProviderOperation::Ready, _) => {
            called.ended = provider.ready().await.map(|()| CallCompletion::Ready)
        }
        (ProviderOperation::Complete, Ok(request)) => {
            called.asked = Some(request.clone());
            let request = Arc::new(request.clone());
            let ended = match spec.node_attempts {
                Some(attempts) => node::complete_in_node(provider, &request, attempts).await?,
                None => called.make_observed_call(&request, provider).await?,
            };
            called.ended = ended.map(|ended| CallCompletion::Answered(Box::new(ended)));
            called.asked_after = Some((*request).clone());
        }
        (ProviderOperation::Complete, Err(error)) => {
            let detail = singletree::llm::ProviderErrorDetail::new(error.to_string());
            called.ended = Err(Error::InvalidRequest(detail));
        }
    }
    called.sent = peer.take_captured();
    called.left = peer.unused_answer_count();
    if called.is_streamed && called.require_response().is_ok() {
        called.whole = repeat_unstreamed(&called, provider).await;
    }
    Ok(called)
}

/// What a call gave and showed.
struct CompletedCall {
    ended: Result<Response, Error>,
    shown: Vec<ResponseDelta>,
    shown_ever: usize,
    tried: Vec<RecordedAttempt>,
    pauses: Vec<Duration>,
    announced: usize,
    corrections: Vec<String>,
}

async fn complete_request(
    request: Arc<Request>,
    provider: Arc<HttpProvider>,
    (is_streamed, retry): (bool, Option<CallRetrySpec>),
    calls: ObservedCalls,
) -> CompletedCall {
    let (attempts, pauses) = (AttemptRecorder::default(), PauseRecorder::default());
    let heard = Arc::new(RetryCallbackLog::default());
    let policy = retry.as_ref().map(|retry| retry.build_policy(&heard));
    let highest = ConstantRandomSource::from_fraction(1.0);
    let mut call = ProviderCall::of(provider.as_ref()).with_observer(&attempts);
    if let Some(policy) = &policy {
        call = call.retrying(policy, &pauses, &highest);
    }
    let (mut shown, mut shown_ever) = (Vec::new(), 0);
    let ended = if is_streamed {
        let show = |update: ModelStreamUpdate<'_>| match update {
            ModelStreamUpdate::Delta(delta) => {
                shown.push(delta.clone());
                shown_ever += 1;
            }
            ModelStreamUpdate::Void => shown.clear(),
        };
        calls.complete_with_updates(call, &request, show).await
    } else {
        calls.complete(call, &request).await
    };
    CompletedCall {
        ended,
        shown,
        shown_ever,
        tried: attempts.into_attempts(),
        pauses: pauses.into_pauses(),
        announced: *heard.announced.lock().unwrap_or_else(PoisonError::into_inner),
        corrections: heard.corrections.lock().unwrap_or_else(PoisonError::into_inner).clone(),
    }
}

impl ProviderCallResult {
    /// Makes the call in a node, as an application's graph does, and notes all that is seen of it.
    async fn make_observed_call(
        &mut self,
        request: &Arc<Request>,
        provider: &Arc<HttpProvider>,
    ) -> Outcome<Result<Response, Error>> {
        let (request, provider) = (request.clone(), provider.clone());
        let how = (self.is_streamed, self.retry.clone());
        let work = move |calls| -> BoxFuture<'static, CompletedCall> {
            Box::pin(complete_request(request, provider, how, calls))
        };
        let (made, spans) = run_observed_work(Box::new(work)).await?;
        (self.shown, self.shown_ever) = (made.shown, made.shown_ever);
        (self.tried, self.pauses) = (made.tried, made.pauses);
        (self.announced, self.corrections) = (made.announced, made.corrections);
        self.spans = spans;
        Ok(made.ended)
    }
}

/// The records of a retry's callbacks.
#[derive(Debug, Default)]
pub(super) struct RetryCallbackLog {
    announced: Mutex<usize>,
    corrections: Mutex<Vec<String>>,
}

impl CallRetrySpec {
    pub(super) fn build_policy(&self, heard: &Arc<RetryCallbackLog>) -> ModelRetryPolicy {
        let announcing = heard.clone();
        let mut retry =
            ModelRetryPolicy::new().per_attempt_override(self.overrides.clone()).on_retry(move |_, _| {
                *announcing.announced.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                Box::pin(async { ControlFlow::Continue(()) })
            });
        if let Some(attempts) = self.max_attempts {
            retry = retry.max_attempts(attempts);
        }
        if let Some(wait) = self.backoff {
            retry = retry.backoff(RetryBackoff::Constant(wait));
        }
        if let Some(template) = self.reask.clone() {
            let hearing = heard.clone();
            retry = retry.reask(move |invalid| {
                let correction = render_template(&template, &invalid.output_content, &invalid.error_message);
                hearing.corrections.lock().unwrap_or_else(PoisonError::into_inner).push(correction.clone());
                correction
            });
        }
        retry
    }
}

/// Fills a template in one pass: inserted text is not scanned again (conformance-adapter §5.11).
fn render_template(template: &str, output: &str, error: &str) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = [("{output_content}", output), ("{error_message}", error)];
        match known.into_iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, value)) => {
                text.push_str(value);
                rest = &rest[name.len()..];
            }
            None => {
                text.push('{');
                rest = &rest[1..];
            }
        }
    }
    text.push_str(rest);
    text
}

/// Requests the answer of a stream once more without streaming, from a server of its own.
async fn repeat_unstreamed(
    called: &ProviderCallResult,
    provider: &HttpProvider,
) -> Option<Result<Response, Error>> {
    let request = called.asked.as_ref()?;
    let chunks = called.received_answers().next_back().filter(|answer| answer.is_streamed())?.body_parts();
    let answer = MockHttpAnswer::from_body(join_stream_chunks(chunks));
    let mapping = ProviderMapping { wire: provider.wire(), streams: provider.capabilities().streaming };
    let peer = Arc::new(MockProviderServer::new(mapping, vec![answer], None));
    let built = HttpProvider::builder(provider.wire(), provider.model_name(), peer)
        .base_url(BASE_URL)
        .capabilities(provider.capabilities())
        .build();
    let provider = match built {
        Ok(provider) => provider,
        Err(error) => return Some(Err(error)),
    };
    Some(provider.complete(request).await)
}

/// Converts the chunks of an OpenAI stream into the equivalent non-streamed answer (llm-provider §6).
pub(super) fn join_stream_chunks(chunks: &[Value]) -> Value {
    let mut message = json!({"role": "assistant", "content": null});
    let mut finish = Value::Null;
    let mut body = json!({"object": "chat.completion", "usage": null});
    for chunk in chunks {
        for key in ["id", "model", "usage"] {
            if let Some(value) = chunk.get(key).filter(|it| !it.is_null()) {
                body[key] = value.clone();
            }
        }
        let choice = &chunk["choices"][0];
        if !choice["finish_reason"].is_null() {
            finish = choice["finish_reason"].clone();
        }
        for key in ["content", "reasoning_content", "reasoning"] {
            if let Some(more) = choice["delta"][key].as_str() {
                let so_far = message[key].as_str().unwrap_or_default().to_owned();
                message[key] = json!(so_far + more);
            }
        }
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            append_tool_call_fragment(&mut message, call);
        }
    }
    body["choices"] = json!([{"index": 0, "message": message, "finish_reason": finish}]);
    body
}

/// Puts a fragment of a tool call where its index says.
fn append_tool_call_fragment(message: &mut Value, fragment: &Value) {
    let index =
        fragment["index"].as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or_default();
    if !message["tool_calls"].is_array() {
        message["tool_calls"] = json!([]);
    }
    let Some(calls) = message["tool_calls"].as_array_mut() else { return };
    // A fixture's own indices: a handful.
    while calls.len() <= index.min(64) {
        calls.push(json!({"type": "function", "function": {"name": "", "arguments": ""}}));
    }
    let Some(call) = calls.get_mut(index) else { return };
    if let Some(id) = fragment["id"].as_str() {
        call["id"] = json!(id);
    }
    for key in ["name", "arguments"] {
        if let Some(more) = fragment["function"][key].as_str() {
            let so_far = call["function"][key].as_str().unwrap_or_default().to_owned();
            call["function"][key] = json!(so_far + more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: conformance-adapter §5.11
    #[test]
    fn a_template_is_filled_in_one_pass_and_other_braces_stay() {
        let text = render_template("a {output_content} {x} {error_message}{", "{error_message}", "no");
        assert_eq!(text, "a {error_message} {x} no{");
    }

    #[test]
    fn fragments_of_calls_come_together_by_index() {
        let chunk =
            |delta: Value| json!({"id": "1", "model": "m", "choices": [{"index": 0, "delta": delta}]});
        let call = |index: u64, name: &str, arguments: &str| json!({"tool_calls": [{"index": index, "function": {"name": name, "arguments": arguments}}]});
        let whole = join_stream_chunks(&[
            chunk(call(1, "b", "{")),
            chunk(call(0, "a", "{}")),
            chunk(call(1, "", "}")),
            json!("[DONE]"),
        ]);
        let calls = &whole["choices"][0]["message"]["tool_calls"];
        assert_eq!(
            [&calls[0]["function"], &calls[1]["function"]],
            [&json!({"name": "a", "arguments": "{}"}), &json!({"name": "b", "arguments": "{}"})]
        );
    }
}
