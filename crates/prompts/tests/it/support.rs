//! Shared code of the tests: a clock that is set by hand, a backend that can be out of reach, a shortcut.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use singletree_env::{Clock, Timestamp};
use singletree_llm::BoxFuture;
use singletree_prompts::{
    Error, MemoryBackend, Prompt, PromptBackend, PromptInputs, PromptManager, PromptResult, Result,
};

/// A clock that stands still until it is told.
#[derive(Debug)]
pub(crate) struct Told(Mutex<SystemTime>);

impl Told {
    pub(crate) fn at(seconds: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(at(seconds))))
    }

    pub(crate) fn set(&self, seconds: u64) {
        *self.0.lock().expect("nobody panicked") = at(seconds);
    }
}

impl Clock for Told {
    fn now(&self) -> Timestamp {
        Timestamp::from(*self.0.lock().expect("nobody panicked"))
    }
}

/// So many seconds after the beginning of time.
pub(crate) fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A backend that counts, and can be put out of reach or emptied.
#[derive(Debug)]
pub(crate) struct Counting {
    prompts: MemoryBackend,
    pub(crate) reads: AtomicU64,
    pub(crate) is_away: AtomicBool,
    pub(crate) is_empty: AtomicBool,
}

impl Counting {
    pub(crate) fn new(prompts: MemoryBackend) -> Arc<Self> {
        let [is_away, is_empty] = [false, false].map(AtomicBool::new);
        Arc::new(Self { prompts, reads: AtomicU64::new(0), is_away, is_empty })
    }
}

impl PromptBackend for Counting {
    fn fetch_prompt<'a>(
        &'a self,
        name: &'a str,
        label: &'a str,
        cache_ttl: Option<Duration>,
    ) -> BoxFuture<'a, Result<Arc<Prompt>>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if self.is_away.load(Ordering::SeqCst) {
                return Err(Error::store_unavailable("the store is away", None));
            }
            if self.is_empty.load(Ordering::SeqCst) {
                return Err(Error::NotFound { name: name.to_owned(), label: label.to_owned() });
            }
            self.prompts.fetch_prompt(name, label, cache_ttl).await
        })
    }
}

/// Renders a prompt that no backend has.
pub(crate) fn render(prompt: Prompt, inputs: &PromptInputs) -> Result<PromptResult> {
    PromptManager::builder(MemoryBackend::new()).build().render_prompt(&Arc::new(prompt), inputs)
}

/// Renders a text prompt and returns its text, or the description of the error.
pub(crate) fn text(template: &str, inputs: &PromptInputs) -> std::result::Result<String, String> {
    match render(Prompt::text("p", "1", template), inputs) {
        Ok(result) => Ok(result.messages()[0].text().into_owned()),
        Err(Error::Render(error)) => Err(error.description().to_owned()),
        Err(other) => panic!("{other:?}"),
    }
}
