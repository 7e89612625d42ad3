//! Errors of building an agent and of its stores.

/// The result of the operations of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The errors of building an agent, and of artifacts. An error during a turn is an error of the turn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The graph does not compile.
    #[error("the agent's graph cannot be made")]
    Graph {
        /// Why not.
        source: singletree_engine::Error,
    },
    /// A tool is malformed, or there twice.
    #[error("the agent's tools cannot be used")]
    Tools {
        /// Why not.
        source: singletree_tools::Error,
    },
    /// The agents of a team do not go together.
    #[error("the team of agents cannot be made: {why}")]
    Team {
        /// Why not.
        why: String,
    },
    /// An artifact cannot be kept, approved or shown so.
    #[error("the artifact is refused: {why}")]
    Artifact {
        /// Why.
        why: String,
    },
    /// The store of artifacts, notes and messages failed.
    #[error("the store of the artifacts, notes and messages failed")]
    Store {
        /// The error of the store.
        source: singletree_durable::Error,
    },
    /// The model cannot be made.
    #[error("the agent's model cannot be made")]
    Model {
        /// Why not.
        source: singletree_llm::Error,
    },
}

impl Error {
    /// Returns the error with which a chat refuses the agent: of the same category.
    pub(crate) fn for_agent(self, agent: String) -> singletree_harness::Error {
        singletree_harness::Error::AgentBuild { agent, category: self.category(), source: Box::new(self) }
    }

    /// Returns the stable, machine-readable category of this error: that of its source, where it has one.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Graph { source } => source.category(),
            Self::Tools { source } => source.category(),
            Self::Model { source } => source.category(),
            Self::Team { .. } => "agent_team_invalid",
            Self::Artifact { .. } => "artifact_refused",
            Self::Store { source } => source.category(),
        }
    }
}

impl From<singletree_engine::Error> for Error {
    fn from(source: singletree_engine::Error) -> Self {
        Self::Graph { source }
    }
}

impl From<singletree_tools::Error> for Error {
    fn from(source: singletree_tools::Error) -> Self {
        Self::Tools { source }
    }
}

impl From<singletree_llm::Error> for Error {
    fn from(source: singletree_llm::Error) -> Self {
        Self::Model { source }
    }
}
