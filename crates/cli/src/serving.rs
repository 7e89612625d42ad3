//! Builds a server from agents, a database and the settings for serving.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use singletree::Chat;
use singletree::config::{NotifySettings, OnUnoffered, QuotaSettings, ServingSettings, TokenSettings};
use singletree::controller::{ControllerBuilder, ControllerParts};
use singletree::durable::TenantId;
use singletree::engine::{RandomIds, SystemClock};
use singletree::env::Env;
use singletree::harness::{BlobLimits, Blobs, ChatBuilder, GraphAgent, NoticeSettings, Redact};
use singletree::http::{HttpClient, HttpLimits, Redactor};
use singletree_server::{
    AccessPolicy, KeyQuotas, NarrationLimits, NarrationLog, Quotas, Server, ServerBuilder, ServerLimits,
    Telemetry, TenantQuotas, TokenPolicy, Webhook, note_session_owners, spawn_for_requests,
};

use crate::args::{Serve, Switch};
use crate::campaigns::begin_controller;
use crate::conversation_store::ConversationStore;
use crate::erasure_log::ErasureLog;
use crate::error::{Error, Result};
use crate::log::ErrorLog;
use crate::place::DatabaseLocation;
use crate::system::{ServerUsage, limit_connections, raise_descriptor_limit};
use crate::traces::{export_telemetry, note_unsent_turns};
use crate::who::AgentSelection;

/// Where a server listens of which nothing is said.
const LISTEN: &str = "127.0.0.1:8787";

/// Where the listener for administration is of which nothing is said: at a free port of this machine, which stands in
/// the file beside the database.
const ADMIN: &str = "127.0.0.1:0";

/// A server over an open database.
#[derive(Debug)]
pub(crate) struct ConfiguredServer {
    pub(crate) server: Server,
    /// Where it is to listen.
    pub(crate) listen: String,
    /// Where other servers of the same database reach it, if that is said.
    address: Option<String>,
    /// Where its listener for administration is to listen.
    pub(crate) admin: String,
    /// How many descriptors the process may open, where that is limited.
    pub(crate) descriptor_limit: Option<u64>,
    /// Removes keys from log lines.
    pub(crate) redactor: Redactor,
    /// The metrics and the log.
    pub(crate) telemetry: Telemetry,
    /// Where its metrics are to be had, if not beside everything else.
    pub(crate) metrics: Option<String>,
    /// Who answers, and where they come from; none for the demo.
    pub(crate) about: Option<String>,
    /// Whether everybody is asked for a key.
    pub(crate) asks: bool,
    store: ConversationStore,
}

impl ConfiguredServer {
    /// Opens the database and makes the server.
    pub(crate) async fn open_and_build(
        place: &DatabaseLocation,
        args: &Serve,
        cast: AgentSelection,
    ) -> Result<Self> {
        let (log, telemetry) = start_error_log(&cast.serving, &cast.redactor)?;
        let descriptor_limit = raise_descriptor_limit();
        let store = ConversationStore::open_writable(place, "serve").await?;
        let cast = cast.build_over_store(&store, build_unoffered_logger(&telemetry))?;
        Self::build_over_store((place, args), cast, (telemetry, log, descriptor_limit), store)
    }

    /// Builds the server of another configuration over the same database, to find out whether that is possible. It must
    /// not serve; dropping it has no effect.
    ///
    /// # Errors
    /// As [`ConfiguredServer::open_and_build`], but for the database.
    pub(crate) fn try_build_next(
        &self,
        (place, args): (&DatabaseLocation, &Serve),
        cast: AgentSelection,
    ) -> Result<Self> {
        // Only a server that serves writes the log.
        let observers = (Telemetry::without_log(), None, self.descriptor_limit);
        let cast = cast.build_over_store(&self.store, Arc::new(|_| {}))?;
        Self::build_over_store((place, args), cast, observers, self.store.clone())
    }

