//! What people are shown when a turn fails (harness-chat §10, D15).

use std::sync::Arc;

use singletree_llm::ChatMessage;

use crate::Error;
use crate::bucket::{Bucket, BucketTable, Surface};
use crate::outcome::ErroredTurn;
use crate::turn_id::TurnId;

/// Takes secrets out of a text before anybody sees it (INV-16).
pub type Redact = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// The texts of the three buckets. `{diagnostic}` stands for what went wrong.
#[derive(Clone)]
pub struct Replies {
    /// For conversations that cannot continue.
    pub session_terminating: String,
    /// For failures that may pass.
    pub retryable_transient: String,
    /// For what the user can mend.
    pub user_correctable: String,
    /// The redactor that every diagnostic passes.
    pub redact: Redact,
}

impl Default for Replies {
    fn default() -> Self {
        Self {
            session_terminating: "This conversation can't continue. Please start a new one.".into(),
            retryable_transient: "I had trouble responding. Try again in a moment.".into(),
            user_correctable:
                "That request couldn't be processed: {diagnostic}. Please adjust your message and try \
                               again."
                    .into(),
            redact: Arc::new(str::to_owned),
        }
    }
}

impl Replies {
    /// Returns what people are shown of an error in a bucket.
    pub(crate) fn shown(&self, bucket: Bucket, diagnostic: &str) -> ChatMessage {
        let template = match bucket {
            Bucket::SessionTerminating => &self.session_terminating,
            Bucket::RetryableTransient => &self.retryable_transient,
            Bucket::UserCorrectable => &self.user_correctable,
        };
        ChatMessage::system(template.replace("{diagnostic}", diagnostic))
    }
}

impl std::fmt::Debug for Replies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replies").finish_non_exhaustive()
    }
}

/// Maps an error to what the caller is told.
pub(crate) struct Reporting<'a> {
    pub(crate) buckets: &'a BucketTable,
    pub(crate) replies: &'a Replies,
    pub(crate) diagnostic_bytes: usize,
}

impl Reporting<'_> {
    pub(crate) fn errored(&self, turn: Option<TurnId>, error: &Error) -> ErroredTurn {
        let category = error.category();
        let disposition = self.buckets.look_up(category, Surface::Chat);
        let told = (self.replies.redact)(&innermost(error));
        let diagnostic = cut(&told, self.diagnostic_bytes);
        ErroredTurn {
            turn,
            error_bucket: disposition.bucket,
            error_category: category.to_owned(),
            reply: self.replies.shown(disposition.bucket, &diagnostic),
            diagnostic,
            retry_safe: disposition.retry_safe,
            recorded: true,
            retry_after: error.retry_after(),
        }
    }
}

/// Writes what went wrong without the frames around it: for a failed node that is the node's own error.
pub(crate) fn innermost(error: &Error) -> String {
    match error {
        Error::Run { source: singletree_engine::Error::Node { source, .. } } => {
            singletree_engine::chain(source)
        }
        Error::Run { source } => singletree_engine::chain(source),
        other => singletree_engine::chain(other),
    }
}

/// Cuts a text at a character's border.
pub(crate) fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max).rev().find(|it| text.is_char_boundary(*it)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: harness-chat §10, D15, INV-16
    #[test]
    fn a_diagnostic_is_redacted_and_cut_at_a_character() {
        let replies = Replies { redact: Arc::new(|it| it.replace("hunter2", "***")), ..Replies::default() };
        let reporting =
            Reporting { buckets: &BucketTable::default(), replies: &replies, diagnostic_bytes: 44 };
        let error = Error::MessageShape { why: "hunter2 ééééééééééééé".into() };
        let errored = reporting.errored(None, &error);
        assert_eq!(errored.diagnostic, "the message is not valid: *** ééééééé…");
        assert_eq!(errored.error_category, "chat_message_shape_invalid");
        let text = errored.reply.text().into_owned();
        assert!(
            text.starts_with("That request couldn't be processed: the message is not valid: ***"),
            "{text}"
        );
    }
}
