//! One call to a model, made again where that may help.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::assemble::ResponseLimits;
use crate::delta::ResponseDelta;
use crate::error::{Error, ProviderErrorDetail, Result};
use crate::message::ChatMessage;
use crate::provider::{Provider, complete_streaming};
use crate::request::Request;
use crate::response::{ModelFinishReason, Response};
use crate::retry::{ModelRetryPolicy, RetryReason};
use singletree_env::{RandomSource, Timer, TraceHeaders};

/// A report about a streamed call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ModelStreamUpdate<'a> {
    /// The next piece of the answer.
    Delta(&'a ResponseDelta),
    /// Discards everything shown so far: its attempt failed, and another one follows.
    Void,
}

/// One attempt of a call.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ProviderCallAttempt<'a> {
    /// Its number within the call, from 0.
    pub index: u32,
    /// Why it is made; nothing for the first.
    pub reason: Option<RetryReason>,
    /// The request of this attempt, with its overrides and corrections.
    pub request: &'a Request,
    /// Whether it is asked delta by delta.
    pub is_streamed: bool,
}

/// Is told about each attempt of a call: where telemetry hangs. It must be quick: the call waits.
///
/// An attempt whose call was dropped is told of when it starts, and never when it ends.
pub trait AttemptObserver: fmt::Debug + Send + Sync {
    /// Hears that an attempt starts.
    fn on_attempt_started(&self, attempt: &ProviderCallAttempt<'_>);

    /// Hears how an attempt ended.
    fn on_attempt_ended(&self, attempt: &ProviderCallAttempt<'_>, outcome: Result<&Response, &Error>);

    /// Hears that a failed attempt is followed by another one after a wait, before that wait begins. `next` is the
    /// number of the attempt that follows, from 0: 1 at the first retry. The one that follows is told of by
    /// [`on_attempt_started`](Self::on_attempt_started).
    fn on_retry_scheduled(&self, _next: u32, _wait: Duration, _error: &Error) {}

    /// Returns the trace in which an attempt is made, when it starts: below a span of its own. Without one it is made in
    /// the trace of its caller.
    fn trace_of_attempt(&self, _attempt: &ProviderCallAttempt<'_>) -> Option<Arc<TraceHeaders>> {
        None
    }

    /// Hears of a piece of a streamed attempt, before the caller is shown it.
    fn on_delta(&self, _attempt: &ProviderCallAttempt<'_>, _delta: &ResponseDelta) {}
}

/// How one call is made: on which provider, with which retry, watched by whom (spec: llm-provider §7.1).
///
/// Without a retry it is the provider's own call. Cheap to make; may be used for many calls at once.
///
/// ```
/// use std::sync::Arc;
/// use singletree_llm::{
///     ChatMessage, ConstantRandomSource, InstantTimer, ModelRetryPolicy, ProviderCall, Request, Script, ScriptedProvider,
/// };
///
/// # futures_util::FutureExt::now_or_never(async {
/// let provider = ScriptedProvider::new(Script::replies(["4"]));
/// let retry = ModelRetryPolicy::new().max_attempts(2);
/// let request = Request::new(vec![Arc::new(ChatMessage::user("What is 2 + 2?"))]);
/// let half = ConstantRandomSource::from_fraction(0.5);
/// let ask = ProviderCall::of(&provider).retrying(&retry, &InstantTimer, &half);
/// assert_eq!(ask.complete(&request).await?.message.text(), "4");
/// # Ok::<(), singletree_llm::Error>(())
/// # }).unwrap()?;
/// # Ok::<(), singletree_llm::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct ProviderCall<'a> {
    provider: &'a dyn Provider,
    retrying: Option<ProviderCallRetries<'a>>,
    observer: Option<&'a dyn AttemptObserver>,
    reporter: Option<&'a dyn AttemptObserver>,
    limits: ResponseLimits,
}

#[derive(Clone, Copy)]
struct ProviderCallRetries<'a> {
    retry: &'a ModelRetryPolicy,
    timer: &'a dyn Timer,
    rng: &'a dyn RandomSource,
}

impl<'a> ProviderCall<'a> {
    /// Asks a provider, once.
    #[must_use]
    pub fn of(provider: &'a dyn Provider) -> Self {
        Self { provider, retrying: None, observer: None, reporter: None, limits: ResponseLimits::standard() }
    }

