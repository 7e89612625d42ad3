//! A model behind an HTTP server.

mod builder;
mod deltas;
mod endpoint;
mod failure;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use singletree_http::{
    BoxStream as HttpBody, HttpClient, HttpLimits, HttpRequest, HttpResponse, Method, Redactor, Secret,
    Transport, read_body, retry_after,
};
use singletree_llm::{
    BoxFuture, BoxStream, ContentBlock, Error, Provider, ProviderErrorDetail, Request, Response,
    ResponseDelta, Result, canonical_json,
};

use crate::mapping::{ComposeOptions, ComposedRequest, FailedResponse, WireMapping};
use crate::wire::Wire;

pub use builder::HttpProviderBuilder;

use deltas::{DeltaStream, response_to_deltas};
use endpoint::ProviderEndpoint;
use failure::from_http_error;

/// How much of the body of a failed answer is read.
const REFUSAL_BYTES: u64 = 64 * 1024;

/// The capabilities of the server behind a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// It takes images. Where it does not, an image is refused before anything is sent.
    pub images: bool,
    /// It takes a response schema by itself. Where it does not, the mapping falls back as llm-provider §8.1.5.1,
    /// §8.2.5.1 and §8.3.5.1 describe: the schema is written into the system message, or is the parameters of a
    /// made-up tool.
    pub structured_output: bool,
    /// It streams. Where it does not, a streamed call is refused before anything is sent, and never made whole instead.
    pub streaming: bool,
}

impl Capabilities {
    /// Returns the capabilities of a vendor's own server: everything.
    #[must_use]
    pub fn of(wire: Wire) -> Self {
        match wire {
            Wire::OpenAi | Wire::Anthropic | Wire::Gemini => {
                Self { images: true, structured_output: true, streaming: true }
            }
        }
    }
}

/// A model behind an HTTP server (spec: llm-provider §5, §8). Share it behind an `Arc`; calls do not wait for each
/// other.
///
/// A request is sent once, as canonical JSON: equal requests are equal bytes (llm-provider §8). Errors hold the text
/// of the server's `error.message`, cut to 500 characters, without the key; never a body, a header or a query.
#[derive(Debug)]
pub struct HttpProvider {
    wire: Wire,
    model: String,
    system: String,
    endpoint: ProviderEndpoint,
    headers: Vec<(String, Secret)>,
    transport: Arc<dyn Transport>,
    capabilities: Capabilities,
    limits: HttpLimits,
    redactor: Redactor,
    mapping: Box<dyn WireMapping>,
}

impl HttpProvider {
    /// Makes the provider of a vendor's model, with a client of its own and everything else at its default. The key goes
    /// to the vendor only.
    ///
    /// # Errors
    /// As [`HttpProviderBuilder::build`]; `provider_unavailable` when the client cannot be made.
    pub fn new(wire: Wire, model: impl Into<String>, key: impl Into<String>) -> Result<Self> {
        let client = HttpClient::new(HttpLimits::standard()).map_err(from_http_error)?;
        Self::builder(wire, model, Arc::new(client)).key(Secret::new(key)).build()
    }

    /// Starts to describe a provider of a model.
    #[must_use]
    pub fn builder(
        wire: Wire,
        model: impl Into<String>,
        transport: Arc<dyn Transport>,
    ) -> HttpProviderBuilder {
        HttpProviderBuilder::new(wire, model.into(), transport)
    }

    /// Returns the protocol that is spoken.
    #[must_use]
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Returns the assumed capabilities of the server: they decide how a response schema is sent.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// Checks a request and writes it, with the pictures that it names; nothing has been sent before.
    async fn compose_request(&self, request: &Request, streaming: bool) -> Result<ComposedRequest> {
        request.check()?;
        if streaming && !self.capabilities.streaming {
            let problem = format!("the mapping of {:?} does not support streaming", self.model);
            return Err(Error::InvalidRequest(ProviderErrorDetail::new(problem)));
        }
        self.check_image_blocks(request)?;
        let manner = ComposeOptions { streaming, structured_output: self.capabilities.structured_output };
        // A model without eyes reads the line that names a picture of a tool.
        let request = match self.capabilities.images {
            true => request.inline_pictures().await?,
            false => Cow::Borrowed(request),
        };
        self.mapping.compose_request(&self.model, &request, manner)
    }

    fn check_image_blocks(&self, request: &Request) -> Result<()> {
        if self.capabilities.images {
            return Ok(());
        }
        for (index, message) in request.messages.iter().enumerate() {
            let image =
                message.content.blocks().iter().position(|block| matches!(block, ContentBlock::Image { .. }));
            if let Some(at) = image {
                let problem =
                    format!("messages[{index}].content[{at}]: {:?} does not take images", self.model);
                return Err(Error::UnsupportedContentBlock(ProviderErrorDetail::new(problem)));
            }
        }
        Ok(())
    }

