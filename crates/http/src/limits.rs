//! How long and how large an exchange may be (INV-12, D20).

use std::time::Duration;

/// Bounds of one HTTP exchange. A call as a whole has no bound here: its caller sets one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Until a connection stands, name and TLS included.
    pub connect: Duration,
    /// Until the head of the answer is there, connecting included. A model that does not stream thinks in this time.
    pub head: Duration,
    /// Between two pieces of a body.
    pub idle: Duration,
    /// How many bytes of a body are read.
    pub body_bytes: u64,
    /// How many bytes one line, or the data of one event, of an event stream may have.
    pub line_bytes: usize,
}

impl HttpLimits {
    /// Returns the limits for talking to models: 10 s to connect, 10 min to the head (a long answer that is not
    /// streamed begins when it is whole), 90 s between pieces, 64 MiB of body, 8 MiB a line.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            connect: Duration::from_secs(10),
            head: Duration::from_mins(10),
            idle: Duration::from_secs(90),
            body_bytes: 64 * 1024 * 1024,
            line_bytes: 8 * 1024 * 1024,
        }
    }

    /// Returns the limits for fetching a page: 10 s to connect, 20 s to the head, 20 s between pieces, 4 MiB of body.
    #[must_use]
    pub fn fetching() -> Self {
        Self {
            connect: Duration::from_secs(10),
            head: Duration::from_secs(20),
            idle: Duration::from_secs(20),
            body_bytes: 4 * 1024 * 1024,
            line_bytes: 1024 * 1024,
        }
    }
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self::standard()
    }
}
