//! Answers of people to questions of agents: each becomes an approved artifact of its task.

use serde_json::Value;
use singletree_agent::{ArtifactDraft, ArtifactName, ArtifactOrigin};
use singletree_campaign::{ANSWER_KIND, CampaignBoard, CampaignWait};
use singletree_durable::{DocumentChange, SessionKey};

use crate::core::{CampaignKey, ControllerCore};
use crate::error::Result;

/// Checks that a campaign may have one more artifact.
pub(crate) async fn check_answer_room(core: &ControllerCore, key: &CampaignKey) -> Result<()> {
    core.artifacts.find_next_version(&key.session_key()?, (ANSWER_KIND, "room")).await?;
    Ok(())
}

/// Returns the change that keeps an answer to the open question.
pub(crate) fn build_answer_change(
    core: &ControllerCore,
    (session, board): (&SessionKey, &CampaignBoard),
    answer: &Value,
    by: &str,
) -> Result<DocumentChange> {
    let (task, question) = match &board.wait {
        Some(CampaignWait::Question { task, question, .. }) => (task.clone(), question.as_str()),
        _ => (None, ""),
    };
    let content = serde_json::json!({ "question": question, "answer": answer }).to_string();
    let name = ArtifactName { kind: ANSWER_KIND.to_owned(), key: format!("q{}", board.seq + 1), version: 1 };
    let draft = ArtifactDraft {
        name,
        source: ArtifactOrigin::User,
        task,
        proposed_by: None,
        content,
        approved_by: Some(by.to_owned()),
    };
    Ok(core.artifacts.build_draft_change(session, draft)?)
}
