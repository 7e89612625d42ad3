//! Caches: the maximum age of a prompt, and when prompts are forgotten.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use singletree_prompts::{CacheLimits, CachedBackend, MemoryBackend, Prompt, PromptBackend as _};

use crate::support::{Counting, Told, at};

fn cache(clock: &Arc<Told>) -> (Arc<Counting>, CachedBackend) {
    let prompts = MemoryBackend::new().with(Prompt::text("a", "1", "x")).with(Prompt::text("b", "1", "y"));
    let source = Counting::new(prompts.with_clock(clock.clone()));
    (source.clone(), CachedBackend::new(source).with_clock(clock.clone()))
}

// spec: prompt-management §5
#[tokio::test]
async fn a_prompt_is_served_while_it_is_younger_than_the_fetch_allows() {
    let clock = Told::at(100);
    let (source, cache) = cache(&clock);
    let cache = cache.with_ttl(Duration::from_secs(50));
    let bound = |seconds| Some(Duration::from_secs(seconds));
    // At which time, with which bound: how many reads there were, and when the prompt was fetched.
    for (now, ttl, reads, fetched) in [
        (100, None, 1, 100),
        (149, None, 1, 100),
        (149, bound(1_000), 1, 100),
        (149, bound(49), 2, 149),
        (149, bound(0), 3, 149),
        (150, None, 3, 149),
        (199, None, 4, 199),
        (20, bound(1_000), 5, 20),
    ] {
        clock.set(now);
        let prompt = cache.fetch_prompt("a", "production", ttl).await.unwrap();
        let found = (source.reads.load(Ordering::SeqCst), prompt.fetched_at());
        assert_eq!(found, (reads, at(fetched)), "{now} {ttl:?}");
    }
}

#[tokio::test]
async fn what_was_retired_is_forgotten_and_what_is_away_is_neither_served_nor_forgotten() {
    let clock = Told::at(0);
    let (source, cache) = cache(&clock);
    cache.fetch_prompt("a", "production", None).await.unwrap();
    source.is_away.store(true, Ordering::SeqCst);
    let fresh = cache.fetch_prompt("a", "production", Some(Duration::ZERO)).await.unwrap_err();
    assert_eq!(fresh.category(), "prompt_store_unavailable");
    assert_eq!(cache.fetch_prompt("a", "production", None).await.unwrap().version(), "1");
    source.is_away.store(false, Ordering::SeqCst);
    source.is_empty.store(true, Ordering::SeqCst);
    for ttl in [Some(Duration::ZERO), None] {
        let error = cache.fetch_prompt("a", "production", ttl).await.unwrap_err();
        assert_eq!(error.category(), "prompt_not_found");
    }
}

// INV-12
#[tokio::test]
async fn a_cache_keeps_no_more_than_its_limit_and_drops_the_oldest() {
    let clock = Told::at(0);
    let (source, cache) = cache(&clock);
    let cache = cache.with_limits(CacheLimits { prompts: 1 });
    for (now, name, reads) in [(1, "a", 1), (2, "a", 1), (3, "b", 2), (4, "b", 2), (5, "a", 3)] {
        clock.set(now);
        cache.fetch_prompt(name, "production", None).await.unwrap();
        assert_eq!(source.reads.load(Ordering::SeqCst), reads, "{now}");
    }
}
