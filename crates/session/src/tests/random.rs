//! Random inputs in random order, with commits that land late, are refused, or have an unknown result, and with crashes.
//! The transitions are the real ones; a plain model of a store takes their batches.

mod world;

use std::collections::BTreeMap;

use self::world::drive;

// INV-1, INV-2, INV-7, INV-8
#[test]
fn random_inputs_lose_double_and_reorder_nothing() {
    let inputs = if cfg!(debug_assertions) { 100_000 } else { 1_000_000 };
    let mut counts = BTreeMap::new();
    for seed in 1..=10 {
        for (kind, count) in drive(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed), inputs / 10) {
            *counts.entry(kind).or_insert(0) += count;
        }
    }
    for kind in [
        "accepted",
        "ran",
        "released",
        "suspended",
        "resumed early",
        "answered",
        "answered twice",
        "claimed",
        "late answers",
        "expired answers",
        "superseded",
        "rejected",
        "cancelled",
        "kept",
        "deleted",
        "crashed",
        "refused",
        "unknown",
        "read",
        "stale",
    ] {
        assert!(counts.get(kind).is_some_and(|count| *count >= 20), "{kind}: {counts:?}");
    }
}
