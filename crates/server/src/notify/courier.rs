//! Tells the notices of one tenant at its endpoint, a few at a time, until each was taken or is too old.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use singletree_durable::{DocumentChange, DocumentPrecondition, Timestamp};
use singletree_harness::{Notice, NoticeKind};
use singletree_http::{
    HttpClient, HttpLimits, HttpRequest, HttpResponse, Method, Transport, is_this_machine, retry_after,
};
use tokio::sync::{Notify, watch};

use super::claim::NoticeClaims;
use super::message::WebhookMessage;
use super::queue::{NoticeOutcome, NoticeQueue, QueuedNotice, longest_pause};
use super::sign;
use super::webhook::Webhook;
use crate::shared::ServerState;
use crate::telemetry::{DeliveryAttempt, DeliveryEnd};
use crate::{Error, Result};

/// How many are on their way at once.
const AT_ONCE: usize = 4;
/// How many are in memory.
const QUEUED: usize = 10_000;
/// How many are read at once.
const PAGE: u64 = 256;
/// How long it takes until the store is looked at again, whatever was heard.
const LOOK_AGAIN: Duration = Duration::from_mins(5);
/// The same, where other servers have the same database: one that dies leaves notices there, and nobody hears of them.
const LOOK_AFTER_OTHERS: Duration = Duration::from_secs(15);
/// How long to wait before a store that failed is asked again.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// An endpoint with its HTTP client.
#[derive(Debug, Clone)]
pub(crate) struct WebhookEndpoint {
    pub(super) webhook: Webhook,
    transport: Arc<dyn Transport>,
}

impl WebhookEndpoint {
    /// Makes an endpoint that is called through another client than its own.
    pub(super) fn with_transport(webhook: Webhook, transport: Arc<dyn Transport>) -> Self {
        Self { webhook, transport }
    }

    /// Creates the HTTP client of an endpoint.
    ///
    /// # Errors
    /// `server_webhook_invalid` when no client can be made.
    pub(super) fn from_webhook(webhook: Webhook) -> Result<Self> {
        let time = webhook.patience;
        let limits = HttpLimits { connect: time, head: time, idle: time, ..HttpLimits::fetching() };
        let anywhere = webhook.private || is_this_machine(&webhook.url).unwrap_or(false);
        let client = if anywhere { HttpClient::new(limits) } else { HttpClient::public_only(limits) };
        let client = client.map_err(|error| {
            let (tenant, why) = (webhook.tenant.to_string(), error.to_string());
            Error::Webhook { tenant, why }
        })?;
        Ok(Self { webhook, transport: Arc::new(client) })
    }
}

/// Tells the notices of one tenant.
#[derive(Debug)]
pub(super) struct WebhookDispatcher {
    pub(super) webhook: Webhook,
    shared: Arc<ServerState>,
    transport: Arc<dyn Transport>,
    queue: Mutex<NoticeQueue>,
    /// Rung when there is something new.
    bell: Notify,
    /// Where other servers have the same database.
    claims: Option<NoticeClaims>,
}

/// The result of sending a notice to its endpoint.
enum WebhookSendOutcome {
    Taken,
    /// It wants no more of this one.
    Unwanted,
    Refused,
    Away(Option<Duration>),
}

/// The response of an endpoint.
#[derive(Debug, Clone, Copy)]
enum WebhookResponse {
    Status(u16),
    /// Nothing, for a reason of this category.
    None(&'static str),
}

impl WebhookDispatcher {
    /// Makes the courier of an endpoint.
    pub(super) fn new(endpoint: WebhookEndpoint, shared: Arc<ServerState>) -> Self {
        let WebhookEndpoint { webhook, transport } = endpoint;
        let (queue, bell) = (Mutex::new(NoticeQueue::new(QUEUED)), Notify::new());
        let claims = shared.is_store_shared.then(|| NoticeClaims::new(shared.ids.generate_uuid()));
        Self { webhook, shared, transport, queue, bell, claims }
    }

    /// Takes a notice that was just written.
    pub(super) fn queue_notice(&self, notice: Arc<Notice>) {
        if self.webhook.types.contains(&notice.what.notice_type()) {
            self.lock_queue().add_notice(notice, self.shared.now());
            self.bell.notify_one();
        }
    }

    /// Makes the run loop read notices from the store that were missed.
    pub(super) fn schedule_store_read(&self) {
        self.lock_queue().mark_notices_missed();
        self.bell.notify_one();
    }

