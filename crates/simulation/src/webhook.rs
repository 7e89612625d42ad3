//! The receiver of webhooks: it counts the notices that it takes, and fails as receivers do.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream;
use serde_json::Value;
use singletree_durable::TenantId;
use singletree_env::BoxFuture;
use singletree_http::{Error, HttpRequest, HttpResponse, Result, Secret, Transport};
use singletree_server::Webhook;

use crate::executor::SimulationExecutor;
use crate::fault::{FaultKind, FaultSwarm};
use crate::random::SimulationRandom;

/// The host of the receiver.
const HOST: &str = "receiver.example.org";

/// A notice that was taken at least once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReceivedNotice {
    /// Its type, such as `suspended`.
    pub(crate) kind: String,
    /// The session.
    pub(crate) session: String,
    /// The turn, if it names one.
    pub(crate) turn: Option<String>,
}

/// The receiver of the notices of one tenant. A clone is the same receiver.
#[derive(Clone)]
pub(crate) struct SimulatedReceiver {
    pub(crate) executor: SimulationExecutor,
    pub(crate) swarm: Arc<FaultSwarm>,
    pub(crate) random: Arc<SimulationRandom>,
    /// The notices by their ids.
    taken: Arc<Mutex<BTreeMap<String, ReceivedNotice>>>,
}

impl SimulatedReceiver {
    pub(crate) fn new(
        executor: &SimulationExecutor,
        swarm: &Arc<FaultSwarm>,
        random: &Arc<SimulationRandom>,
    ) -> Self {
        let (executor, swarm, random) = (executor.clone(), swarm.clone(), random.clone());
        Self { executor, swarm, random, taken: Arc::default() }
    }

    /// Returns the endpoint that leads to it.
    ///
    /// # Errors
    /// `server_webhook_invalid`.
    pub(crate) fn make_webhook() -> singletree_server::Result<Webhook> {
        let secret = Secret::new("s".repeat(24));
        Webhook::new(TenantId::single(), format!("https://{HOST}/"), &secret)
    }

    /// Returns the notices that it has taken.
    pub(crate) fn taken_notices(&self) -> Vec<ReceivedNotice> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn take_notice(&self, body: &[u8]) {
        let Ok(notice) = serde_json::from_slice::<Value>(body) else { return };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let received = ReceivedNotice {
            kind: text(&notice["type"]).unwrap_or_default(),
            session: text(&notice["data"]["session"]).unwrap_or_default(),
            turn: text(&notice["data"]["turn"]),
        };
        self.executor.trace_event(format_args!("webhook {received:?}"));
        let id = text(&notice["id"]).unwrap_or_default();
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).insert(id, received);
    }
}

impl Transport for SimulatedReceiver {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse>> {
        Box::pin(async move {
            let span = Duration::from_micros(self.random.draw_between(100, 50_000));
            self.executor.sleep_for(span).await;
            let failure = self.swarm.is_due(FaultKind::WebhookFails).then(|| self.random.draw_below(4));
            let status = match failure {
                Some(0) => 503,
                Some(1) => 429,
                Some(2) => {
                    return Err(Error::Unreachable { host: HOST.to_owned(), source: "no connection".into() });
                }
                Some(_) | None => {
                    self.take_notice(&request.body);
                    200
                }
            };
            self.executor.sleep_for(span).await;
            if failure == Some(3) {
                // It was taken, and nobody is told.
                return Err(Error::Broken { host: HOST.to_owned(), source: "the answer broke off".into() });
            }
            Ok(HttpResponse { status, headers: Vec::new(), body: Box::pin(stream::empty()) })
        })
    }
}

impl fmt::Debug for SimulatedReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedReceiver").finish_non_exhaustive()
    }
}
