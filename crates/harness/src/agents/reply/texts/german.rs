//! The built-in replies in German.

use super::LanguageReplies;

pub(super) const REPLIES: LanguageReplies = LanguageReplies {
    of_buckets: [
        "Dieses Gespräch kann nicht fortgesetzt werden. Bitte beginnen Sie ein neues.",
        "Die Antwort ist nicht gelungen. Bitte versuchen Sie es gleich noch einmal.",
        "Diese Anfrage konnte nicht bearbeitet werden: {diagnostic}. Bitte ändern Sie Ihre Nachricht und versuchen Sie es noch einmal.",
    ],
    not_the_message: "Diese Anfrage konnte nicht bearbeitet werden: {diagnostic}.",
    of_categories: [
        "Den Assistenten dieses Gesprächs gibt es nicht: {diagnostic}.",
        "Diese Antwort brauchte mehr, als sie darf: {diagnostic}.",
        "Hier muss zuerst etwas entschieden werden: {diagnostic}.",
        "Dieses Gespräch gibt es nicht: {diagnostic}.",
        "Der Assistent wird neu gestartet. Bitte versuchen Sie es gleich noch einmal.",
        "Niemand hat rechtzeitig entschieden: {diagnostic}.",
        "Diese Nachricht wurde nicht rechtzeitig beantwortet: {diagnostic}. Senden Sie sie noch einmal, wenn Sie noch eine Antwort möchten.",
        "Abgebrochen: {diagnostic}.",
        "Der Assistent ist bei jedem Versuch gescheitert, dies zu beantworten: {diagnostic}. Er versucht es nicht wieder.",
        "Der Assistent hat keinen Zugang zu seinem Modell: {diagnostic}. Wer ihn betreibt, muss das ändern.",
        "Das Modell des Assistenten gibt es nicht: {diagnostic}. Wer ihn betreibt, muss das ändern.",
        "Das Modell hat eine unbrauchbare Antwort gegeben: {diagnostic}.",
        "Das Modell wird geladen. Bitte versuchen Sie es gleich noch einmal.",
        "Das Modell ist ausgelastet. Bitte versuchen Sie es gleich noch einmal.",
        "Das Modell ist gerade nicht erreichbar. Bitte versuchen Sie es gleich noch einmal.",
        "Das Modell hat eine unbrauchbare Antwort gegeben: {diagnostic}.",
    ],
};
