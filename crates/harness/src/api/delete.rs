//! Deleting a session (D25).

use std::sync::Arc;

use singletree_session::{DeletionRefusal, QueuedTurn, QueuedWork, apply};

use crate::api::chat::Chat;
use crate::api::chat_session::Session;
use crate::dispatch::waits;
use crate::runtime::loaded_session::{HeldTurn, LoadedSession};
use crate::runtime::narrator::forget_narration;
use crate::{Error, Result};

impl Session {
    /// Deletes a session: its turns and its wait are cancelled, everything of it is removed in one transaction, and one
    /// audit row without content stays (D25), beside the next free numbers of the session: no id of a turn, an event or
    /// a message is ever given again under its name. Deleting again succeeds and changes nothing; a later send starts a
    /// new session.
    ///
    /// Callers that wait for a turn get the outcome "cancelled". A stream that has delivered events of the session ends
    /// with `chat_session_unknown`. Forks of the session stay, with the history that they inherited.
    ///
    /// # Errors
    /// `harness_session_id_unresolved`, `chat_session_reserved`, `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// Dropping the future cancels nothing: the session is deleted all the same.
    pub async fn delete(&self, by: Option<&str>) -> Result<()> {
        self.chat.check_not_reserved(&self.id)?;
        let loaded = self.chat.inner.session_in_memory(&self.chat.session_key(&self.id)?)?;
        let (chat, by) = (self.chat.clone(), by.map(str::to_owned));
        self.chat
            .inner
            .run_call_in_task(async move { chat.cancel_and_delete(&loaded, by.as_deref()).await })
            .await
    }
}

impl Chat {
    async fn cancel_and_delete(&self, loaded: &Arc<LoadedSession>, by: Option<&str>) -> Result<()> {
        self.inner.ensure_session_ready(loaded).await?;
        loop {
            let held = self.cancel_all_turns(loaded).await?;
            self.inner.pause_if_due("deletion_begins").await;
            // Before as well as after: a crash in between leaves a session without narration, never the narration of a
            // deleted session.
            forget_narration(self.inner.narration.as_ref(), &loaded.key);
            let deleted = self.commit_deletion(loaded, by).await;
            drop(held);
            match deleted {
                // A message was accepted before the deletion took its place: it belongs to the session, and goes with
                // it.
                Ok(false) => {}
                other => {
                    forget_narration(self.inner.narration.as_ref(), &loaded.key);
                    self.inner.wake_queue(loaded);
                    return other.map(drop);
                }
            }
        }
    }

    /// Cancels queued and running turns, and takes the session's turn.
    async fn cancel_all_turns(&self, loaded: &Arc<LoadedSession>) -> Result<HeldTurn> {
        loop {
            let freed = loaded.freed.notified();
            let next = loaded.lock_state().take_next_accepted();
            match next {
                Some(QueuedTurn { work: QueuedWork::Answer(_), handle }) => {
                    let why = "the session was deleted".into();
                    handle.settle_answer(Err(Error::Correlation { why }));
                    continue;
                }
                Some(queued) => {
                    self.cancel_queued_turn(loaded, queued).await?;
                    continue;
                }
                None => {}
            }
            let is_free = loaded.lock_state().is_queue_settled();
            if let Some(held) = is_free.then(|| loaded.try_hold_turn()).flatten() {
                return Ok(held);
            }
            if let Some(running) = loaded.lock_state().running_turn() {
                running.handle.cancel.notify_one();
            }
            // Also waits while a message is being accepted or a queued turn is being cancelled: these decisions come
            // first.
            freed.await;
        }
    }

    /// Deletes the session, whose turn was taken; returns false when a turn is queued in it again.
    async fn commit_deletion(&self, loaded: &Arc<LoadedSession>, by: Option<&str>) -> Result<bool> {
        // Callers that wait for the end of the wait are answered before the deletion.
        waits::close_wait(&self.inner, loaded, waits::WaitEndReason::Cancelled).await?;
        self.inner.ensure_loaded(loaded).await?;
        let keeps_blobs = self.inner.blobs.is_some();
        let decided = self.inner.commit_decision(loaded, |state, writing| {
            apply::delete::delete_session(state, writing, keeps_blobs, by)
        });
        let (began, commit) = match decided {
            Ok(decided) => decided,
            Err(refusal) => return Ok(refusal == DeletionRefusal::Absent),
        };
        self.inner.await_commit(loaded, commit).await?;
        if began {
            // Ends the streams of listeners, after all earlier events.
            loaded.feed.close_channel();
        }
        Ok(true)
    }
}
