//! The errors of a simulation that cannot be run.

/// The result of the operations of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a simulation cannot be run. Broken promises are no errors: they are the result of a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The simulated agents cannot be made.
    #[error("the simulated agents cannot be made")]
    Agents {
        /// The cause.
        source: singletree_env::BoxError,
    },
}

impl Error {
    /// Returns the stable, machine-readable category of this error.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Agents { .. } => "simulation_failed",
        }
    }
}

macro_rules! agent_errors {
    ($($source:ty),*) => {
        $(impl From<$source> for Error {
            fn from(source: $source) -> Self {
                Self::Agents { source: source.into() }
            }
        })*
    };
}

agent_errors!(
    singletree_agent::Error,
    singletree_controller::Error,
    singletree_tools::Error,
    singletree_llm::Error,
    singletree_engine::Error,
    singletree_harness::Error,
    singletree_server::Error,
    std::io::Error
);
