//! The contract of whoever answers for a model.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use futures_util::StreamExt;
use singletree_env::BoxFuture;

use crate::assemble::{ResponseAssembler, ResponseLimits};
use crate::delta::ResponseDelta;
use crate::error::{Error, ProviderErrorDetail, Result};
use crate::request::Request;
use crate::response::Response;

/// A boxed stream.
pub type BoxStream<'a, T> = Pin<Box<dyn Stream<Item = T> + Send + 'a>>;

/// A model behind some door (spec: llm-provider §5).
///
/// # Contract
///
/// - Stateless: the request holds everything; the same provider serves many calls at once, and
///   does not queue them.
/// - Bound to one model.
/// - Never loops on tool calls, never retries, never calls `ready` by itself.
/// - [`Request::check`] runs before anything is sent, [`Response::validate_against`] before `complete`
///   returns.
/// - [`Request::inline_pictures`] is written to a wire, so that it has the pictures which a message names by `blob:`; records
///   and reports of a request have the request itself.
/// - Thinking, redacted thinking and signatures of another provider are stripped silently before a request is sent
///   (spec: llm-provider §3.1.7).
/// - The assembled stream equals the response that `complete` returns for the same answer.
/// - No time limit of its own beyond its transport's: the caller sets one (D20).
///
/// # Cancellation
///
/// Dropping a future or a stream ends the call. Nothing goes on in the background.
pub trait Provider: fmt::Debug + Send + Sync {
    /// Returns the model that this provider is bound to.
    fn model_name(&self) -> &str;

    /// Returns the identifier of the system that serves the model (spec: observability §5.5.3, `gen_ai.system`):
    /// `openai`, `anthropic`, `vllm` and so on. A wrapper hands the call on.
    fn system_name(&self) -> &str {
        "_OTHER"
    }

    /// Verifies that the next call is expected to succeed. Cheap and idempotent.
    ///
    /// # Errors
    ///
    /// `provider_authentication`, `provider_unavailable`, `provider_invalid_model`,
    /// `provider_model_not_loaded`.
    fn ready(&self) -> BoxFuture<'_, Result<()>>;

    /// Asks for one answer, whole and validated.
    ///
    /// # Errors
    ///
    /// Any category of [`Error`].
    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>>;

    /// Says whether [`stream_deltas`](Self::stream_deltas) works.
    fn can_stream(&self) -> bool;

    /// Asks for one answer, delta by delta, as they arrive. [`complete_streaming`] drives it.
    ///
    /// # Errors
    ///
    /// Any category of [`Error`], before the first delta or in its place; the stream ends after
    /// an error. `provider_invalid_request` where the provider does not stream.
    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>>;

    /// Removes the provider's secrets from an error that other code made of its answer (INV-16). Code that checks an
    /// answer calls this: a server may give a key back, for example as the name of a tool. A wrapper hands the call
    /// on.
    fn redact_secrets(&self, error: Error) -> Error {
        error
    }
}

/// A shared model is a model.
impl<P: Provider + ?Sized> Provider for Arc<P> {
    fn model_name(&self) -> &str {
        self.as_ref().model_name()
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.as_ref().ready()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        self.as_ref().complete(request)
    }

    fn can_stream(&self) -> bool {
        self.as_ref().can_stream()
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        self.as_ref().stream_deltas(request)
    }

    fn redact_secrets(&self, error: Error) -> Error {
        self.as_ref().redact_secrets(error)
    }
}

/// Asks for one answer delta by delta, shows each delta, and returns the answer, validated.
///
/// `on_delta` must be quick: the next delta waits for it.
///
/// # Errors
///
/// `provider_invalid_request` when the provider does not stream; `provider_unavailable` when the
/// stream breaks off; else any category of [`Error`]. Deltas that were shown before an error are void.
///
/// # Cancellation
///
/// Dropping the future ends the call.
pub async fn complete_streaming(
    provider: &dyn Provider,
    request: &Request,
    limits: ResponseLimits,
    on_delta: impl FnMut(&ResponseDelta) + Send,
) -> Result<Response> {
    assemble_response(provider, request, limits, on_delta)
        .await
        .map_err(|error| provider.redact_secrets(error))
}

async fn assemble_response(
    provider: &dyn Provider,
    request: &Request,
    limits: ResponseLimits,
    mut on_delta: impl FnMut(&ResponseDelta) + Send,
) -> Result<Response> {
    if !provider.can_stream() {
        return Err(Error::InvalidRequest(ProviderErrorDetail::new(format!(
            "the provider of {:?} does not stream",
            provider.model_name()
        ))));
    }
    request.check()?;
    let mut deltas = provider.stream_deltas(request).await?;
    let mut assembler = ResponseAssembler::new(limits);
    while let Some(delta) = deltas.next().await {
        let delta = delta?;
        on_delta(&delta);
        assembler.push_delta(delta)?;
    }
    assembler.finish_response()?.validate_against(request)
}
