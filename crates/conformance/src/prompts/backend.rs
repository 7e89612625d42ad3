//! The backends of a case: prompts in memory, perhaps out of reach, perhaps behind a cache, and counted
//! (conformance-adapter §6.8).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use singletree::env::{Clock, Timestamp};
use singletree::llm::BoxFuture;
use singletree::prompts::{CachedBackend, Error, MemoryBackend, Prompt, PromptBackend, Result};

use super::source;
use crate::failure::Outcome;
use crate::fields::LocatedNode;

/// A backend as the fixture describes it.
#[derive(Debug)]
pub(super) struct PromptBackendSpec {
    pub(super) name: String,
    prompts: Vec<Prompt>,
    is_unavailable: bool,
    is_caching: bool,
}

impl PromptBackendSpec {
    pub(super) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        let spec = Self {
            name: block.take_required("name")?.as_text()?.to_owned(),
            prompts: match block.take_value("prompts") {
                Some(list) => {
                    list.into_items()?.into_iter().map(source::parse_prompt).collect::<Outcome<_>>()?
                }
                None => Vec::new(),
            },
            is_unavailable: block
                .take_value("simulate_unavailable")
                .map(|value| value.as_bool())
                .transpose()?
                == Some(true),
            is_caching: block.take_value("caching").map(|value| value.as_bool()).transpose()? == Some(true),
        };
        block.reject_remaining_keys()?;
        Ok(spec)
    }
}

/// A clock that goes when it is told to, and a little each time that it is read: nothing happens twice at once.
#[derive(Debug)]
pub(super) struct SteppedClock(Mutex<SystemTime>);

/// So little that it decides no age: fixtures count in seconds.
const TICK: Duration = Duration::from_millis(1);

impl SteppedClock {
    pub(super) fn new() -> Self {
        Self(Mutex::new(UNIX_EPOCH + Duration::from_secs(1_000_000)))
    }

    pub(super) fn advance(&self, by: Duration) {
        let mut time = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *time += by;
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Timestamp {
        self.advance(TICK);
        Timestamp::from(*self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A backend of a case, with a record of the calls to it.
#[derive(Debug)]
pub(super) struct CasePromptBackend {
    pub(super) name: String,
    pub(super) clock: Arc<SteppedClock>,
    pub(super) is_caching: bool,
    calls: AtomicU64,
    source: Arc<PromptBackendSource>,
    asked: Box<dyn PromptBackend>,
}

/// Where a backend reads.
#[derive(Debug)]
struct PromptBackendSource {
    prompts: MemoryBackend,
    is_unavailable: bool,
    reads: AtomicU64,
}

impl CasePromptBackend {
    pub(super) fn new(spec: &PromptBackendSpec) -> Self {
        let clock = Arc::new(SteppedClock::new());
        let prompts = spec.prompts.iter().cloned().fold(MemoryBackend::new(), MemoryBackend::with);
        let prompts = prompts.with_clock(clock.clone());
        let source = Arc::new(PromptBackendSource {
            prompts,
            is_unavailable: spec.is_unavailable,
            reads: AtomicU64::new(0),
        });
        let asked: Box<dyn PromptBackend> = match spec.is_caching {
            true => Box::new(CachedBackend::new(source.clone()).with_clock(clock.clone())),
            false => Box::new(source.clone()),
        };
        let (name, is_caching) = (spec.name.clone(), spec.is_caching);
        Self { name, clock, is_caching, calls: AtomicU64::new(0), source, asked }
    }

    /// Returns how often it was asked.
    pub(super) fn fetch_count(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Returns how often it read where its prompts are.
    pub(super) fn source_read_count(&self) -> u64 {
        self.source.reads.load(Ordering::SeqCst)
    }
}

impl PromptBackend for CasePromptBackend {
    fn fetch_prompt<'a>(
        &'a self,
        name: &'a str,
        label: &'a str,
        cache_ttl: Option<Duration>,
    ) -> BoxFuture<'a, Result<Arc<Prompt>>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.asked.fetch_prompt(name, label, cache_ttl)
    }
}

impl PromptBackend for PromptBackendSource {
    fn fetch_prompt<'a>(
        &'a self,
        name: &'a str,
        label: &'a str,
        cache_ttl: Option<Duration>,
    ) -> BoxFuture<'a, Result<Arc<Prompt>>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if self.is_unavailable {
            return Box::pin(async { Err(Error::store_unavailable("the fixture says so", None)) });
        }
        self.prompts.fetch_prompt(name, label, cache_ttl)
    }
}
