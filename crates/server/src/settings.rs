//! The limits of a server: everything that grows has one (INV-12).

use std::time::Duration;

/// The limits of a server, each with the category of its error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// The maximum size of a request's body in bytes, except that of a blob; more is `server_body_too_large` (413).
    /// [`BlobLimits`](singletree_harness::BlobLimits) has the maximum size of blobs.
    pub body_bytes: usize,
    /// The maximum number of blobs that are received or sent at once; one more is `server_rate_limited` (429).
    pub blobs: usize,
    /// The maximum size of all headers of a request, in bytes; the connection refuses more (431).
    pub header_bytes: usize,
    /// The time for a request's headers, and then for its body, to arrive; longer ends the connection (408).
    pub request_time: Duration,
    /// The time for which the reader of an answer may read nothing; longer ends the connection.
    pub write_time: Duration,
    /// The maximum number of connections; one more waits to be accepted.
    pub connections: usize,
    /// The time after which a silent stream gets a comment that keeps it alive.
    pub heartbeat: Duration,
    /// The time for which audit entries are kept.
    pub audit_kept: Duration,
    /// The time that turns and streams get at shutdown.
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
