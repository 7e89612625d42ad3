//! Conversion of the records of campaigns to the JSON types of the API, and of commands to those of the controller.

use singletree_campaign as campaign;
use singletree_campaign::{CampaignBoard, CampaignEvent, CampaignLogEntry, PersonCommand};
use singletree_protocol::native;

use crate::native::convert_time;

/// How many campaigns or entries of a log the controller lists at once, at most.
pub(super) const LIST_MAX: u64 = 500;

/// Converts a board to the detail of a campaign.
pub(super) fn convert_detail(board: &CampaignBoard) -> native::CampaignDetail {
    let record = &board.campaign;
    native::CampaignDetail {
        id: record.id.clone(),
        name: record.name.clone(),
        goal: record.goal.clone(),
        agent: record.agent.clone(),
        session: campaign::campaign_session(&record.id),
        subject: record.subject.clone(),
        status: convert_status(board.status),
        pause: board.pause.as_ref().map(convert_pause),
        failure: board.failure.clone(),
        budget: convert_budget(&record.budget),
        usage: convert_usage(&board.usage),
        plan: board.plan.as_ref().map(|plan| native::PlanSummary {
            version: plan.version,
            digest: plan.digest.clone(),
            approved_by: approver_of_plan(board),
        }),
        tasks: convert_counts(board.count_tasks()),
        task_in_hand: board.task_in_hand().map(|progress| progress.task.clone()),
        waits_for: board.wait.as_ref().map(convert_wait),
        call: board.action.as_ref().map(|open| convert_call(&open.action)),
        call_stage: board.action.as_ref().map(|open| convert_stage(open.stage)),
        command: board.command.clone(),
        last_event: board.seq,
        created_at: convert_time(record.created_at),
        updated_at: convert_time(board.updated_at),
    }
}

/// Converts a board to an item of a list.
pub(super) fn convert_summary(board: &CampaignBoard) -> native::CampaignSummary {
    native::CampaignSummary {
        id: board.campaign.id.clone(),
        name: board.campaign.name.clone(),
        agent: board.campaign.agent.clone(),
        status: convert_status(board.status),
        pause: board.pause.as_ref().map(convert_pause),
        failure: board.failure.clone(),
        waits_for: board.wait.as_ref().map(convert_wait),
        usage: convert_usage(&board.usage),
        last_event: board.seq,
        created_at: convert_time(board.campaign.created_at),
        updated_at: convert_time(board.updated_at),
    }
}

/// Converts the newest version of the plan, if there is one.
pub(super) fn convert_plan(board: &CampaignBoard) -> Option<native::CampaignPlan> {
    let plan = board.plan.as_ref()?;
    Some(native::CampaignPlan {
        version: plan.version,
        digest: plan.digest.clone(),
        tasks: plan.tasks.iter().map(convert_definition).collect(),
        approved_by: approver_of_plan(board),
    })
}

fn approver_of_plan(board: &CampaignBoard) -> Option<String> {
    board.approval.as_ref().filter(|_| board.is_plan_approved()).map(|approval| approval.by.clone())
}

/// Converts a page of the tasks of a board.
pub(super) fn convert_tasks(board: &CampaignBoard, from: u64, limit: u64) -> native::CampaignTaskPage {
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let tasks = board.plan.iter().flat_map(|plan| &plan.tasks).zip(&board.progress);
    let items: Vec<_> = tasks
        .skip(size(from))
        .take(size(limit))
        .map(|(task, progress)| convert_task(board, task, progress))
        .collect();
    let end = from.saturating_add(items.len() as u64);
    let next = (end < board.progress.len() as u64).then_some(end);
    native::CampaignTaskPage { plan_version: board.plan.as_ref().map_or(0, |plan| plan.version), items, next }
}

fn convert_task(
    board: &CampaignBoard,
    task: &campaign::PlanTask,
    progress: &campaign::TaskProgress,
) -> native::CampaignTask {
    let missing = board.missing_proofs(&task.id);
    let proof = task.proof.iter().enumerate().map(|(at, proof)| native::ProofCheck {
        rule: convert_proof(proof),
        found: missing.iter().all(|(place, _)| *place != at),
        entry: progress.found.get(at).copied().flatten(),
    });
    native::CampaignTask {
        id: task.id.clone(),
        description: task.description.clone(),
        needs: task.needs.clone(),
        proof: proof.collect(),
        status: match progress.status {
            campaign::TaskStatus::Pending => native::TaskState::Pending,
            campaign::TaskStatus::InProgress => native::TaskState::InProgress,
            campaign::TaskStatus::Done => native::TaskState::Done,
            campaign::TaskStatus::Blocked => native::TaskState::Blocked,
        },
        attempts: progress.attempts,
        blocked_because: progress.blocked_because.clone(),
        result: progress.result_ref.clone(),
    }
}

