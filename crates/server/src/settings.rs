//! Everything that grows in a server has a limit (INV-12).

use std::time::Duration;

/// The bounds of a server. The category of each stands beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// Bytes of a request's body, except that of a blob; more are `server_body_too_large` (413). How large blobs may be is
    /// said by [`BlobLimits`](singletree_harness::BlobLimits).
    pub body_bytes: usize,
    /// Blobs that are read from their senders, or for their readers, at once; one more is `server_rate_limited` (429).
    pub blobs: usize,
    /// Bytes of all headers of a request; more are refused by the connection (431).
    pub header_bytes: usize,
    /// How long a request's headers, and then its body, may take to arrive; longer ends the connection (408).
    pub request_time: Duration,
    /// How long the reader of an answer may take nothing of it; longer ends the connection.
    pub write_time: Duration,
    /// Connections at once; one more waits to be accepted.
    pub connections: usize,
    /// How often a silent stream says that it lives.
    pub heartbeat: Duration,
    /// How long the audit is kept.
    pub audit_kept: Duration,
    /// How long turns and streams get at shutdown.
    pub grace: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_bytes: 1 << 20,
            blobs: 16,
            header_bytes: 32 << 10,
            request_time: Duration::from_secs(15),
            write_time: Duration::from_secs(30),
            connections: 4096,
            heartbeat: Duration::from_secs(15),
            audit_kept: Duration::from_hours(365 * 24),
            grace: Duration::from_secs(10),
        }
    }
}
