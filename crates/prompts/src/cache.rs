//! A cache in front of a backend.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use singletree_llm::BoxFuture;

use crate::backend::PromptBackend;
use crate::error::{Error, Result};
use crate::prompt::Prompt;
use singletree_env::{Clock, SystemClock};

/// How much a cache keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLimits {
    /// Prompts; the one that was read longest ago goes first. 1,000.
    pub prompts: usize,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { prompts: 1_000 }
    }
}

/// A backend that caches the prompts of another backend (spec: prompt-management §5).
///
/// A prompt is served from the cache while it is younger than the fetch's `cache_ttl`, or, without one, than the
/// cache's own. Every prompt that is read is kept, also by a fetch that asked for a fresh read. A prompt that is not
/// found any more is forgotten; a prompt whose store cannot be reached is kept, but not served in its place. Two
/// fetches at once may both read. With a bound, a prompt is read again when its read time is later than the current
/// time (the clock went back).
#[derive(Debug)]
pub struct CachedBackend {
    source: Box<dyn PromptBackend>,
    ttl: Option<Duration>,
    limits: CacheLimits,
    clock: Arc<dyn Clock>,
    kept: Mutex<BTreeMap<(String, String), CachedPrompt>>,
}

#[derive(Debug, Clone)]
struct CachedPrompt {
    prompt: Arc<Prompt>,
    read_at: SystemTime,
}

impl CachedBackend {
    /// Puts a cache in front of a backend, on the system's clock. It serves its prompts at any age, unless it or the
    /// fetch has a bound.
    #[must_use]
    pub fn new(source: impl PromptBackend + 'static) -> Self {
        Self {
            source: Box::new(source),
            ttl: None,
            limits: CacheLimits::default(),
            clock: Arc::new(SystemClock),
            kept: Mutex::default(),
        }
    }

    /// Sets how old a prompt may be when a fetch says nothing about it.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets how much is kept.
    #[must_use]
    pub fn with_limits(mut self, limits: CacheLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Takes the time from another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    fn lock_prompts(&self) -> std::sync::MutexGuard<'_, BTreeMap<(String, String), CachedPrompt>> {
        // Nothing in here panics between two writes that belong together.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find_fresh_prompt(&self, key: &(String, String), ttl: Option<Duration>) -> Option<Arc<Prompt>> {
        let kept = self.lock_prompts().get(key)?.clone();
        let Some(ttl) = ttl else { return Some(kept.prompt) };
        let age = self.clock.now().to_system_time().duration_since(kept.read_at).ok()?;
        (age < ttl).then_some(kept.prompt)
    }

    fn insert_prompt(&self, key: (String, String), prompt: &Arc<Prompt>) {
        let read_at = self.clock.now().to_system_time();
        let mut kept = self.lock_prompts();
        kept.insert(key, CachedPrompt { prompt: prompt.clone(), read_at });
        while kept.len() > self.limits.prompts {
            let oldest = kept.iter().min_by_key(|(_, it)| it.read_at).map(|(key, _)| key.clone());
            oldest.iter().for_each(|it| drop(kept.remove(it)));
        }
    }
}

impl PromptBackend for CachedBackend {
    fn fetch_prompt<'a>(
        &'a self,
        name: &'a str,
        label: &'a str,
        cache_ttl: Option<Duration>,
    ) -> BoxFuture<'a, Result<Arc<Prompt>>> {
        Box::pin(async move {
            let key = (name.to_owned(), label.to_owned());
            if let Some(prompt) = self.find_fresh_prompt(&key, cache_ttl.or(self.ttl)) {
                return Ok(prompt);
            }
            match self.source.fetch_prompt(name, label, cache_ttl).await {
                Ok(prompt) => {
                    self.insert_prompt(key, &prompt);
                    Ok(prompt)
                }
                Err(error) => {
                    if matches!(error, Error::NotFound { .. }) {
                        self.lock_prompts().remove(&key);
                    }
                    Err(error)
                }
            }
        })
    }
}
