//! The texts that people are shown when a turn fails (harness-chat §10, D15).

mod texts;

use std::collections::BTreeMap;
use std::sync::Arc;

use singletree_llm::ChatMessage;
use singletree_narration::Locale;
use singletree_session::{BucketTable, ErroredTurn, FailureBucket, HarnessSurface, TurnId};

use crate::Error;

/// Takes secrets out of a text before anybody sees it (INV-16).
pub type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// The texts that end users are shown for errors: of the three buckets, and of single categories (D32). `{diagnostic}`
/// stands for the error.
///
/// The default has the specification's three texts and none of a category. Where the message is not the cause, as at a
/// wrong key of the model, it leaves "Please adjust your message" out.
#[derive(Clone)]
pub struct ErrorReplies {
    /// For conversations that cannot continue.
    pub session_terminating: String,
    /// For failures that may pass.
    pub retryable_transient: String,
    /// For errors that the user can correct.
    pub user_correctable: String,
    /// For single categories, in place of their bucket's.
    pub by_category: BTreeMap<String, String>,
    /// The redactor that every diagnostic passes.
    pub redact: Redact,
}

impl Default for ErrorReplies {
    fn default() -> Self {
        let [terminating, transient, correctable] = texts::bucket_texts(Locale::English);
        Self {
            session_terminating: terminating.into(),
            retryable_transient: transient.into(),
            user_correctable: correctable.into(),
            by_category: BTreeMap::new(),
            redact: Arc::new(str::to_owned),
        }
    }
}

impl ErrorReplies {
    /// Returns the built-in texts of a language, with one for each category about which more can be said than about its
    /// bucket.
    #[must_use]
    pub fn for_language(language: Locale) -> Self {
        let [terminating, transient, correctable] = texts::bucket_texts(language);
        let own = |(category, text): (&str, &str)| (category.to_owned(), text.to_owned());
        Self {
            session_terminating: terminating.into(),
            retryable_transient: transient.into(),
            user_correctable: correctable.into(),
            by_category: texts::category_texts(language).map(own).collect(),
            ..Self::default()
        }
    }

    /// Sets the text of a bucket, by the specification's word for it, or of a single category.
    #[must_use]
    pub fn with_text(mut self, of: &str, text: impl Into<String>) -> Self {
        let buckets = [
            (FailureBucket::SessionTerminating, &mut self.session_terminating),
            (FailureBucket::RetryableTransient, &mut self.retryable_transient),
            (FailureBucket::UserCorrectable, &mut self.user_correctable),
        ];
        match buckets.into_iter().find(|(bucket, _)| bucket.as_str() == of) {
            Some((_, place)) => *place = text.into(),
            None => drop(self.by_category.insert(of.to_owned(), text.into())),
        }
        self
    }

    /// Returns the message that people are shown for an error.
    pub(crate) fn render_reply(
        &self,
        (bucket, category): (FailureBucket, &str),
        diagnostic: &str,
    ) -> ChatMessage {
        let of_bucket = match bucket {
            FailureBucket::SessionTerminating => self.session_terminating.as_str(),
            FailureBucket::RetryableTransient => self.retryable_transient.as_str(),
            FailureBucket::UserCorrectable
                if self.user_correctable == texts::CORRECTABLE && texts::has_other_cause(category) =>
            {
                texts::NOT_THE_MESSAGE
            }
            FailureBucket::UserCorrectable => self.user_correctable.as_str(),
        };
        let template = self.by_category.get(category).map_or(of_bucket, String::as_str);
        ChatMessage::system(template.replace("{diagnostic}", diagnostic))
    }
}

impl std::fmt::Debug for ErrorReplies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ErrorReplies").finish_non_exhaustive()
    }
}

/// Maps an error to the outcome that the caller is told.
pub(crate) struct ErrorReporter<'a> {
    pub(crate) buckets: &'a BucketTable,
    pub(crate) replies: &'a ErrorReplies,
    pub(crate) diagnostic_bytes: usize,
}

impl ErrorReporter<'_> {
    /// Reports an error that no agent is asked about: with the default buckets, texts and limits.
    pub(crate) fn report_with_defaults(error: &Error) -> ErroredTurn {
        let (buckets, replies) = (BucketTable::default(), ErrorReplies::default());
        let diagnostic_bytes = singletree_session::Limits::default().diagnostic_bytes;
        ErrorReporter { buckets: &buckets, replies: &replies, diagnostic_bytes }
            .make_errored_turn(None, error)
    }

    pub(crate) fn make_errored_turn(&self, turn: Option<TurnId>, error: &Error) -> ErroredTurn {
        let category = error.category();
        let disposition = self.buckets.look_up_category(category, HarnessSurface::Chat);
        let told = (self.replies.redact)(&describe_innermost_error(error));
        let diagnostic = truncate_text(&told, self.diagnostic_bytes);
        ErroredTurn {
            turn,
            error_bucket: disposition.bucket,
            error_category: category.to_owned(),
            reply: self.replies.render_reply((disposition.bucket, category), &diagnostic),
            diagnostic,
            retry_safe: disposition.retry_safe,
            recorded: true,
            retry_after: error.retry_after(),
        }
    }
}

