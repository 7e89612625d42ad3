//! The sentences of the controller in Spanish.

use super::Sentence;

pub(super) fn select_template(sentence: Sentence) -> &'static str {
    match sentence {
        Sentence::ApproveCall => "Se necesita aprobación para usar {tool} ({signal}).",
        Sentence::ApproveCallWith => "Se necesita aprobación para usar {tool} ({signal}): {arguments}",
        Sentence::ApproveAction => "Se necesita aprobación: {signal}.",
        Sentence::Awaits => "En pausa hasta que llegue {signal}.",
        Sentence::Answered => "{signal} ha recibido respuesta; el trabajo continúa.",
        Sentence::Expired => "Nadie respondió a {signal} a tiempo.",
        Sentence::GivenUp => "{signal} se ha retirado.",
        Sentence::Unfit => "Una respuesta a {signal} no era válida y no se ha aceptado.",
        Sentence::Calls => "El agente solicita {tools}.",
        Sentence::NotDone => "No se ha realizado una acción: {reason}",
        Sentence::ToolSucceeded => "{tool} ha terminado con éxito.",
        Sentence::ToolFailed => "{tool} ha fallado; se informa al agente.",
        Sentence::ToolInDoubt => "{tool}: no se sabe si ha tenido efecto.",
        Sentence::SomeTool => "Una herramienta",
        Sentence::Summarised => {
            "El modelo ve un resumen en lugar de los mensajes {from} a {to}; estos se conservan."
        }
        Sentence::NotSummarised => "No se ha podido hacer un resumen ({category}); nada ha cambiado.",
        Sentence::Stopped => "El turno se ha detenido.",
        Sentence::Continues => "Esta conversación continúa {session}.",
        Sentence::CutOff => "{text}… {bytes} bytes más, resumen criptográfico {digest}",
        Sentence::Done => "Hecho.",
    }
}