    /// Tells notices until it is to stop; then those that are on their way arrive or not.
    pub(super) async fn deliver_until_stopped(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut going = FuturesUnordered::new();
        let mut looked = self.shared.now();
        let look_again = if self.claims.is_some() { LOOK_AFTER_OTHERS } else { LOOK_AGAIN };
        while !*stop.borrow_and_update() {
            let now = self.shared.now();
            if now.duration_since(looked) >= look_again {
                self.lock_queue().mark_notices_missed();
            }
            let mut pause = look_again;
            if self.lock_queue().needs_store_read() {
                looked = now;
                if self.read_stored_notices().await.is_err() {
                    self.lock_queue().mark_notices_missed();
                    pause = READ_AGAIN;
                }
            }
            while going.len() < AT_ONCE
                && let Some(task) = self.lock_queue().take_ready_notice(now)
            {
                going.push(self.deliver_notice(task));
            }
            if going.len() < AT_ONCE {
                pause = self.lock_queue().time_until_due(now).map_or(pause, |wait| wait.min(pause));
            }
            tokio::select! {
                biased;
                _ = stop.changed() => {}
                Some((notice, settled)) = going.next() => self.settle_notice(&notice, settled),
                () = self.bell.notified() => {}
                () = self.shared.pace.sleep_for(pause) => {}
            }
        }
        while let Some((notice, settled)) = going.next().await {
            self.settle_notice(&notice, settled);
        }
    }

    fn lock_queue(&self) -> MutexGuard<'_, NoticeQueue> {
        // Guards a value that is whole between any two of its own calls.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle_notice(&self, notice: &Notice, settled: NoticeOutcome) {
        self.lock_queue().settle_notice(notice, settled, self.shared.now());
    }

    /// Reads the stored notices, until the queue is full.
    async fn read_stored_notices(&self) -> singletree_harness::Result<()> {
        self.lock_queue().begin_store_read();
        let known = self.lock_queue().queued_places();
        let mut past: Option<String> = None;
        loop {
            let (tenant, kind) = (&self.webhook.tenant, Notice::KIND);
            let page = self.shared.documents.read_documents(tenant, kind, past.as_deref(), PAGE).await?;
            let now = self.shared.now();
            for document in page.iter().filter(|it| !known.contains(&it.key.id)) {
                match Notice::from_document(document) {
                    Ok(notice) if self.webhook.types.contains(&notice.what.notice_type()) => {
                        self.lock_queue().add_notice(Arc::new(notice), now);
                    }
                    // Of a type that nobody wants any more, or written by another version: its time will be over.
                    Ok(_) | Err(_) => {}
                }
            }
            match page.into_iter().next_back() {
                Some(last) if !self.lock_queue().is_full() => past = Some(last.key.id),
                Some(_) => {
                    self.lock_queue().mark_notices_missed();
                    return Ok(());
                }
                None => return Ok(()),
            }
        }
    }

    /// Tells a notice, and removes it once it is told.
    async fn deliver_notice(&self, task: QueuedNotice) -> (Arc<Notice>, NoticeOutcome) {
        let QueuedNotice { notice, told, attempt } = task;
        let settled = if told {
            self.remove_notice(&notice).await
        } else {
            self.attempt_delivery(&notice, attempt).await
        };
        (notice, settled)
    }

    async fn attempt_delivery(&self, notice: &Notice, attempt: u32) -> NoticeOutcome {
        let now = self.shared.now();
        let told = |end: DeliveryEnd, answer: Option<WebhookResponse>| {
            let (status, category) = match answer {
                Some(WebhookResponse::Status(it)) => (Some(it), None),
                Some(WebhookResponse::None(it)) => (None, Some(it)),
                None => (None, None),
            };
            let (tenant, notice) = (notice.tenant.as_str(), notice.id.as_str());
            let tried = DeliveryAttempt { tenant, notice, attempt, end, status, category };
            self.shared.telemetry.record_delivery(&tried, now);
        };
        if now.duration_since(notice.at) > self.webhook.give_up {
            told(DeliveryEnd::GivenUp, None);
            return self.remove_notice(notice).await;
        }
        match self.is_still_relevant(notice, now).await {
            Ok(true) => {}
            Ok(false) => return self.remove_obsolete_notice(notice).await,
            Err(_) => return NoticeOutcome::Unread,
        }
        if let Some(claims) = &self.claims {
            let again = now.saturating_add(self.webhook.patience).saturating_add(longest_pause(attempt));
            let documents = self.shared.documents.as_ref();
            let claimed = claims.claim_notice(documents, notice, (now, again)).await;
            // Another server sends it: then it is gone when it is looked at again.
            if !claimed.unwrap_or(false) {
                return NoticeOutcome::Unread;
            }
        }
        let (sent, answer) = self.send_webhook_request(notice, now).await;
        told(sent.delivery_end(), Some(answer));
        match sent {
            WebhookSendOutcome::Taken | WebhookSendOutcome::Unwanted => self.remove_notice(notice).await,
            WebhookSendOutcome::Refused => NoticeOutcome::Refused,
            WebhookSendOutcome::Away(asked) => NoticeOutcome::Away(asked),
        }
    }

