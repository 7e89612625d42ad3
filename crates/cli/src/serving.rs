//! From what a file says of serving to a server.

use std::sync::Arc;

use singletree::config::{Serving, TokenSettings};
use singletree::http::{HttpClient, HttpLimits};
use singletree_server::{AccessPolicy, Server, ServerLimits, TokenPolicy};

use crate::error::Result;
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
        .build()?;
    Ok((server, listen.unwrap_or_else(|| LISTEN.to_owned())))
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
        blob_bytes: size(serving.blob_bytes, usual.blob_bytes),
        session_blob_bytes: serving.session_blob_bytes.unwrap_or(usual.session_blob_bytes),
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
