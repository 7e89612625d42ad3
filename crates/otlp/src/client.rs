//! Sending requests of OTLP over HTTP.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use singletree_env::{BoxFuture, RandomSource, Timer};
use singletree_http::{HttpRequest, HttpResponse, Method, Secret, Transport, read_body, retry_after};
use singletree_telemetry::{
    MetricReceiver, MetricSnapshot, SpanReceipt, SpanReceiver, SpanRefusal, TraceSpan,
};

use crate::encode::{ExportResource, span_to_wire, wrap_spans};
use crate::error::{Error, Result};
use crate::limits::ExportLimits;
use crate::metrics::wrap_metrics;

/// Statuses after which the same request may be accepted (OTLP/HTTP, "retryable response codes").
const RETRYABLE: [u16; 4] = [429, 502, 503, 504];

/// What became of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportSummary {
    /// How many spans were sent, in requests that the receiver took.
    pub sent: u64,
    /// How many of them the receiver says that it dropped. They are not sent again: it would drop them again.
    pub rejected: u64,
    /// What the receiver says about that, the last time; at most 1 KiB of it.
    pub message: Option<String>,
}

/// The longest message of a receiver that is kept, in bytes.
const LONGEST_MESSAGE: usize = 1024;

/// Sends spans, or values of metrics, to one receiver.
///
/// A request is sent again after the statuses 429, 502, 503 and 504 and where no answer came, as often as
/// [`ExportLimits::attempts`] says; a receiver says with `Retry-After` how long to wait. Spans may so arrive twice, with
/// the same ids and the same bytes.
pub struct OtlpClient {
    transport: Arc<dyn Transport>,
    endpoint: String,
    headers: Vec<(String, Secret)>,
    resource: ExportResource,
    limits: ExportLimits,
    timer: Arc<dyn Timer>,
    random: Arc<dyn RandomSource>,
}

impl OtlpClient {
    /// Makes a client of a receiver's address for traces, as `https://collector.example/v1/traces`, or for metrics, as
    /// `https://collector.example/v1/metrics`.
    #[must_use]
    pub fn new(
        transport: Arc<dyn Transport>,
        endpoint: impl Into<String>,
        resource: ExportResource,
        (timer, random): (Arc<dyn Timer>, Arc<dyn RandomSource>),
    ) -> Self {
        let limits = ExportLimits::default();
        Self { transport, endpoint: endpoint.into(), headers: Vec::new(), resource, limits, timer, random }
    }

    /// Adds a header to each request, as that of an API key. Its value is never shown.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: Secret) -> Self {
        self.headers.push((name.into().to_ascii_lowercase(), value));
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: ExportLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sends spans, in as many requests as their size needs.
    ///
    /// # Errors
    /// - `telemetry_receiver_unavailable`: no attempt succeeded.
    /// - `telemetry_receiver_refused`: the receiver refused a request for good.
    /// - `telemetry_destination_invalid`: the address or a header cannot be sent.
    ///
    /// The requests before the failed one were taken: sending all spans again is harmless.
    ///
    /// # Cancellation
    /// Dropping the future ends the request that is sent; the receiver may have taken it.
    pub async fn send_spans(&self, spans: &[TraceSpan]) -> Result<ExportSummary> {
        self.send_wire_spans(spans.iter().map(span_to_wire).collect()).await
    }

    pub(crate) async fn send_wire_spans(&self, spans: Vec<Span>) -> Result<ExportSummary> {
        let mut summary = ExportSummary::default();
        for batch in split_by_size(spans, self.limits.request_bytes) {
            let count = batch.len() as u64;
            let body: Bytes = wrap_spans(batch, &self.resource).encode_to_vec().into();
            let answer: ExportTraceServiceResponse = self.send_body(&body).await?;
            summary.sent += count;
            if let Some(partial) = answer.partial_success {
                summary.rejected += u64::try_from(partial.rejected_spans).unwrap_or(0);
                if !partial.error_message.is_empty() {
                    let end = partial.error_message.floor_char_boundary(LONGEST_MESSAGE);
                    summary.message = Some(partial.error_message[..end].to_owned());
                }
            }
        }
        Ok(summary)
    }

    /// Sends the values of metrics at one time, all in one request. Values that the receiver says that it dropped are not
    /// sent again: the next ones take their place.
    ///
    /// # Errors
    /// Those of [`Self::send_spans`].
    ///
    /// # Cancellation
    /// Dropping the future ends the request; the receiver may have taken it.
    pub async fn send_metrics(&self, snapshot: &MetricSnapshot) -> Result<()> {
        let body: Bytes = wrap_metrics(snapshot, &self.resource).encode_to_vec().into();
        self.send_body::<ExportMetricsServiceResponse>(&body).await.map(drop)
    }

