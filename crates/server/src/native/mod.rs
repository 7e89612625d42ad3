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

pub(crate) use answering::{
    HandlerContext, IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED, StreamFailureFramer, build_json_frame,
    load_visibility, mark_replayed,
};
pub(crate) use artifacts::convert_artifact;
pub(crate) use ask::{StrictQuery, check_session_id, resolve_page_limit, wants_events};
pub(crate) use convert::{
    ContentVisibility, convert_bucket, convert_pending_wait, convert_suspended_wait, convert_time,
};
pub(crate) use place::campaign_location;
pub(crate) use problem::{render_problem, render_stream_failure};

use crate::section::ProtocolSection;

/// Returns the native section.
pub(crate) fn build_section() -> ProtocolSection {
    let tables = [
        agents::agent_routes(),
        sessions::session_routes(),
        messages::message_routes(),
        events::event_routes(),
        tenant_events::tenant_event_routes(),
        turns::turn_routes(),
        signals::signal_routes(),
        branches::fork_routes(),
        blobs::blob_routes(),
        artifacts::artifact_routes(),
        usage::usage_routes(),
    ];
    ProtocolSection::new("native", render_problem, tables.into_iter().flatten().collect())
        .with_stream_failure(render_stream_failure)
}
