//! The sentences about campaigns, in each language.

use singletree_narration::{Locale, fill_sentence};

use super::{chinese, english, french, german, japanese, spanish};

/// A sentence about a campaign. Its values in braces are filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CampaignSentence {
    /// A campaign was created: `{name}`.
    Created,
    /// The agent has proposed a plan, which waits for approval: `{version}`, `{tasks}`, `{digest}`.
    PlanProposed,
    /// A person has edited the plan, which waits for approval: `{by}`, `{version}`, `{tasks}`, `{digest}`.
    PlanEdited,
    /// The plan was approved: `{version}`, `{by}`.
    PlanApproved,
    /// The plan was rejected: `{version}`, `{by}`, `{reason}`.
    PlanRejected,
    /// A proposal was refused: `{why}`.
    Refused,
    /// The agent proposed nothing.
    NothingProposed,
    /// A task was taken in hand: `{task}`.
    TaskSelected,
    /// A call waits for approval: `{tool}`, `{task}`, `{arguments}`, `{digest}`.
    ApproveCall,
    /// A call is to be made: `{tool}`, `{task}`.
    CallProposed,
    /// The same with the arguments of the call: `{tool}`, `{task}`, `{arguments}`.
    CallProposedWith,
    /// A person has approved a call: `{tool}`, `{by}`.
    CallApproved,
    /// A person has rejected a call: `{tool}`, `{by}`, `{reason}`.
    CallRejected,
    /// A call has begun: `{tool}`.
    CallBegan,
    /// A call has had its effect: `{tool}`.
    CallSucceeded,
    /// A call has failed: `{tool}`.
    CallFailed,
    /// It is not known whether a call has had its effect: `{tool}`.
    CallInDoubt,
    /// A granted call was not made: `{tool}`.
    CallNotMade,
    /// The agent has proposed an artifact, which waits for approval: `{artifact}`, `{task}`.
    ArtifactProposed,
    /// An artifact was approved: `{artifact}`, `{by}`.
    ArtifactApproved,
    /// A person is asked: `{question}`.
    QuestionAsked,
    /// A person has answered: `{by}`.
    QuestionAnswered,
    /// A person has confirmed a proof: `{task}`, `{by}`.
    Confirmed,
    /// A task is done: all of its proofs were found: `{task}`.
    TaskCompleted,
    /// A task cannot go on: `{task}`, `{why}`.
    TaskBlocked,
    /// A person lets a task go on: `{task}`, `{by}`.
    TaskUnblocked,
    /// A person has a task done anew: `{task}`, `{by}`.
    TaskRetried,
    /// A person has paused the campaign: `{by}`.
    PausedByPerson,
    /// A part of the budget is used up: `{part}`.
    PausedByBudget,
    /// No task can be taken up.
    PausedWithoutTask,
    /// The agent had nothing to propose several times.
    PausedIdle,
    /// A failure that may pass: `{category}`.
    PausedByFailure,
    /// A quota of the tenant is used up: `{category}`.
    PausedByQuota,
    /// A person has resumed the campaign: `{by}`.
    Resumed,
    /// The pause after a failure is over.
    Recovered,
    /// The budget was changed: `{by}`.
    BudgetChanged,
    /// Every task is done.
    Completed,
    /// The campaign has failed: `{category}`.
    Failed,
    /// A person has ended the campaign: `{by}`.
    Cancelled,
}

impl CampaignSentence {
    /// All of them.
    #[cfg(test)]
    pub(super) const ALL: [Self; 39] = [
        Self::Created,
        Self::PlanProposed,
        Self::PlanEdited,
        Self::PlanApproved,
        Self::PlanRejected,
        Self::Refused,
        Self::NothingProposed,
        Self::TaskSelected,
        Self::ApproveCall,
        Self::CallProposed,
        Self::CallProposedWith,
        Self::CallApproved,
        Self::CallRejected,
        Self::CallBegan,
        Self::CallSucceeded,
        Self::CallFailed,
        Self::CallInDoubt,
        Self::CallNotMade,
        Self::ArtifactProposed,
        Self::ArtifactApproved,
        Self::QuestionAsked,
        Self::QuestionAnswered,
        Self::Confirmed,
        Self::TaskCompleted,
        Self::TaskBlocked,
        Self::TaskUnblocked,
        Self::TaskRetried,
        Self::PausedByPerson,
        Self::PausedByBudget,
        Self::PausedWithoutTask,
        Self::PausedIdle,
        Self::PausedByFailure,
        Self::PausedByQuota,
        Self::Resumed,
        Self::Recovered,
        Self::BudgetChanged,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Returns the template of a language.
    pub(super) fn select_template(self, locale: Locale) -> &'static str {
        match locale {
            Locale::English => english::select_sentence(self),
            Locale::German => german::select_sentence(self),
            Locale::Spanish => spanish::select_sentence(self),
            Locale::French => french::select_sentence(self),
            Locale::Japanese => japanese::select_sentence(self),
            Locale::Chinese => chinese::select_sentence(self),
        }
    }

    /// Fills in a template. Values are plain text: braces in them stay as they are.
    pub(super) fn fill(self, locale: Locale, values: &[(&str, &str)]) -> String {
        fill_sentence(self.select_template(locale), values)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use singletree_narration::find_memory_claim;

    use super::*;

    fn names(template: &str) -> BTreeSet<&str> {
        let parts = template.split('{').skip(1);
        parts.filter_map(|part| part.split_once('}').map(|(name, _)| name)).collect()
    }

    // spec: agent-chat-output §5.1, §11
    #[test]
    fn every_sentence_is_in_every_language_with_the_same_names_and_claims_no_memory() {
        let mut seen = BTreeSet::new();
        for sentence in CampaignSentence::ALL {
            let expected = names(sentence.select_template(Locale::default()));
            for locale in Locale::ALL {
                let template = sentence.select_template(locale);
                assert_eq!(names(template), expected, "{sentence:?} in {locale}");
                assert_eq!(find_memory_claim(template), None, "{sentence:?} in {locale}");
                assert!(seen.insert(template), "{sentence:?} in {locale} says what another one says");
            }
        }
    }
}
