//! A transport made of data.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value, json};
use singletree_http::{BoxFuture, Error, HttpRequest, HttpResponse, Result, Transport};
use singletree_llm::{
    ChatMessage, Request, Response, ResponseDelta, ResponseLimits, ToolDefinition, complete_streaming,
};
use singletree_providers::{HttpProvider, HttpProviderBuilder, Wire};

/// One answer: its parts, and how it ends.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) pieces: Vec<Bytes>,
    /// The error that ends the body after its pieces.
    pub(crate) end: Option<Error>,
}

impl Answer {
    /// Answers with JSON.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::typed(status, "application/json", vec![body.to_string().into()])
    }

    /// Answers with a stream of events.
    pub(crate) fn events(text: impl Into<Bytes>) -> Self {
        Self::typed(200, "text/event-stream", vec![text.into()])
    }

    pub(crate) fn typed(status: u16, kind: &str, pieces: Vec<Bytes>) -> Self {
        Self { status, headers: vec![("content-type".to_owned(), kind.to_owned())], pieces, end: None }
    }

    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn ending_in(mut self, end: Error) -> Self {
        self.end = Some(end);
        self
    }
}

/// Gives its answers in turn and keeps the requests.
#[derive(Default)]
pub(crate) struct Canned {
    answers: Mutex<VecDeque<Result<Answer>>>,
    requests: Mutex<Vec<HttpRequest>>,
}

impl Canned {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Arc<Self> {
        Self::fallible(answers.into_iter().map(Ok))
    }

    pub(crate) fn fallible(answers: impl IntoIterator<Item = Result<Answer>>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), requests: Mutex::default() })
    }

    pub(crate) fn requests(&self) -> Vec<HttpRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Returns the body of the last request.
    pub(crate) fn sent(&self) -> Value {
        serde_json::from_slice(&self.requests().last().unwrap().body).unwrap()
    }
}

impl fmt::Debug for Canned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Canned")
    }
}

impl Transport for Canned {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse>> {
        self.requests.lock().unwrap().push(request);
        let answer = self.answers.lock().unwrap().pop_front().expect("a call too many");
        Box::pin(async move {
            let Answer { status, headers, pieces, end } = answer?;
            let pieces = pieces.into_iter().map(Ok).chain(end.map(Err));
            // Panics when it is asked again after its end: so may every transport's body.
            let body =
                futures_util::stream::unfold(pieces, |mut pieces| async { Some((pieces.next()?, pieces)) });
            Ok(HttpResponse { status, headers, body: Box::pin(body) })
        })
    }
}

/// The error of a connection that is lost.
pub(crate) fn broken() -> Error {
    Error::Broken { host: "host".to_owned(), source: "connection reset".into() }
}

pub(crate) fn builder(wire: Wire, transport: &Arc<Canned>) -> HttpProviderBuilder {
    HttpProvider::builder(wire, "test-model", Arc::clone(transport) as Arc<dyn Transport>)
}

pub(crate) fn provider(wire: Wire, transport: &Arc<Canned>) -> HttpProvider {
    builder(wire, transport).build().unwrap()
}

/// The result of a stream: the deltas that were shown, and its end.
pub(crate) struct Streamed {
    pub(crate) shown: Vec<ResponseDelta>,
    pub(crate) end: singletree_llm::Result<Response>,
}

pub(crate) async fn stream(provider: &HttpProvider, request: &Request) -> Streamed {
    let mut shown = Vec::new();
    let end =
        complete_streaming(provider, request, ResponseLimits::standard(), |it| shown.push(it.clone())).await;
    Streamed { shown, end }
}

/// Asks one question, with a limit that every wire wants.
pub(crate) fn question() -> Request {
    let mut request = Request::new(vec![Arc::new(ChatMessage::user("Well?"))]);
    request.config.max_tokens = Some(64);
    request
}

/// Offers the tools that the streams of the tests call.
pub(crate) fn question_with_tools() -> Request {
    let tool = |name: &str| {
        let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
        ToolDefinition::new(name, "Tells something about a city.", parameters).unwrap()
    };
    question().with_tools(vec![tool("weather"), tool("time")])
}
