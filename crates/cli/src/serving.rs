//! From what a file says of serving to a server.

use std::sync::Arc;

use singletree::config::{NotifySettings, Serving, TokenSettings};
use singletree::durable::TenantId;
use singletree::harness::{BlobLimits, Notices};
use singletree::http::{HttpClient, HttpLimits};
use singletree_server::{AccessPolicy, Server, ServerLimits, TokenPolicy, Webhook};

use crate::error::{Error, Result};
use crate::wire::House;

/// Where a server listens of which nothing is said.
const LISTEN: &str = "127.0.0.1:8787";

/// What the command line says beside the file.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) listen: Option<String>,
    pub(crate) auth: bool,
}

/// Makes the server of a house, and tells where it is to listen.
pub(crate) fn server(house: &House, said: &Said) -> Result<(Server, String)> {
    let serving = &house.serving;
    let listen = said.listen.as_ref().or(serving.listen.as_ref()).cloned();
    let policy = AccessPolicy {
        required: said.auth || serving.key_required,
        origins: serving.origins.clone(),
        tokens: serving.tokens.as_ref().map(tokens),
    };
    let server = Server::builder(house.chat.clone(), Arc::new(house.store.clone()))
        .agents(house.listed.clone())
        .limits(limits(serving))
        .redactor(house.redactor.clone())
        .fetching(Arc::new(HttpClient::guarded(HttpLimits::fetching())?))
        .environments(house.environments.clone())
        .access(policy)
        .webhooks(house.notify.iter().map(webhook).collect::<Result<Vec<_>>>()?)
        .build()?;
    Ok((server, listen.unwrap_or_else(|| LISTEN.to_owned())))
}

/// Says how much is kept of pictures and files.
pub(crate) fn blob_limits(serving: &Serving) -> BlobLimits {
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
pub(crate) fn notices(settings: &[NotifySettings]) -> Result<Notices> {
    settings
        .iter()
        .try_fold(Notices::new(), |notices, it| Ok(notices.of(tenant(it)?, it.events.iter().copied())))
}

fn webhook(settings: &NotifySettings) -> Result<Webhook> {
    let webhook = Webhook::new(tenant(settings)?, &settings.url, &settings.secret)?
        .types(settings.events.iter().copied())
        .private_network(settings.private_network);
    let webhook = match &settings.old_secret {
        Some(secret) => webhook.old_secret(secret)?,
        None => webhook,
    };
    let webhook = settings.expiring_before.into_iter().fold(webhook, Webhook::expiring_before);
    let webhook = settings.give_up_after.into_iter().fold(webhook, Webhook::give_up_after);
    Ok(settings.link.iter().fold(webhook, Webhook::link))
}

fn tenant(settings: &NotifySettings) -> Result<TenantId> {
    TenantId::parse(&settings.tenant).map_err(|it| Error::Usage(it.to_string()))
}

fn tokens(settings: &TokenSettings) -> TokenPolicy {
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

fn limits(serving: &Serving) -> ServerLimits {
    let usual = ServerLimits::default();
    let size = |bytes: Option<u64>, usual: usize| {
        bytes.map_or(usual, |it| usize::try_from(it).unwrap_or(usize::MAX))
    };
    ServerLimits {
        body_bytes: size(serving.body_bytes, usual.body_bytes),
        header_bytes: size(serving.header_bytes, usual.header_bytes),
        connections: size(serving.connections, usual.connections),
        request_time: serving.request_time.unwrap_or(usual.request_time),
        write_time: serving.write_time.unwrap_or(usual.write_time),
        heartbeat: serving.heartbeat.unwrap_or(usual.heartbeat),
        grace: serving.grace.unwrap_or(usual.grace),
        audit_kept: serving.audit_kept.unwrap_or(usual.audit_kept),
        ..usual
    }
}
