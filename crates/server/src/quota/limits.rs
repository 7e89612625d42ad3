//! How much of a server a key and a tenant may use.

/// The quotas of a server that needs keys. A request beyond one gets `server_quota_exceeded` (429), with `Retry-After`.
///
/// Each process counts rates, streams and running turns for itself: with several servers over one database, each grants
/// the full quota.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Quotas {
    /// The quotas of one key, or of one subject of tokens.
    pub key: KeyQuotas,
    /// The quotas of a tenant, for all its keys and tokens together.
    pub tenant: TenantQuotas,
}

/// The quotas of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyQuotas {
    /// Requests a minute.
    pub requests: u64,
    /// Streams of events that are open at once.
    pub streams: u64,
    /// Turns that were accepted and have not ended.
    pub turns: u64,
    /// New sessions a minute, forks included.
    pub sessions: u64,
    /// Bytes of blobs that were first kept by this key.
    pub blob_bytes: u64,
}

/// The quotas of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantQuotas {
    /// Requests a minute. Managing keys is not counted here, so that a key can be revoked whatever the others do.
    pub requests: u64,
    /// Streams of events that are open at once; never more than half of the descriptors of the process.
    pub streams: u64,
    /// Turns that were accepted and have not ended.
    pub turns: u64,
    /// New sessions a minute, forks included.
    pub sessions: u64,
    /// Bytes of blobs.
    pub blob_bytes: u64,
    /// Sign-ins on the page an hour.
    pub sign_ins: u64,
    /// Tokens of prompts and answers since the tenant's first turn, as providers report them; unlimited if not set. It
    /// is checked before a turn is accepted: running turns may exceed it.
    pub tokens: Option<u64>,
}

impl Default for KeyQuotas {
    fn default() -> Self {
        Self { requests: 600, streams: 64, turns: 10, sessions: 20, blob_bytes: 256 << 20 }
    }
}

impl Default for TenantQuotas {
    fn default() -> Self {
        let (requests, streams, turns, sessions) = (6000, 512, 100, 200);
        Self { requests, streams, turns, sessions, blob_bytes: 5 << 30, sign_ins: 100, tokens: None }
    }
}