    /// Asks again where that may help. `timer` lets the waits pass, `rng` draws their jitter.
    #[must_use]
    pub fn retrying(
        mut self,
        retry: &'a ModelRetryPolicy,
        timer: &'a dyn Timer,
        rng: &'a dyn RandomSource,
    ) -> Self {
        self.retrying = Some(ProviderCallRetries { retry, timer, rng });
        self
    }

    /// Tells somebody about each attempt.
    #[must_use]
    pub fn with_observer(mut self, observer: &'a dyn AttemptObserver) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Tells the run that the call is part of about each attempt and piece, before the observer.
    #[must_use]
    pub fn reporting_to(mut self, reporter: &'a dyn AttemptObserver) -> Self {
        self.reporter = Some(reporter);
        self
    }

    /// Returns the provider that is asked.
    #[must_use]
    pub fn provider(&self) -> &'a dyn Provider {
        self.provider
    }

    fn listeners(&self) -> impl Iterator<Item = &'a dyn AttemptObserver> {
        self.reporter.into_iter().chain(self.observer)
    }

    /// Bounds a streamed response; [`ResponseLimits::standard`] otherwise.
    #[must_use]
    pub fn with_limits(mut self, limits: ResponseLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Asks for one answer, whole and validated. The request is not changed, whatever the attempts change.
    ///
    /// A response that finished with `error` and has no calls is asked for again as an error that may go away; the
    /// last one is returned as it is.
    ///
    /// # Errors
    ///
    /// The last attempt's: any category of [`Error`]. `provider_invalid_request` for a retry without attempts.
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends the attempt that runs, or the wait; nothing is tried again.
    pub async fn complete(&self, request: &Request) -> Result<Response> {
        self.run_attempts(request, None::<fn(ModelStreamUpdate<'_>)>).await
    }

    /// Asks for one answer delta by delta, shows each, and returns the answer, validated.
    ///
    /// `on_shown` must be quick: the next delta waits for it. It gets [`ModelStreamUpdate::Void`] when an attempt that had shown
    /// something failed and is made again. Everything shown before this returns an error is void, too.
    ///
    /// # Errors
    ///
    /// As [`complete`](Self::complete); `provider_invalid_request` when the provider does not stream.
    ///
    /// # Cancellation
    ///
    /// As [`complete`](Self::complete).
    pub async fn complete_with_updates(
        &self,
        request: &Request,
        on_shown: impl FnMut(ModelStreamUpdate<'_>) + Send,
    ) -> Result<Response> {
        self.run_attempts(request, Some(on_shown)).await
    }

    async fn run_attempts(
        &self,
        request: &Request,
        mut show: Option<impl FnMut(ModelStreamUpdate<'_>) + Send>,
    ) -> Result<Response> {
        let attempts = self.retrying.map_or(1, |retrying| retrying.retry.attempt_limit());
        if attempts == 0 {
            return Err(Error::InvalidRequest(ProviderErrorDetail::new("the retry has no attempt at all")));
        }
        // Copied only when an attempt differs from the caller's request.
        let mut transcript = None;
        let (mut index, mut reason) = (0, None);
        loop {
            let changed = self.build_attempt_request(index, request, transcript.as_deref());
            let attempt = ProviderCallAttempt {
                index,
                reason,
                request: changed.as_ref().unwrap_or(request),
                is_streamed: show.is_some(),
            };
            let mut shown = false;
            let (error, degraded) = match self.perform_attempt(&attempt, show.as_mut(), &mut shown).await {
                Ok(response) if is_interrupted_response(&response) => {
                    let what = "the provider failed in the middle of its answer";
                    (Error::Unavailable(ProviderErrorDetail::new(what)), Some(response))
                }
                Ok(response) => return Ok(response),
                Err(error) => (error, None),
            };
            // A degraded response that is not asked for again is the answer all the same (llm-provider §6).
            let given_up = |error: Error, degraded: Option<Response>| degraded.ok_or(error);
            let Some(retrying) = self.retrying.filter(|_| attempts - index > 1) else {
                return given_up(error, degraded);
            };
            let Some((why, pair)) = retrying.retry.decide_retry(&error) else {
                return given_up(error, degraded);
            };
            reason = Some(why);
            if let Some((output, correction)) = pair {
                let messages = transcript.get_or_insert_with(|| request.messages.clone());
                messages.push(Arc::new(ChatMessage::assistant(output)));
                messages.push(Arc::new(ChatMessage::user(correction)));
            }
            if let (true, Some(show)) = (shown, show.as_mut()) {
                show(ModelStreamUpdate::Void);
            }
            if let ControlFlow::Break(()) = retrying.retry.notify_on_retry(&error, index).await {
                return given_up(error, degraded);
            }
            let draw = || retrying.rng.draw_fraction();
            let wait = retrying.retry.retry_backoff().wait_after_attempt(index, &error, draw);
            self.listeners().for_each(|listener| listener.on_retry_scheduled(index + 1, wait, &error));
            if !wait.is_zero() {
                retrying.timer.sleep_for(wait).await;
            }
            index += 1;
        }
    }

    async fn perform_attempt(
        &self,
        attempt: &ProviderCallAttempt<'_>,
        show: Option<&mut (impl FnMut(ModelStreamUpdate<'_>) + Send)>,
        shown: &mut bool,
    ) -> Result<Response> {
        self.listeners().for_each(|listener| listener.on_attempt_started(attempt));
        let trace = self.listeners().find_map(|listener| listener.trace_of_attempt(attempt));
        let answer = async {
            match show {
                None => self.provider.complete(attempt.request).await,
                Some(show) => {
                    let on_delta = |delta: &ResponseDelta| {
                        *shown = true;
                        self.listeners().for_each(|listener| listener.on_delta(attempt, delta));
                        show(ModelStreamUpdate::Delta(delta));
                    };
                    complete_streaming(self.provider, attempt.request, self.limits, on_delta).await
                }
            }
        };
        let outcome = TraceHeaders::scope(trace.or_else(TraceHeaders::current), answer).await;
        self.listeners().for_each(|listener| listener.on_attempt_ended(attempt, outcome.as_ref()));
        outcome
    }

    /// Returns the request of an attempt, where it differs from the caller's request.
    fn build_attempt_request(
        &self,
        attempt: u32,
        request: &Request,
        transcript: Option<&[Arc<ChatMessage>]>,
    ) -> Option<Request> {
        let config = self.retrying.and_then(|retrying| retrying.retry.override_for_attempt(attempt));
        if config.is_none() && transcript.is_none() {
            return None;
        }
        let mut changed = request.clone();
        if let Some(config) = config {
            changed.config = request.config.overridden_by(config);
        }
        if let Some(transcript) = transcript {
            changed.messages = transcript.to_vec();
        }
        Some(changed)
    }
}

/// Tells whether a response is half an answer that the same call may give whole: it finished with `error` and asks
/// for no tool (spec: llm-provider §7). Its calls, where there are some, are for the caller to look at (§3).
fn is_interrupted_response(response: &Response) -> bool {
    response.finish_reason == ModelFinishReason::Error && response.message.tool_calls.is_empty()
}

impl fmt::Debug for ProviderCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderCall")
            .field("provider", &self.provider)
            .field("retry", &self.retrying.map(|retrying| retrying.retry))
            .field("observer", &self.observer)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
