//! The sentences about campaigns in French.

use super::sentence::CampaignSentence;

pub(super) fn select_sentence(sentence: CampaignSentence) -> &'static str {
    match sentence {
        CampaignSentence::Created => "La campagne « {name} » a été créée.",
        CampaignSentence::PlanProposed => {
            "L'agent propose la version {version} du plan : tâches : {tasks}. Elle attend une approbation (empreinte {digest})."
        }
        CampaignSentence::PlanEdited => {
            "{by} a modifié le plan : version {version}, tâches : {tasks}. Elle attend une approbation (empreinte {digest})."
        }
        CampaignSentence::PlanApproved => "{by} a approuvé la version {version} du plan.",
        CampaignSentence::PlanRejected => "{by} a refusé la version {version} du plan. Motif : {reason}",
        CampaignSentence::Refused => "Une proposition a été refusée : {why}",
        CampaignSentence::NothingProposed => "L'agent ne propose rien pour l'instant.",
        CampaignSentence::TaskSelected => "Le travail sur la tâche {task} commence.",
        CampaignSentence::ApproveCall => {
            "Une approbation est nécessaire pour utiliser {tool} pour {task} : {arguments} (empreinte {digest})"
        }
        CampaignSentence::CallProposed => "{tool} est utilisé pour {task}.",
        CampaignSentence::CallProposedWith => "{tool} est utilisé pour {task} : {arguments}",
        CampaignSentence::CallApproved => "{by} a approuvé l'utilisation de {tool}.",
        CampaignSentence::CallRejected => {
            "{by} a refusé l'utilisation de {tool} ; rien n'a été fait. Motif : {reason}"
        }
        CampaignSentence::CallBegan => "{tool} commence.",
        CampaignSentence::CallSucceeded => "{tool} a réussi.",
        CampaignSentence::CallFailed => "{tool} a échoué ; l'agent voit le résultat.",
        CampaignSentence::CallInDoubt => {
            "{tool} : on ne sait pas si cela a eu un effet, et l'appel n'est pas répété."
        }
        CampaignSentence::CallNotMade => "{tool} n'a pas été appelé ; rien n'a été fait.",
        CampaignSentence::ArtifactProposed => {
            "L'agent propose l'artefact {artifact} pour {task}. Il attend une approbation."
        }
        CampaignSentence::ArtifactApproved => "{by} a approuvé l'artefact {artifact}.",
        CampaignSentence::QuestionAsked => "Une question : {question}",
        CampaignSentence::QuestionAnswered => "{by} a répondu ; le travail continue.",
        CampaignSentence::Confirmed => "{by} a confirmé une preuve de {task}.",
        CampaignSentence::TaskCompleted => {
            "La tâche {task} est terminée : toutes ses preuves ont été trouvées."
        }
        CampaignSentence::TaskBlocked => "La tâche {task} ne peut pas continuer : {why}",
        CampaignSentence::TaskUnblocked => "{by} laisse la tâche {task} continuer.",
        CampaignSentence::TaskRetried => "{by} fait refaire la tâche {task}.",
        CampaignSentence::PausedByPerson => "{by} a suspendu la campagne.",
        CampaignSentence::PausedByBudget => "En pause : le budget est épuisé ({part}).",
        CampaignSentence::PausedWithoutTask => "En pause : aucune tâche ne peut être commencée.",
        CampaignSentence::PausedIdle => "En pause : l'agent n'avait rien à proposer.",
        CampaignSentence::PausedByFailure => {
            "En pause après une erreur qui peut passer ({category}) ; un nouvel essai suivra."
        }
        CampaignSentence::PausedByQuota => "En pause : un quota est épuisé ({category}).",
        CampaignSentence::Resumed => "{by} a repris la campagne.",
        CampaignSentence::Recovered => "La pause après l'erreur est finie ; le travail continue.",
        CampaignSentence::BudgetChanged => "{by} a changé le budget.",
        CampaignSentence::Completed => "La campagne est terminée : toutes les tâches sont faites.",
        CampaignSentence::Failed => "La campagne a échoué ({category}). Elle peut être reprise.",
        CampaignSentence::Cancelled => "{by} a annulé la campagne.",
    }
}
