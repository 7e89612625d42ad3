//! All couriers of a server, and the task that hands new notices to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use singletree_durable::TenantId;
use singletree_env::BoxFuture;
use singletree_harness::{NoticeDelivery, NoticeKind};
use singletree_http::Transport;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::courier::{WebhookDispatcher, WebhookEndpoint};
use super::expiring::WaitExpiryWatcher;
use super::webhook::Webhook;
use crate::shared::ServerState;
use crate::{Error, Result};

/// The couriers by the tenants that they are for.
pub(super) type WebhookDispatchers = BTreeMap<TenantId, Arc<WebhookDispatcher>>;

/// The running couriers of a server. Dropping it ends them; the next process delivers the remaining notices.
#[derive(Debug)]
pub(crate) struct WebhookService {
    work: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl WebhookService {
    /// Makes ready to tell notices at these endpoints.
    ///
    /// # Errors
    /// `server_webhook_invalid` when a tenant has two, or no client can be made.
    pub(crate) fn build_endpoints(
        webhooks: Vec<Webhook>,
        transport: Option<&Arc<dyn Transport>>,
    ) -> Result<Vec<WebhookEndpoint>> {
        for (at, webhook) in webhooks.iter().enumerate() {
            if webhooks[..at].iter().any(|it| it.tenant == webhook.tenant) {
                let (tenant, why) = (webhook.tenant.to_string(), "it has two endpoints".to_owned());
                return Err(Error::Webhook { tenant, why });
            }
        }
        let endpoint = |webhook| match transport {
            Some(transport) => Ok(WebhookEndpoint::with_transport(webhook, transport.clone())),
            None => WebhookEndpoint::from_webhook(webhook),
        };
        webhooks.into_iter().map(endpoint).collect()
    }

    /// Starts the couriers: they deliver the stored notices and those that are written from now on.
    pub(crate) fn start_dispatchers(shared: &Arc<ServerState>) -> Self {
        let (stop, mut work) = (watch::Sender::new(false), JoinSet::new());
        for task in Self::delivery_tasks(shared, &stop) {
            work.spawn(task);
        }
        Self { work, stop }
    }

    /// Returns the tasks that deliver the stored notices and those that are written from now on; none without endpoints.
    pub(crate) fn delivery_tasks(
        shared: &Arc<ServerState>,
        stop: &watch::Sender<bool>,
    ) -> Vec<BoxFuture<'static, ()>> {
        if shared.endpoints.is_empty() {
            return Vec::new();
        }
        // Subscribe first: notices written from now on are received, and earlier ones are read from the store.
        let mut hearing = shared.chat.notices();
        let couriers = shared.endpoints.iter().map(|endpoint| {
            (
                endpoint.webhook.tenant.clone(),
                Arc::new(WebhookDispatcher::new(endpoint.clone(), shared.clone())),
            )
        });
        let couriers = Arc::new(couriers.collect::<WebhookDispatchers>());
        let deliver = |courier: &Arc<WebhookDispatcher>| -> BoxFuture<'static, ()> {
            Box::pin(courier.clone().deliver_until_stopped(stop.subscribe()))
        };
        let mut tasks: Vec<BoxFuture<'static, ()>> = couriers.values().map(deliver).collect();
        let bell = Arc::new(Notify::new());
        let watch =
            WaitExpiryWatcher { shared: shared.clone(), couriers: couriers.clone(), bell: bell.clone() };
        tasks.push(Box::pin(watch.watch_until_stopped(stop.subscribe())));
        let mut stopped = stop.subscribe();
        tasks.push(Box::pin(async move {
            loop {
                tokio::select! {
                    biased;
                    _ = stopped.changed() => return,
                    heard = hearing.next_notice() => match heard {
                        Some(heard) => dispatch_notice(&couriers, &bell, heard),
                        None => return,
                    },
                }
            }
        }));
        tasks
    }

    /// Accepts no new notices, and lets running deliveries end until the deadline.
    pub(crate) async fn stop_dispatchers(mut self, until: Instant) {
        self.stop.send_replace(true);
        let all = async { while self.work.join_next().await.is_some() {} };
        // The next process repeats deliveries that do not end in time.
        drop(timeout_at(until, all).await);
    }
}

fn dispatch_notice(couriers: &WebhookDispatchers, bell: &Notify, heard: NoticeDelivery) {
    match heard {
        NoticeDelivery::Notice(notice) => {
            if matches!(&notice.what, NoticeKind::Suspended(it) if it.deadline.is_some()) {
                bell.notify_one();
            }
            if let Some(courier) = couriers.get(&notice.tenant) {
                courier.queue_notice(notice);
            }
        }
        NoticeDelivery::Missed => couriers.values().for_each(|courier| courier.schedule_store_read()),
    }
}
