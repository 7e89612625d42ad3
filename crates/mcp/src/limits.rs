//! The limits of a server.

use std::time::Duration;

/// How long a server may take, and how much it may say (D20, INV-12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpLimits {
    /// From the start of the server, or the first request, to the end of the greeting.
    pub connect: Duration,
    /// For how long a program is asked whether it speaks a revision without `initialize`, before it is greeted with it.
    pub probe: Duration,
    /// The same for an endpoint, which may have to be woken first.
    pub endpoint_probe: Duration,
    /// From asking for the tools to the last page of them.
    pub list: Duration,
    /// From a call of a tool to its result.
    pub call: Duration,
    /// How long a stopped server may take before it is told to stop, and again before it is killed.
    pub stop: Duration,
    /// How long nobody tries again after a connection could not be made; doubled with each in a row, up to sixteenfold.
    pub rest: Duration,
    /// Bytes of one message of the server. A server at the end of a pipe that says more at once is stopped: the rest of
    /// its words cannot be told apart.
    pub message_bytes: usize,
    /// Bytes of the text that a call gives back; the rest is cut, with a note.
    pub output_bytes: usize,
    /// Tools of the server; the rest is not offered.
    pub tools: usize,
    /// Regular expressions in the schemas of all tools; tools beyond are not offered.
    pub patterns: usize,
    /// Bytes of the description of one tool for the model; the rest is cut.
    pub description_bytes: usize,
    /// Bytes kept of the last output of the server on its standard error.
    pub said_bytes: usize,
}

impl McpLimits {
    /// Returns limits for servers that may be downloaded before they start: 60 seconds to connect, of them 2 for the
    /// probe of the revision of a program and 10 of that of an endpoint, 15 to list, 60 for a call, 2 to stop, 5 of rest; 8 MiB a message, 64 KiB an output, 128
    /// tools, 256 patterns, 4 KiB a description, 4 KiB of last standard error.
    #[must_use]
    pub fn standard() -> Self {
        Self {
            connect: Duration::from_secs(60),
            probe: Duration::from_secs(2),
            endpoint_probe: Duration::from_secs(10),
            list: Duration::from_secs(15),
            call: Duration::from_secs(60),
            stop: Duration::from_secs(2),
            rest: Duration::from_secs(5),
            message_bytes: 8 * 1024 * 1024,
            output_bytes: 64 * 1024,
            tools: 128,
            patterns: 256,
            description_bytes: 4 * 1024,
            said_bytes: 4 * 1024,
        }
    }
}
