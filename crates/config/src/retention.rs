//! `[retention]`: what a server forgets of sessions beside their state and history.

use singletree_harness::Retention;

use crate::section::Section;

/// Reads the bounds; what is absent bounds nothing.
pub(crate) fn read(mut section: Section<'_>) -> Retention {
    let retention = Retention {
        turns: section.count("turns", 1).map(|it| it.value),
        events: section.count("events", 1).map(|it| it.value),
        age: section.duration("age"),
    };
    section.end();
    retention
}
