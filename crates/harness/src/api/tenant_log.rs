//! Reads the events of tenants from the commits of all processes, where several write the store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use singletree_durable::{CommittedChange, CommittedChanges};
use singletree_session::{TurnRowExt, event_kinds};

use crate::Error;
use crate::api::chat::Chat;
use crate::api::replay::EventReplay;
use crate::runtime::chat_inner::ChatInner;
use crate::runtime::tenant_events::{LiveTenantEventKind, SessionChange};

/// How often the commits of others are read.
const READ_EVERY: Duration = Duration::from_secs(1);

/// How long a commit of this process waits for others, so that they are read together.
const GATHERING: Duration = Duration::from_millis(20);

impl ChatInner {
    /// Reads the changes for all tenants that have readers, and goes on with that in the background. No commit after this call
    /// is missed.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn follow_tenant_log(self: &Arc<Self>) -> Result<(), Error> {
        if !self.tenant_log.is_used() {
            return Ok(());
        }
        let inner = self.clone();
        // A caller that goes away meanwhile leaves no other reader without its events.
        let read = self.tasks.run_to_completion(async move { inner.read_tenant_log().await }).await;
        self.read_tenant_log_on();
        read.unwrap_or(Err(Error::ShuttingDown))
    }

    /// Reads the log in the background, as long as a tenant is followed.
    fn read_tenant_log_on(self: &Arc<Self>) {
        if self.tenant_log.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        let (watched, timer) = (Arc::downgrade(self), self.env.timer.clone());
        let bell = self.tenant_log.bell.clone();
        self.tasks.spawn_task(async move {
            let mut tick = timer.sleep_for(READ_EVERY);
            loop {
                // Commits that never stop keep no tenant followed.
                let is_tick = tokio::select! {
                    biased;
                    () = &mut tick => true,
                    () = bell.notified() => false,
                };
                if is_tick {
                    tick = timer.sleep_for(READ_EVERY);
                } else {
                    timer.sleep_for(GATHERING).await;
                }
                let Some(inner) = watched.upgrade() else { return };
                if inner.is_closing() {
                    return inner.end_tenant_log().await;
                }
                if is_tick && !inner.tenant_events.drop_unread_tenants() {
                    inner.tenant_log.is_running.store(false, Ordering::Release);
                    inner.end_tenant_log().await;
                    // A reader may have come meanwhile, and have seen this task.
                    if !inner.tenant_events.followed_tenants().is_empty() {
                        inner.read_tenant_log_on();
                    }
                    return;
                }
                // After a failure the next one tells the readers of a gap.
                drop(inner.read_tenant_log().await);
            }
        });
    }

    /// Reads the changes since the last time, and publishes their events.
    async fn read_tenant_log(self: &Arc<Self>) -> Result<(), Error> {
        let Some(follower) = &self.tenant_log.follower else { return Ok(()) };
        let mut follower = follower.lock().await;
        loop {
            let tenants = self.tenant_events.followed_tenants();
            let read = self.await_store_read(follower.read_changes(&tenants)).await;
            let has_failed = &self.tenant_log.has_failed;
            let CommittedChanges { changes, anew, has_more } =
                read.inspect_err(|_| has_failed.store(true, Ordering::Release))?;
            // An answer that was lost may have told of a gap.
            let is_doubtful = has_failed.swap(false, Ordering::AcqRel);
            let anew = if is_doubtful { tenants.into_iter().collect() } else { anew };
            let now = self.current_time();
            for tenant in &anew {
                self.tenant_events.note_followed(tenant, now);
            }
            for change in changes {
                let tenant = change.key.tenant.clone();
                if self.publish_change(change).await.is_err() {
                    self.tenant_events.publish_gap(&tenant, now);
                }
            }
            if !has_more {
                return Ok(());
            }
        }
    }

    /// Publishes the events of a change, as the process that commits it does where it has the store alone.
    async fn publish_change(self: &Arc<Self>, change: CommittedChange) -> Result<(), Error> {
        let CommittedChange { key, created, deleted_at, events } = change;
        let (chat, mut told) = (Chat::for_tenant(self.clone(), key.tenant.clone()), Vec::new());
        let mut replay = EventReplay::new(&chat, &key);
        for row in events {
            match row.kind.as_str() {
                // Most turns end so, and nothing is told of their answers.
                event_kinds::COMPLETED => {
                    let turn = replay.read_turn_row(row.turn).await?.turn_id();
                    told.push((row.at, LiveTenantEventKind::completed_turn(turn)));
                }
                event_kinds::SUSPENDED | event_kinds::ERRORED | event_kinds::SIGNAL | event_kinds::FORKED => {
                    let event = replay.replay_event(row).await?;
                    let kinds = LiveTenantEventKind::from_chat_event(&event);
                    told.extend(kinds.into_iter().map(|kind| (event.at, kind)));
                }
                _ => {}
            }
        }
        let created = created.map(|made| SessionChange::Created { agent: made.agent, at: made.at });
        let made = created.or(deleted_at.map(|at| SessionChange::Deleted { at }));
        self.tenant_events.publish_events(&key.tenant, &key.session, made, told);
        Ok(())
    }

    /// Tells the store that no tenant is followed any more, unless a reader has come.
    async fn end_tenant_log(&self) {
        let Some(follower) = &self.tenant_log.follower else { return };
        let mut follower = follower.lock().await;
        if self.is_closing() || self.tenant_events.followed_tenants().is_empty() {
            // Where this fails, the store ends it by itself after a while.
            drop(self.await_store_read(follower.read_changes(&BTreeSet::new())).await);
        }
    }
}