    fn build_over_store(
        (place, args): (&DatabaseLocation, &Serve),
        cast: AgentSelection,
        (telemetry, log, descriptor_limit): (Telemetry, Option<Arc<ErrorLog>>, Option<u64>),
        store: ConversationStore,
    ) -> Result<Self> {
        let AgentSelection {
            agents,
            resources,
            campaigns,
            listed,
            limits,
            serving,
            retention,
            notify,
            traces,
            redactor,
            environments,
            about,
            ..
        } = cast;
        let asks = args.auth || serving.key_required;
        let bounds = resolve_server_limits(&serving, descriptor_limit);
        let (documents, clean) = (Arc::new(store.clone()), build_redact_function(&redactor));
        let narration = build_narration_log(args.narration, &serving, &redactor)?;
        let campaigns = begin_controller(documents.clone(), resources, campaigns);
        let campaigns = build_campaign_parts(campaigns.redacting(clean.clone()), &narration, &serving)?;
        let chat = build_chat_with_agents(agents, campaigns.cycle_agent(), &clean)
            .limits(limits)
            .blobs(Blobs::new(store.clone()).limits(resolve_blob_limits(&serving)))
            .notices(build_notice_settings(&notify)?)
            .audit(bounds.audit_kept)
            .watcher(telemetry.turn_watcher());
        let chat = note_unsent_turns(narrate_chat(chat, &narration, &serving), traces.as_ref());
        let chat = retention.into_iter().fold(chat, |chat, retention| chat.retention(retention));
        let chat = open_chat(chat, &telemetry, documents.clone())?;
        let server = Server::builder(chat.clone(), documents)
            .campaigns(campaigns.with_chat(chat.clone()))
            .listed_agents(listed)
            .limits(bounds)
            .redactor(redactor.clone())
            .narration(narration)
            .shared_store(store.is_shared())
            .fetch_transport(Arc::new(HttpClient::public_only(HttpLimits::fetching())?))
            .environments(environments)
            .webhooks(notify.iter().map(build_webhook).collect::<Result<Vec<_>>>()?)
            .access_policy(build_access_policy(&serving, asks))
            .telemetry(telemetry.clone())
            .revocation_log(Arc::new(ErasureLog(store.clone())))
            .system_probe(Arc::new(ServerUsage::new(place.measured_path(), descriptor_limit, log)))
            .quotas(resolve_quotas(&serving.quotas));
        let server = export_telemetry(server, traces.as_ref(), (chat, &store), &redactor)?;
        let server = reach_peers(server, &store)?;
        let server = descriptor_limit.into_iter().fold(server, ServerBuilder::descriptor_limit).build()?;
        Ok(Self {
            server,
            listen: args.listen.clone().or(serving.listen).unwrap_or_else(|| LISTEN.to_owned()),
            address: args.address.clone().or(serving.address),
            admin: serving.admin.unwrap_or_else(|| ADMIN.to_owned()),
            descriptor_limit,
            redactor,
            telemetry,
            metrics: serving.metrics,
            about,
            asks,
            store,
        })
    }

    /// Registers where other servers of the same database reach this one, which listens here. An address of all
    /// interfaces is none that others reach: then it has to be said.
    pub(crate) async fn register_address(&self, listens: SocketAddr) -> Result<()> {
        let bound = (!listens.ip().is_unspecified()).then(|| format!("http://{listens}"));
        match self.address.clone().or(bound) {
            Some(address) => self.store.set_address(address).await,
            None => Ok(()),
        }
    }

    /// Closes the database, after the server has ended.
    pub(crate) async fn close_database(self) {
        let Self { server, store, .. } = self;
        drop(server);
        store.close().await;
    }
}

/// Begins a chat with agents that store no secrets.
fn build_chat_with_agents(agents: Vec<GraphAgent>, cycle: GraphAgent, clean: &Redact) -> ChatBuilder {
    let agents = agents.into_iter().map(|agent| agent.redacting(clean.clone()));
    agents.chain([cycle]).fold(Chat::builder(), |chat, agent| chat.agent(agent))
}

/// Opens a chat whose commits are measured, and which tells each request the owner of a session that is not its own.
fn open_chat(chat: ChatBuilder, telemetry: &Telemetry, store: Arc<ConversationStore>) -> Result<Chat> {
    let env = Env::from_system();
    let chat = chat.env(Env { spawner: spawn_for_requests(env.spawner.clone()), ..env });
    Ok(chat.open(note_session_owners(telemetry.measure_store(store)))?)
}

