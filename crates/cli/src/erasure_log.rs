//! Records revoked keys in the erasure list beside the database.

use singletree::ErasedName;
use singletree::durable::{BoxFuture, Result, TenantId, Timestamp};
use singletree_server::RevocationLog;

use crate::conversation_store::ConversationStore;

/// Adds revoked keys to the list that a restored backup is compared with.
#[derive(Debug)]
pub(crate) struct ErasureLog(pub(crate) ConversationStore);

impl RevocationLog for ErasureLog {
    fn record_revocation<'a>(
        &'a self,
        tenant: &'a TenantId,
        key: &'a str,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.0.list_erased(vec![ErasedName::Key(tenant.clone(), key.to_owned())], at))
    }
}
