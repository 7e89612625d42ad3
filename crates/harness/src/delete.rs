//! Deleting a session (D25).

use std::sync::Arc;

use singletree_durable::{AuditRow, RowMutation};

use crate::chat::Chat;
use crate::hot::{HeldTurn, LoadedSession, LoadedState, QueuedTurn, QueuedWork};
use crate::narrator::forget;
use crate::{Error, Result, waits};

impl Chat {
    /// Deletes a session: its turns and its wait are cancelled, everything of it is removed in one transaction, and one
    /// audit row without content stays (D25), beside the next free numbers of the session: no id of a turn, an event or
    /// a message is ever given again under its name. Deleting again succeeds and changes nothing; a later send starts a
    /// new session.
    ///
    /// Callers that wait for a turn get the outcome "cancelled". A stream that has delivered events of the session ends
    /// with `chat_session_unknown`. Forks of the session stay, with the history that they inherited.
    ///
    /// # Errors
    /// `harness_session_id_unresolved`, `store_unavailable` and its kin.
    ///
    /// # Cancellation
    /// Dropping the future cancels nothing: the session is deleted all the same.
    pub async fn delete_session(&self, session_id: &str, by: Option<&str>) -> Result<()> {
        let hot = self.house.hot(&self.key(session_id)?)?;
        let (chat, by) = (self.clone(), by.map(str::to_owned));
        self.house.run_call(async move { chat.delete_all(&hot, by.as_deref()).await }).await
    }

    async fn delete_all(&self, hot: &Arc<LoadedSession>, by: Option<&str>) -> Result<()> {
        self.house.ready(hot).await?;
        loop {
            let held = self.cancel_all(hot).await?;
            // Before as well as after: a crash in between leaves a session without narration, never the narration of a
            // deleted session.
            forget(self.house.narration.as_ref(), &hot.key);
            let deleted = self.delete(hot, by).await;
            drop(held);
            match deleted {
                // A message was accepted before the deletion took its place: it belongs to the session, and goes with
                // it.
                Ok(false) => {}
                other => {
                    forget(self.house.narration.as_ref(), &hot.key);
                    self.house.kick(hot);
                    return other.map(drop);
                }
            }
        }
    }

    /// Cancels queued and running turns, and takes the session's turn.
    async fn cancel_all(&self, hot: &Arc<LoadedSession>) -> Result<HeldTurn> {
        loop {
            let freed = hot.freed.notified();
            match next_queued(hot) {
                Some(QueuedTurn { work: QueuedWork::Answer(answering), .. }) => {
                    waits::refuse(answering, Error::Correlation { why: "the session was deleted".into() });
                    continue;
                }
                Some(queued) => {
                    self.cancel_queued(hot, queued).await?;
                    continue;
                }
                None => {}
            }
            let is_free = nothing_waits(&hot.desk());
            if let Some(held) = is_free.then(|| hot.take_turn()).flatten() {
                return Ok(held);
            }
            if let Some(running) = &hot.desk().running {
                running.ticket.cancel.notify_one();
            }
            // Also waits while a message is being accepted or a queued turn is being cancelled: these decisions come
            // first.
            freed.await;
        }
    }

    /// Deletes the session, whose turn was taken; returns false when a turn is queued in it again.
    async fn delete(&self, hot: &Arc<LoadedSession>, by: Option<&str>) -> Result<bool> {
        // Callers that wait for the end of the wait are answered before the deletion.
        waits::close(&self.house, hot, waits::WaitEndReason::Cancelled).await?;
        self.house.know(hot).await?;
        let (commit, began) = {
            let mut desk = hot.desk();
            if !desk.known || !nothing_waits(&desk) || desk.wait.is_some() {
                return Ok(false);
            }
            let began = desk.head.is_some();
            if !began && self.house.blobs.is_none() {
                return Ok(true);
            }
            let mut writing = self.house.write(hot, &desk);
            // A session that has not begun is deleted as well: blobs may be kept for it.
            writing.put(RowMutation::Delete);
            if began {
                let (at, key, by) = (writing.now, hot.key.clone(), by.map(str::to_owned));
                writing.put(RowMutation::Audit(AuditRow { at, action: "session.deleted".into(), key, by }));
            }
            let commit = self.house.send(&mut desk, writing);
            // Messages accepted from here on are committed after the deletion, in a new session. The counters continue,
            // so that no event number is used twice. Until the deletion has landed, no call reads the store and
            // restores the deleted state ([`LoadedState::in_flight`](crate::hot::LoadedState)).
            desk.changed();
            (desk.head, desk.wait) = (None, None);
            desk.hold_fields(None);
            (commit, began)
        };
        self.house.land(hot, commit).await?;
        if began {
            // Ends the streams of listeners, after all earlier events.
            hot.feed.end();
        }
        Ok(true)
    }
}

fn nothing_waits(desk: &LoadedState) -> bool {
    desk.queue.is_empty() && desk.ending.is_empty()
}

/// Takes the next of the queue, to be cancelled, unless it is not durable yet.
fn next_queued(hot: &LoadedSession) -> Option<QueuedTurn> {
    let mut desk = hot.desk();
    let is_durable = |it: &QueuedTurn| !matches!(it.work, QueuedWork::Message { committed: false, .. });
    desk.queue.front().is_some_and(is_durable).then(|| desk.take_at(0)).flatten()
}
