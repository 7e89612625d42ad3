//! The instrumentation of one call of a model (graph-engine §6, llm-provider §5).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use singletree_durable::Timestamp;
use singletree_env::TraceHeaders;
use singletree_llm::{
    AttemptObserver, Error, Provider, ProviderCallAttempt, Request, Response, ResponseDelta, RetryReason,
};

use super::call_event::{
    LlmAttemptEvent, LlmCall, LlmCompletionEvent, LlmDeltaKind, LlmFailedEvent, LlmFailure, LlmOutput,
    LlmRequestRecord, LlmTokenEvent,
};
use super::call_tracing::TracedCall;
use super::calls::ObservedCalls;
use super::event::GraphEvent;
use super::log_span::warn_of_budget;

/// One call of a model that is reported to the observers of a run.
///
/// It hears of attempts and pieces as the [`AttemptObserver`] of the call, and is told of the call's end with
/// [`end`](Self::end), which the caller must reach: that may be after a time limit of the caller's own. Dropped without
/// an end, as when a run is cancelled, it reports no end.
#[must_use = "without an end the call is not reported"]
pub struct ModelCallScope(Option<Box<ModelCallReport>>);

struct ModelCallReport {
    calls: ObservedCalls,
    call: Arc<LlmCall>,
    started: Moment,
    /// Guards the progress of the call; held for a change only.
    progress: Mutex<ModelCallProgress>,
}

#[derive(Default)]
struct ModelCallProgress {
    next_chunk: u64,
    attempt: Option<OpenModelAttempt>,
    /// The number of the attempt that ended last, and when it began.
    ended: Option<Moment>,
}

struct OpenModelAttempt {
    started: Moment,
    index: u32,
    reason: Option<RetryReason>,
    request: Arc<LlmRequestRecord>,
}

/// A point in time, by both clocks.
#[derive(Clone, Copy)]
struct Moment {
    at: Timestamp,
    elapsed: Duration,
}

impl Moment {
    fn millis_since(self, earlier: Self) -> f64 {
        self.elapsed.saturating_sub(earlier.elapsed).as_secs_f64() * 1000.0
    }
}

impl ModelCallScope {
    pub(crate) fn begin(calls: ObservedCalls, provider: &dyn Provider, request: &Request) -> Self {
        let Some((source, call_id)) = calls.event_source().zip(calls.take_call_id()) else {
            return Self(None);
        };
        let call = Arc::new(LlmCall {
            source,
            provider: provider.system_name().into(),
            model: provider.model_name().into(),
            call_id,
            request: LlmRequestRecord::from_request(request),
        });
        let Some(started) = current_moment(&calls) else { return Self(None) };
        Self(Some(Box::new(ModelCallReport { calls, call, started, progress: Mutex::default() })))
    }

    /// Reports how the call ended, as its caller sees it: by one event, of its answer or of its error.
    pub fn end(self, outcome: Result<&Response, &Error>) {
        let Some(report) = self.0 else { return };
        // A time limit of the caller's cuts the attempt that runs.
        report.end_attempt(outcome);
        let Some(now) = current_moment(&report.calls) else { return };
        let ModelCallReport { calls, call, started, progress } = *report;
        let caller_invocation_metadata = calls.observed_metadata();
        let event = match outcome {
            Ok(response) => GraphEvent::LlmCompletion(LlmCompletionEvent {
                call,
                started_at: started.at,
                at: now.at,
                latency_ms: Some(now.millis_since(started)),
                caller_invocation_metadata,
                output: Arc::new(describe_output(response)),
            }),
            // A broken script or cassette is no failure of a provider.
            Err(Error::Script(_) | Error::Cassette(_)) => return,
            Err(error) => {
                let ended = progress.into_inner().unwrap_or_else(PoisonError::into_inner).ended;
                GraphEvent::LlmFailed(LlmFailedEvent {
                    call,
                    started_at: started.at,
                    at: now.at,
                    latency_ms: Some(now.millis_since(ended.unwrap_or(started))),
                    caller_invocation_metadata,
                    failure: Arc::new(describe_failure(error)),
                })
            }
        };
        warn_of_budget(&event);
        calls.dispatch(event);
    }
}

fn current_moment(calls: &ObservedCalls) -> Option<Moment> {
    let env = &calls.run()?.core.env;
    Some(Moment { at: env.clock.now(), elapsed: env.monotonic.elapsed_since_origin() })
}