fn convert_definition(task: &campaign::PlanTask) -> native::TaskDefinition {
    native::TaskDefinition {
        id: task.id.clone(),
        description: task.description.clone(),
        needs: task.needs.clone(),
        proof: task.proof.iter().map(convert_proof).collect(),
    }
}

fn convert_proof(proof: &campaign::Proof) -> native::ProofRule {
    match proof.clone() {
        campaign::Proof::ToolSucceeded { tool, args } => native::ProofRule::ToolSucceeded { tool, args },
        campaign::Proof::ArtifactApproved { kind, key } => native::ProofRule::ArtifactApproved { kind, key },
        campaign::Proof::McpRead { server, tool, args, expect } => {
            native::ProofRule::McpRead { server, tool, args, expect }
        }
        campaign::Proof::UserConfirmed { question } => native::ProofRule::UserConfirmed { question },
    }
}

/// Reads the tasks of a plan.
pub(super) fn read_tasks(tasks: Vec<native::TaskDefinition>) -> Vec<campaign::PlanTask> {
    let read = |task: native::TaskDefinition| campaign::PlanTask {
        id: task.id,
        description: task.description,
        needs: task.needs,
        proof: task.proof.into_iter().map(read_proof).collect(),
    };
    tasks.into_iter().map(read).collect()
}

fn read_proof(rule: native::ProofRule) -> campaign::Proof {
    match rule {
        native::ProofRule::ToolSucceeded { tool, args } => campaign::Proof::ToolSucceeded { tool, args },
        native::ProofRule::ArtifactApproved { kind, key } => campaign::Proof::ArtifactApproved { kind, key },
        native::ProofRule::McpRead { server, tool, args, expect } => {
            campaign::Proof::McpRead { server, tool, args, expect }
        }
        native::ProofRule::UserConfirmed { question } => campaign::Proof::UserConfirmed { question },
    }
}

/// Reads a command of a person.
pub(super) fn read_command(sent: native::CampaignCommand) -> PersonCommand {
    match sent {
        native::CampaignCommand::Free { text } => PersonCommand::Free { text },
        native::CampaignCommand::Unblock { task } => PersonCommand::Unblock { task },
        native::CampaignCommand::Retry { task } => PersonCommand::Retry { task },
        native::CampaignCommand::Answer { question, answer } => PersonCommand::Answer { question, answer },
        native::CampaignCommand::Confirm { task, question } => PersonCommand::Confirm { task, question },
        native::CampaignCommand::Decide { digest, approved, reason } => {
            PersonCommand::DecideAction { digest, approved, reason }
        }
        native::CampaignCommand::Budget { budget } => {
            PersonCommand::EditBudget { budget: read_budget(budget) }
        }
    }
}

/// Reads a budget.
pub(super) fn read_budget(budget: native::BudgetLimits) -> campaign::CampaignBudget {
    let native::BudgetLimits { cycles, tokens, time_ms } = budget;
    campaign::CampaignBudget { cycles, tokens, time_ms }
}

/// Converts a budget.
pub(super) fn convert_budget(budget: &campaign::CampaignBudget) -> native::BudgetLimits {
    let campaign::CampaignBudget { cycles, tokens, time_ms } = *budget;
    native::BudgetLimits { cycles, tokens, time_ms }
}

fn convert_usage(usage: &campaign::CampaignUsage) -> native::BudgetUsage {
    let campaign::CampaignUsage { cycles, tokens, time_ms } = *usage;
    native::BudgetUsage { cycles, tokens, time_ms }
}

fn convert_counts(counts: campaign::TaskCounts) -> native::TaskTally {
    let campaign::TaskCounts { pending, in_progress, done, blocked } = counts;
    native::TaskTally { pending, in_progress, done, blocked }
}

fn convert_status(status: campaign::CampaignStatus) -> native::CampaignPhase {
    match status {
        campaign::CampaignStatus::Initializing => native::CampaignPhase::Initializing,
        campaign::CampaignStatus::Active => native::CampaignPhase::Active,
        campaign::CampaignStatus::Paused => native::CampaignPhase::Paused,
        campaign::CampaignStatus::Completed => native::CampaignPhase::Completed,
        campaign::CampaignStatus::Error => native::CampaignPhase::Error,
        campaign::CampaignStatus::Cancelled => native::CampaignPhase::Cancelled,
    }
}

fn convert_pause(reason: &campaign::PauseReason) -> native::PauseCause {
    match reason.clone() {
        campaign::PauseReason::Person { by } => native::PauseCause::Person { by },
        campaign::PauseReason::Budget { part } => native::PauseCause::Budget { part },
        campaign::PauseReason::NoReadyTask => native::PauseCause::NoReadyTask,
        campaign::PauseReason::NothingToPropose => native::PauseCause::NothingToPropose,
        campaign::PauseReason::Transient { category, until } => {
            native::PauseCause::Transient { category, until: convert_time(until) }
        }
        campaign::PauseReason::Quota { category } => native::PauseCause::Quota { category },
    }
}

