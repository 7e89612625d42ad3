//! The sentences about campaigns in German.

use super::sentence::CampaignSentence;

pub(super) fn select_sentence(sentence: CampaignSentence) -> &'static str {
    match sentence {
        CampaignSentence::Created => "Die Kampagne „{name}“ wurde angelegt.",
        CampaignSentence::PlanProposed => {
            "Der Agent schlägt Version {version} des Plans vor: Aufgaben: {tasks}. Sie wartet auf Freigabe (Prüfsumme {digest})."
        }
        CampaignSentence::PlanEdited => {
            "{by} hat den Plan bearbeitet: Version {version}, Aufgaben: {tasks}. Sie wartet auf Freigabe (Prüfsumme {digest})."
        }
        CampaignSentence::PlanApproved => "{by} hat Version {version} des Plans freigegeben.",
        CampaignSentence::PlanRejected => "{by} hat Version {version} des Plans abgelehnt. Grund: {reason}",
        CampaignSentence::Refused => "Ein Vorschlag wurde zurückgewiesen: {why}",
        CampaignSentence::NothingProposed => "Der Agent schlägt im Moment nichts vor.",
        CampaignSentence::TaskSelected => "Die Arbeit an der Aufgabe {task} beginnt.",
        CampaignSentence::ApproveCall => {
            "Freigabe nötig, um {tool} für {task} zu verwenden: {arguments} (Prüfsumme {digest})"
        }
        CampaignSentence::CallProposed => "{tool} wird für {task} verwendet.",
        CampaignSentence::CallProposedWith => "{tool} wird für {task} verwendet: {arguments}",
        CampaignSentence::CallApproved => "{by} hat die Verwendung von {tool} freigegeben.",
        CampaignSentence::CallRejected => {
            "{by} hat die Verwendung von {tool} abgelehnt; nichts wurde getan. Grund: {reason}"
        }
        CampaignSentence::CallBegan => "{tool} beginnt.",
        CampaignSentence::CallSucceeded => "{tool} war erfolgreich.",
        CampaignSentence::CallFailed => "{tool} ist gescheitert; der Agent sieht das Ergebnis.",
        CampaignSentence::CallInDoubt => {
            "{tool}: ob das gewirkt hat, ist nicht bekannt; es wird nicht noch einmal aufgerufen."
        }
        CampaignSentence::CallNotMade => "{tool} wurde nicht aufgerufen; nichts wurde getan.",
        CampaignSentence::ArtifactProposed => {
            "Der Agent schlägt das Artefakt {artifact} für {task} vor. Es wartet auf Freigabe."
        }
        CampaignSentence::ArtifactApproved => "{by} hat das Artefakt {artifact} freigegeben.",
        CampaignSentence::QuestionAsked => "Eine Frage: {question}",
        CampaignSentence::QuestionAnswered => "{by} hat geantwortet; es geht weiter.",
        CampaignSentence::Confirmed => "{by} hat einen Nachweis von {task} bestätigt.",
        CampaignSentence::TaskCompleted => "Die Aufgabe {task} ist erledigt: alle Nachweise liegen vor.",
        CampaignSentence::TaskBlocked => "Die Aufgabe {task} kommt nicht weiter: {why}",
        CampaignSentence::TaskUnblocked => "{by} lässt die Aufgabe {task} weitergehen.",
        CampaignSentence::TaskRetried => "{by} lässt die Aufgabe {task} noch einmal ausführen.",
        CampaignSentence::PausedByPerson => "{by} hat die Kampagne angehalten.",
        CampaignSentence::PausedByBudget => "Angehalten: das Budget ist aufgebraucht ({part}).",
        CampaignSentence::PausedWithoutTask => "Angehalten: keine Aufgabe kann begonnen werden.",
        CampaignSentence::PausedIdle => "Angehalten: der Agent hatte nichts vorzuschlagen.",
        CampaignSentence::PausedByFailure => {
            "Angehalten nach einem Fehler, der vorübergehen kann ({category}); es wird wieder versucht."
        }
        CampaignSentence::PausedByQuota => "Angehalten: ein Kontingent ist aufgebraucht ({category}).",
        CampaignSentence::Resumed => "{by} hat die Kampagne fortgesetzt.",
        CampaignSentence::Recovered => "Die Pause nach dem Fehler ist vorbei; es geht weiter.",
        CampaignSentence::BudgetChanged => "{by} hat das Budget geändert.",
        CampaignSentence::Completed => "Die Kampagne ist abgeschlossen: alle Aufgaben sind erledigt.",
        CampaignSentence::Failed => "Die Kampagne ist gescheitert ({category}). Sie kann fortgesetzt werden.",
        CampaignSentence::Cancelled => "{by} hat die Kampagne abgebrochen.",
    }
}