    /// Sends a body until it is taken.
    async fn send_body<A: Message + Default>(&self, body: &Bytes) -> Result<A> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (problem, asked) = match self.send_once(body.clone()).await? {
                SentRequest::Taken(answer) => return Ok(answer),
                SentRequest::NotTaken { problem, wait } => (problem, wait),
            };
            if attempts >= self.limits.attempts {
                return Err(Error::Unavailable { attempts, problem });
            }
            self.timer.sleep_for(self.wait_before(attempts, asked)).await;
        }
    }

    /// Returns how long is waited after so many attempts: as the receiver asks, else twice as long each time, by what is
    /// drawn between half of that and all of it.
    fn wait_before(&self, attempts: u32, asked: Option<Duration>) -> Duration {
        let longest = self.limits.longest_wait;
        asked
            .unwrap_or_else(|| {
                let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
                let wait = self.limits.first_wait.saturating_mul(doubled).min(longest);
                wait.mul_f64(0.5 + self.random.draw_fraction() / 2.0)
            })
            .min(longest)
    }

    async fn send_once<A: Message + Default>(&self, body: Bytes) -> Result<SentRequest<A>> {
        let mut headers = vec![("content-type".to_owned(), "application/x-protobuf".to_owned())];
        headers.extend(self.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())));
        let request = HttpRequest { method: Method::Post, url: self.endpoint.clone(), headers, body };
        let answered = self.timer.run_with_timeout(self.limits.attempt_time, self.read_answer(request)).await;
        match answered {
            Ok(answer) => answer,
            Err(elapsed) => Ok(SentRequest::NotTaken { problem: elapsed.to_string(), wait: None }),
        }
    }

    async fn read_answer<A: Message + Default>(&self, request: HttpRequest) -> Result<SentRequest<A>> {
        let response = match self.transport.send(request).await {
            Ok(response) => response,
            Err(error @ (singletree_http::Error::Request { .. } | singletree_http::Error::Egress { .. })) => {
                return Err(Error::Destination { problem: error.to_string() });
            }
            Err(error) => return Ok(SentRequest::NotTaken { problem: error.to_string(), wait: None }),
        };
        let status = response.status;
        match status {
            200..=299 => Ok(self.read_success(response).await),
            _ if RETRYABLE.contains(&status) => {
                let wait = retry_after(&response);
                Ok(SentRequest::NotTaken { problem: format!("status {status}"), wait })
            }
            _ => Err(Error::Refused { status }),
        }
    }

    /// Reads the answer to a request that was taken. One that cannot be read says nothing: some receivers send no message
    /// of OTLP's.
    async fn read_success<A: Message + Default>(&self, response: HttpResponse) -> SentRequest<A> {
        let body = read_body(response.body, self.limits.answer_bytes, &self.endpoint).await;
        let answer = body.ok().and_then(|body| A::decode(body).ok());
        SentRequest::Taken(answer.unwrap_or_default())
    }
}

impl SpanReceiver for OtlpClient {
    fn send_spans<'a>(
        &'a self,
        spans: &'a [TraceSpan],
    ) -> BoxFuture<'a, std::result::Result<SpanReceipt, SpanRefusal>> {
        Box::pin(async move {
            match Self::send_spans(self, spans).await {
                Ok(summary) => Ok(SpanReceipt { rejected: summary.rejected, message: summary.message }),
                Err(error) => Err(error.into()),
            }
        })
    }
}

impl MetricReceiver for OtlpClient {
    fn send_metrics<'a>(
        &'a self,
        snapshot: &'a MetricSnapshot,
    ) -> BoxFuture<'a, std::result::Result<(), SpanRefusal>> {
        Box::pin(async move { Self::send_metrics(self, snapshot).await.map_err(Into::into) })
    }
}

/// What became of one attempt.
enum SentRequest<A> {
    Taken(A),
    NotTaken { problem: String, wait: Option<Duration> },
}

/// Splits spans so that each part is not larger than this, but for parts of one span.
fn split_by_size(spans: Vec<Span>, bytes: usize) -> Vec<Vec<Span>> {
    let mut parts: Vec<Vec<Span>> = Vec::new();
    let mut size = 0;
    for span in spans {
        let length = span.encoded_len();
        match parts.last_mut() {
            Some(part) if size + length <= bytes => {
                size += length;
                part.push(span);
            }
            _ => {
                size = length;
                parts.push(vec![span]);
            }
        }
    }
    parts
}

impl fmt::Debug for OtlpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpClient").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
