//! `singletree outbox` and `singletree mcp`.

use clap::Subcommand;

use super::Common;

/// `singletree outbox`.
#[derive(Debug, Subcommand)]
pub(crate) enum Outbox {
    /// List the messages that wait for delivery. Works beside a running chat.
    List {
        /// Of which tenant; by default the one of this terminal.
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Show one message that waits for delivery. Works beside a running chat.
    Show {
        /// The id of the message, as `list` prints it.
        #[arg(value_name = "ID")]
        id: String,
        /// Of which tenant; by default the one of this terminal.
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Mark a message as delivered: its text is deleted, and it is never sent again.
    Delivered {
        /// The id of the message, as `list` prints it.
        #[arg(value_name = "ID")]
        id: String,
        /// Of which tenant; by default the one of this terminal.
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        #[command(flatten)]
        common: Common,
    },
}

impl Outbox {
    /// Returns what all of them take.
    pub(crate) fn common_options(&self) -> &Common {
        match self {
            Self::List { common, .. } | Self::Show { common, .. } | Self::Delivered { common, .. } => common,
        }
    }
}

/// `singletree mcp`.
#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    /// Accept the definitions that a server has now: they are pinned anew when its tools are listed next.
    ///
    /// A tool whose definition is not the one that was seen first counts as destructive, unless the file says what it may
    /// change.
    Accept {
        /// The name of the server, as in [mcp.NAME].
        #[arg(value_name = "NAME")]
        server: String,
        #[command(flatten)]
        common: Common,
    },
}
