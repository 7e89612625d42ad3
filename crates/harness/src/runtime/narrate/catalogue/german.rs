//! The sentences of the controller in German.

use super::Sentence;

pub(super) fn select_template(sentence: Sentence) -> &'static str {
    match sentence {
        Sentence::ApproveCall => "Freigabe nötig, um {tool} zu verwenden ({signal}).",
        Sentence::ApproveCallWith => "Freigabe nötig, um {tool} zu verwenden ({signal}): {arguments}",
        Sentence::ApproveAction => "Freigabe nötig: {signal}.",
        Sentence::Awaits => "Angehalten, bis {signal} eintrifft.",
        Sentence::Answered => "{signal} ist beantwortet; es geht weiter.",
        Sentence::Expired => "Niemand hat {signal} rechtzeitig beantwortet.",
        Sentence::GivenUp => "{signal} wurde zurückgezogen.",
        Sentence::Unfit => "Eine Antwort auf {signal} passte nicht und wurde nicht angenommen.",
        Sentence::Calls => "Der Agent verlangt {tools}.",
        Sentence::NotDone => "Eine Aktion wurde nicht ausgeführt: {reason}",
        Sentence::ToolSucceeded => "{tool} war erfolgreich.",
        Sentence::ToolFailed => "{tool} ist gescheitert; der Agent erfährt es.",
        Sentence::ToolInDoubt => "{tool}: ob das gewirkt hat, ist nicht bekannt.",
        Sentence::SomeTool => "Ein Werkzeug",
        Sentence::Summarised => {
            "Das Modell sieht eine Zusammenfassung anstelle der Nachrichten {from} bis {to}; sie bleiben erhalten."
        }
        Sentence::NotSummarised => {
            "Es war keine Zusammenfassung möglich ({category}); nichts hat sich geändert."
        }
        Sentence::Stopped => "Der Zug wurde abgebrochen.",
        Sentence::Continues => "Dieses Gespräch setzt {session} fort.",
        Sentence::CutOff => "{text}… {bytes} weitere Bytes, Prüfsumme {digest}",
        Sentence::Done => "Fertig.",
    }
}
