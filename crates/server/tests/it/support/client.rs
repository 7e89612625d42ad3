//! HTTP as a client speaks it: any method, any header, any body; event streams frame by frame; raw bytes where needed.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Somebody who asks a server. Each request has a connection of its own.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    at: SocketAddr,
    headers: Vec<(String, String)>,
}

/// A response.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// Reads the body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns a header, which has to be there.
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).unwrap_or_else(|| panic!("no header {name}: {:?}", self.headers));
        value.to_str().unwrap()
    }
}

impl Client {
    pub(crate) fn new(at: SocketAddr) -> Self {
        Self { at, headers: Vec::new() }
    }

    /// Sends this header with every request.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends a key with every request.
    pub(crate) fn bearer(self, key: &str) -> Self {
        self.with("authorization", &format!("Bearer {key}"))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Sends a request, with JSON or without a body, and reads the whole answer.
    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let bytes = body.map(|it| Bytes::from(it.to_string())).unwrap_or_default();
        let client = match body {
            Some(_) => self.clone().with("content-type", "application/json"),
            None => self.clone(),
        };
        client.send_bytes(method, path, bytes).await
    }

    /// Sends a request with a body of any bytes, and reads the whole answer.
    pub(crate) async fn send_bytes(&self, method: Method, path: &str, body: Bytes) -> Answer {
        let response = self.begin(method, path, body).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    /// Sends a request and reads the head of its answer; the rest as it comes.
    pub(crate) async fn begin(&self, method: Method, path: &str, body: Bytes) -> Response<Incoming> {
        let begun = self.try_begin(method, path, body).await;
        begun.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// As `begin`, where the server may not be there.
    pub(crate) async fn try_begin(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, Box<dyn std::error::Error + Send + Sync>> {
        let stream = TcpStream::connect(self.at).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        drop(tokio::spawn(connection));
        let mut request = Request::builder().method(method).uri(path).body(Full::new(body)).unwrap();
        if !self.headers.iter().any(|(name, _)| name == "host") {
            let host = HeaderValue::from_str(&self.at.to_string()).unwrap();
            request.headers_mut().insert("host", host);
        }
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            request.headers_mut().append(name, HeaderValue::from_str(value).unwrap());
        }
        Ok(sender.send_request(request).await?)
    }

    /// Opens a stream of events, from behind the one with this id.
    pub(crate) async fn events(&self, path: &str, last: Option<&str>) -> Events {
        let mut client = self.clone().with("accept", "text/event-stream");
        if let Some(last) = last {
            client = client.with("last-event-id", last);
        }
        Events::of(client.begin(Method::GET, path, Bytes::new()).await)
    }

    /// Posts JSON and reads the answer as a stream of events.
    pub(crate) async fn post_events(&self, path: &str, body: &Value) -> Events {
        let client =
            self.clone().with("accept", "text/event-stream").with("content-type", "application/json");
        Events::of(client.begin(Method::POST, path, Bytes::from(body.to_string())).await)
    }

    /// Writes bytes as they are and reads whatever comes until the server ends the connection.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.open().await;
        // A server may end the connection before it has read everything.
        drop(stream.write_all(bytes).await);
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer).await);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Opens a bare connection.
    pub(crate) async fn open(&self) -> TcpStream {
        TcpStream::connect(self.at).await.unwrap()
    }
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) event: Option<String>,
    /// The lines of data, joined; none where a block had none: then a browser tells nobody of it.
    pub(crate) data: Option<String>,
    pub(crate) retry: Option<u64>,
    pub(crate) comments: Vec<String>,
}

impl Event {
    fn read(block: &str) -> Self {
        let mut event = Self::default();
        for line in block.lines() {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match name {
                "" => event.comments.push(value),
                "id" => event.id = Some(value),
                "event" => event.event = Some(value),
                "retry" => event.retry = Some(value.parse().unwrap()),
                "data" => {
                    let before = event.data.take().map(|it| it + "\n").unwrap_or_default();
                    event.data = Some(before + &value);
                }
                _ => panic!("no field of an event: {line:?}"),
            }
        }
        event
    }

    /// Reads the data as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.data.as_deref().unwrap()).unwrap()
    }
}

/// A stream of events, as it comes.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    unread: Vec<u8>,
    ready: VecDeque<Event>,
    /// All that came, as it came.
    pub(crate) raw: String,
    /// Whether the connection was closed before the end of the stream.
    pub(crate) is_cut_off: bool,
}

impl Events {
    pub(crate) fn of(response: Response<Incoming>) -> Self {
        let (parts, body) = response.into_parts();
        let (unread, ready, raw) = (Vec::new(), VecDeque::new(), String::new());
        Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            unread,
            ready,
            raw,
            is_cut_off: false,
        }
    }

    /// Waits for the next block, be it an event, a comment or a time to come again; none when the stream has ended.
    pub(crate) async fn block(&mut self) -> Option<Event> {
        while self.ready.is_empty() {
            let piece = self.body.frame().await?;
            self.is_cut_off |= piece.is_err();
            let piece = piece.ok()?.into_data().ok()?;
            self.unread.extend_from_slice(&piece);
            while let Some(end) = self.unread.windows(2).position(|it| it == b"\n\n") {
                let block: Vec<u8> = self.unread.drain(..end + 2).collect();
                let block = String::from_utf8(block).unwrap();
                self.ready.push_back(Event::read(&block));
                self.raw += &block;
            }
        }
        self.ready.pop_front()
    }

    /// Waits for the next event that has data; none when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            let block = self.block().await?;
            if block.data.is_some() {
                return Some(block);
            }
        }
    }

    /// Reads the events that have data to the end of the stream.
    pub(crate) async fn rest(&mut self) -> Vec<Event> {
        let mut all = Vec::new();
        while let Some(event) = self.next().await {
            all.push(event);
        }
        all
    }

    /// Reads the data of the next event as JSON.
    pub(crate) async fn json(&mut self) -> Option<Value> {
        self.next().await.map(|it| it.json())
    }
}
