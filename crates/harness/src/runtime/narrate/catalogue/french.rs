//! The sentences of the controller in French.

use super::Sentence;

pub(super) fn select_template(sentence: Sentence) -> &'static str {
    match sentence {
        Sentence::ApproveCall => "Une approbation est nécessaire pour utiliser {tool} ({signal}).",
        Sentence::ApproveCallWith => {
            "Une approbation est nécessaire pour utiliser {tool} ({signal}) : {arguments}"
        }
        Sentence::ApproveAction => "Une approbation est nécessaire : {signal}.",
        Sentence::Awaits => "En pause jusqu'à l'arrivée de {signal}.",
        Sentence::Answered => "{signal} a reçu une réponse ; le travail continue.",
        Sentence::Expired => "Personne n'a répondu à {signal} à temps.",
        Sentence::GivenUp => "{signal} a été retiré.",
        Sentence::Unfit => "Une réponse à {signal} ne convenait pas et n'a pas été acceptée.",
        Sentence::Calls => "L'agent demande {tools}.",
        Sentence::NotDone => "Une action n'a pas été effectuée : {reason}",
        Sentence::ToolSucceeded => "{tool} a réussi.",
        Sentence::ToolFailed => "{tool} a échoué ; l'agent en est informé.",
        Sentence::ToolInDoubt => "{tool} : on ne sait pas si l'effet a eu lieu.",
        Sentence::SomeTool => "Un outil",
        Sentence::Summarised => {
            "Le modèle voit un résumé à la place des messages {from} à {to} ; ceux-ci sont conservés."
        }
        Sentence::NotSummarised => "Aucun résumé n'a pu être fait ({category}) ; rien n'a changé.",
        Sentence::Stopped => "Le tour a été arrêté.",
        Sentence::Continues => "Cette conversation continue {session}.",
        Sentence::CutOff => "{text}… {bytes} octets de plus, empreinte {digest}",
        Sentence::Done => "Terminé.",
    }
}
