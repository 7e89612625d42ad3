//! The sentences about campaigns in English.

use super::sentence::CampaignSentence;

pub(super) fn select_sentence(sentence: CampaignSentence) -> &'static str {
    match sentence {
        CampaignSentence::Created => "The campaign \"{name}\" was created.",
        CampaignSentence::PlanProposed => {
            "The agent proposes version {version} of the plan: tasks {tasks}. It waits for approval (digest {digest})."
        }
        CampaignSentence::PlanEdited => {
            "{by} has edited the plan: version {version}, tasks {tasks}. It waits for approval (digest {digest})."
        }
        CampaignSentence::PlanApproved => "{by} has approved version {version} of the plan.",
        CampaignSentence::PlanRejected => "{by} has rejected version {version} of the plan. Reason: {reason}",
        CampaignSentence::Refused => "A proposal was refused: {why}",
        CampaignSentence::NothingProposed => "The agent proposes nothing for now.",
        CampaignSentence::TaskSelected => "Work on the task {task} begins.",
        CampaignSentence::ApproveCall => {
            "Approval is needed to use {tool} for {task}: {arguments} (digest {digest})"
        }
        CampaignSentence::CallProposed => "{tool} is used for {task}.",
        CampaignSentence::CallProposedWith => "{tool} is used for {task}: {arguments}",
        CampaignSentence::CallApproved => "{by} has approved the use of {tool}.",
        CampaignSentence::CallRejected => {
            "{by} has rejected the use of {tool}; nothing was done. Reason: {reason}"
        }
        CampaignSentence::CallBegan => "{tool} begins.",
        CampaignSentence::CallSucceeded => "{tool} has succeeded.",
        CampaignSentence::CallFailed => "{tool} has failed; the agent sees the result.",
        CampaignSentence::CallInDoubt => {
            "{tool}: whether it took effect is not known, and it is not called again."
        }
        CampaignSentence::CallNotMade => "{tool} was not called; nothing was done.",
        CampaignSentence::ArtifactProposed => {
            "The agent proposes the artifact {artifact} for {task}. It waits for approval."
        }
        CampaignSentence::ArtifactApproved => "{by} has approved the artifact {artifact}.",
        CampaignSentence::QuestionAsked => "A question: {question}",
        CampaignSentence::QuestionAnswered => "{by} has answered; work goes on.",
        CampaignSentence::Confirmed => "{by} has confirmed a proof of {task}.",
        CampaignSentence::TaskCompleted => "The task {task} is done: all of its proofs were found.",
        CampaignSentence::TaskBlocked => "The task {task} cannot go on: {why}",
        CampaignSentence::TaskUnblocked => "{by} lets the task {task} go on.",
        CampaignSentence::TaskRetried => "{by} has the task {task} done again.",
        CampaignSentence::PausedByPerson => "{by} has paused the campaign.",
        CampaignSentence::PausedByBudget => "Paused: the budget is used up ({part}).",
        CampaignSentence::PausedWithoutTask => "Paused: no task can be taken up.",
        CampaignSentence::PausedIdle => "Paused: the agent had nothing to propose.",
        CampaignSentence::PausedByFailure => {
            "Paused after a failure that may pass ({category}); it is tried again."
        }
        CampaignSentence::PausedByQuota => "Paused: a quota is used up ({category}).",
        CampaignSentence::Resumed => "{by} has resumed the campaign.",
        CampaignSentence::Recovered => "The pause after the failure is over; work goes on.",
        CampaignSentence::BudgetChanged => "{by} has changed the budget.",
        CampaignSentence::Completed => "The campaign is complete: every task is done.",
        CampaignSentence::Failed => "The campaign has failed ({category}). It can be resumed.",
        CampaignSentence::Cancelled => "{by} has cancelled the campaign.",
    }
}
