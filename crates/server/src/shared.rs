//! The dependencies of all HTTP handlers.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use singletree_agent::AgentProfile;
use singletree_controller::Controller;
use singletree_durable::{DocumentStore, TenantId, Timestamp};
use singletree_engine::{Clock, IdGenerator};
use singletree_export::TraceExporter;
use singletree_harness::Chat;
use singletree_http::{Redactor, Transport};
use singletree_llm::Timer;
use tokio::sync::{Semaphore, watch};

use crate::caller::Caller;
use crate::forward::{KeyUse, Peers};
use crate::keys::{RequestAuthenticator, TenantAuditLog};
use crate::narration::{NarrationLog, NarrationView};
use crate::nodes::NodeDirectory;
use crate::notify::WebhookEndpoint;
use crate::openharness::Environments;
use crate::quota::QuotaLedger;
use crate::settings::ServerLimits;
use crate::store_health::StoreHealth;
use crate::system::SystemProbe;
use crate::telemetry::{MetricExport, Telemetry};
use singletree_env::RandomSource;

/// The dependencies of all HTTP handlers.
pub(crate) struct ServerState {
    /// The chat of all tenants; see [`ServerState::chat_of_caller`] for one tenant's part.
    pub(crate) chat: Chat,
    /// The controller of campaigns; without it the server has none.
    pub(crate) campaigns: Option<Controller>,
    /// The documents beside the conversations.
    pub(crate) documents: Arc<dyn DocumentStore>,
    /// The agents, as clients list them.
    pub(crate) agents: Vec<AgentProfile>,
    /// The limits of the server.
    pub(crate) limits: ServerLimits,
    /// The source of the time.
    pub(crate) clock: Arc<dyn Clock>,
    /// The source of new ids.
    pub(crate) ids: Arc<dyn IdGenerator>,
    /// The source of random bytes.
    pub(crate) entropy: Arc<dyn RandomSource>,
    /// Removes secrets from texts (INV-16).
    pub(crate) redactor: Redactor,
    /// Whether other servers may use the same database.
    pub(crate) is_store_shared: bool,
    /// Fetches from addresses that callers name; without it, nothing is fetched.
    pub(crate) fetch: Option<Arc<dyn Transport>>,
    /// Reaches the other servers of the same database; without it, no request is sent on.
    pub(crate) peers: Option<Arc<dyn Transport>>,
    /// Lists the servers of the same database; without it, there is this one alone.
    pub(crate) nodes: Option<Arc<dyn NodeDirectory>>,
    /// The states that devices report while their requests are answered.
    pub(crate) environments: Arc<Environments>,
    /// The narration of the sessions.
    pub(crate) narration: NarrationLog,
    /// The webhooks of the tenants.
    pub(crate) endpoints: Vec<WebhookEndpoint>,
    /// Exports the traces of turns; without it, they are not exported.
    pub(crate) trace_exporter: Option<TraceExporter>,
    pub(crate) metric_export: Option<MetricExport>,
    /// When the server was built.
    pub(crate) started_at: Timestamp,
    /// Pauses in time.
    pub(crate) pace: Arc<dyn Timer>,
    /// The permits for blobs in memory.
    pub(crate) blobs: Arc<Semaphore>,
    /// Checks credentials.
    pub(crate) access: RequestAuthenticator,
    /// Records the actions of callers.
    pub(crate) audit: Arc<TenantAuditLog>,
    /// The quotas of keys and tenants.
    pub(crate) quotas: Arc<QuotaLedger>,
    /// Logs and metrics.
    pub(crate) telemetry: Telemetry,
    /// Becomes true when the turns of earlier processes were taken over.
    pub(crate) ready: AtomicBool,
    /// Measures the process's use of the system, for metrics.
    pub(crate) system: Option<Arc<dyn SystemProbe>>,
    /// Whether the store can be written.
    pub(crate) store_health: StoreHealth,
    /// Becomes true when streams have to end: turns have ended, or had their time.
    pub(crate) closing: watch::Sender<bool>,
}

impl ServerState {
    /// Returns how the other servers over the same database are reached, where there may be some, for a request of a route.
    pub(crate) fn peers(&self, key_use: KeyUse) -> Option<Peers<'_>> {
        let body_max = self.limits.body_bytes;
        let (timer, ids, nodes) = (&self.pace, &self.ids, self.nodes.as_ref());
        self.peers.as_ref().map(|transport| Peers { transport, nodes, body_max, timer, ids, key_use })
    }

    /// Returns the caller's part of the chat (INV-14).
    pub(crate) fn chat_of_caller(&self, caller: &Caller) -> Chat {
        let chat = self.chat_of_tenant(caller.tenant.clone());
        let chat = match &caller.subject {
            Some(subject) => chat.on_behalf_of(subject.clone()),
            None => chat,
        };
        match self.quotas.admission_of_caller(caller) {
            Some(admission) => chat.admitting(admission),
            None => chat,
        }
    }

    /// Returns a view of a session's narration, for people.
    pub(crate) fn narration_of(&self, tenant: &TenantId, session: &str) -> NarrationView {
        NarrationView::for_session(&self.narration, tenant, session)
    }

    /// Returns a tenant's part of the chat.
    pub(crate) fn chat_of_tenant(&self, tenant: TenantId) -> Chat {
        self.chat.of(tenant)
    }

    /// Returns the present time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

impl fmt::Debug for ServerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("limits", &self.limits).finish_non_exhaustive()
    }
}
