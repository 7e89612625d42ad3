//! Why something about a campaign was refused.

/// Why a proposal, a command or a record of a campaign was refused. Nothing has changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A plan cannot be one: a task without proof, an unknown or circular need, too many tasks.
    #[error("the plan is refused: {why}")]
    Plan {
        /// What is wrong with it.
        why: String,
    },
    /// A proof can never be found by it: a tool that only reads, or one that the operator does not list.
    #[error("a proof of task '{task}' is refused: {why}")]
    Proof {
        /// Of which task.
        task: String,
        /// Why.
        why: String,
    },
    /// The agent's proposal is not one, or not one that is allowed now.
    #[error("the proposal is refused: {why}")]
    Proposal {
        /// Why.
        why: String,
    },
    /// A task was to be completed without all of its proofs.
    #[error("proof missing: {missing}")]
    ProofMissing {
        /// Which proofs, in words.
        missing: String,
    },
    /// The campaign's status does not permit it.
    #[error("the campaign is {status}: {why}")]
    Status {
        /// Its status.
        status: &'static str,
        /// What it does not permit.
        why: String,
    },
    /// It was about a state that has changed in the meantime, such as an earlier version of the plan.
    #[error("the campaign has changed: {why}")]
    Changed {
        /// How.
        why: String,
    },
    /// A task is not in the plan.
    #[error("the plan has no task '{task}'")]
    TaskUnknown {
        /// Its name.
        task: String,
    },
    /// A record has a value that it cannot have, such as an empty goal.
    #[error("{why}")]
    Record {
        /// What is wrong with it.
        why: String,
    },
    /// A schedule cannot be one.
    #[error("the schedule is refused: {why}")]
    Schedule {
        /// Why.
        why: String,
    },
    /// The log of the campaign has as many bytes as it may have.
    #[error("the log of the campaign is full: {} MiB", crate::board::LOG_BYTES_MAX >> 20)]
    LogFull,
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] singletree_durable::Error),
    /// The log does not fit: an entry that cannot follow those before it.
    #[error("the log of the campaign does not fit: {why}")]
    Log {
        /// What does not fit.
        why: String,
    },
}

/// The result of a decision about a campaign.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns the stable category.
    #[must_use]
    pub fn category(&self) -> &'static str {
        match self {
            Self::Plan { .. } => "campaign_plan_invalid",
            Self::Proof { .. } => "campaign_proof_invalid",
            Self::Proposal { .. } => "campaign_proposal_invalid",
            Self::ProofMissing { .. } => "campaign_proof_missing",
            Self::Status { .. } => "campaign_status_unfit",
            Self::Changed { .. } => "campaign_changed",
            Self::TaskUnknown { .. } => "campaign_task_unknown",
            Self::Record { .. } => "campaign_record_invalid",
            Self::Schedule { .. } => "campaign_schedule_invalid",
            Self::Store(source) => source.category(),
            Self::Log { .. } => "campaign_log_corrupt",
            Self::LogFull => "campaign_log_full",
        }
    }
}
