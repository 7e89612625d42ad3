//! The promises of the store, tested on real files.

#![expect(clippy::disallowed_methods, reason = "a test starts tasks and measures the time of its runtime")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where it stopped")]

mod backup;
mod bytes;
mod checkpoint;
mod commits;
mod contract;
mod crash;
mod erased;
mod failed_commit;
mod file;
mod group;
mod lock;
mod made;
mod opening;
mod paused;
mod rows;
mod rules;
mod shelf;
mod shell;
mod tenants;
mod twins;
mod upkeep;
mod weather;
