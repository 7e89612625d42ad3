//! A receiver that is a script, a timer that notes waits, and spans.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use singletree_engine::NodeLineage;
use singletree_env::{BoxFuture, RandomSource, Timer, Timestamp};
use singletree_http::{Error, HttpRequest, HttpResponse, Result, Secret, Transport};
use singletree_otlp::{ExportResource, OtlpClient};
use singletree_telemetry::{
    AttributeValue, Attributes, SpanException, SpanId, SpanStatus, SpanSubject, TraceId, TraceSpan,
};

/// One answer of the receiver.
#[derive(Debug, Clone)]
pub(crate) enum ReceiverAnswer {
    Status(u16, Vec<(&'static str, &'static str)>),
    Partial(i64, String),
    Unreachable,
    Hangs,
}

/// Answers as the test says, and then always well.
#[derive(Debug, Default)]
pub(crate) struct ScriptedReceiver {
    answers: Mutex<VecDeque<ReceiverAnswer>>,
    pub(crate) requests: Mutex<Vec<HttpRequest>>,
}

impl ScriptedReceiver {
    pub(crate) fn answering(answers: impl IntoIterator<Item = ReceiverAnswer>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), requests: Mutex::default() })
    }

    /// Returns the spans of each request.
    pub(crate) fn spans(&self) -> Vec<Vec<Span>> {
        let requests = self.requests.lock().unwrap();
        let decoded = requests.iter().map(|request| {
            let message = ExportTraceServiceRequest::decode(request.body.clone()).unwrap();
            message.resource_spans.into_iter().flat_map(|it| it.scope_spans).flat_map(|it| it.spans).collect()
        });
        decoded.collect()
    }

    pub(crate) fn bodies(&self) -> Vec<Bytes> {
        self.requests.lock().unwrap().iter().map(|request| request.body.clone()).collect()
    }
}

impl Transport for ScriptedReceiver {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse>> {
        self.requests.lock().unwrap().push(request);
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(async move {
            let (status, headers, body) = match answer {
                None => (200, Vec::new(), Vec::new()),
                Some(ReceiverAnswer::Status(status, headers)) => (status, headers, Vec::new()),
                Some(ReceiverAnswer::Partial(rejected_spans, error_message)) => {
                    let partial = ExportTracePartialSuccess { rejected_spans, error_message };
                    let answer = ExportTraceServiceResponse { partial_success: Some(partial) };
                    (200, Vec::new(), answer.encode_to_vec())
                }
                Some(ReceiverAnswer::Unreachable) => {
                    return Err(Error::Unreachable { host: "receiver".into(), source: "down".into() });
                }
                Some(ReceiverAnswer::Hangs) => std::future::pending().await,
            };
            let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            Ok(HttpResponse { status, headers, body: stream::iter([Ok(Bytes::from(body))]).boxed() })
        })
    }
}

/// Notes waits, and lets none of them take time but those of attempts, which never end by themselves.
#[derive(Debug, Default)]
pub(crate) struct NotingTimer(pub(crate) Mutex<Vec<Duration>>);

impl Timer for NotingTimer {
    fn sleep_for(&self, span: Duration) -> BoxFuture<'_, ()> {
        self.0.lock().unwrap().push(span);
        Box::pin(tokio::task::yield_now())
    }
}

/// Draws the greatest numbers.
#[derive(Debug)]
pub(crate) struct HighestNumbers;

impl RandomSource for HighestNumbers {
    fn fill_bytes(&self, bytes: &mut [u8]) {
        bytes.fill(0xff);
    }
}

pub(crate) fn client(receiver: &Arc<ScriptedReceiver>, timer: &Arc<NotingTimer>) -> OtlpClient {
    let resource = ExportResource::new("tested").attribute("service.instance.id", "1");
    let time_and_chance: (Arc<dyn Timer>, Arc<dyn RandomSource>) = (timer.clone(), Arc::new(HighestNumbers));
    OtlpClient::new(receiver.clone(), "https://receiver/v1/traces", resource, time_and_chance)
        .header("X-Api-Key", Secret::new("canary-key"))
}

/// Makes a span that failed, with an attribute of this size.
pub(crate) fn span(number: u8, bytes: usize) -> TraceSpan {
    TraceSpan {
        trace_id: TraceId([7; 16]),
        span_id: SpanId([number; 8]),
        parent_id: (number > 1).then_some(SpanId([1; 8])),
        trace_state: Some("a=1".into()),
        name: "ask".into(),
        namespace: ["ask".into()].into(),
        lineage: NodeLineage::default(),
        started_at: Timestamp::from_millis(1_000),
        ended_at: Timestamp::from_millis(1_250),
        order: number.into(),
        status: SpanStatus::Error { description: Some("node_exception".into()) },
        attributes: Attributes::from([
            ("list".into(), ["a", "b"].into_iter().collect::<AttributeValue>()),
            ("text".into(), AttributeValue::Text("x".repeat(bytes))),
            ("whole".into(), AttributeValue::Int(-3)),
        ]),
        exception: Some(SpanException { exception_type: "boom".into(), message: "it broke".into() }),
        links: Vec::new(),
        subject: SpanSubject::Node,
    }
}
