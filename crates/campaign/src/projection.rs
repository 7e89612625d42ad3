//! What an agent is shown of its campaign in a cycle: bounded, made of the board alone, and no transcript
//! (agent-chat-output §8).

use serde_json::{Value, json};

use crate::board::CampaignBoard;
use crate::plan::PlanTask;
use crate::recent::abridge_text;

/// How many tasks that may be taken up are shown.
const NEXT_MAX: usize = 10;
/// How many bytes of their descriptions.
const NEXT_BYTES: usize = 200;
/// How many needs of a task are shown.
const NEEDS_MAX: usize = 20;
/// How many bytes of the JSON of a proof are shown.
const PROOF_BYTES: usize = 2 << 10;
/// The command of a cycle that no person has asked for.
const GO_ON: &str = "Propose the next action.";

/// How many bytes the snapshot of a campaign has at most, as JSON: whatever the plan and the log are.
pub const SNAPSHOT_BYTES_MAX: usize = 256 << 10;

/// Returns the snapshot of a campaign: the campaign, the task in hand, at most ten tasks that may be taken up, the counts
/// of tasks, and the last five entries of the log.
#[must_use]
pub fn project_snapshot(board: &CampaignBoard) -> Value {
    let plan = board.plan.as_ref();
    let in_hand = board.task_in_hand().and_then(|progress| {
        let (_, task) = plan?.find_task(&progress.task)?;
        let missing = board.missing_proofs(&task.id);
        let proof = task.proof.iter().enumerate().map(|(at, proof)| {
            let is_found = missing.iter().all(|(place, _)| *place != at);
            json!({ "found": is_found, "proof": abridge_json(&json!(proof)) })
        });
        Some(json!({
            "id": task.id, "description": task.description, "attempts": progress.attempts,
            "needs": task.needs.iter().take(NEEDS_MAX).collect::<Vec<_>>(),
            "proof": proof.collect::<Vec<_>>(),
        }))
    });
    let describe = |task: &PlanTask| abridge_text(&task.description, NEXT_BYTES);
    let next = board.ready_tasks().take(NEXT_MAX).filter_map(|progress| {
        let (_, task) = plan?.find_task(&progress.task)?;
        Some(json!({ "id": task.id, "description": describe(task) }))
    });
    let log = board.recent.iter().map(|entry| json!({ "seq": entry.seq, "what": entry.what }));
    let budget = &board.campaign.budget;
    json!({
        "campaign": {
            "name": board.campaign.name, "goal": board.campaign.goal, "status": board.status,
            "cycle": board.usage.cycles, "plan_version": plan.map(|plan| plan.version),
            "plan_approved": board.is_plan_approved(),
            "cycles_left": budget.cycles.map(|cycles| cycles.saturating_sub(board.usage.cycles)),
        },
        "task": in_hand,
        "next": next.collect::<Vec<_>>(),
        "counts": board.count_tasks(),
        "log": log.collect::<Vec<_>>(),
    })
}

/// Returns the command of the next cycle: that of a person, or to go on.
#[must_use]
pub fn project_command(board: &CampaignBoard) -> &str {
    board.command.as_deref().unwrap_or(GO_ON)
}

/// Returns a value, or the beginning of its JSON where it is long.
fn abridge_json(value: &Value) -> Value {
    let text = value.to_string();
    if text.len() <= PROOF_BYTES { value.clone() } else { abridge_text(&text, PROOF_BYTES).into() }
}