impl ModelCallReport {
    fn lock_progress(&self) -> MutexGuard<'_, ModelCallProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_attempt(&self, outcome: Result<&Response, &Error>) {
        let Some(attempt) = self.lock_progress().attempt.take() else { return };
        self.lock_progress().ended = Some(attempt.started);
        let observes = self.calls.run().is_some_and(|run| run.lifecycle_outlet().is_some());
        let Some(now) = current_moment(&self.calls).filter(|_| observes) else { return };
        let described = outcome.map(|response| Arc::new(describe_output(response)));
        self.calls.dispatch(GraphEvent::LlmAttempt(LlmAttemptEvent {
            call: self.call.clone(),
            request: attempt.request,
            llm_attempt_index: attempt.index,
            retry_reason: attempt.reason,
            started_at: attempt.started.at,
            at: now.at,
            latency_ms: Some(now.millis_since(attempt.started)),
            caller_invocation_metadata: self.calls.observed_metadata(),
            outcome: described.map_err(|error| Arc::new(describe_failure(error))),
        }));
    }
}

impl AttemptObserver for ModelCallScope {
    fn on_attempt_started(&self, attempt: &ProviderCallAttempt<'_>) {
        let Some(report) = &self.0 else { return };
        let Some(started) = current_moment(&report.calls) else { return };
        let request = Arc::new(LlmRequestRecord::from_request(attempt.request));
        let opened = OpenModelAttempt { started, index: attempt.index, reason: attempt.reason, request };
        report.lock_progress().attempt = Some(opened);
    }

    fn trace_of_attempt(&self, attempt: &ProviderCallAttempt<'_>) -> Option<Arc<TraceHeaders>> {
        let report = self.0.as_ref()?;
        report.calls.trace_of_call(TracedCall::Model(&report.call, attempt.index))
    }

    fn on_attempt_ended(&self, _attempt: &ProviderCallAttempt<'_>, outcome: Result<&Response, &Error>) {
        if let Some(report) = &self.0 {
            report.end_attempt(outcome);
        }
    }

    fn on_delta(&self, _attempt: &ProviderCallAttempt<'_>, delta: &ResponseDelta) {
        let Some(report) = self.0.as_ref().filter(|report| report.calls.reaches_observers()) else { return };
        let (delta_kind, text) = match delta {
            ResponseDelta::Text { text, .. } => (LlmDeltaKind::Content, text),
            ResponseDelta::Thinking { text, .. } => (LlmDeltaKind::Reasoning, text),
            ResponseDelta::RedactedThinking { .. }
            | ResponseDelta::ToolCall { .. }
            | ResponseDelta::Finish { .. } => return,
        };
        // A piece without text carries a signature alone.
        if text.is_empty() {
            return;
        }
        let Some(now) = current_moment(&report.calls) else { return };
        let chunk_index = {
            let mut progress = report.lock_progress();
            progress.next_chunk += 1;
            progress.next_chunk - 1
        };
        report.calls.dispatch(GraphEvent::LlmToken(LlmTokenEvent {
            call: report.call.clone(),
            at: now.at,
            caller_invocation_metadata: report.calls.observed_metadata(),
            chunk_index,
            delta_kind,
            delta: text.clone(),
        }));
    }
}

impl fmt::Debug for ModelCallScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call_id = self.0.as_ref().map(|report| &report.call.call_id);
        f.debug_tuple("ModelCallScope").field(&call_id).finish()
    }
}

fn describe_output(response: &Response) -> LlmOutput {
    let (text, calls) = (response.message.text(), &response.message.tool_calls);
    LlmOutput {
        output_content: (!text.is_empty()).then(|| text.into_owned()),
        output_tool_calls: (!calls.is_empty()).then(|| calls.clone()),
        finish_reason: response.finish_reason,
        usage: response.usage,
        response_id: response.response_id().map(str::to_owned),
        response_model: response.response_model().map(str::to_owned),
    }
}

fn describe_failure(error: &Error) -> LlmFailure {
    let (error_message, output) = match error {
        Error::StructuredOutputInvalid(invalid) => {
            let output = LlmOutput {
                output_content: Some(invalid.output_content.clone()),
                output_tool_calls: None,
                finish_reason: invalid.finish_reason,
                usage: invalid.usage,
                response_id: invalid.response_id.clone(),
                response_model: invalid.response_model.clone(),
            };
            (invalid.error_message.clone(), Some(output))
        }
        _ => (error.to_string(), None),
    };
    LlmFailure {
        error_category: error.category().into(),
        error_type: error.http_status().map(|status| status.to_string()),
        error_message,
        output,
    }
}
