//! The backends of a case: prompts in memory, perhaps out of reach, perhaps behind a cache, and counted
//! (conformance-adapter §6.8).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use singletree::llm::BoxFuture;
use singletree::prompts::{CachedBackend, Clock, Error, MemoryBackend, Prompt, PromptBackend, Result};

use super::source;
use crate::failure::Outcome;
use crate::fields::Spot;

/// A backend as the fixture describes it.
#[derive(Debug)]
pub(super) struct BackendSpec {
    pub(super) name: String,
    prompts: Vec<Prompt>,
    is_unavailable: bool,
    is_caching: bool,
}

impl BackendSpec {
    pub(super) fn read(spot: Spot) -> Outcome<Self> {
        let mut block = spot.fields()?;
        let spec = Self {
            name: block.need("name")?.text()?.to_owned(),
            prompts: match block.take("prompts") {
                Some(list) => list.items()?.into_iter().map(source::prompt).collect::<Outcome<_>>()?,
                None => Vec::new(),
            },
            is_unavailable: block.take("simulate_unavailable").map(|it| it.truth()).transpose()?
                == Some(true),
            is_caching: block.take("caching").map(|it| it.truth()).transpose()? == Some(true),
        };
        block.finish()?;
        Ok(spec)
    }
}

/// A clock that goes when it is told to, and a little each time that it is read: nothing happens twice at once.
#[derive(Debug)]
pub(super) struct ToldClock(Mutex<SystemTime>);

/// So little that it decides no age: fixtures count in seconds.
const TICK: Duration = Duration::from_nanos(1_000);

impl ToldClock {
    pub(super) fn new() -> Self {
        Self(Mutex::new(UNIX_EPOCH + Duration::from_secs(1_000_000)))
    }

    pub(super) fn advance(&self, by: Duration) {
        let mut time = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *time += by;
    }
}

impl Clock for ToldClock {
    fn now(&self) -> SystemTime {
        self.advance(TICK);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A backend of a case, with a record of the calls to it.
#[derive(Debug)]
pub(super) struct CaseBackend {
    pub(super) name: String,
    pub(super) clock: Arc<ToldClock>,
    pub(super) is_caching: bool,
    calls: AtomicU64,
    source: Arc<Source>,
    asked: Box<dyn PromptBackend>,
}

/// Where a backend reads.
#[derive(Debug)]
struct Source {
    prompts: MemoryBackend,
    is_unavailable: bool,
    reads: AtomicU64,
}

impl CaseBackend {
    pub(super) fn new(spec: &BackendSpec) -> Self {
        let clock = Arc::new(ToldClock::new());
        let prompts = spec.prompts.iter().cloned().fold(MemoryBackend::new(), MemoryBackend::with);
        let prompts = prompts.clock(clock.clone());
        let source =
            Arc::new(Source { prompts, is_unavailable: spec.is_unavailable, reads: AtomicU64::new(0) });
        let asked: Box<dyn PromptBackend> = match spec.is_caching {
            true => Box::new(CachedBackend::new(source.clone()).clock(clock.clone())),
            false => Box::new(source.clone()),
        };
        let (name, is_caching) = (spec.name.clone(), spec.is_caching);
        Self { name, clock, is_caching, calls: AtomicU64::new(0), source, asked }
    }

    /// Returns how often it was asked.
    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Returns how often it read where its prompts are.
    pub(super) fn reads(&self) -> u64 {
        self.source.reads.load(Ordering::SeqCst)
    }
}

impl PromptBackend for CaseBackend {
    fn fetch<'a>(
        &'a self,
        name: &'a str,
        label: &'a str,
        cache_ttl: Option<Duration>,
    ) -> BoxFuture<'a, Result<Arc<Prompt>>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.asked.fetch(name, label, cache_ttl)
    }
}

impl PromptBackend for Source {
    fn fetch<'a>(
        &'a self,
        name: &'a str,
        label: &'a str,
        cache_ttl: Option<Duration>,
    ) -> BoxFuture<'a, Result<Arc<Prompt>>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if self.is_unavailable {
            return Box::pin(async { Err(Error::unavailable("the fixture says so", None)) });
        }
        self.prompts.fetch(name, label, cache_ttl)
    }
}
