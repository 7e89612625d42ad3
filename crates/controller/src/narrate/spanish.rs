//! The sentences about campaigns in Spanish.

use super::sentence::CampaignSentence;

pub(super) fn select_sentence(sentence: CampaignSentence) -> &'static str {
    match sentence {
        CampaignSentence::Created => "Se ha creado la campaña «{name}».",
        CampaignSentence::PlanProposed => {
            "El agente propone la versión {version} del plan: tareas: {tasks}. Espera aprobación (resumen {digest})."
        }
        CampaignSentence::PlanEdited => {
            "{by} ha modificado el plan: versión {version}, tareas: {tasks}. Espera aprobación (resumen {digest})."
        }
        CampaignSentence::PlanApproved => "{by} ha aprobado la versión {version} del plan.",
        CampaignSentence::PlanRejected => "{by} ha rechazado la versión {version} del plan. Motivo: {reason}",
        CampaignSentence::Refused => "Se ha rechazado una propuesta: {why}",
        CampaignSentence::NothingProposed => "El agente no propone nada por ahora.",
        CampaignSentence::TaskSelected => "Empieza el trabajo en la tarea {task}.",
        CampaignSentence::ApproveCall => {
            "Hace falta aprobación para usar {tool} en {task}: {arguments} (resumen {digest})"
        }
        CampaignSentence::CallProposed => "Se usa {tool} para {task}.",
        CampaignSentence::CallProposedWith => "Se usa {tool} para {task}: {arguments}",
        CampaignSentence::CallApproved => "{by} ha aprobado el uso de {tool}.",
        CampaignSentence::CallRejected => {
            "{by} ha rechazado el uso de {tool}; no se ha hecho nada. Motivo: {reason}"
        }
        CampaignSentence::CallBegan => "{tool} empieza.",
        CampaignSentence::CallSucceeded => "{tool} ha terminado con éxito.",
        CampaignSentence::CallFailed => "{tool} ha fallado; el agente ve el resultado.",
        CampaignSentence::CallInDoubt => "{tool}: no se sabe si tuvo efecto, y no se vuelve a llamar.",
        CampaignSentence::CallNotMade => "No se ha llamado a {tool}; no se ha hecho nada.",
        CampaignSentence::ArtifactProposed => {
            "El agente propone el artefacto {artifact} para {task}. Espera aprobación."
        }
        CampaignSentence::ArtifactApproved => "{by} ha aprobado el artefacto {artifact}.",
        CampaignSentence::QuestionAsked => "Una pregunta: {question}",
        CampaignSentence::QuestionAnswered => "{by} ha respondido; el trabajo continúa.",
        CampaignSentence::Confirmed => "{by} ha confirmado una prueba de {task}.",
        CampaignSentence::TaskCompleted => "La tarea {task} está hecha: se han encontrado todas sus pruebas.",
        CampaignSentence::TaskBlocked => "La tarea {task} no puede continuar: {why}",
        CampaignSentence::TaskUnblocked => "{by} deja que la tarea {task} continúe.",
        CampaignSentence::TaskRetried => "{by} hace repetir la tarea {task}.",
        CampaignSentence::PausedByPerson => "{by} ha pausado la campaña.",
        CampaignSentence::PausedByBudget => "En pausa: el presupuesto está agotado ({part}).",
        CampaignSentence::PausedWithoutTask => "En pausa: no se puede empezar ninguna tarea.",
        CampaignSentence::PausedIdle => "En pausa: el agente no tenía nada que proponer.",
        CampaignSentence::PausedByFailure => {
            "En pausa tras un fallo que puede pasar ({category}); se intentará de nuevo."
        }
        CampaignSentence::PausedByQuota => "En pausa: una cuota está agotada ({category}).",
        CampaignSentence::Resumed => "{by} ha reanudado la campaña.",
        CampaignSentence::Recovered => "La pausa tras el fallo ha terminado; el trabajo continúa.",
        CampaignSentence::BudgetChanged => "{by} ha cambiado el presupuesto.",
        CampaignSentence::Completed => "La campaña está completa: todas las tareas están hechas.",
        CampaignSentence::Failed => "La campaña ha fallado ({category}). Se puede reanudar.",
        CampaignSentence::Cancelled => "{by} ha cancelado la campaña.",
    }
}
