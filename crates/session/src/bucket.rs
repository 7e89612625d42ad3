//! The three buckets of errors at the turn boundary: one table (harness §7, harness-chat §10, R6–R8, D14).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The possible reaction of a caller to an error (harness §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureBucket {
    /// The conversation cannot continue (§7.1).
    SessionTerminating,
    /// The same again may succeed (§7.2).
    RetryableTransient,
    /// The caller has to change something (§7.3).
    UserCorrectable,
}

impl FailureBucket {
    /// Returns the specification's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionTerminating => "session_terminating",
            Self::RetryableTransient => "retryable_transient",
            Self::UserCorrectable => "user_correctable",
        }
    }
}

/// Whether the table is read for the abstract harness or for chat: they differ on two categories (R6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HarnessSurface {
    /// The abstract harness.
    Base,
    /// The chat harness.
    Chat,
}

/// A bucket, and whether doing the same again is known to be safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disposition {
    /// The bucket.
    pub bucket: FailureBucket,
    /// Whether the same again does nothing twice. False for errors that are not known (R8).
    pub retry_safe: bool,
}

/// Which category is in which bucket; entries can be overridden.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketTable {
    overrides: BTreeMap<String, FailureBucket>,
}

const TERMINATING: &[&str] = &[
    "checkpoint_record_invalid",
    "checkpoint_state_migration_chain_ambiguous",
    "checkpoint_state_migration_failed",
    "checkpoint_state_migration_missing",
    "session_load_failed",
    "session_state_migration_chain_ambiguous",
    "session_state_migration_failed",
    "session_state_migration_missing",
    "state_validation_error",
    "store_corrupt",
    "chat_tenant_foreign",
    "suspension_persistence_failed",
];

const RETRYABLE: &[&str] = &[
    "chat_accept_failed",
    "chat_accept_unknown",
    "chat_mailbox_full",
    "chat_queue_full",
    "chat_sessions_full",
    "chat_shutting_down",
    "chat_subscriptions_full",
    "checkpoint_save_failed",
    "harness_signal_subscription_failed",
    "prompt_store_unavailable",
    "provider_model_not_loaded",
    "provider_rate_limit",
    "provider_rate_limited",
    "provider_timeout",
    "provider_unavailable",
    "server_quota_exceeded",
    "session_moving",
    "session_write_conflict",
    "store_commit_unknown",
    "store_displaced",
    "store_fenced",
    "store_full",
    "store_lease_lost",
    "store_unavailable",
];

const CORRECTABLE: &[&str] = &[
    "chat_agent_unknown",
    "chat_blob_refused",
    "chat_blob_too_large",
    "chat_blob_unknown",
    "chat_blobs_full",
    "chat_budget_exhausted",
    "chat_event_unknown",
    "chat_events_expired",
    "chat_idempotency_conflict",
    "chat_message_shape_invalid",
    "chat_message_unknown",
    "chat_policy_unsupported",
    "chat_retry_superseded",
    "chat_session_exists",
    "chat_session_required",
    "chat_session_reserved",
    "chat_session_suspended",
    "chat_session_unknown",
    "chat_signal_conflict",
    "chat_signal_expired",
    "chat_signal_mismatch",
    "chat_turn_abandoned",
    "chat_turn_cancelled",
    "chat_turn_crashed",
    "chat_turn_unknown",
    "harness_path_classification_ambiguous",
    "harness_signal_correlation_failed",
    "invocation_limit_exceeded",
    "prompt_file_invalid",
    "prompt_group_invalid",
    "prompt_not_found",
    "prompt_render_error",
    "provider_authentication",
    "provider_invalid_model",
    "provider_invalid_request",
    "provider_invalid_response",
    "provider_unsupported_content_block",
    "structured_output_invalid",
    "suspension_record_invalid",
    "suspension_resume_payload_invalid",
];

/// Retryable categories of which the same attempt may have had an effect already.
const UNSAFE_TO_RETRY: &[&str] = &[
    "chat_accept_unknown",
    "chat_shutting_down",
    "checkpoint_save_failed",
    "session_write_conflict",
    "store_commit_unknown",
    "store_displaced",
    "store_fenced",
    "store_full",
    "store_lease_lost",
];

impl BucketTable {
    /// Puts a category in a bucket of the application's choice.
    #[must_use]
    pub fn with_override(mut self, category: impl Into<String>, bucket: FailureBucket) -> Self {
        self.overrides.insert(category.into(), bucket);
        self
    }

