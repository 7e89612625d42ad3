//! `[limits]`: the bounds of the whole chat.

use singletree_harness::Limits;

use crate::section::TableReader;

/// Reads the bounds; an absent bound is the harness's default.
pub(crate) fn read_limits(mut section: TableReader<'_>) -> Limits {
    let mut limits = Limits::default();
    let size = |it: u64| usize::try_from(it).unwrap_or(usize::MAX);
    let count = |section: &mut TableReader<'_>, key| section.read_count(key, 1).map(|count| count.value);
    if let Some(queue) = count(&mut section, "queue") {
        limits.queue = size(queue);
    }
    if let Some(bytes) = section.read_byte_count("message_bytes") {
        limits.message_bytes = size(bytes);
    }
    for (key, limit) in [
        ("steps", &mut limits.steps),
        ("tool_calls", &mut limits.tool_calls),
        ("tokens", &mut limits.tokens),
        ("messages", &mut limits.messages),
    ] {
        if let Some(count) = count(&mut section, key) {
            *limit = count;
        }
    }
    if let Some(bytes) = section.read_byte_count("history_bytes") {
        limits.history_bytes = bytes;
    }
    if let Some(bytes) = section.read_byte_count("page_bytes") {
        limits.page_bytes = bytes;
    }
    for (key, limit) in [("turn_time", &mut limits.turn_time), ("turn_age", &mut limits.turn_age)] {
        if let Some(time) = section.read_duration(key) {
            *limit = time;
        }
    }
    for (key, limit) in
        [("hot_sessions", &mut limits.hot_sessions), ("busy_sessions", &mut limits.busy_sessions)]
    {
        if let Some(count) = count(&mut section, key) {
            *limit = size(count);
        }
    }
    if let Some(bytes) = section.read_byte_count("loaded_bytes") {
        limits.loaded_bytes = bytes;
    }
    section.report_unknown_keys();
    limits
}
