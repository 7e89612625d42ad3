//! Cycles: when one begins, what it costs, and what becomes of one that fails.

use singletree_env::Timestamp;

use super::refuse_by_status;
use crate::board::{CampaignBoard, CampaignStep};
use crate::campaign::{CampaignStatus, PauseReason, backoff_after};
use crate::error::{Error, Result};
use crate::event::CampaignEvent;

/// What a cycle has cost, and what it saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CycleCost {
    /// Tokens of models.
    pub tokens: u64,
    /// Its time, in milliseconds.
    pub time_ms: u64,
    /// The last entry that the model was shown; none when it did not propose.
    pub seen: Option<u64>,
}

/// Begins a cycle; or pauses the campaign, with the reason, when its budget is used up or no task can be taken up; or
/// completes it when every task is done; or fails with `campaign_log_full` when its log may not grow any more.
///
/// # Errors
/// `campaign_status_unfit` when nothing may begin: it is paused, over, or waits for a person.
pub fn begin_cycle(board: &CampaignBoard) -> Result<Vec<CampaignEvent>> {
    if board.next_step() != CampaignStep::Ask {
        return Err(refuse_by_status(board.status, "no cycle begins"));
    }
    if board.is_every_task_done() {
        return Ok(vec![CampaignEvent::Completed]);
    }
    if board.is_log_full() {
        return Ok(vec![CampaignEvent::Failed { category: Error::LogFull.category().to_owned() }]);
    }
    let paused = |reason| Ok(vec![CampaignEvent::Paused { reason }]);
    if let Some(part) = board.campaign.budget.exhausted_part(&board.usage) {
        return paused(PauseReason::Budget { part: part.to_owned() });
    }
    let has_work = board.command.is_some()
        || !board.is_plan_approved()
        || board.task_in_hand().is_some()
        || board.ready_tasks().next().is_some();
    if !has_work {
        return paused(PauseReason::NoReadyTask);
    }
    Ok(vec![CampaignEvent::CycleBegan { number: board.usage.cycles + 1 }])
}

/// Records what a cycle has cost. It stands before what becomes of the proposal: what a person has said since the model
/// was asked is kept for the next cycle.
#[must_use]
pub fn measure_cycle(cost: CycleCost) -> Vec<CampaignEvent> {
    let CycleCost { tokens, time_ms, seen } = cost;
    vec![CampaignEvent::CycleMeasured { tokens, time_ms, seen }]
}

/// Decides about a cycle that failed: a failure that may pass pauses the campaign until a time that grows with the
/// number of failures in a row; any other one ends it in `error`.
///
/// # Errors
/// `campaign_status_unfit` when the campaign is paused or over by now: the failure changes nothing then.
pub fn fail_cycle(
    board: &CampaignBoard,
    (category, may_pass): (&str, bool),
    now: Timestamp,
) -> Result<Vec<CampaignEvent>> {
    check_running(board)?;
    let category = category.to_owned();
    if !may_pass {
        return Ok(vec![CampaignEvent::Failed { category }]);
    }
    let until = now.saturating_add(backoff_after(board.failures.saturating_add(1)));
    Ok(vec![CampaignEvent::Paused { reason: PauseReason::Transient { category, until } }])
}

/// Pauses a campaign whose tenant has used up a quota.
///
/// # Errors
/// As [`fail_cycle`].
pub fn fail_with_quota(board: &CampaignBoard, category: &str) -> Result<Vec<CampaignEvent>> {
    check_running(board)?;
    Ok(vec![CampaignEvent::Paused { reason: PauseReason::Quota { category: category.to_owned() } }])
}

/// Resumes a campaign whose pause after a failure is over.
///
/// # Errors
/// `campaign_status_unfit` when it is not paused after a failure, or the time has not come.
pub fn wake_after_pause(board: &CampaignBoard, now: Timestamp) -> Result<Vec<CampaignEvent>> {
    match &board.pause {
        Some(PauseReason::Transient { until, .. }) if *until <= now => {
            Ok(vec![CampaignEvent::Resumed { by: None }])
        }
        _ => Err(refuse_by_status(board.status, "no pause is over")),
    }
}

fn check_running(board: &CampaignBoard) -> Result<()> {
    match board.status {
        CampaignStatus::Initializing | CampaignStatus::Active => Ok(()),
        status => Err(refuse_by_status(status, "no cycle runs")),
    }
}
