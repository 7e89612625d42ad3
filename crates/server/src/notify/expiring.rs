//! Writes notices of deadlines that are near.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use singletree_durable::{
    DocumentChange, DocumentKey, DocumentPrecondition, Error as StoreError, JsonDocument, TenantId, Timestamp,
};
use singletree_harness::{Notice, NoticeType, PendingWait};
use tokio::sync::{Notify, watch};

use super::courier::WebhookDispatcher;
use super::post::WebhookDispatchers;
use crate::shared::ServerState;

/// The kind of the documents that say of which waits it was told already.
const KIND: &str = "warned";
/// How long such a document outlives the deadline.
const KEPT: Duration = Duration::from_hours(24);
/// How often deadlines are looked at, whatever was heard.
const EVERY: Duration = Duration::from_secs(30);
/// How many are read at first.
const PAGE: u64 = 256;
/// How many are read at most.
const PAGE_MAX: u64 = 1 << 16;

/// Watches the deadlines of the tenants that want to hear of them.
pub(super) struct WaitExpiryWatcher {
    pub(super) shared: Arc<ServerState>,
    pub(super) couriers: Arc<WebhookDispatchers>,
    /// Rung when a wait with a deadline has begun.
    pub(super) bell: Arc<Notify>,
}

impl WaitExpiryWatcher {
    /// Writes notices until it is to stop.
    pub(super) async fn watch_until_stopped(self, mut stop: watch::Receiver<bool>) {
        let wants = |it: &&Arc<WebhookDispatcher>| it.webhook.types.contains(&NoticeType::Expiring);
        let Some(lead) = self.couriers.values().filter(wants).map(|courier| courier.webhook.lead).max()
        else {
            return;
        };
        let mut warned = BTreeSet::new();
        while !*stop.borrow_and_update() {
            // After a failure the next look tries again.
            let next = self.write_due_notices(lead, &mut warned).await.unwrap_or(EVERY);
            tokio::select! {
                biased;
                _ = stop.changed() => {}
                () = self.bell.notified() => {}
                () = self.shared.pace.sleep_for(next.min(EVERY)) => {}
            }
        }
    }

    /// Writes the notices that are due now; returns the time until the next look.
    async fn write_due_notices(
        &self,
        lead: Duration,
        warned: &mut BTreeSet<String>,
    ) -> singletree_harness::Result<Duration> {
        let now = self.shared.now();
        // Also those that come before the next look.
        let near = self.read_near_deadlines(now.saturating_add(lead).saturating_add(EVERY)).await?;
        let (mut next, mut still) = (EVERY, BTreeSet::new());
        for (tenant, pending) in &near {
            let courier = self
                .couriers
                .get(tenant)
                .filter(|courier| courier.webhook.types.contains(&NoticeType::Expiring));
            let (Some(courier), Some(deadline)) = (courier, pending.wait.deadline) else { continue };
            let due = notice_due_time(pending, deadline, courier.webhook.lead);
            if now < due {
                next = next.min(due.duration_since(now));
                continue;
            }
            let name = format!("{}/{}", pending.session, pending.wait.no);
            let id = format!("{}:{tenant}/{name}", tenant.as_str().len());
            if !warned.contains(&id) && deadline > now {
                self.write_expiry_notice((tenant, &name), pending, deadline, courier).await?;
            }
            still.insert(id);
        }
        *warned = still;
        Ok(next)
    }

    /// Reads the deadlines until then, all of them.
    async fn read_near_deadlines(
        &self,
        until: Timestamp,
    ) -> singletree_harness::Result<Vec<(TenantId, PendingWait)>> {
        let mut limit = PAGE;
        loop {
            let near = self.shared.chat.deadlines(Some(until), limit).await?;
            if (near.len() as u64) < limit || limit >= PAGE_MAX {
                return Ok(near);
            }
            limit *= 4;
        }
    }

    /// Writes the notice, and that it was written, if that was not done before.
    async fn write_expiry_notice(
        &self,
        (tenant, name): (&TenantId, &str),
        pending: &PendingWait,
        deadline: Timestamp,
        courier: &WebhookDispatcher,
    ) -> singletree_harness::Result<()> {
        let (chat, now) = (&self.shared.chat, self.shared.now());
        let Some(notice) = Notice::for_expiring_wait(tenant.clone(), pending, chat.log_epoch(), now) else {
            return Ok(());
        };
        let session = Some(notice.session.clone());
        let warned = DocumentChange::Write {
            key: DocumentKey::new(tenant.clone(), KIND, name),
            expect: DocumentPrecondition::Absent,
            session: session.clone(),
            body: JsonDocument::from_text("null"),
            expires_at: Some(deadline.saturating_add(KEPT)),
        };
        let written = DocumentChange::Write {
            key: notice.document_key(),
            expect: DocumentPrecondition::Any,
            session,
            body: notice.to_document_body()?,
            expires_at: Some(notice.kept_until()),
        };
        match self.shared.documents.change_documents(vec![warned, written]).await {
            Ok(()) => courier.queue_notice(Arc::new(notice)),
            Err(StoreError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Returns when to write the notice of a near deadline: `lead` before the deadline, or when half of the wait's time has
/// passed, whichever is later. A short wait is therefore not followed by a notice at once.
fn notice_due_time(pending: &PendingWait, deadline: Timestamp, lead: Duration) -> Timestamp {
    let before = deadline.duration_since(pending.since).saturating_sub(lead);
    let half = deadline.duration_since(pending.since) / 2;
    pending.since.saturating_add(before.max(half))
}
