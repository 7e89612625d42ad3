//! The built-in texts of replies, by category and language (D32). `{diagnostic}` stands for the error.

mod chinese;
mod english;
mod french;
mod german;
mod japanese;
mod spanish;

use singletree_narration::Locale;
use singletree_session::correctable_categories;

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

/// The built-in texts of one language.
struct LanguageReplies {
    /// Of the buckets session_terminating, retryable_transient, user_correctable.
    of_buckets: [&'static str; 3],
    /// Of a category in the bucket user_correctable of which the message is not the cause.
    not_the_message: &'static str,
    /// Of the categories in the order of [`OWN_CATEGORIES`].
    of_categories: [&'static str; OWN_CATEGORIES.len()],
}

/// The categories that have a text of their own.
const OWN_CATEGORIES: [&str; 16] = [
    "chat_agent_unknown",
    "chat_budget_exhausted",
    "chat_session_suspended",
    "chat_session_unknown",
    "chat_shutting_down",
    "chat_signal_expired",
    "chat_turn_abandoned",
    "chat_turn_cancelled",
    "chat_turn_crashed",
    "provider_authentication",
    "provider_invalid_model",
    "provider_invalid_response",
    "provider_model_not_loaded",
    "provider_rate_limit",
    "provider_unavailable",
    "structured_output_invalid",
];

/// Returns the texts of a language.
const fn language_replies(language: Locale) -> &'static LanguageReplies {
    match language {
        Locale::English => &english::REPLIES,
        Locale::German => &german::REPLIES,
        Locale::Spanish => &spanish::REPLIES,
        Locale::French => &french::REPLIES,
        Locale::Japanese => &japanese::REPLIES,
        Locale::Chinese => &chinese::REPLIES,
    }
}

/// The three texts of the buckets: session_terminating, retryable_transient, user_correctable.
pub(super) fn bucket_texts(language: Locale) -> [&'static str; 3] {
    language_replies(language).of_buckets
}

/// Returns the texts of all categories that have one of their own in a language: the listed ones, and the plain one for
/// those of which the message is not the cause.
pub(super) fn category_texts(language: Locale) -> impl Iterator<Item = (&'static str, &'static str)> {
    let replies = language_replies(language);
    let listed = OWN_CATEGORIES.into_iter().zip(replies.of_categories);
    list_other_causes().map(|category| (category, replies.not_the_message)).chain(listed)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use singletree_session::{BucketTable, FailureBucket, HarnessSurface};

    /// How each language says that a failure may pass.
    const AGAIN: [&str; 6] = [
        "in a moment",
        "gleich noch einmal",
        "en un momento",
        "dans un instant",
        "しばらくしてから",
        "稍后再试",
    ];

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
                let again = AGAIN.iter().any(|again| text.contains(again));
                assert_eq!(again, bucket == FailureBucket::RetryableTransient, "{category}: {text}");
                let blames_message = bucket_texts(language)[2].split("{diagnostic}").nth(1).unwrap();
                assert!(!text.ends_with(blames_message), "{category}: {text}");
            }
        }
    }

    #[test]
    fn every_language_has_texts_of_its_own() {
        let all = |language| {
            let texts = category_texts(language).map(|(_, text)| text).chain(bucket_texts(language));
            texts.collect::<BTreeSet<_>>()
        };
        for language in Locale::ALL {
            for other in Locale::ALL.into_iter().filter(|other| *other != language) {
                assert!(all(language).is_disjoint(&all(other)), "{language} and {other}");
            }
        }
    }
}
