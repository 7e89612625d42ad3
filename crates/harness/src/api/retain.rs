//! The call that removes data of the past now.

use crate::Result;
use crate::api::chat::Chat;
use crate::runtime::retention::{Retention, RetentionReport};

impl Chat {
    /// Applies a retention now, in all sessions of all tenants that the chat serves, in small transactions beside
    /// running turns.
    ///
    /// # Errors
    /// `store_unavailable` and its kin; data that was forgotten by then stays forgotten.
    ///
    /// # Cancellation
    /// Dropping the future cancels nothing: all of it is forgotten.
    pub async fn retain(&self, retention: &Retention) -> Result<RetentionReport> {
        let (inner, retention) = (self.inner.clone(), *retention);
        self.inner.run_call_in_task(async move { inner.retain_all_sessions(&retention).await }).await
    }
}
