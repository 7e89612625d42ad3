//! Asks the admission of a chat before anything is stored.

use crate::Result as ChatResult;
use crate::agents::admission::TurnPermit;
use crate::api::chat::Chat;
use crate::api::submit::accept_failed_error;

impl Chat {
    /// Checks whether another turn may run.
    pub(crate) fn admit_turn(&self) -> ChatResult<Option<TurnPermit>> {
        Ok(self.admission.as_ref().map(|admission| admission.admit_turn()).transpose()?)
    }

    /// Checks whether the tenant has tokens left, if its tokens are limited.
    pub(crate) async fn admit_tokens(&self) -> ChatResult<()> {
        let Some(admission) = self.admission.as_ref().filter(|admission| admission.counts_tokens()) else {
            return Ok(());
        };
        let used = self.usage_of_tenant().await.map_err(accept_failed_error)?;
        let tokens = used.iter().map(|it| it.prompt_tokens.saturating_add(it.completion_tokens));
        Ok(admission.admit_tokens(tokens.fold(0, u64::saturating_add))?)
    }

    /// Checks whether another session may be created.
    pub(crate) fn admit_session(&self) -> ChatResult<()> {
        Ok(self.admission.as_ref().map_or(Ok(()), |admission| admission.admit_session())?)
    }
}
