//! The controller of campaigns over the agents of the command line or of a file, and the words for campaigns.

use std::sync::Arc;

use serde_json::json;
use singletree::agent::AgentResources;
use singletree::campaign::{CampaignBoard, CampaignStatus, PauseReason, Proof, TaskStatus};
use singletree::config::CampaignSettings;
use singletree::controller::{Controller, ControllerBuilder};
use singletree::durable::DocumentStore;

use crate::exit::{COMPLETED, ERRORED, SUSPENDED};

/// Begins a controller: with the agents that may pursue campaigns, and with the templates and the tools of the file.
pub(crate) fn begin_controller(
    documents: Arc<dyn DocumentStore>,
    resources: Vec<AgentResources>,
    settings: CampaignSettings,
) -> ControllerBuilder {
    let builder = resources.into_iter().fold(Controller::builder(documents), ControllerBuilder::agent);
    let builder = settings.templates.into_iter().fold(builder, ControllerBuilder::template);
    settings
        .verify_tools
        .into_iter()
        .fold(builder, |builder, (server, tool)| builder.verify_tool(server, tool))
}

/// Returns the code that tells where a campaign stands.
pub(crate) fn exit_code_of_campaign(board: &CampaignBoard) -> u8 {
    match board.status {
        CampaignStatus::Completed => COMPLETED,
        CampaignStatus::Error | CampaignStatus::Cancelled => ERRORED,
        CampaignStatus::Initializing | CampaignStatus::Active | CampaignStatus::Paused => SUSPENDED,
    }
}

/// Says where a campaign stands, and why.
pub(crate) fn describe_status(board: &CampaignBoard) -> String {
    let reason = match (&board.pause, &board.failure) {
        (Some(PauseReason::Person { by }), _) => format!(" by {by}"),
        (Some(PauseReason::Budget { part }), _) => format!(": its budget is used up ({part})"),
        (Some(PauseReason::NoReadyTask), _) => ": no task can be taken up".to_owned(),
        (Some(PauseReason::NothingToPropose), _) => ": the agent has nothing to propose".to_owned(),
        (Some(PauseReason::Transient { category, .. } | PauseReason::Quota { category }), _) => {
            format!(" after {category}")
        }
        (None, Some(category)) => format!(": {category}"),
        (None, None) => String::new(),
    };
    format!("{}{reason}", board.status)
}

/// Returns the word for where a task stands.
pub(crate) fn task_status_word(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Pending => "pending",
        TaskStatus::InProgress => "in progress",
        TaskStatus::Done => "done",
        TaskStatus::Blocked => "blocked",
    }
}

/// Names a proof with everything that an approval of its plan is about.
pub(crate) fn describe_proof(proof: &Proof) -> String {
    let words = proof.describe();
    match proof {
        Proof::ToolSucceeded { args, .. } if !args.is_empty() => format!("{words} with {}", json!(args)),
        Proof::McpRead { args, expect, .. } => format!("{words}: {} gives {expect}", json!(args)),
        Proof::ToolSucceeded { .. } | Proof::ArtifactApproved { .. } | Proof::UserConfirmed { .. } => words,
    }
}
