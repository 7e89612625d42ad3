//! Counters as servers report them (llm-provider §7, malformed usage counter).

use serde_json::Value;

/// Reads a counter at a path. A value that is absent, negative, fractional or no number is not reported, and never
/// repaired.
pub(crate) fn read_counter(usage: Option<&Value>, path: &str) -> Option<u64> {
    usage?.pointer(path)?.as_u64()
}

/// Adds counters; a sum of which a part is not reported is not reported.
pub(crate) fn sum_if_complete(parts: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    parts.into_iter().try_fold(0_u64, |sum, part| sum.checked_add(part?))
}
