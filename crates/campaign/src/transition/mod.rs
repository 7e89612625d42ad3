//! Decisions about a campaign: pure functions of the board and a wish, which return the events of one commit. A refused
//! wish has no events and changes nothing.

mod artifacts;
mod cycle;
mod person;
mod propose;

pub use artifacts::record_artifact_approval;
pub use cycle::{CycleCost, begin_cycle, fail_cycle, fail_with_quota, measure_cycle, wake_after_pause};
pub use person::{CampaignScope, PersonCommand, decide_command};
pub use propose::{
    ActionTerms, CompletionReads, accept_proposal, begin_action, finish_action, refuse_proposal,
};

use crate::board::CampaignBoard;
use crate::campaign::{Campaign, CampaignStatus};
use crate::error::{Error, Result};
use crate::event::CampaignEvent;

/// Makes a campaign.
///
/// # Errors
/// `campaign_record_invalid`.
pub fn create_campaign(campaign: Campaign) -> Result<Vec<CampaignEvent>> {
    campaign.check()?;
    Ok(vec![CampaignEvent::Created { campaign: Box::new(campaign) }])
}

/// Returns the refusal of something that the status does not permit.
fn refuse_by_status(status: CampaignStatus, why: &str) -> Error {
    Error::Status { status: status.as_str(), why: why.to_owned() }
}

/// A pause that waits for something new ends when a person says something.
fn resume_by_news(board: &CampaignBoard, by: &str) -> Option<CampaignEvent> {
    let is_waiting = board.pause.as_ref().is_some_and(|pause| pause.ends_with_news());
    is_waiting.then(|| CampaignEvent::Resumed { by: Some(by.to_owned()) })
}
