//! `[server.quotas]`: how much of the server a key and a tenant may use.

use crate::section::TableReader;

/// How much of a server a key and a tenant may use. An absent value is the server's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaSettings {
    /// The quotas of one key.
    pub key: ScopeQuotas,
    /// The quotas of all keys of a tenant together.
    pub tenant: ScopeQuotas,
    /// Sign-ins on the page an hour, of a tenant.
    pub sign_ins: Option<u64>,
    /// Model tokens of a tenant, counted from its first turn.
    pub tokens: Option<u64>,
}

/// The quotas that a key has, and a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeQuotas {
    /// Requests a minute.
    pub requests: Option<u64>,
    /// Streams of events that are open at once.
    pub streams: Option<u64>,
    /// Turns that were accepted and have not ended.
    pub turns: Option<u64>,
    /// New sessions a minute.
    pub sessions: Option<u64>,
    /// Bytes of blobs.
    pub blob_bytes: Option<u64>,
}

/// Reads the table.
pub(crate) fn read(mut section: TableReader<'_>) -> QuotaSettings {
    let mut quotas = QuotaSettings::default();
    if let Some(mut key) = section.section("key") {
        quotas.key = scope(&mut key);
        key.end();
    }
    if let Some(mut tenant) = section.section("tenant") {
        quotas.tenant = scope(&mut tenant);
        quotas.sign_ins = tenant.count("sign_ins", 1).map(|count| count.value);
        quotas.tokens = tenant.count("tokens", 1).map(|count| count.value);
        tenant.end();
    }
    section.end();
    quotas
}

fn scope(section: &mut TableReader<'_>) -> ScopeQuotas {
    ScopeQuotas {
        requests: section.count("requests", 1).map(|count| count.value),
        streams: section.count("streams", 1).map(|count| count.value),
        turns: section.count("turns", 1).map(|count| count.value),
        sessions: section.count("sessions", 1).map(|count| count.value),
        blob_bytes: section.bytes("blob_bytes"),
    }
}
