//! Campaigns over HTTP: the routes of `/v1/campaigns`, in the format of the native API.
//!
//! The controller decides; these handlers check scopes, convert, and record the actions of callers in the audit of their
//! tenant, by ids and digests only. Each file has the routes for one kind of resource; the texts of the API document
//! stand beside the handlers.

mod artifacts;
mod command;
mod context;
mod convert;
mod lifecycle;
mod log;
mod plan;
mod schedules;
mod tasks;

pub(crate) use context::{campaign_caller, campaign_problem};

use crate::native::{render_problem, render_stream_failure};
use crate::section::ProtocolSection;

/// Returns the section of campaigns.
pub(crate) fn build_section() -> ProtocolSection {
    let tables = [
        lifecycle::lifecycle_routes(),
        plan::plan_routes(),
        command::command_routes(),
        tasks::task_routes(),
        artifacts::campaign_artifact_routes(),
        schedules::schedule_routes(),
        log::log_routes(),
    ];
    ProtocolSection::new("campaigns", render_problem, tables.into_iter().flatten().collect())
        .with_stream_failure(render_stream_failure)
}
