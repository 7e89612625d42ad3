//! `[retention]`: which turn records and events are kept. State and history are always kept.

use singletree_harness::Retention;

use crate::section::TableReader;

/// Reads the limits; an absent key sets no limit.
pub(crate) fn read_retention(mut section: TableReader<'_>) -> Retention {
    let retention = Retention {
        turns: section.read_count("turns", 1).map(|count| count.value),
        events: section.read_count("events", 1).map(|count| count.value),
        age: section.read_duration("age"),
    };
    section.report_unknown_keys();
    retention
}
