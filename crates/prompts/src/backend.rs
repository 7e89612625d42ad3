//! The contract of a prompt store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use singletree_llm::BoxFuture;

use crate::error::Result;
use crate::prompt::Prompt;

/// A place where prompts are kept (spec: prompt-management §5).
///
/// # Contract
///
/// - Fetches, and nothing else: it renders nothing and changes no template.
/// - Many fetches at once are fine.
/// - A prompt that the backend does not have is `prompt_not_found`; a store that it cannot reach is
///   `prompt_store_unavailable`.
/// - A prompt from a cache has its right hash and the time of its original fetch.
///
/// # Cancellation
///
/// Dropping the future ends the fetch, or lets a read that cannot be stopped end unheard.
pub trait PromptBackend: fmt::Debug + Send + Sync {
    /// Fetches the prompt of a name and a label.
    ///
    /// `cache_ttl` bounds how old a cached prompt may be: zero asks for a fresh read, `None` leaves it to the
    /// backend. Who keeps no cache ignores it. There are no negative ones to refuse: the type has none.
    ///
    /// # Errors
    ///
    /// `prompt_not_found`, `prompt_store_unavailable`; others where a backend can tell more, as `prompt_file_invalid`.
    fn fetch_prompt<'a>(
        &'a self,
        name: &'a str,
        label: &'a str,
        cache_ttl: Option<Duration>,
    ) -> BoxFuture<'a, Result<Arc<Prompt>>>;
}

impl<T: PromptBackend + ?Sized> PromptBackend for Arc<T> {
    fn fetch_prompt<'a>(
        &'a self,
        name: &'a str,
        label: &'a str,
        cache_ttl: Option<Duration>,
    ) -> BoxFuture<'a, Result<Arc<Prompt>>> {
        self.as_ref().fetch_prompt(name, label, cache_ttl)
    }
}
