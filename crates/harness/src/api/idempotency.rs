//! Idempotency keys: which turn answers a message that is sent again under its key (D3).
//!
//! A turn keeps its key when it fails. If the failure is safe to retry, the message may be sent again: its new turn takes
//! the key over, unless a retry of the failed turn (D29) has answered the message or may still answer it.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use singletree_durable::{JsonDocument, TurnRow, TurnRowQuery};
use singletree_session::{ReusableKey, StoredOutcome, TurnPromptPolicy};

use crate::api::chat::Chat;
use crate::api::send_options::SendOptions;
use crate::api::submit::accept_failed_error;
use crate::api::turn::Turn;
use crate::runtime::loaded_session::{LoadedSession, TurnHandle};
use crate::{Error, Result};

/// Whether a turn answers the message of an idempotency key.
pub(crate) enum KeyedTurn {
    Found(Box<Turn>),
    /// No turn does, so the message may be accepted. Its turn takes the key over if a failed turn has it.
    Free(Option<ReusableKey>),
}

/// Whether a turn, or a retry of it, answers the message of a key.
enum FollowedTurn {
    /// This turn answers it, or has failed in a way that nobody may repeat.
    Stands(Box<TurnRow>),
    MayBeSentAgain(ReusableKey),
    /// The next turn of the session is being accepted, and may be the retry.
    Undecided(Arc<TurnHandle>),
}

impl Chat {
    /// Checks the idempotency key, and digests the request: for a retry the turn, for a message its body and options.
    pub(crate) fn digest_idempotency_key(
        &self,
        body: &JsonDocument,
        options: &SendOptions,
    ) -> Result<Option<(String, String)>> {
        let max = self.inner.limits.key_bytes;
        match (&options.key, &options.retries) {
            (None, _) => Ok(None),
            (Some(key), _) if key.is_empty() || key.len() > max => {
                let why = format!("must have 1 to {max} bytes");
                Err(Error::Idempotency { key: String::new(), why })
            }
            (Some(key), Some(turn)) => {
                let retried = JsonDocument::from_text(format!("retry {turn}"));
                Ok(Some((key.clone(), digest_request(&retried, &SendOptions::default()))))
            }
            (Some(key), None) => Ok(Some((key.clone(), digest_request(body, options)))),
        }
    }

    /// Finds the turn that an earlier call with the key of these options began, for a retry.
    pub(crate) async fn find_keyed_retry(
        &self,
        loaded: &LoadedSession,
        options: &SendOptions,
    ) -> Result<KeyedTurn> {
        let key = self.digest_idempotency_key(&JsonDocument::from_text("null"), options)?;
        self.find_keyed_turn(loaded, key.as_ref()).await
    }

    /// Finds the turn that answers the message of this idempotency key (D3).
    pub(crate) async fn find_keyed_turn(
        &self,
        loaded: &LoadedSession,
        keyed: Option<&(String, String)>,
    ) -> Result<KeyedTurn> {
        let Some((key, digest)) = keyed else { return Ok(KeyedTurn::Free(None)) };
        let conflict =
            || Error::Idempotency { key: key.clone(), why: "was used with another message".into() };
        loop {
            let held = loaded.lock_state().find_turn_by_key(key);
            if let Some(handle) = held {
                let same = handle.key.as_ref().is_some_and(|(_, held)| held == digest);
                let (id, told) = (handle.assigned_turn_id(), handle.subscribe_outcome());
                if !handle.wait_for_acceptance().await {
                    // It was not accepted: the key is free.
                    continue;
                }
                let id = id.filter(|_| same).ok_or_else(conflict)?;
                let turn = Turn::with_outcome_receiver(self.clone(), loaded.key.clone(), id, told);
                return Ok(KeyedTurn::Found(Box::new(turn)));
            }
            let Some(holder) = self.read_key_holder(loaded, key).await? else {
                return Ok(KeyedTurn::Free(None));
            };
            match self.follow_retries(loaded, &holder).await? {
                FollowedTurn::Stands(_) if holder.digest.as_ref() != Some(digest) => return Err(conflict()),
                FollowedTurn::Stands(row) => {
                    let turn = self.turn_from_row(loaded.key.clone(), *row).await;
                    return turn.map(|turn| KeyedTurn::Found(Box::new(turn))).map_err(accept_failed_error);
                }
                FollowedTurn::MayBeSentAgain(reusable) => return Ok(KeyedTurn::Free(Some(reusable))),
                // A retry that is on its way to the store decides it.
                FollowedTurn::Undecided(handle) => drop(handle.wait_for_acceptance().await),
            }
        }
    }

    async fn read_key_holder(&self, loaded: &LoadedSession, key: &str) -> Result<Option<TurnRow>> {
        let query = TurnRowQuery::Key(key.to_owned());
        let rows = self.inner.await_store_read(self.inner.journal.read_turns(&loaded.key, &query)).await;
        Ok(rows.map_err(accept_failed_error)?.into_iter().next())
    }

    /// Follows a turn through its retries, while a message of its key could be sent again (D3).
    async fn follow_retries(&self, loaded: &LoadedSession, holder: &TurnRow) -> Result<FollowedTurn> {
        let mut row = holder.clone();
        loop {
            let recorded = StoredOutcome::from_turn_row(&row)?.map(|it| it.recorded);
            if !recorded.is_some_and(|recorded| recorded.permits_resend()) {
                return Ok(FollowedTurn::Stands(Box::new(row)));
            }
            // A turn is retried while it is the newest one: its retry has the next number.
            let next = row.no + 1;
            let query = TurnRowQuery::From { no: next, limit: 1 };
            let rows = self.inner.await_store_read(self.inner.journal.read_turns(&loaded.key, &query)).await;
            let reusable = ReusableKey { holder: holder.no, newest: None };
            match rows.map_err(accept_failed_error)?.into_iter().next() {
                Some(later) if later.retries == Some(row.no) => row = later,
                Some(_) => return Ok(FollowedTurn::MayBeSentAgain(reusable)),
                None => {
                    return Ok(match loaded.lock_state().find_turn_by_number(next) {
                        Some(handle) => FollowedTurn::Undecided(handle),
                        None => {
                            FollowedTurn::MayBeSentAgain(ReusableKey { newest: Some(row.no), ..reusable })
                        }
                    });
                }
            }
        }
    }
}

/// Digests the request that an idempotency key identifies.
fn digest_request(body: &JsonDocument, options: &SendOptions) -> String {
    let mut hash = Sha256::new();
    hash.update(body.as_str());
    hash.update([0]);
    hash.update(options.agent.as_deref().unwrap_or_default());
    // The policy of conversations was never part of the digest.
    if let Some(policy) = options.policy.filter(|policy| *policy != TurnPromptPolicy::Conversation) {
        hash.update([0]);
        hash.update(policy.as_str());
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
