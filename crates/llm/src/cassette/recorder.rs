//! Recording requests and answers.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use singletree_env::BoxFuture;

use super::entry::{
    CassetteEntry, RecordedDelta, RecordedFailure, RecordedOutcome, RecordedResponse, VERSION,
};
use super::request::{digest_request, request_to_json};
use crate::delta::ResponseDelta;
use crate::error::{Error, Result};
use crate::provider::{BoxStream, Provider};
use crate::request::Request;
use crate::response::Response;

/// A provider that answers as another one does, and keeps every call ([`CassetteReplayer`](crate::CassetteReplayer) plays them).
///
/// A call is kept when it ends: one that was dropped is not. Whether the provider is ready is not kept. Does no I/O
/// of its own: [`cassette_text`](Self::cassette_text) and [`write_cassette_to`](Self::write_cassette_to) return the calls recorded so far.
pub struct CassetteRecorder<P> {
    provider: P,
    lines: Arc<Mutex<Vec<String>>>,
}

impl<P: Provider> CassetteRecorder<P> {
    /// Starts to record a provider.
    #[must_use]
    pub fn new(provider: P) -> Self {
        Self { provider, lines: Arc::default() }
    }

    /// Returns the cassette so far.
    #[must_use]
    pub fn cassette_text(&self) -> String {
        let (model, streams) = (self.provider.model_name(), self.provider.can_stream());
        let head = json!({"cassette": VERSION, "model": model, "streams": streams}).to_string();
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let all = std::iter::once(&head).chain(lines.iter());
        all.flat_map(|item| [item.as_str(), "\n"]).collect()
    }

    /// Writes the cassette so far.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn write_cassette_to(&self, mut to: impl io::Write) -> io::Result<()> {
        to.write_all(self.cassette_text().as_bytes())
    }
}

/// Puts a call at the end.
fn record_call(
    lines: &Mutex<Vec<String>>,
    request: &Request,
    deltas: Option<Vec<RecordedDelta>>,
    ended: Option<RecordedOutcome>,
) {
    let request = request_to_json(request);
    let entry = CassetteEntry { digest: Some(digest_request(&request)), request, deltas, ended };
    let line = serde_json::to_string(&entry).expect("maps have text keys, and numbers are finite");
    lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
}

impl<P: Provider> Provider for CassetteRecorder<P> {
    fn model_name(&self) -> &str {
        self.provider.model_name()
    }

    fn system_name(&self) -> &str {
        self.provider.system_name()
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        self.provider.ready()
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        async move {
            let outcome = self.provider.complete(request).await;
            let ended = match &outcome {
                Ok(response) => RecordedOutcome::Response(RecordedResponse::from_response(response)),
                Err(error) => RecordedOutcome::Error(RecordedFailure::from_error(error)),
            };
            record_call(&self.lines, request, None, Some(ended));
            outcome
        }
        .boxed()
    }

    fn can_stream(&self) -> bool {
        self.provider.can_stream()
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        async move {
            let deltas = match self.provider.stream_deltas(request).await {
                Ok(deltas) => deltas,
                Err(error) => {
                    record_call(
                        &self.lines,
                        request,
                        Some(Vec::new()),
                        Some(RecordedOutcome::Error(RecordedFailure::from_error(&error))),
                    );
                    return Err(error);
                }
            };
            let tape = RecordedStream { lines: &self.lines, request, pieces: Some(Vec::new()) };
            let kept = futures_util::stream::unfold((deltas, tape), |(mut deltas, mut tape)| async move {
                let next = deltas.next().await;
                tape.record_stream_item(next.as_ref());
                next.map(|next| (next, (deltas, tape)))
            });
            Ok(kept.boxed())
        }
        .boxed()
    }

    fn redact_secrets(&self, error: Error) -> Error {
        self.provider.redact_secrets(error)
    }
}

/// The deltas of a stream so far; nothing once the call was kept.
struct RecordedStream<'a> {
    lines: &'a Mutex<Vec<String>>,
    request: &'a Request,
    pieces: Option<Vec<RecordedDelta>>,
}

impl RecordedStream<'_> {
    /// Takes the next item of the stream; keeps the call when the item ends it. A reader may stop after the `Finish`.
    fn record_stream_item(&mut self, next: Option<&Result<ResponseDelta>>) {
        let is_over = match next {
            Some(Ok(delta)) => {
                if let Some(pieces) = &mut self.pieces {
                    pieces.push(delta.clone().into());
                }
                matches!(delta, ResponseDelta::Finish { .. })
            }
            Some(Err(_)) | None => true,
        };
        if is_over && let Some(pieces) = self.pieces.take() {
            let error = next
                .and_then(|next| next.as_ref().err())
                .map(|it: &Error| RecordedOutcome::Error(RecordedFailure::from_error(it)));
            record_call(self.lines, self.request, Some(pieces), error);
        }
    }
}

impl<P: fmt::Debug> fmt::Debug for CassetteRecorder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CassetteRecorder").field("provider", &self.provider).finish_non_exhaustive()
    }
}