/// Lets a server send requests to the other servers of its database, where there may be some. An answer may take as long as a turn, and a stream is
/// never silent for long.
fn reach_peers(server: ServerBuilder, store: &ConversationStore) -> Result<ServerBuilder> {
    if !store.is_shared() {
        return Ok(server);
    }
    let server = server.node_directory(Arc::new(store.clone()));
    let (connect, head) = (Duration::from_secs(2), Duration::from_hours(24));
    let limits = HttpLimits { connect, head, idle: Duration::from_mins(10), ..HttpLimits::standard() };
    Ok(server.peer_transport(Arc::new(HttpClient::new(HttpLimits { body_bytes: u64::MAX, ..limits })?)))
}

fn build_redact_function(redactor: &Redactor) -> Redact {
    let known = redactor.clone();
    Arc::new(move |text| known.redact(text).into_owned())
}

/// Sets where a chat narrates, and how.
fn narrate_chat(chat: ChatBuilder, narration: &NarrationLog, serving: &ServingSettings) -> ChatBuilder {
    chat.narration(narration.sink())
        .narrate_in(serving.narration_language.unwrap_or_default())
        .narrate_as(serving.narration_verbosity.unwrap_or_default())
}

/// Makes the parts of the controller of campaigns, which narrates as the chat does.
fn build_campaign_parts(
    campaigns: ControllerBuilder,
    narration: &NarrationLog,
    serving: &ServingSettings,
) -> Result<ControllerParts> {
    let campaigns = campaigns
        .narration(narration.sink())
        .narrate_in(serving.narration_language.unwrap_or_default())
        .narrate_as(serving.narration_verbosity.unwrap_or_default());
    Ok(campaigns.build()?)
}

/// Makes the narration log. The command line takes precedence over the file.
pub(crate) fn build_narration_log(
    asked: Option<Switch>,
    serving: &ServingSettings,
    redactor: &Redactor,
) -> Result<NarrationLog> {
    let is_on = asked.map_or(serving.narration.unwrap_or(true), |asked| asked == Switch::On);
    if !is_on {
        return Ok(NarrationLog::new_disabled());
    }
    let usual = NarrationLimits::default();
    let limits = NarrationLimits { entries: size_or_default(serving.narration_keep, usual.entries), ..usual };
    let (redactor, clock) = (redactor.clone(), Arc::new(SystemClock));
    let Some(file) = &serving.narration_file else {
        return Ok(NarrationLog::new(limits, redactor, clock, &RandomIds));
    };
    let place = |source| Error::Place { doing: "write narration to", path: file.clone(), source };
    NarrationLog::writing(limits, (redactor, clock, &RandomIds), file.clone()).map_err(place)
}

/// Starts the log, unless there is to be none.
fn start_error_log(
    serving: &ServingSettings,
    redactor: &Redactor,
) -> Result<(Option<Arc<ErrorLog>>, Telemetry)> {
    if serving.log == Some(false) {
        return Ok((None, Telemetry::without_log().enable_metrics(true)));
    }
    let log = ErrorLog::start_thread().map_err(Error::Output)?;
    let telemetry = Telemetry::new(log.clone(), redactor.clone()).enable_metrics(true);
    Ok((Some(log), telemetry))
}

/// Takes down which tools the agents do not have.
fn build_unoffered_logger(telemetry: &Telemetry) -> OnUnoffered {
    let telemetry = telemetry.clone();
    Arc::new(move |it| {
        let about = (it.server.as_str(), it.tool.as_deref());
        telemetry.log_tools_not_offered(about, (&it.why, it.hint.as_deref()), &SystemClock);
    })
}

/// Says how much is kept of pictures and files.
pub(crate) fn resolve_blob_limits(serving: &ServingSettings) -> BlobLimits {
    let usual = BlobLimits::default();
    let bytes = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
    BlobLimits {
        bytes: serving.blob_bytes.map_or(usual.bytes, bytes),
        session_bytes: serving.session_blob_bytes.unwrap_or(usual.session_bytes),
        types: serving.blob_types.clone().unwrap_or(usual.types),
        ..usual
    }
}

