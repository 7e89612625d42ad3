//! Arguments of `campaign`.

use std::path::PathBuf;

use super::Common;
use crate::who::Who;

/// `singletree campaign`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Campaign {
    /// Create a campaign, and print its id. It does nothing before `run`, or before a server serves its database.
    New {
        /// What it is to reach. Needed without --template and --demo.
        #[arg(value_name = "GOAL", required_unless_present_any = ["template", "demo"])]
        goal: Option<String>,
        /// Begin from a template: a table [campaigns.NAME] of the configuration.
        #[arg(long, value_name = "NAME")]
        template: Option<String>,
        /// Its name, for people; the beginning of its goal otherwise.
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        /// The agent that pursues it; the first one otherwise.
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// How many cycles it may use.
        #[arg(long, value_name = "N")]
        cycles: Option<u64>,
        /// A file with the tasks of its first plan, as JSON; the agent proposes the plan otherwise.
        #[arg(long, value_name = "FILE")]
        plan: Option<PathBuf>,
        /// Play a campaign of the demo agent to its end, without a key: a plan, an artifact and a call, each approved by the demo
        /// itself, and a proof.
        #[arg(long, conflicts_with_all = ["goal", "template", "plan", "agent", "config", "model"])]
        demo: bool,
        #[command(flatten)]
        place: CampaignOptions,
    },
    /// List the campaigns.
    List {
        #[command(flatten)]
        place: CampaignOptions,
    },
    /// Show where a campaign stands: its tasks, and what waits for a person.
    Show {
        #[command(flatten)]
        campaign: NamedCampaign,
    },
    /// Run a campaign until it is over or a person has to decide something; tells each step.
    ///
    /// Exit codes: 0 it is complete, 1 it has failed or was cancelled, 3 it waits for a person.
    Run {
        #[command(flatten)]
        campaign: NamedCampaign,
    },
    /// Show the plan of a campaign with its proofs and its digest, or replace it.
    Plan {
        /// A file with the tasks of the next version, as JSON. Nobody has approved it.
        #[arg(long, value_name = "FILE")]
        edit: Option<PathBuf>,
        #[command(flatten)]
        campaign: NamedCampaign,
    },
    /// Approve what waits, by its digest: the plan, the call, or a version of an artifact.
    Approve {
        #[command(flatten)]
        campaign: NamedCampaign,
        /// The digest of what you have read, or its first 8 digits or more.
        #[arg(value_name = "DIGEST")]
        digest: String,
        /// Reject it instead: the plan or the call.
        #[arg(long)]
        reject: bool,
        /// Why it is rejected; the agent is told.
        #[arg(long, value_name = "TEXT", requires = "reject")]
        reason: Option<String>,
    },
    /// Confirm the proof of a task that asks a person.
    Confirm {
        #[command(flatten)]
        campaign: NamedCampaign,
        /// The task.
        #[arg(value_name = "TASK")]
        task: String,
        /// The question of the proof; its only one otherwise.
        #[arg(value_name = "QUESTION")]
        question: Option<String>,
    },
    /// Give a command, which the next cycle carries out.
    Command {
        #[command(flatten)]
        campaign: NamedCampaign,
        /// What it says.
        #[arg(value_name = "TEXT")]
        text: String,
    },
    /// Answer the question that waits.
    Answer {
        #[command(flatten)]
        campaign: NamedCampaign,
        /// The answer: JSON, or a text.
        #[arg(value_name = "ANSWER")]
        answer: String,
    },
    /// Let a blocked task go on.
    Unblock {
        #[command(flatten)]
        campaign: NamedCampaign,
        /// The task.
        #[arg(value_name = "TASK")]
        task: String,
    },
    /// Have a task done anew that is done or blocked.
    Retry {
        #[command(flatten)]
        campaign: NamedCampaign,
        /// The task.
        #[arg(value_name = "TASK")]
        task: String,
    },
    /// Pause a campaign: nothing begins until it is resumed.
    Pause {
        #[command(flatten)]
        campaign: NamedCampaign,
    },
    /// Resume a campaign that is paused, or that has failed.
    Resume {
        #[command(flatten)]
        campaign: NamedCampaign,
    },
    /// End a campaign.
    Cancel {
        #[command(flatten)]
        campaign: NamedCampaign,
    },
    /// List the artifacts of a campaign.
    Artifacts {
        #[command(flatten)]
        campaign: NamedCampaign,
    },
    /// Wake a campaign at the times of a cron expression, each time with a command. A server that serves the database, or a
    /// `run`, has to be there at that time.
    Schedule {
        #[command(flatten)]
        campaign: NamedCampaign,
        /// A cron expression of five fields, as in "0 9 * * 1": Mondays at 9.
        #[arg(value_name = "CRON")]
        cron: String,
        /// The command with which the campaign is woken.
        #[arg(value_name = "TEXT")]
        command: String,
        /// The time zone of the expression.
        #[arg(long, value_name = "ZONE", default_value = "UTC")]
        zone: String,
        /// Leave out times that were missed; one run makes up for them otherwise.
        #[arg(long)]
        skip_missed: bool,
    },
    /// List the schedules of a campaign.
    Schedules {
        #[command(flatten)]
        campaign: NamedCampaign,
    },
    /// Remove a schedule of a campaign.
    Unschedule {
        #[command(flatten)]
        campaign: NamedCampaign,
        /// Which schedule, as `schedules` lists it.
        #[arg(value_name = "SCHEDULE")]
        schedule: String,
    },
    /// Print the log of a campaign: one JSON document for each entry.
    Log {
        #[command(flatten)]
        campaign: NamedCampaign,
    },
    /// Print the narration of a campaign that a running server holds. Nothing depends on it.
    Narrate {
        #[command(flatten)]
        campaign: NamedCampaign,
    },
}

