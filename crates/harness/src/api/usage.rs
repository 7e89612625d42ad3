//! The calls about model usage.

use singletree_durable::UsageRowQuery;
use singletree_session::ModelTokenUsage;

use crate::Result;
use crate::api::chat::Chat;
use crate::api::chat_session::Session;

impl Session {
    /// Returns the model usage of a session's turns since it was made, ordered by model: of every turn that has ended
    /// or was suspended, however it ended, also of those whose records were forgotten. A fork inherits none of it.
    ///
    /// A turn whose process died counts the usage up to its last commit; at level `turn` that is none. Usage that a
    /// provider does not report is not counted.
    ///
    /// # Errors
    /// `chat_session_unknown`, `harness_session_id_unresolved`, `store_unavailable` and its kin.
    pub async fn usage(&self) -> Result<Vec<ModelTokenUsage>> {
        let row = self.chat.read_session_row(&self.id).await?;
        self.chat.read_model_usage(UsageRowQuery::Session(row.key)).await
    }
}

impl Chat {
    /// Returns the tenant's model usage in all its sessions, ordered by model, also in those that were deleted. The
    /// cost of this call does not depend on the number of sessions.
    ///
    /// # Errors
    /// `store_unavailable` and its kin.
    pub async fn usage_of_tenant(&self) -> Result<Vec<ModelTokenUsage>> {
        self.read_model_usage(UsageRowQuery::Tenant(self.served_tenant()?.clone())).await
    }

    async fn read_model_usage(&self, of: UsageRowQuery) -> Result<Vec<ModelTokenUsage>> {
        let rows = self.inner.await_store_read(self.inner.journal.read_model_usage(&of)).await?;
        Ok(rows.into_iter().map(ModelTokenUsage::from).collect())
    }
}
