//! The native API: everything that the harness offers, as JSON and server-sent events.
//!
//! Each file has the routes of one thing, with what the document of the API says of them beside the handlers. `answering` tells
//! turns to whom asked for them, `convert` writes what the harness has as the wire has it, `said` reads what clients say.

mod agents;
mod answering;
mod artifacts;
mod ask;
mod blobs;
mod branches;
mod convert;
mod events;
mod export;
mod messages;
mod place;
mod problem;
mod said;
mod sessions;
mod signals;
mod tenant_events;
mod turns;
mod usage;

pub(crate) use answering::{Telling, mark_replayed, view};
pub(crate) use ask::{Params, is_session_id, limit, wants_events};
pub(crate) use convert::{View, bucket, suspended, time, wait};
pub(crate) use problem::render;
use problem::stream_failure;

use crate::section::Section;

/// Returns the native section.
pub(crate) fn section() -> Section {
    let tables = [
        agents::routes(),
        sessions::routes(),
        messages::routes(),
        events::routes(),
        tenant_events::routes(),
        turns::routes(),
        signals::routes(),
        branches::routes(),
        blobs::routes(),
        artifacts::routes(),
        usage::routes(),
    ];
    Section::new("native", render, tables.into_iter().flatten().collect()).failing_streams(stream_failure)
}