/// Describes the error without the frames around it: for a failed node that is the node's own error.
pub(crate) fn describe_innermost_error(error: &Error) -> String {
    match error {
        Error::Run { source: singletree_engine::Error::Node { source, .. } } => {
            singletree_engine::format_error_chain(source)
        }
        Error::Run { source } => singletree_engine::format_error_chain(source),
        other => singletree_engine::format_error_chain(other),
    }
}

/// Cuts a text at a character's border.
pub(crate) fn truncate_text(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max).rev().find(|it| text.is_char_boundary(*it)).unwrap_or(0);
    format!("{}…", &text[..end])
}

impl Error {
    /// Returns the errored outcome that the specification has for this error (harness-chat §10): for a refused message,
    /// answer or signal the one that was made for it, with the agent's texts; for other errors one with the default
    /// texts and buckets.
    #[must_use]
    pub fn into_errored_turn(self) -> Box<ErroredTurn> {
        match self {
            Self::Refused(errored) => errored,
            other => Box::new(ErrorReporter::report_with_defaults(&other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Finding U14; D32: texts by category and reader
    #[test]
    fn a_mistake_of_whoever_runs_the_agent_is_not_told_as_one_of_the_message() {
        let shown = |replies: &ErrorReplies, category: &str| {
            let bucket = BucketTable::default().look_up_category(category, HarnessSurface::Chat).bucket;
            replies.render_reply((bucket, category), "it went wrong").text().into_owned()
        };
        let plain = ErrorReplies::default();
        for (category, english, german) in [
            ("provider_authentication", "no access to its model", "keinen Zugang zu seinem Modell"),
            ("provider_invalid_model", "model is not there", "Modell des Assistenten gibt es nicht"),
            ("provider_invalid_response", "can't be used", "unbrauchbare Antwort"),
            ("chat_turn_cancelled", "Stopped", "Abgebrochen"),
            ("chat_session_unknown", "no such conversation", "Dieses Gespräch gibt es nicht"),
            ("chat_agent_unknown", "is not there", "gibt es nicht"),
            ("chat_turn_crashed", "does not try again", "versucht es nicht wieder"),
            ("chat_turn_abandoned", "Send it again", "noch einmal"),
        ] {
            // The library's own texts are those of the buckets (harness-chat §10), without advice that does not fit.
            assert_eq!(shown(&plain, category), "That request couldn't be processed: it went wrong.");
            for (language, word) in [(Locale::English, english), (Locale::German, german)] {
                let text = shown(&ErrorReplies::for_language(language), category);
                assert!(text.contains(word) && text.contains("it went wrong"), "{category}: {text}");
            }
        }
        let adjust =
            "That request couldn't be processed: it went wrong. Please adjust your message and try again.";
        assert_eq!(shown(&plain, "chat_message_shape_invalid"), adjust);
        let own = ErrorReplies::for_language(Locale::German)
            .with_text("provider_rate_limit", "Kurz warten.")
            .with_text("user_correctable", "So nicht.");
        assert_eq!(shown(&own, "provider_rate_limit"), "Kurz warten.");
        assert_eq!(shown(&own, "chat_message_shape_invalid"), "So nicht.");
    }

    // spec: harness-chat §10, D15, INV-16
    #[test]
    fn a_diagnostic_is_redacted_and_cut_at_a_character() {
        let replies =
            ErrorReplies { redact: Arc::new(|it| it.replace("hunter2", "***")), ..ErrorReplies::default() };
        let reporting =
            ErrorReporter { buckets: &BucketTable::default(), replies: &replies, diagnostic_bytes: 44 };
        let error = Error::MessageShape { why: "hunter2 ééééééééééééé".into() };
        let errored = reporting.make_errored_turn(None, &error);
        assert_eq!(errored.diagnostic, "the message is not valid: *** ééééééé…");
        assert_eq!(errored.error_category, "chat_message_shape_invalid");
        let text = errored.reply.text().into_owned();
        assert!(
            text.starts_with("That request couldn't be processed: the message is not valid: ***"),
            "{text}"
        );
    }
}
