//! The engine through its public surface.

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod branches;
mod branches_compile;
mod branches_members;
mod branches_nested;
mod branches_pauses;
mod branches_policies;
mod branches_properties;
mod checkpoint;
mod checkpoint_composition;
mod checkpoint_events;
mod checkpoint_migration;
mod checkpoint_resume;
mod compile;
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
mod properties;
mod random;
mod retry;
mod rig;
mod runs;
mod sessions;
mod subgraphs;
mod suspension;
mod suspension_stores;
mod timing;
mod typed;
mod warnings;
