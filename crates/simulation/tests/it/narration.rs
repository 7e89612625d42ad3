//! Narration is inert: with it and without it, a seed is the same run (INV-9).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use singletree_narration::{NarrationMessage, NarrationOwner, NarrationSink};
use singletree_simulation::{RunPlan, run_seed};

/// Counts the narration.
#[derive(Debug, Default)]
struct NarrationCount(AtomicU64);

impl NarrationSink for NarrationCount {
    fn emit_narration(&self, _: NarrationOwner<'_>, narration: NarrationMessage) {
        drop(narration);
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn forget_session(&self, _: NarrationOwner<'_>) {}
}

// INV-9
#[test]
fn a_seed_is_the_same_run_with_narration_and_without() {
    let count = Arc::new(NarrationCount::default());
    for seed in 0..10 {
        let plain = RunPlan { seed, ..RunPlan::default() };
        let told = RunPlan { narration: Some(count.clone()), ..plain.clone() };
        assert_eq!(run_seed(&plain).digest, run_seed(&told).digest, "seed {seed}");
    }
    assert!(count.0.load(Ordering::Relaxed) > 100);
}