/// Says which notices are written.
pub(crate) fn build_notice_settings(settings: &[NotifySettings]) -> Result<NoticeSettings> {
    settings.iter().try_fold(NoticeSettings::new(), |notices, it| {
        Ok(notices.with_tenant_types(parse_notify_tenant(it)?, it.events.iter().copied()))
    })
}

fn build_webhook(settings: &NotifySettings) -> Result<Webhook> {
    let webhook = Webhook::new(parse_notify_tenant(settings)?, &settings.url, &settings.secret)?
        .notice_types(settings.events.iter().copied())
        .private_network(settings.private_network);
    let webhook = match &settings.old_secret {
        Some(secret) => webhook.old_secret(secret)?,
        None => webhook,
    };
    let webhook = settings.expiring_before.into_iter().fold(webhook, Webhook::expiring_before);
    let webhook = settings.give_up_after.into_iter().fold(webhook, Webhook::give_up_after);
    Ok(settings.link.iter().fold(webhook, Webhook::link_template))
}

fn parse_notify_tenant(settings: &NotifySettings) -> Result<TenantId> {
    TenantId::parse(&settings.tenant).map_err(|error| Error::Usage(error.to_string()))
}

fn build_access_policy(serving: &ServingSettings, asks: bool) -> AccessPolicy {
    AccessPolicy {
        required: asks,
        origins: serving.origins.clone(),
        tokens: serving.tokens.as_ref().map(build_token_policy),
    }
}

fn build_token_policy(settings: &TokenSettings) -> TokenPolicy {
    TokenPolicy {
        key_set: settings.key_set.clone(),
        issuer: settings.issuer.clone(),
        audiences: settings.audiences.clone(),
        tenant_claim: settings.tenant_claim.clone(),
        scope_claim: settings.scope_claim.clone(),
        scope_prefix: settings.scope_prefix.clone(),
        leeway: settings.leeway,
    }
}

/// Says how much of the server a key and a tenant may use.
fn resolve_quotas(settings: &QuotaSettings) -> Quotas {
    let Quotas { key, tenant } = Quotas::default();
    let QuotaSettings { key: of_key, tenant: of_tenant, sign_ins, tokens, .. } = settings;
    Quotas {
        key: KeyQuotas {
            requests: of_key.requests.unwrap_or(key.requests),
            streams: of_key.streams.unwrap_or(key.streams),
            turns: of_key.turns.unwrap_or(key.turns),
            sessions: of_key.sessions.unwrap_or(key.sessions),
            blob_bytes: of_key.blob_bytes.unwrap_or(key.blob_bytes),
        },
        tenant: TenantQuotas {
            requests: of_tenant.requests.unwrap_or(tenant.requests),
            streams: of_tenant.streams.unwrap_or(tenant.streams),
            turns: of_tenant.turns.unwrap_or(tenant.turns),
            sessions: of_tenant.sessions.unwrap_or(tenant.sessions),
            blob_bytes: of_tenant.blob_bytes.unwrap_or(tenant.blob_bytes),
            sign_ins: sign_ins.unwrap_or(tenant.sign_ins),
            tokens: tokens.or(tenant.tokens),
        },
    }
}

pub(crate) fn size_or_default(bytes: Option<u64>, usual: usize) -> usize {
    bytes.map_or(usual, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn resolve_server_limits(serving: &ServingSettings, descriptors: Option<u64>) -> ServerLimits {
    let usual = ServerLimits::default();
    let time = |said: Option<Duration>, usual: Duration| said.unwrap_or(usual);
    ServerLimits {
        body_bytes: size_or_default(serving.body_bytes, usual.body_bytes),
        header_bytes: size_or_default(serving.header_bytes, usual.header_bytes),
        connections: limit_connections(size_or_default(serving.connections, usual.connections), descriptors),
        request_time: time(serving.request_time, usual.request_time),
        write_time: time(serving.write_time, usual.write_time),
        heartbeat: time(serving.heartbeat, usual.heartbeat),
        grace: time(serving.grace, usual.grace),
        audit_kept: time(serving.audit_kept, usual.audit_kept),
        ..usual
    }
}