    /// Returns all categories that are listed, whatever their bucket.
    pub fn listed_categories() -> impl Iterator<Item = &'static str> {
        let of_both = ["harness_session_id_unresolved", "session_save_failed"];
        let lists = [TERMINATING, RETRYABLE, CORRECTABLE].into_iter().flatten().copied();
        lists.chain(of_both)
    }

    /// Looks a category up. One that is not listed gets the text of the retryable bucket, and is never safe to retry.
    #[must_use]
    pub fn look_up_category(&self, category: &str, surface: HarnessSurface) -> Disposition {
        let listed = self.overrides.get(category).copied().or_else(|| find_listed_bucket(category, surface));
        let bucket = listed.unwrap_or(FailureBucket::RetryableTransient);
        let retry_safe =
            listed == Some(FailureBucket::RetryableTransient) && !UNSAFE_TO_RETRY.contains(&category);
        Disposition { bucket, retry_safe }
    }
}

/// Returns the categories that are listed in the bucket user_correctable.
pub fn correctable_categories() -> impl Iterator<Item = &'static str> {
    CORRECTABLE.iter().copied()
}

fn find_listed_bucket(category: &str, surface: HarnessSurface) -> Option<FailureBucket> {
    match (category, surface) {
        ("session_save_failed", HarnessSurface::Base) => Some(FailureBucket::RetryableTransient),
        ("session_save_failed", HarnessSurface::Chat) => Some(FailureBucket::SessionTerminating),
        ("harness_session_id_unresolved", HarnessSurface::Base) => Some(FailureBucket::UserCorrectable),
        ("harness_session_id_unresolved", HarnessSurface::Chat) => Some(FailureBucket::SessionTerminating),
        _ if TERMINATING.contains(&category) => Some(FailureBucket::SessionTerminating),
        _ if RETRYABLE.contains(&category) => Some(FailureBucket::RetryableTransient),
        _ if CORRECTABLE.contains(&category) => Some(FailureBucket::UserCorrectable),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: harness §7, harness-chat §10
    #[test]
    fn the_surfaces_differ_where_the_texts_do() {
        let table = BucketTable::default();
        let bucket = |category: &str, surface| table.look_up_category(category, surface).bucket;
        assert_eq!(bucket("session_save_failed", HarnessSurface::Base), FailureBucket::RetryableTransient);
        assert_eq!(bucket("session_save_failed", HarnessSurface::Chat), FailureBucket::SessionTerminating);
        assert_eq!(
            bucket("harness_session_id_unresolved", HarnessSurface::Base),
            FailureBucket::UserCorrectable
        );
        assert_eq!(
            bucket("harness_session_id_unresolved", HarnessSurface::Chat),
            FailureBucket::SessionTerminating
        );
        assert_eq!(bucket("provider_unavailable", HarnessSurface::Chat), FailureBucket::RetryableTransient);
        assert_eq!(bucket("provider_authentication", HarnessSurface::Base), FailureBucket::UserCorrectable);
    }

    #[test]
    fn an_unknown_category_is_never_safe_to_retry() {
        let unknown = BucketTable::default().look_up_category("node_exception", HarnessSurface::Chat);
        assert_eq!(unknown, Disposition { bucket: FailureBucket::RetryableTransient, retry_safe: false });
        assert!(
            BucketTable::default().look_up_category("provider_rate_limit", HarnessSurface::Chat).retry_safe
        );
    }

    #[test]
    fn an_override_wins_and_no_category_is_listed_twice() {
        let table =
            BucketTable::default().with_override("provider_unavailable", FailureBucket::UserCorrectable);
        assert_eq!(
            table.look_up_category("provider_unavailable", HarnessSurface::Chat).bucket,
            FailureBucket::UserCorrectable
        );
        let all: Vec<_> = [TERMINATING, RETRYABLE, CORRECTABLE].concat();
        let unique: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), unique.len());
    }

    // Finding W8
    #[test]
    fn what_will_not_pass_by_itself_is_not_told_to_be_tried_again() {
        for category in
            ["chat_session_unknown", "chat_agent_unknown", "chat_turn_crashed", "chat_turn_abandoned"]
        {
            let expected = Disposition { bucket: FailureBucket::UserCorrectable, retry_safe: false };
            assert_eq!(
                BucketTable::default().look_up_category(category, HarnessSurface::Chat),
                expected,
                "{category}"
            );
        }
    }
}
