//! Why a call of the controller was refused.

use singletree_campaign::CampaignScope;

/// Why a call of the controller was refused or failed. Nothing has changed then, unless the store failed in a way that
/// leaves this open (`store_commit_unknown`).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A decision of a campaign refused it, or its store did.
    #[error(transparent)]
    Campaign(#[from] singletree_campaign::Error),
    /// The tenant has no campaign of this id.
    #[error("there is no campaign '{id}'")]
    Unknown {
        /// The id.
        id: String,
    },
    /// The caller is not permitted it.
    #[error("this needs the scope '{}'", scope_word(*.scope))]
    ScopeMissing {
        /// The scope that it needs.
        scope: CampaignScope,
    },
    /// No agent of this name can pursue a campaign here.
    #[error("there is no agent '{agent}' that could pursue a campaign")]
    AgentUnknown {
        /// The name.
        agent: String,
    },
    /// There is no template of this name.
    #[error("there is no campaign template '{template}'")]
    TemplateUnknown {
        /// The name.
        template: String,
    },
    /// The campaign has no schedule of this id.
    #[error("there is no schedule '{schedule}'")]
    ScheduleUnknown {
        /// The id.
        schedule: String,
    },
    /// Too many streams follow campaigns.
    #[error("{max} streams follow campaigns already")]
    FollowersFull {
        /// How many may.
        max: usize,
    },
    /// An artifact, or the agent's part of a cycle.
    #[error(transparent)]
    Agent(#[from] singletree_agent::Error),
    /// The chat in which the cycles run.
    #[error(transparent)]
    Chat(#[from] singletree_harness::Error),
}

/// The result of a call of the controller.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns the stable category.
    #[must_use]
    pub fn category(&self) -> &str {
        match self {
            Self::Campaign(source) => source.category(),
            Self::Unknown { .. } => "campaign_unknown",
            Self::ScopeMissing { .. } => "campaign_scope_missing",
            Self::AgentUnknown { .. } => "campaign_agent_unknown",
            Self::TemplateUnknown { .. } => "campaign_template_unknown",
            Self::ScheduleUnknown { .. } => "campaign_schedule_unknown",
            Self::FollowersFull { .. } => "chat_subscriptions_full",
            Self::Agent(source) => source.category(),
            Self::Chat(source) => source.category(),
        }
    }
}

fn scope_word(scope: CampaignScope) -> &'static str {
    match scope {
        CampaignScope::Write => "write",
        CampaignScope::Approve => "approve",
        CampaignScope::Admin => "admin",
    }
}
