//! The builder of a server.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use singletree_agent::AgentProfile;
use singletree_controller::Controller;
use singletree_durable::DocumentStore;
use singletree_engine::{Clock, IdGenerator, RandomIds, SystemClock};
use singletree_harness::Chat;
use singletree_http::{Redactor, Transport};
use singletree_llm::Timer;
use singletree_telemetry::MetricReceiver;
use tokio::sync::{Semaphore, watch};

use super::Server;
use crate::Result;
use crate::keys::{AccessPolicy, Keyring, PageSessions, RequestAuthenticator, RevocationLog, TenantAuditLog};
use crate::narration::NarrationLog;
use crate::nodes::NodeDirectory;
use crate::notify::{Webhook, WebhookService};
use crate::openharness::Environments;
use crate::quota::{CampaignQuotas, QuotaLedger, Quotas};
use crate::settings::ServerLimits;
use crate::shared::ServerState;
use crate::store_health::StoreHealth;
use crate::system::SystemProbe;
use crate::telemetry::{MetricExport, Telemetry};
use singletree_engine::RuntimeTimer;
use singletree_env::{RandomSource, SystemRandomSource};
use singletree_export::TraceExporter;

/// Collects the parts of a server.
#[derive(Debug)]
pub struct ServerBuilder {
    chat: Chat,
    documents: Arc<dyn DocumentStore>,
    campaigns: Option<Controller>,
    agents: Vec<AgentProfile>,
    limits: ServerLimits,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGenerator>,
    entropy: Arc<dyn RandomSource>,
    redactor: Redactor,
    narration: NarrationLog,
    access: AccessPolicy,
    telemetry: Telemetry,
    fetch: Option<Arc<dyn Transport>>,
    peers: Option<Arc<dyn Transport>>,
    nodes: Option<Arc<dyn NodeDirectory>>,
    is_store_shared: bool,
    environments: Arc<Environments>,
    webhooks: Vec<Webhook>,
    webhook_transport: Option<Arc<dyn Transport>>,
    pace: Arc<dyn Timer>,
    quotas: Quotas,
    descriptors: Option<u64>,
    system: Option<Arc<dyn SystemProbe>>,
    revocations: Option<Arc<dyn RevocationLog>>,
    trace_exporter: Option<TraceExporter>,
    metric_export: Option<MetricExport>,
}

