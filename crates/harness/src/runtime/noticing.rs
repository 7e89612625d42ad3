//! Who has notices written, and who hears them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use singletree_durable::{RowMutation, TenantId};
use singletree_session::BatchBuilder;
use tokio::sync::broadcast;

use crate::runtime::notice::{Notice, NoticeKind, NoticeType};

/// How many notices who hears them may be behind.
const BACKLOG: usize = 1024;

/// The tenants that have notices written, and the types of these notices.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NoticeSettings(BTreeMap<TenantId, BTreeSet<NoticeType>>);

impl NoticeSettings {
    /// Has none written.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Has notices of these types written for a tenant. Of deadlines that are near nothing happens in a session: those
    /// are written by who watches them ([`deadlines`](crate::Chat::deadlines), [`Notice::for_expiring_wait`]).
    #[must_use]
    pub fn with_tenant_types(
        mut self,
        tenant: TenantId,
        types: impl IntoIterator<Item = NoticeType>,
    ) -> Self {
        self.0.entry(tenant).or_default().extend(types);
        self
    }

    fn wants_notice(&self, tenant: &TenantId, what: &NoticeKind) -> bool {
        self.0.get(tenant).is_some_and(|it| it.contains(&what.notice_type()))
    }
}

/// The notices of one chat: which kinds each tenant wants, and the channel of those that are committed.
#[derive(Debug)]
pub(crate) struct NoticePublisher {
    wanted: NoticeSettings,
    pub(crate) heard: broadcast::Sender<Arc<Notice>>,
}

impl NoticePublisher {
    pub(crate) fn new(wanted: NoticeSettings) -> Self {
        Self { wanted, heard: broadcast::Sender::new(BACKLOG) }
    }

    /// Returns the notices of a transition. Of a wait that it begins and ends at once, as where the signal came early,
    /// nobody need hear.
    pub(crate) fn notices_of_batch(&self, writing: &BatchBuilder) -> Vec<Arc<Notice>> {
        let (tenant, events) = (&writing.batch.key.tenant, &writing.events);
        if !self.wanted.0.contains_key(tenant) {
            return Vec::new();
        }
        let notices: Vec<Notice> =
            events.iter().filter_map(|event| Notice::from_event(tenant, event)).collect();
        let waits = |it: &Notice, suspended: bool| {
            it.what.wait_number().filter(|_| (it.what.notice_type() == NoticeType::Suspended) == suspended)
        };
        let both = |it: &Notice| {
            it.what.wait_number().is_some_and(|wait| {
                [true, false]
                    .iter()
                    .all(|side| notices.iter().any(|notice| waits(notice, *side) == Some(wait)))
            })
        };
        let told =
            notices.iter().filter(|notice| !both(notice) && self.wanted.wants_notice(tenant, &notice.what));
        let trace = writing.trace.as_deref();
        told.cloned().map(|notice| Arc::new(Notice { trace: trace.cloned(), ..notice })).collect()
    }

    /// Returns the puts that store these notices.
    pub(crate) fn documents_for_notices(notices: &[Arc<Notice>]) -> impl Iterator<Item = RowMutation> {
        notices.iter().filter_map(|notice| notice.to_row_mutation())
    }

    /// Tells who hears them that they are written.
    pub(crate) fn publish_notices(&self, notices: Vec<Arc<Notice>>) {
        for notice in notices {
            // Where nobody hears it, it is kept.
            drop(self.heard.send(notice));
        }
    }
}

/// Hears notices as they are written.
#[derive(Debug)]
pub struct NoticeReceiver(pub(crate) broadcast::Receiver<Arc<Notice>>);

/// An item that [`NoticeReceiver`] returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoticeDelivery {
    /// A notice was written.
    Notice(Arc<Notice>),
    /// More were written than who hears them could take: they are kept, and can be read.
    Missed,
}

impl NoticeReceiver {
    /// Waits for the next one; nothing once the chat is gone.
    ///
    /// # Cancellation
    /// Dropping the call loses nothing.
    pub async fn next_notice(&mut self) -> Option<NoticeDelivery> {
        match self.0.recv().await {
            Ok(notice) => Some(NoticeDelivery::Notice(notice)),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(NoticeDelivery::Missed),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
