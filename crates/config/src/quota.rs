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
pub(crate) fn read_quotas(mut section: TableReader<'_>) -> QuotaSettings {
    let mut quotas = QuotaSettings::default();
    if let Some(mut key) = section.open_section("key") {
        quotas.key = read_scope_quotas(&mut key);
        key.report_unknown_keys();
    }
    if let Some(mut tenant) = section.open_section("tenant") {
        quotas.tenant = read_scope_quotas(&mut tenant);
        quotas.sign_ins = tenant.read_count("sign_ins", 1).map(|count| count.value);
        quotas.tokens = tenant.read_count("tokens", 1).map(|count| count.value);
        tenant.report_unknown_keys();
    }
    section.report_unknown_keys();
    quotas
}

fn read_scope_quotas(section: &mut TableReader<'_>) -> ScopeQuotas {
    ScopeQuotas {
        requests: section.read_count("requests", 1).map(|count| count.value),
        streams: section.read_count("streams", 1).map(|count| count.value),
        turns: section.read_count("turns", 1).map(|count| count.value),
        sessions: section.read_count("sessions", 1).map(|count| count.value),
        blob_bytes: section.read_byte_count("blob_bytes"),
    }
}