    async fn post_request(&self, composed: &ComposedRequest, accept: &str) -> Result<HttpResponse> {
        let mut headers = self.sent_headers(accept);
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        let body = Bytes::from(canonical_json(&composed.body));
        self.send_request(HttpRequest {
            method: Method::Post,
            url: self.endpoint.url_for_path(&composed.path),
            headers,
            body,
        })
        .await
    }

    /// Sends a request; an answer that is no success is an error.
    async fn send_request(&self, request: HttpRequest) -> Result<HttpResponse> {
        let response = self.transport.send(request).await.map_err(from_http_error)?;
        if (200..300).contains(&response.status) {
            return Ok(response);
        }
        let (status, retry_after) = (response.status, retry_after(&response));
        // A refusal whose body cannot be read is not worth another error: its status says enough.
        let body = read_body(response.body, REFUSAL_BYTES, self.endpoint.host()).await.ok();
        let body: Option<Value> = body.and_then(|body| serde_json::from_slice(&body).ok());
        Err(self.mapping.classify_failure(&FailedResponse { status, body: body.as_ref(), retry_after }))
    }

    fn sent_headers(&self, accept: &str) -> Vec<(String, String)> {
        let own = [("accept", accept), ("user-agent", concat!("singletree/", env!("CARGO_PKG_VERSION")))];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        own.chain(self.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())))
            .collect()
    }

    async fn read_json_body(&self, body: HttpBody<'static, singletree_http::Result<Bytes>>) -> Result<Value> {
        let body =
            read_body(body, self.limits.body_bytes, self.endpoint.host()).await.map_err(from_http_error)?;
        serde_json::from_slice(&body).map_err(|error| {
            Error::InvalidResponse(ProviderErrorDetail::new(format!("the answer is no JSON: {error}")))
        })
    }

    async fn complete_request(&self, request: &Request) -> Result<Response> {
        let composed = self.compose_request(request, false).await?;
        let response = self.post_request(&composed, "application/json").await?;
        let body = self.read_json_body(response.body).await?;
        self.mapping.read_response(body, &composed)?.validate_against(request)
    }

    async fn open_delta_stream(&self, request: &Request) -> Result<BoxStream<'_, Result<ResponseDelta>>> {
        let composed = self.compose_request(request, true).await?;
        let response = self.post_request(&composed, "text/event-stream").await?;
        let kind = response.header("content-type").unwrap_or("text/event-stream");
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "application/json" => {
                let whole =
                    self.mapping.read_response(self.read_json_body(response.body).await?, &composed)?;
                Ok(Box::pin(futures_util::stream::iter(response_to_deltas(whole).into_iter().map(Ok))))
            }
            "text/html" => {
                let problem = "the answer is a web page and no stream of events; is the base address right?";
                Err(Error::InvalidResponse(ProviderErrorDetail::new(problem)))
            }
            _ => {
                let decoder = self.mapping.stream_decoder(&composed);
                Ok(Box::pin(DeltaStream::new(response.body, decoder, self.limits.line_bytes, &self.redactor)))
            }
        }
    }

    async fn probe_model(&self) -> Result<()> {
        let url = self.endpoint.url_for_path(&self.mapping.probe_path(&self.model));
        let headers = self.sent_headers("application/json");
        let response =
            self.send_request(HttpRequest { method: Method::Get, url, headers, body: Bytes::new() }).await?;
        let body = self.read_json_body(response.body).await?;
        self.mapping.read_probe(&self.model, &body)
    }
}

/// How many characters of a server's message a diagnostic keeps (D15).
const TOLD_MAX: usize = 500;

/// Takes the secrets out of an error, and cuts the server's message; every error of a provider goes through it. In
/// this order: half a secret is not recognised.
fn redact_error(error: Error, redactor: &Redactor) -> Error {
    error.map_diagnostic(|error| clip_message(&redactor.redact(error)))
}

/// Cuts a server's message to a readable length.
fn clip_message(text: &str) -> String {
    match text.char_indices().nth(TOLD_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl Provider for HttpProvider {
    fn model_name(&self) -> &str {
        &self.model
    }

    fn system_name(&self) -> &str {
        &self.system
    }

    fn ready(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.probe_model().await.map_err(|error| redact_error(error, &self.redactor)) })
    }

    fn complete<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async move {
            self.complete_request(request).await.map_err(|error| redact_error(error, &self.redactor))
        })
    }

    fn can_stream(&self) -> bool {
        self.capabilities.streaming
    }

    fn redact_secrets(&self, error: Error) -> Error {
        redact_error(error, &self.redactor)
    }

    fn stream_deltas<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, Result<BoxStream<'a, Result<ResponseDelta>>>> {
        Box::pin(async move {
            self.open_delta_stream(request).await.map_err(|error| redact_error(error, &self.redactor))
        })
    }
}
