//! The controller of campaigns over the agents of the command line or of a file, and the words for campaigns.

use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::json;
use singletree::agent::AgentResources;
use singletree::campaign::{CampaignBoard, CampaignStatus, PauseReason, Proof, TaskStatus};
use singletree::config::CampaignSettings;
use singletree::controller::{Controller, ControllerBuilder};
use singletree::durable::DocumentStore;

use crate::error::{Error, Result};
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

/// Returns how a campaign that is named begins, and the text before all ids that begin so, to list from there.
pub(crate) fn id_beginning(named: &str) -> (String, String) {
    let begins = if named.starts_with("cmp_") { named.to_owned() } else { format!("cmp_{named}") };
    let mut past = begins.clone();
    let last = past.pop().and_then(|last| char::from_u32(u32::from(last).saturating_sub(1)));
    // A tilde is behind everything that an id may have.
    past.extend(last.into_iter().chain(['~']));
    (begins, past)
}

/// Reads a file of JSON: the tasks of a plan.
pub(crate) fn read_json_file<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let place = |source| Error::Place { doing: "read", path: file.to_owned(), source };
    let text = std::fs::read_to_string(file).map_err(place)?;
    serde_json::from_str(&text).map_err(|error| Error::Usage(format!("{}: {error}", file.display())))
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