/// Where campaigns are, and which agents pursue them.
#[derive(Debug, clap::Args)]
pub(crate) struct CampaignOptions {
    #[command(flatten)]
    pub(crate) who: Who,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// One campaign.
#[derive(Debug, clap::Args)]
pub(crate) struct NamedCampaign {
    /// Which campaign: its id, or the beginning of it.
    #[arg(value_name = "CAMPAIGN")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) place: CampaignOptions,
}

impl Campaign {
    /// Returns what all of them take.
    pub(crate) fn options(&self) -> &CampaignOptions {
        match self {
            Self::New { place, .. } | Self::List { place } => place,
            Self::Show { campaign }
            | Self::Run { campaign }
            | Self::Plan { campaign, .. }
            | Self::Approve { campaign, .. }
            | Self::Confirm { campaign, .. }
            | Self::Command { campaign, .. }
            | Self::Answer { campaign, .. }
            | Self::Unblock { campaign, .. }
            | Self::Retry { campaign, .. }
            | Self::Pause { campaign }
            | Self::Resume { campaign }
            | Self::Cancel { campaign }
            | Self::Artifacts { campaign }
            | Self::Schedule { campaign, .. }
            | Self::Schedules { campaign }
            | Self::Unschedule { campaign, .. }
            | Self::Log { campaign }
            | Self::Narrate { campaign } => &campaign.place,
        }
    }

    /// Returns the campaign that it is about; nothing for those that are about none.
    pub(crate) fn named_campaign(&self) -> &str {
        match self {
            Self::New { .. } | Self::List { .. } => "",
            Self::Show { campaign }
            | Self::Run { campaign }
            | Self::Plan { campaign, .. }
            | Self::Approve { campaign, .. }
            | Self::Confirm { campaign, .. }
            | Self::Command { campaign, .. }
            | Self::Answer { campaign, .. }
            | Self::Unblock { campaign, .. }
            | Self::Retry { campaign, .. }
            | Self::Pause { campaign }
            | Self::Resume { campaign }
            | Self::Cancel { campaign }
            | Self::Artifacts { campaign }
            | Self::Schedule { campaign, .. }
            | Self::Schedules { campaign }
            | Self::Unschedule { campaign, .. }
            | Self::Log { campaign }
            | Self::Narrate { campaign } => &campaign.id,
        }
    }
}