impl ServerBuilder {
    pub(super) fn new(chat: Chat, documents: Arc<dyn DocumentStore>) -> Self {
        Self {
            chat,
            documents,
            campaigns: None,
            agents: Vec::new(),
            limits: ServerLimits::default(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
            entropy: Arc::new(SystemRandomSource),
            redactor: Redactor::default(),
            narration: NarrationLog::new_disabled(),
            access: AccessPolicy::default(),
            telemetry: Telemetry::without_log(),
            fetch: None,
            peers: None,
            nodes: None,
            is_store_shared: false,
            environments: Arc::default(),
            webhooks: Vec::new(),
            webhook_transport: None,
            pace: Arc::new(RuntimeTimer),
            quotas: Quotas::default(),
            descriptors: None,
            system: None,
            revocations: None,
            trace_exporter: None,
            metric_export: None,
        }
    }

    /// Sets who is asked for a key; nobody otherwise: for a server that only its own machine reaches.
    #[must_use]
    pub fn access_policy(mut self, policy: AccessPolicy) -> Self {
        self.access = policy;
        self
    }

    /// Serves campaigns from this controller, which runs while the server serves. It has the server's chat and documents.
    /// Without one the server has no campaigns.
    #[must_use]
    pub fn campaigns(mut self, controller: Controller) -> Self {
        self.campaigns = Some(controller);
        self
    }

    /// Says how the agents are listed. One that is not described is listed by its name.
    #[must_use]
    pub fn listed_agents(mut self, agents: impl IntoIterator<Item = AgentProfile>) -> Self {
        self.agents = agents.into_iter().collect();
        self
    }

    /// Sets the bounds (INV-12).
    #[must_use]
    pub fn limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets how much of the server a key and a tenant may use (INV-12). They apply where everybody is asked for a key.
    #[must_use]
    pub fn quotas(mut self, quotas: Quotas) -> Self {
        self.quotas = quotas;
        self
    }

    /// Says how many descriptors this process may have: no tenant's streams take more than half of them.
    #[must_use]
    pub fn descriptor_limit(mut self, count: u64) -> Self {
        self.descriptors = Some(count);
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
    pub fn ids(mut self, ids: Arc<dyn IdGenerator>) -> Self {
        self.ids = ids;
        self
    }

    /// Sets where secrets come from (INV-11).
    #[must_use]
    pub fn entropy(mut self, entropy: Arc<dyn RandomSource>) -> Self {
        self.entropy = entropy;
        self
    }

    /// Sets the redactor, which removes secrets from texts (INV-16).
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Serves narration from this log, whose sink the chat was given. Without one nothing is narrated.
    #[must_use]
    pub fn narration(mut self, log: NarrationLog) -> Self {
        self.narration = log;
        self
    }

    /// Counts and logs. The chat reports the ends of turns if it was given [`Telemetry::turn_watcher`]. Without telemetry
    /// nothing is counted.
    #[must_use]
    pub fn telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = telemetry;
        self
    }

    /// Sets whether other servers may use the same database, by default not. Then turns of servers that have died are
    /// looked for twice a second, and not only at the start, and keys that another server has taken back are refused within a
    /// second; when the store cannot be asked for five seconds, new requests with a key are refused, too. Notices that such a
    /// server left are looked for every 15 seconds.
    #[must_use]
    pub fn shared_store(mut self, is_shared: bool) -> Self {
        self.is_store_shared = is_shared;
        self
    }

    /// Sets the client with which requests for a session that another server of the same database owns are sent on to that
    /// server, at the address under which it is registered as an owner. The credentials of the caller go with them. The chat
    /// needs a store that notes the owners ([`note_session_owners`](crate::note_session_owners)). Without a client, such
    /// requests are refused with `session_moving`. The body of a request, up to 2 MiB, is kept in memory for that until it is
    /// answered.
    ///
    /// Where the other server cannot be reached, breaks off or is about to end, a request waits until the session has another
    /// owner, for ten seconds at most.
    #[must_use]
    pub fn peer_transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.peers = Some(transport);
        self
    }

    /// Sets who lists the servers of the same database, for `GET /v1/nodes`. Without it none are listed.
    #[must_use]
    pub fn node_directory(mut self, nodes: Arc<dyn NodeDirectory>) -> Self {
        self.nodes = Some(nodes);
        self
    }

