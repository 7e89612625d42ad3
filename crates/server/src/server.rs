//! The server: sections put together, and served.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{Method, StatusCode};
use axum::middleware::from_fn_with_state;
use singletree_agent::ChatAgent;
use singletree_durable::Documents;
use singletree_engine::{Clock, Ids, RandomIds, SystemClock};
use singletree_harness::Chat;
use singletree_http::{Redactor, Secret, Transport};
use tokio::net::{TcpListener, lookup_host};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use crate::door::Door;
use crate::entropy::{Entropy, SystemEntropy};
use crate::frame::{self, Frame};
use crate::keys::{self, Access, AccessPolicy, Audit, Keyring, PageSessions};
use crate::narration::{self, NarrationLog};
use crate::openharness::Environments;
use crate::problem::Problem;
use crate::section::Section;
use crate::settings::ServerLimits;
use crate::shared::Shared;
use crate::{Error, Result, agui, docs, native, openai, openharness, page, steerable, ui_stream, upkeep};

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
    environments: Arc<Environments>,
    narration: NarrationLog,
    access: AccessPolicy,
}

impl ServerBuilder {
    /// Sets who is asked for a key; nobody otherwise: for a server that only its own machine reaches.
    #[must_use]
    pub fn access(mut self, policy: AccessPolicy) -> Self {
        self.access = policy;
        self
    }

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

    /// Sets where devices' own states are while their requests are answered: agents that are to see them are given the same
    /// one ([`AgentLoopBuilder::snapshots`](singletree_agent::AgentLoopBuilder::snapshots)).
    #[must_use]
    pub fn environments(mut self, environments: Arc<Environments>) -> Self {
        self.environments = environments;
        self
    }

    /// Shows people what is narrated: the log whose sink the chat was given. Nothing is narrated otherwise.
    #[must_use]
    pub fn narration(mut self, log: NarrationLog) -> Self {
        self.narration = log;
        self
    }

    /// Puts the server together.
    ///
    /// # Errors
    /// `server_key_set_invalid` when the keys of tokens cannot be read.
    pub fn build(self) -> Result<Server> {
        let Self {
            chat,
            documents,
            agents,
            limits,
            clock,
            ids,
            entropy,
            redactor,
            narration,
            access,
            fetch,
            environments,
        } = self;
        let kept = limits.audit_kept;
        let audit = Arc::new(Audit::new(documents.clone(), clock.clone(), ids.clone(), kept));
        let keyring = Keyring::over(documents.clone(), clock.clone(), entropy.clone(), audit.clone());
        let keyring = Arc::new(keyring);
        let pages = PageSessions::new(keyring.clone(), documents.clone(), clock.clone(), entropy.clone());
        let access = Access::open(access, (keyring, pages), clock.clone(), entropy.as_ref())?;
        let (closing, _) = watch::channel(false);
        let ready = AtomicBool::new(false);
        let blobs = Arc::new(Semaphore::new(limits.blobs));
        let shared = Shared {
            chat,
            documents,
            agents,
            limits,
            clock,
            ids,
            entropy,
            redactor,
            narration,
            access,
            audit,
            ready,
            fetch,
            environments,
            blobs,
            closing,
        };
        Ok(Server { shared: Arc::new(shared) })
    }
}

/// A server over one durable chat.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

/// Returns all sections, the one that describes them last.
fn sections() -> Vec<Section> {
    let mut sections = vec![
        native::section(),
        keys::section(),
        page::section(),
        narration::section(),
        openharness::section(),
        steerable::section(),
        ui_stream::section(),
        agui::section(),
        openai::section(),
    ];
    let routes: Vec<_> = sections.iter().flat_map(|it| &it.routes).cloned().collect();
    sections.push(docs::section(&routes));
    sections
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
            environments: Arc::default(),
            narration: NarrationLog::off(),
            access: AccessPolicy::default(),
        }
    }

    /// Lists all that is served: each method with its path, whose names stand in braces.
    #[must_use]
    pub fn routes() -> Vec<(Method, &'static str)> {
        sections().iter().flat_map(|it| &it.routes).map(|it| (it.method.clone(), it.path)).collect()
    }

    /// Returns what all sections share.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Returns all routes, in their frame.
    fn router(&self) -> Router {
        let sections = sections();
        let frame = Arc::new(Frame::new(self.shared.clone(), &sections));
        let all = sections.into_iter().fold(Router::new(), |all, it| all.merge(it.router));
        all.fallback(async || Problem::of_status(StatusCode::NOT_FOUND))
            .layer(DefaultBodyLimit::max(self.shared.limits.body_bytes))
            .layer(from_fn_with_state(frame, frame::run))
            .with_state(self.shared.clone())
    }

    /// Listens at an address, as `127.0.0.1:8787`; port 0 is a free one.
    ///
    /// # Errors
    /// `server_listen_failed`; `server_open` when others than this machine could reach it and nobody is asked for a key.
    ///
    /// # Cancellation
    /// Dropping the future leaves nothing behind.
    pub async fn listen(&self, address: &str) -> Result<TcpListener> {
        let failed = |source| Error::Listen { address: address.to_owned(), source };
        let all: Vec<_> = lookup_host(address).await.map_err(failed)?.collect();
        if !self.shared.access.is_required()
            && let Some(open) = all.iter().find(|it| !it.ip().is_loopback())
        {
            return Err(Error::Open { address: *open });
        }
        TcpListener::bind(all.as_slice()).await.map_err(failed)
    }

    /// Returns the key of whoever runs the server, drawn when it was built: it manages the keys of all tenants, and nothing else.
    #[must_use]
    pub fn operator_key(&self) -> Secret {
        self.shared.access.operator().clone()
    }

    /// Serves until `stop` is ready. On the way it takes over what processes that died have left, and lets go of documents whose
    /// time is over. Then it accepts nothing more and lets turns and answers end, within
    /// [`ServerLimits::grace`]; streams end with a hint to come again. Turns that were accepted are kept: what had no time is left
    /// to the next start.
    ///
    /// # Cancellation
    /// Dropping the future drops all connections; turns that were accepted are kept.
    pub async fn serve(&self, listener: TcpListener, stop: impl Future<Output = ()> + Send) {
        let mut door = Door::new(self.router(), &self.shared.limits);
        tokio::select! {
            () = door.open(&listener, stop) => {}
            never = upkeep::run(&self.shared) => match never {},
        }
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
