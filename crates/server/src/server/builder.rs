//! What a server is made of.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use singletree_agent::ChatAgent;
use singletree_durable::Documents;
use singletree_engine::{Clock, Ids, RandomIds, SystemClock};
use singletree_harness::Chat;
use singletree_http::Redactor;
use tokio::sync::{Semaphore, watch};

use super::Server;
use crate::Result;
use crate::entropy::{Entropy, SystemEntropy};
use crate::keys::{Access, AccessPolicy, Audit, Keyring};
use crate::narration::NarrationLog;
use crate::settings::ServerLimits;
use crate::shared::Shared;
use crate::telemetry::Telemetry;

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
    narration: NarrationLog,
    access: AccessPolicy,
    telemetry: Telemetry,
}

impl ServerBuilder {
    pub(super) fn new(chat: Chat, documents: Arc<dyn Documents>) -> Self {
        Self {
            chat,
            documents,
            agents: Vec::new(),
            limits: ServerLimits::default(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            entropy: Arc::new(SystemEntropy),
            redactor: Redactor::default(),
            narration: NarrationLog::off(),
            access: AccessPolicy::default(),
            telemetry: Telemetry::silent(),
        }
    }

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

    /// Shows people what is narrated: the log whose sink the chat was given. Nothing is narrated otherwise.
    #[must_use]
    pub fn narration(mut self, log: NarrationLog) -> Self {
        self.narration = log;
        self
    }

    /// Counts and logs. The ends of turns are told by the chat that was given its [`Telemetry::watcher`]. Nothing is counted for
    /// anybody otherwise.
    #[must_use]
    pub fn telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = telemetry;
        self
    }

    /// Puts the server together.
    ///
    /// # Errors
    /// `server_key_set_invalid` when the keys of tokens cannot be read.
    pub fn build(self) -> Result<Server> {
        let kept = self.limits.audit_kept;
        let (documents, clock, entropy) = (self.documents, self.clock, self.entropy);
        let audit = Arc::new(Audit::new(documents.clone(), clock.clone(), self.ids.clone(), kept));
        let keyring = Keyring::over(documents.clone(), clock.clone(), entropy.clone(), audit.clone());
        let origins = self.access.origins.clone();
        let access = Access::open(self.access, Arc::new(keyring), clock.clone(), entropy.as_ref())?;
        let (closing, _) = watch::channel(false);
        let shared = Shared {
            chat: self.chat,
            documents,
            agents: self.agents,
            blobs: Arc::new(Semaphore::new(self.limits.blobs)),
            limits: self.limits,
            clock,
            ids: self.ids,
            entropy,
            redactor: self.redactor,
            narration: self.narration,
            access,
            audit,
            telemetry: self.telemetry,
            ready: AtomicBool::new(false),
            closing,
        };
        Ok(Server::of(Arc::new(shared), origins))
    }
}