    /// Sets the client that fetches addresses that callers name, such as pictures. It must call public addresses only.
    /// Without one nothing is fetched.
    #[must_use]
    pub fn fetch_transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.fetch = Some(transport);
        self
    }

    /// Sets the registry that holds the states of devices while their requests are answered. Agents that need these
    /// states must be given the same registry
    /// ([`Agent::snapshots`](singletree_agent::Agent::snapshots)).
    #[must_use]
    pub fn environments(mut self, environments: Arc<Environments>) -> Self {
        self.environments = environments;
        self
    }

    /// Sends notices of waits and failures to these endpoints, one for each tenant. The chat must have been opened with
    /// the same tenants and types ([`ChatBuilder::notices`](singletree_harness::ChatBuilder::notices)): a notice that
    /// the chat does not write is not sent.
    #[must_use]
    pub fn webhooks(mut self, webhooks: impl IntoIterator<Item = Webhook>) -> Self {
        self.webhooks = webhooks.into_iter().collect();
        self
    }

    /// Sets the client that delivers notices to the endpoints of webhooks. Otherwise each endpoint has one of its own, which
    /// calls public addresses only.
    #[must_use]
    pub fn webhook_transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.webhook_transport = Some(transport);
        self
    }

    /// Sets the timer between attempts to deliver a notice (INV-11).
    #[must_use]
    pub fn delivery_timer(mut self, pace: Arc<dyn Timer>) -> Self {
        self.pace = pace;
        self
    }

    /// Sets the probe of the system resources that metrics and the log show. Without it they show none.
    #[must_use]
    pub fn system_probe(mut self, probe: Arc<dyn SystemProbe>) -> Self {
        self.system = Some(probe);
        self
    }

    /// Records revoked keys outside of the database, for restored backups. Nothing is recorded otherwise.
    #[must_use]
    pub fn revocation_log(mut self, log: Arc<dyn RevocationLog>) -> Self {
        self.revocations = Some(log);
        self
    }

    /// Exports the traces of turns while the server serves. Its problems are logged, and its counts are among the
    /// metrics. The server's chat must note its unsent turns
    /// ([`ChatBuilder::note_unsent_turns`](singletree_harness::ChatBuilder::note_unsent_turns)).
    #[must_use]
    pub fn trace_exporter(mut self, exporter: TraceExporter) -> Self {
        self.trace_exporter = Some(exporter);
        self
    }

    /// Sends the metrics at this interval while the server serves, and once more when it ends: all that `/metrics` shows. The
    /// log says when the receiver no longer takes them, and when it takes them again.
    #[must_use]
    pub fn metric_receiver(mut self, receiver: Arc<dyn MetricReceiver>, every: Duration) -> Self {
        self.metric_export = Some(MetricExport { receiver, every });
        self
    }

    /// Builds the server.
    ///
    /// # Errors
    /// `server_key_set_invalid` when the keys of tokens cannot be read; `server_webhook_invalid` when a tenant has two
    /// endpoints.
    pub fn build(self) -> Result<Server> {
        let endpoints = WebhookService::build_endpoints(self.webhooks, self.webhook_transport.as_ref())?;
        let kept = self.limits.audit_kept;
        let (documents, clock, entropy) = (self.documents, self.clock, self.entropy);
        let audit = Arc::new(TenantAuditLog::new(documents.clone(), clock.clone(), self.ids.clone(), kept));
        let keyring =
            Keyring::with_audit_log(documents.clone(), clock.clone(), entropy.clone(), audit.clone())
                .recording_revocations(self.revocations)
                .sharing_store(self.is_store_shared);
        let origins = self.access.origins.clone();
        let keyring = Arc::new(keyring);
        let pages = PageSessions::new(keyring.clone(), documents.clone(), clock.clone(), entropy.clone());
        let access = RequestAuthenticator::from_policy(
            self.access,
            (keyring, pages),
            clock.clone(),
            entropy.as_ref(),
        )?;
        let quotas = access.is_key_required().then_some(self.quotas);
        let metrics = self.telemetry.metrics().clone();
        let quotas = QuotaLedger::new(quotas, self.descriptors, clock.clone(), metrics);
        let (closing, _) = watch::channel(false);
        let (telemetry, told_at) = (self.telemetry.clone(), clock.clone());
        let trace_exporter = self.trace_exporter.map(|exporter| {
            exporter
                .on_problem(Arc::new(move |problem| telemetry.log_trace_export(problem, told_at.as_ref())))
        });
        let started_at = clock.now();
        let shared = ServerState {
            chat: self.chat,
            campaigns: self
                .campaigns
                .map(|campaigns| campaigns.admitting(Arc::new(CampaignQuotas(quotas.clone())))),
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
            quotas,
            telemetry: self.telemetry,
            ready: AtomicBool::new(false),
            store_health: StoreHealth::default(),
            system: self.system,
            fetch: self.fetch,
            peers: self.peers,
            nodes: self.nodes,
            is_store_shared: self.is_store_shared,
            environments: self.environments,
            endpoints,
            pace: self.pace,
            trace_exporter,
            metric_export: self.metric_export,
            started_at,
            closing,
        };
        Ok(Server::from_state(Arc::new(shared), origins))
    }
}
