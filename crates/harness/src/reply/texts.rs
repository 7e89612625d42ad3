//! The built-in texts of replies, by category and language (D32). `{diagnostic}` stands for the error.

use singletree_narration::Locale;

use crate::bucket::correctable_categories;

/// The text of the bucket user_correctable where the message may be the cause, as harness-chat §10 words it.
pub(super) const CORRECTABLE: &str =
    "That request couldn't be processed: {diagnostic}. Please adjust your message and try again.";

/// The same where the message is not the cause.
pub(super) const NOT_THE_MESSAGE: &str = "That request couldn't be processed: {diagnostic}.";

/// The categories of the bucket user_correctable that the message causes: its writer can change it and send it again.
const CAUSED_BY_MESSAGE: &[&str] = &[
    "chat_blob_refused",
    "chat_blob_too_large",
    "chat_blob_unknown",
    "chat_blobs_full",
    "chat_message_shape_invalid",
    "provider_invalid_request",
    "provider_unsupported_content_block",
];

/// Returns the listed categories of the bucket user_correctable of which the message is not the cause.
fn list_other_causes() -> impl Iterator<Item = &'static str> {
    correctable_categories().filter(|category| !CAUSED_BY_MESSAGE.contains(category))
}

/// Tells whether the cause of an error lies outside of the message.
pub(super) fn has_other_cause(category: &str) -> bool {
    list_other_causes().any(|other| other == category)
}

/// The three texts of the buckets: session_terminating, retryable_transient, user_correctable.
pub(super) fn bucket_texts(language: Locale) -> [&'static str; 3] {
    match language {
        Locale::English => [
            "This conversation can't continue. Please start a new one.",
            "I had trouble responding. Try again in a moment.",
            CORRECTABLE,
        ],
        Locale::German => [
            "Dieses Gespräch kann nicht fortgesetzt werden. Bitte beginnen Sie ein neues.",
            "Die Antwort ist nicht gelungen. Bitte versuchen Sie es gleich noch einmal.",
            "Diese Anfrage konnte nicht bearbeitet werden: {diagnostic}. Bitte ändern Sie Ihre Nachricht und versuchen Sie es \
             noch einmal.",
        ],
    }
}

/// The texts of categories: (category, English, German).
const OF_CATEGORIES: &[(&str, &str, &str)] = &[
    (
        "chat_agent_unknown",
        "The assistant of this conversation is not there: {diagnostic}.",
        "Den Assistenten dieses Gesprächs gibt es nicht: {diagnostic}.",
    ),
    (
        "chat_budget_exhausted",
        "This answer needed more than it may: {diagnostic}.",
        "Diese Antwort brauchte mehr, als sie darf: {diagnostic}.",
    ),
    (
        "chat_session_suspended",
        "Something has to be decided here first: {diagnostic}.",
        "Hier muss zuerst etwas entschieden werden: {diagnostic}.",
    ),
    (
        "chat_session_unknown",
        "There is no such conversation: {diagnostic}.",
        "Dieses Gespräch gibt es nicht: {diagnostic}.",
    ),
    (
        "chat_shutting_down",
        "The assistant is being restarted. Try again in a moment.",
        "Der Assistent wird neu gestartet. Bitte versuchen Sie es gleich noch einmal.",
    ),
    (
        "chat_signal_expired",
        "Nobody decided in time: {diagnostic}.",
        "Niemand hat rechtzeitig entschieden: {diagnostic}.",
    ),
    (
        "chat_turn_abandoned",
        "This message was not answered in time: {diagnostic}. Send it again if you still want an answer.",
        "Diese Nachricht wurde nicht rechtzeitig beantwortet: {diagnostic}. Senden Sie sie noch einmal, wenn Sie noch eine \
         Antwort möchten.",
    ),
    ("chat_turn_cancelled", "Stopped: {diagnostic}.", "Abgebrochen: {diagnostic}."),
    (
        "chat_turn_crashed",
        "The assistant failed each time it tried to answer this: {diagnostic}. It does not try again.",
        "Der Assistent ist bei jedem Versuch gescheitert, dies zu beantworten: {diagnostic}. Er versucht es nicht wieder.",
    ),
    (
        "provider_authentication",
        "The assistant has no access to its model: {diagnostic}. Whoever runs it has to correct that.",
        "Der Assistent hat keinen Zugang zu seinem Modell: {diagnostic}. Wer ihn betreibt, muss das ändern.",
    ),
    (
        "provider_invalid_model",
        "The assistant's model is not there: {diagnostic}. Whoever runs it has to correct that.",
        "Das Modell des Assistenten gibt es nicht: {diagnostic}. Wer ihn betreibt, muss das ändern.",
    ),
    (
        "provider_invalid_response",
        "The model gave an answer that can't be used: {diagnostic}.",
        "Das Modell hat eine unbrauchbare Antwort gegeben: {diagnostic}.",
    ),
    (
        "provider_model_not_loaded",
        "The model is being loaded. Try again in a moment.",
        "Das Modell wird geladen. Bitte versuchen Sie es gleich noch einmal.",
    ),
    (
        "provider_rate_limit",
        "The model is busy. Try again in a moment.",
        "Das Modell ist ausgelastet. Bitte versuchen Sie es gleich noch einmal.",
    ),
    (
        "provider_unavailable",
        "The model can't be reached right now. Try again in a moment.",
        "Das Modell ist gerade nicht erreichbar. Bitte versuchen Sie es gleich noch einmal.",
    ),
    (
        "structured_output_invalid",
        "The model gave an answer that can't be used: {diagnostic}.",
        "Das Modell hat eine unbrauchbare Antwort gegeben: {diagnostic}.",
    ),
];

/// Returns the texts of all categories that have one of their own in a language: the listed ones, and the plain one for
/// those of which the message is not the cause.
pub(super) fn category_texts(language: Locale) -> impl Iterator<Item = (&'static str, &'static str)> {
    let plain = match language {
        Locale::English => NOT_THE_MESSAGE,
        Locale::German => "Diese Anfrage konnte nicht bearbeitet werden: {diagnostic}.",
    };
    let listed = OF_CATEGORIES.iter().map(move |(category, english, german)| match language {
        Locale::English => (*category, *english),
        Locale::German => (*category, *german),
    });
    list_other_causes().map(move |category| (category, plain)).chain(listed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{BucketTable, FailureBucket, HarnessSurface};

    #[test]
    fn texts_fit_the_buckets_of_their_categories() {
        let table = BucketTable::default();
        for language in Locale::ALL {
            for (category, text) in category_texts(language) {
                let bucket = table.look_up_category(category, HarnessSurface::Chat).bucket;
                // D15: users are told only of errors that they can correct.
                assert_eq!(
                    text.contains("{diagnostic}"),
                    bucket == FailureBucket::UserCorrectable,
                    "{category}: {text}"
                );
                let again = text.contains("in a moment") || text.contains("gleich noch einmal");
                assert_eq!(again, bucket == FailureBucket::RetryableTransient, "{category}: {text}");
                assert!(!text.contains("adjust your message"), "{category}: {text}");
            }
        }
    }
}