fn convert_wait(wait: &campaign::CampaignWait) -> native::PendingDecision {
    match wait.clone() {
        campaign::CampaignWait::Plan => native::PendingDecision::Plan,
        campaign::CampaignWait::Action => native::PendingDecision::Action,
        campaign::CampaignWait::Question { task, question, schema } => {
            native::PendingDecision::Question { task, question, schema }
        }
    }
}

fn convert_stage(stage: campaign::ActionStage) -> native::CallStage {
    match stage {
        campaign::ActionStage::Asked => native::CallStage::Asked,
        campaign::ActionStage::Granted => native::CallStage::Granted,
        campaign::ActionStage::Begun => native::CallStage::Begun,
    }
}

fn convert_call(action: &campaign::CampaignAction) -> native::ExactCall {
    let campaign::CampaignAction { task, plan_version, cycle, tool, args, digest } = action.clone();
    native::ExactCall { task, plan_version, cycle, tool, args, digest }
}

/// Converts an entry of the log. A plan is named and not repeated: it may have megabytes.
pub(super) fn convert_entry(entry: CampaignLogEntry) -> native::CampaignLogItem {
    native::CampaignLogItem { seq: entry.seq, at: convert_time(entry.at), event: convert_event(entry.event) }
}

fn convert_event(event: CampaignEvent) -> native::CampaignLogKind {
    use native::CampaignLogKind as Kind;
    match event {
        CampaignEvent::Created { campaign } => Kind::Created {
            budget: convert_budget(&campaign.budget),
            name: campaign.name,
            goal: campaign.goal,
            agent: campaign.agent,
        },
        CampaignEvent::CommandGiven { text, by } => Kind::CommandGiven { text, by },
        CampaignEvent::PlanChanged { plan, by } => Kind::PlanChanged {
            version: plan.version,
            tasks: plan.tasks.len() as u64,
            digest: plan.digest,
            by,
        },
        CampaignEvent::PlanApproved { version, digest, by } => Kind::PlanApproved { version, digest, by },
        CampaignEvent::PlanRejected { version, reason, by } => Kind::PlanRejected { version, reason, by },
        CampaignEvent::CycleBegan { number } => Kind::CycleBegan { number },
        CampaignEvent::CycleMeasured { tokens, time_ms, seen: _ } => Kind::CycleMeasured { tokens, time_ms },
        CampaignEvent::ProposalRefused { category, why } => Kind::ProposalRefused { category, why },
        CampaignEvent::NothingProposed => Kind::NothingProposed,
        CampaignEvent::TaskSelected { task } => Kind::TaskSelected { task },
        CampaignEvent::TaskCompleted { task, result } => Kind::TaskCompleted { task, result },
        CampaignEvent::TaskBlocked { task, why } => Kind::TaskBlocked { task, why },
        CampaignEvent::TaskUnblocked { task, by } => Kind::TaskUnblocked { task, by },
        CampaignEvent::TaskRetried { task, by } => Kind::TaskRetried { task, by },
        CampaignEvent::Paused { reason } => Kind::Paused { reason: convert_pause(&reason) },
        CampaignEvent::Resumed { by } => Kind::Resumed { by },
        CampaignEvent::BudgetChanged { budget, by } => {
            Kind::BudgetChanged { budget: convert_budget(&budget), by }
        }
        CampaignEvent::Completed => Kind::Completed,
        CampaignEvent::Failed { category } => Kind::Failed { category },
        CampaignEvent::Cancelled { by } => Kind::Cancelled { by },
        CampaignEvent::ActionProposed { action, needs_approval } => {
            Kind::ActionProposed { action: convert_call(&action), needs_approval }
        }
        CampaignEvent::ActionDecided { digest, approved, reason, by } => {
            Kind::ActionDecided { digest, approved, reason, by }
        }
        CampaignEvent::ActionBegan { digest } => Kind::ActionBegan { digest },
        CampaignEvent::ActionDone { digest, tool, success, reads, result, text } => {
            Kind::ActionDone { digest, tool, success, reads, result, text }
        }
        CampaignEvent::ArtifactProposed { task, kind, key, version } => {
            Kind::ArtifactProposed { task, kind, key, version }
        }
        CampaignEvent::ArtifactApproved { kind, key, version, by } => {
            Kind::ArtifactApproved { kind, key, version, by }
        }
        CampaignEvent::QuestionAsked { task, question, schema } => {
            Kind::QuestionAsked { task, question, schema }
        }
        CampaignEvent::QuestionAnswered { answer, by } => Kind::QuestionAnswered { answer, by },
        CampaignEvent::Confirmed { task, question, by } => Kind::Confirmed { task, question, by },
    }
}
