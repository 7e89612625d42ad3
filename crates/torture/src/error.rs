//! The errors that keep a torture run from a verdict.

use singletree_harness as harness;

/// The result of a torture.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can keep a torture from coming to a verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The child could not be started, talked to or killed.
    #[error("the child process cannot be used: {doing}")]
    Child {
        /// The action that failed.
        doing: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// The child said something that is not of the protocol.
    #[error("the child said what cannot be read: {line}")]
    Line {
        /// The line.
        line: String,
        /// Why it cannot be read.
        source: serde_json::Error,
    },
    /// The child ended although nobody killed it.
    #[error("the child ended by itself ({status}), and nobody had killed it")]
    Ended {
        /// How.
        status: String,
    },
    /// The child stopped answering.
    #[error("the child came no further for {seconds} seconds; it was {phase}; {state}")]
    Silent {
        /// How long.
        seconds: u64,
        /// The last phase that it reported, and how often.
        phase: String,
        /// The system's data about the process.
        state: String,
    },
    /// The log of effects cannot be used.
    #[error("the log of effects cannot be used")]
    Effects {
        /// Why not.
        source: std::io::Error,
    },
    /// The database was not restarted.
    #[error("the command that restarts the database failed ({status})")]
    Restart {
        /// How.
        status: String,
    },
    /// The database did not stand still.
    #[error("the program that makes the writes to the database wait failed ({status})")]
    Stall {
        /// How.
        status: String,
    },
    /// The agent of the load cannot be made.
    #[error("the agent of the load cannot be made")]
    Agent {
        /// Why not.
        source: singletree_agent::Error,
    },
    /// The stored data cannot be read.
    #[error(transparent)]
    Harness(#[from] harness::Error),
}

impl Error {
    /// Returns the stable, machine-readable category of this error.
    #[must_use]
    pub fn category(&self) -> &str {
        match self {
            Self::Child { .. }
            | Self::Line { .. }
            | Self::Ended { .. }
            | Self::Silent { .. }
            | Self::Restart { .. }
            | Self::Stall { .. } => "torture_child_failed",
            Self::Effects { .. } => "place_unavailable",
            Self::Agent { source } => source.category(),
            Self::Harness(source) => source.category(),
        }
    }
}
