//! How campaigns begin: with a goal, or from a template of the configuration.

use singletree_campaign::{CampaignBudget, MissedRuns, PlanTask};

/// A campaign that is to be created. What is not said here is taken from the template, where one is named.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewCampaign {
    /// Its id, `cmp_…`; drawn otherwise. Creating it again by its id is refused (`campaign_changed`).
    pub id: Option<String>,
    /// The template that it begins from; none otherwise.
    pub template: Option<String>,
    /// Its name, for people; the beginning of its goal otherwise.
    pub name: Option<String>,
    /// What it is to reach, 1 byte to 4 KiB. Required without a template.
    pub goal: Option<String>,
    /// The agent that proposes; the first one that can otherwise.
    pub agent: Option<String>,
    /// How much it may use; that of the template otherwise.
    pub budget: Option<CampaignBudget>,
    /// The tasks of its first plan, which waits for approval. Without tasks the agent proposes the plan.
    pub tasks: Vec<PlanTask>,
    /// On whose behalf it is created, when known: it is erased with the data of this subject.
    pub subject: Option<String>,
}

impl NewCampaign {
    /// Begins with a goal.
    #[must_use]
    pub fn with_goal(goal: impl Into<String>) -> Self {
        Self { goal: Some(goal.into()), ..Self::default() }
    }

    /// Begins from a template.
    #[must_use]
    pub fn from_template(template: impl Into<String>) -> Self {
        Self { template: Some(template.into()), ..Self::default() }
    }
}

/// A campaign that an operator has prepared: a table `[campaigns.NAME]` of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct CampaignTemplate {
    /// Its name.
    pub name: String,
    /// A line about it, for people.
    pub description: Option<String>,
    /// The goal; without one whoever creates a campaign has to say it.
    pub goal: Option<String>,
    /// The agent that proposes; the first one that can otherwise.
    pub agent: Option<String>,
    /// How much each campaign may use.
    pub budget: CampaignBudget,
    /// The tasks of the first plan; none where the agent proposes it.
    pub tasks: Vec<PlanTask>,
    /// The schedules that each campaign gets.
    pub schedules: Vec<NewSchedule>,
}

/// When a campaign is woken, and with which command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSchedule {
    /// A cron expression of five fields.
    pub expression: String,
    /// The IANA time zone in which it is read, such as `UTC`.
    pub zone: String,
    /// What becomes of due times that were missed.
    pub missed: MissedRuns,
    /// The command with which the campaign is woken.
    pub command: String,
}
