//! The interface of a wire: how a request is written, and how an answer is read.

use std::fmt;
use std::time::Duration;

use serde_json::Value;
use singletree_llm::{Error, ProviderErrorDetail, Request, Response, ResponseDelta, Result};

/// How a request is to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ComposeOptions {
    /// Delta by delta.
    pub(crate) streaming: bool,
    /// Whether the server takes a response schema by itself; else the mapping falls back (llm-provider §8.1.5, §8.2.5,
    /// §8.3.5).
    pub(crate) structured_output: bool,
}

/// A request as a wire wants it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ComposedRequest {
    /// The path and query after the base address.
    pub(crate) path: String,
    /// The body; written to bytes by the canonical writer, keys sorted at every depth (llm-provider §8).
    pub(crate) body: Value,
    /// The made-up tool whose arguments are the structured answer, where that is the fallback.
    pub(crate) answer_tool: Option<String>,
}

/// A failed answer of a server.
#[derive(Debug)]
pub(crate) struct FailedResponse<'a> {
    pub(crate) status: u16,
    /// The body, if it is JSON.
    pub(crate) body: Option<&'a Value>,
    /// How long the server asked us to wait, however it said so.
    pub(crate) retry_after: Option<Duration>,
}

impl FailedResponse<'_> {
    /// Returns a field of the body's `error` object: every wire has that object, and its fields are strings (Gemini's
    /// `code` is a number).
    pub(crate) fn error_text(&self, field: &str) -> Option<&str> {
        self.body.and_then(|body| error_text(body, field))
    }

    /// Returns the details that an error of any category has: status, wait, and the server's message (D15). Only the
    /// provider knows the key: it removes the key from every diagnostic, and cuts the rest to a readable length.
    pub(crate) fn error_detail(&self) -> ProviderErrorDetail {
        let text = self
            .error_text("message")
            .map_or_else(|| format!("the server answered {}", self.status), str::to_owned);
        let detail = ProviderErrorDetail::new(text).with_status(self.status);
        match self.retry_after {
            Some(wait) => detail.with_retry_after(wait),
            None => detail,
        }
    }
}

/// Returns a field of the `error` object of a body. A plain string for `error` is its message; some servers of the
/// OpenAI wire send the object itself, and Gemini a list of one.
pub(crate) fn error_text<'a>(body: &'a Value, field: &str) -> Option<&'a str> {
    error_field(body, field)?.as_str().filter(|text| !text.trim().is_empty())
}

/// As [`error_text`], whatever the field holds.
pub(crate) fn error_field<'a>(body: &'a Value, field: &str) -> Option<&'a Value> {
    let body = body.get(0).unwrap_or(body);
    match body.get("error") {
        Some(message @ Value::String(_)) => Some(message).filter(|_| field == "message"),
        Some(error) => error.get(field),
        None => body.get(field).filter(|_| body.get("object").is_some_and(|body| body == "error")),
    }
}

/// One vendor's protocol. Pure: no I/O, no clock.
pub(crate) trait WireMapping: fmt::Debug + Send + Sync {
    /// Returns the headers that carry a key and say which version of the protocol is spoken.
    fn auth_headers(&self, key: Option<&str>) -> Vec<(String, String)>;

    /// Writes a checked request.
    ///
    /// # Errors
    /// `provider_invalid_request` for a setting that this wire does not have, and for an extra that contradicts a
    /// managed field.
    fn compose_request(
        &self,
        model: &str,
        request: &Request,
        manner: ComposeOptions,
    ) -> Result<ComposedRequest>;

    /// Reads a successful answer; nobody has validated it yet.
    ///
    /// # Errors
    /// `provider_invalid_response`.
    fn read_response(&self, body: Value, composed: &ComposedRequest) -> Result<Response>;

    /// Returns the error of a failed answer (the table of llm-provider §8.x.3).
    fn classify_failure(&self, refusal: &FailedResponse<'_>) -> Error;

    /// Starts to read a stream.
    fn stream_decoder(&self, composed: &ComposedRequest) -> Box<dyn StreamDecoder>;

    /// Returns the path of the request that [`ready`](Self::read_probe) is answered from.
    fn probe_path(&self, model: &str) -> String;

    /// Reads the answer of a probe.
    ///
    /// # Errors
    /// `provider_invalid_model`, `provider_model_not_loaded`, `provider_invalid_response`.
    fn read_probe(&self, model: &str, body: &Value) -> Result<()>;
}

/// Reads the events of one stream.
pub(crate) trait StreamDecoder: Send {
    /// Takes the data of one event, and its name where the wire names them.
    ///
    /// # Errors
    /// Any category: an error in the stream is classified as one outside it.
    fn decode_event(
        &mut self,
        name: Option<&str>,
        data: &str,
        out: &mut Vec<ResponseDelta>,
    ) -> Result<StreamProgress>;

    /// Is told that the body ended. A stream that ends before its wire says so is `provider_unavailable`.
    ///
    /// # Errors
    /// `provider_unavailable`.
    fn finish_stream(&mut self, out: &mut Vec<ResponseDelta>) -> Result<()>;
}

/// Whether more is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamProgress {
    /// Go on reading.
    More,
    /// The wire said that it was all.
    Done,
}