    /// Tells whether there is still something to tell: the session may be gone, and a wait may have ended.
    async fn is_still_relevant(&self, notice: &Notice, now: Timestamp) -> singletree_harness::Result<bool> {
        if self.shared.documents.read_document(&notice.document_key()).await?.is_none() {
            return Ok(false);
        }
        let NoticeKind::Expiring(awaited) = &notice.what else { return Ok(true) };
        let chat = self.shared.chat_of_tenant(notice.tenant.clone());
        let pending = chat.session(notice.session.as_str()).pending().await?;
        let waits = pending.iter().any(|it| it.wait.no == awaited.wait);
        Ok(waits && awaited.deadline.is_some_and(|deadline| deadline > now))
    }

    async fn remove_notice(&self, notice: &Notice) -> NoticeOutcome {
        let remove = DocumentChange::Remove { key: notice.document_key(), expect: DocumentPrecondition::Any };
        match self.shared.documents.change_documents(vec![remove]).await {
            Ok(()) => NoticeOutcome::Over,
            Err(_) => NoticeOutcome::Told,
        }
    }

    async fn remove_obsolete_notice(&self, notice: &Notice) -> NoticeOutcome {
        match self.remove_notice(notice).await {
            NoticeOutcome::Over => NoticeOutcome::Gone,
            other => other,
        }
    }

    async fn send_webhook_request(
        &self,
        notice: &Notice,
        now: Timestamp,
    ) -> (WebhookSendOutcome, WebhookResponse) {
        let body = WebhookMessage::from_notice(notice, self.webhook.link.as_deref()).to_json_bytes();
        let mut headers =
            sign::signature_headers(&self.webhook.keys, &notice.id, now.as_millis().div_euclid(1000), &body);
        for (name, value) in [
            ("content-type", "application/json"),
            ("user-agent", concat!("singletree/", env!("CARGO_PKG_VERSION"))),
        ] {
            headers.push((name.to_owned(), value.to_owned()));
        }
        for (name, value) in notice.trace.iter().flat_map(|trace| trace.entries_for(true)) {
            headers.push((name.to_owned(), value.to_owned()));
        }
        let url = self.webhook.url.clone();
        let request = HttpRequest { method: Method::Post, url, headers, body: Bytes::from(body) };
        match self.transport.send(request).await {
            Ok(response) => (classify_response(&response), WebhookResponse::Status(response.status)),
            // Its text may hold the address, which may hold a secret: the category is enough.
            Err(error) => (WebhookSendOutcome::Away(None), WebhookResponse::None(error.category())),
        }
    }
}

impl WebhookSendOutcome {
    /// Returns the outcome that the log and the metrics report.
    fn delivery_end(&self) -> DeliveryEnd {
        match self {
            Self::Taken => DeliveryEnd::Delivered,
            Self::Unwanted => DeliveryEnd::GivenUp,
            Self::Refused | Self::Away(_) => DeliveryEnd::Failed,
        }
    }
}

/// Classifies a response by its status. Its body is not read.
fn classify_response(response: &HttpResponse) -> WebhookSendOutcome {
    match response.status {
        200..300 => WebhookSendOutcome::Taken,
        410 => WebhookSendOutcome::Unwanted,
        408 | 425 | 429 | 500.. => WebhookSendOutcome::Away(retry_after(response)),
        _ => WebhookSendOutcome::Refused,
    }
}

#[cfg(test)]
mod tests {
    use singletree_durable::TenantId;
    use singletree_http::Secret;

    use super::*;

    // docs/notify.md: the name of an endpoint resolves to public addresses unless the operator permits others.
    #[test]
    fn an_endpoint_of_elsewhere_is_called_at_public_addresses_only() {
        let check = |url: &str, private: bool, expected: &str| {
            let secret = Secret::new("s".repeat(24));
            let webhook = Webhook::new(TenantId::single(), url, &secret).unwrap().private_network(private);
            let shown = format!("{:?}", WebhookEndpoint::from_webhook(webhook).unwrap().transport);
            assert!(shown.contains(expected), "{url}: {shown}");
        };
        check("https://hooks.example.com", false, "PublicOnly");
        check("https://10.0.0.1", false, "PublicOnly");
        check("https://10.0.0.1", true, "Anywhere");
        check("http://127.0.0.1:1", false, "Anywhere");
        check("http://localhost", false, "Anywhere");
    }
}
