//! Somebody who is told: an endpoint of webhooks on a free port, which answers as a test says.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::rig::within;

/// How a delivery is answered.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    Status(u16),
    /// With this status, and the wish to be left alone for so many seconds.
    After(u16, u64),
    Never,
}

/// A delivered request.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Delivery {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no header {name}")).to_str().unwrap()
    }

    pub(crate) fn id(&self) -> &str {
        self.header("webhook-id")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }
}

#[derive(Debug, Clone)]
struct Script {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    told: mpsc::UnboundedSender<Delivery>,
}

/// An endpoint of webhooks.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) at: SocketAddr,
    script: Script,
    told: mpsc::UnboundedReceiver<Delivery>,
    served: JoinHandle<()>,
}

impl Receiver {
    /// Starts one that takes everything.
    pub(crate) async fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    pub(crate) async fn start_at(at: SocketAddr) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let at = listener.local_addr().unwrap();
        let (sender, told) = mpsc::unbounded_channel();
        let script = Script { replies: Arc::default(), told: sender };
        let router = Router::new().fallback(take).with_state(script.clone());
        let served = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { at, script, told, served }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.at)
    }

    /// Answers the next deliveries so, then takes everything.
    pub(crate) fn answer(&self, replies: impl IntoIterator<Item = Reply>) {
        self.script.replies.lock().unwrap().extend(replies);
    }

    /// Waits for the next delivery.
    pub(crate) async fn next(&mut self) -> Delivery {
        within(self.told.recv()).await.unwrap()
    }

    /// Returns the deliveries that no test has read yet.
    pub(crate) fn rest(&mut self) -> Vec<Delivery> {
        std::iter::from_fn(|| self.told.try_recv().ok()).collect()
    }

    /// Goes away.
    pub(crate) async fn stop(self) {
        self.served.abort();
        drop(self.served.await);
    }
}

async fn take(State(script): State<Script>, headers: HeaderMap, body: Bytes) -> Response {
    let reply = script.replies.lock().unwrap().pop_front().unwrap_or(Reply::Status(204));
    drop(script.told.send(Delivery { headers, body }));
    let status = |it: u16| StatusCode::from_u16(it).unwrap();
    match reply {
        Reply::Status(it) => status(it).into_response(),
        Reply::After(it, seconds) => (status(it), [("retry-after", seconds.to_string())]).into_response(),
        Reply::Never => std::future::pending().await,
    }
}
