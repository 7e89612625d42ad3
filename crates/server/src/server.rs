//! The server: sections put together, and served.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use singletree_agent::ChatAgent;
use singletree_durable::Documents;
use singletree_engine::{Clock, Ids, RandomIds, SystemClock};
use singletree_harness::Chat;
use singletree_http::{Redactor, Transport};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::door::Door;
use crate::entropy::{Entropy, SystemEntropy};
use crate::frame::{self, Frame};
use crate::native;
use crate::openharness;
use crate::problem::Problem;
use crate::settings::ServerLimits;
use crate::shared::Shared;

/// How long answers get to be written when turns have used up the time of a shutdown.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Collects what a server is made of.
#[derive(Debug)]
pub struct ServerBuilder {
    chat: Chat,
    documents: Arc<dyn Documents>,
    agents: Vec<ChatAgent>,
    limits: ServerLimits,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    entropy: Arc<dyn Entropy>,
    redactor: Redactor,
    fetch: Option<Arc<dyn Transport>>,
}

impl ServerBuilder {
    /// Says how the agents are listed. One that is not described is listed by its name.
    #[must_use]
    pub fn agents(mut self, agents: impl IntoIterator<Item = ChatAgent>) -> Self {
        self.agents = agents.into_iter().collect();
        self
    }

    /// Sets the bounds (INV-12).
    #[must_use]
    pub fn limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets where time comes from (INV-11).
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets where names come from (INV-11).
    #[must_use]
    pub fn ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    /// Sets where secrets come from (INV-11).
    #[must_use]
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Sets what takes secrets out of texts (INV-16).
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Sets what fetches from addresses that callers name, such as pictures: a client that calls public addresses only. Without
    /// one nothing is fetched.
    #[must_use]
    pub fn fetching(mut self, transport: Arc<dyn Transport>) -> Self {
        self.fetch = Some(transport);
        self
    }

    /// Puts the server together.
    #[must_use]
    pub fn build(self) -> Server {
        let Self { chat, documents, agents, limits, clock, ids, entropy, redactor, fetch } = self;
        let (closing, _) = watch::channel(false);
        let shared =
            Shared { chat, documents, agents, limits, clock, ids, entropy, redactor, fetch, closing };
        Server { shared: Arc::new(shared) }
    }
}

/// A server over one durable chat.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// Starts a server over a chat and what is kept beside its conversations, in the same store.
    #[must_use]
    pub fn builder(chat: Chat, documents: Arc<dyn Documents>) -> ServerBuilder {
        ServerBuilder {
            chat,
            documents,
            agents: Vec::new(),
            limits: ServerLimits::default(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            entropy: Arc::new(SystemEntropy),
            redactor: Redactor::default(),
            fetch: None,
        }
    }

    /// Returns all routes, in their frame.
    fn router(&self) -> Router {
        let sections = [native::section(), openharness::section()];
        let frame = Arc::new(Frame::new(self.shared.clone(), &sections));
        let all = sections.into_iter().fold(Router::new(), |all, it| all.merge(it.router));
        all.fallback(async || Problem::of_status(StatusCode::NOT_FOUND))
            .layer(DefaultBodyLimit::max(self.shared.limits.body_bytes))
            .layer(from_fn_with_state(frame, frame::run))
            .with_state(self.shared.clone())
    }

    /// Serves until `stop` is ready. Then it accepts nothing more and lets turns and answers end, within
    /// [`ServerLimits::grace`]; streams end with a hint to come again. Turns that were accepted are kept: what had no time is left
    /// to the next start.
    ///
    /// # Cancellation
    /// Dropping the future drops all connections; turns that were accepted are kept.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()> + Send) {
        let mut door = Door::new(self.router(), &self.shared.limits);
        door.open(&listener, stop).await;
        drop(listener);
        door.leave();
        let end = Instant::now() + self.shared.limits.grace;
        self.shared.chat.shutdown(self.shared.limits.grace).await;
        self.shared.closing.send_replace(true);
        // Nobody is left, or has had the time.
        drop(timeout_at(end.max(Instant::now() + LAST_WORDS), door.empty()).await);
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.shared).finish()
    }
}
