//! The call that follows the events of a tenant.

use singletree_env::IdGenerator;

use crate::Result;
use crate::api::chat::Chat;
use crate::runtime::tenant_events::{TenantEventId, TenantEvents};

/// How many hexadecimal digits of a random id name a start.
const START_ID_CHARS: usize = 12;

impl Chat {
    /// Reads the events of the chat's tenant: those after the one that was seen last, then those that happen. Without a
    /// last one it begins now. Events are told after the commit that made them; those of one session come in their
    /// order.
    ///
    /// The last 512 events are kept in memory from the first reader of a tenant on. Where the events after `after` are
    /// not kept, the first event is [`LiveTenantEventKind::Missed`](crate::LiveTenantEventKind::Missed).
    ///
    /// Where several processes write the store, the events of all of them are told: those of this one at once, those of others
    /// within a second. A tenant that has had no reader for a minute is not followed any more: who comes later is told
    /// `Missed`, and so is everybody after an outage of the store.
    ///
    /// # Errors
    /// `chat_tenant_foreign`; where several processes write the store, also the errors of the store.
    ///
    /// # Cancellation
    /// Nothing is left behind.
    pub async fn tenant_events(&self, after: Option<&TenantEventId>) -> Result<TenantEvents> {
        let (tenant, inner) = (self.served_tenant()?, &self.inner);
        let start = inner.start_id.get_or_init(|| make_start_id(inner.env.ids.as_ref()));
        let prefix = format!("{}.{start}", inner.epoch);
        let events = inner.tenant_events.open_reader(tenant, &prefix, after, inner.current_time());
        inner.follow_tenant_log().await?;
        Ok(events)
    }
}

/// Draws the name of this start, so that no two starts share a series.
fn make_start_id(ids: &dyn IdGenerator) -> String {
    ids.generate_uuid().chars().filter(|char| *char != '-').take(START_ID_CHARS).collect()
}
