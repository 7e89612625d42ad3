//! Prompts in memory: for programs that bring their own, and for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use singletree_llm::BoxFuture;

use crate::backend::PromptBackend;
use crate::error::{Error, Result};
use crate::prompt::Prompt;
use singletree_env::{Clock, SystemClock};

/// Prompts in memory, of either kind, by name and label. It keeps no cache: each fetch is fresh.
#[derive(Debug)]
pub struct MemoryBackend {
    prompts: BTreeMap<(String, String), Prompt>,
    clock: Arc<dyn Clock>,
}

impl MemoryBackend {
    /// Makes an empty backend on the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self { prompts: BTreeMap::new(), clock: Arc::new(SystemClock) }
    }

    /// Adds a prompt under its name and its label, in place of one that is there.
    #[must_use]
    pub fn with(mut self, prompt: Prompt) -> Self {
        self.prompts.insert((prompt.name().to_owned(), prompt.label().to_owned()), prompt);
        self
    }

    /// Takes the time from another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl PromptBackend for MemoryBackend {
    fn fetch_prompt<'a>(
        &'a self,
        name: &'a str,
        label: &'a str,
        _cache_ttl: Option<Duration>,
    ) -> BoxFuture<'a, Result<Arc<Prompt>>> {
        Box::pin(async move {
            let found = self.prompts.get(&(name.to_owned(), label.to_owned()));
            let prompt = found.ok_or_else(|| Error::not_found(name, label))?;
            Ok(Arc::new(prompt.clone().with_fetched_at(self.clock.now().to_system_time())))
        })
    }
}
