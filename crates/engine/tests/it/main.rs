//! The engine through its public surface.

#![expect(clippy::disallowed_methods, reason = "a test starts tasks and measures the time of its runtime")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod branches;
mod branches_compile;
mod branches_members;
mod branches_nested;
mod branches_pauses;
mod branches_policies;
mod branches_properties;
mod cancellation;
mod checkpoint;
mod checkpoint_composition;
mod checkpoint_events;
mod checkpoint_lineage;
mod checkpoint_migration;
mod checkpoint_resume;
mod compile;
mod composition;
mod containers_told;
mod cycles;
mod drain;
mod edges;
mod errors;
mod fan_out;
mod fan_out_compile;
mod fan_out_members;
mod fan_out_nested;
mod fan_out_pauses;
mod fan_out_policies;
mod fan_out_properties;
mod fields;
mod identity;
mod isolation;
mod middleware;
mod observers;
mod outline;
mod panics;
mod panics_beside;
mod projection_types;
mod properties;
mod random;
mod reducers;
mod retry;
mod rig;
mod runs;
mod sessions;
mod subgraphs;
mod suspension;
mod suspension_migration;
mod suspension_stores;
mod timing;
mod typed;
mod warnings;
