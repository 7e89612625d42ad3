//! The native API: everything that the harness offers, as JSON and server-sent events.
//!
//! Each file has the routes for one kind of resource; the texts of the API document stand beside the handlers.
//! `answering` builds the responses to requests that start turns, `convert` converts the harness's types to JSON
//! types, `said` reads the messages of clients.

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

pub(crate) use answering::{HandlerContext, mark_replayed, view};
pub(crate) use ask::{StrictQuery, is_session_id, limit, wants_events};
pub(crate) use convert::{ContentVisibility, bucket, suspended, time, wait};
pub(crate) use problem::render;
use problem::stream_failure;

use crate::section::ProtocolSection;

/// Returns the native section.
pub(crate) fn section() -> ProtocolSection {
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
    ProtocolSection::new("native", render, tables.into_iter().flatten().collect())
        .failing_streams(stream_failure)
}
