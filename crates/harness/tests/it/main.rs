//! The harness through its public surface.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod base_failures;
mod base_paths;
mod base_rig;
mod base_signals;
mod base_subscriptions;
mod bench;
mod budget;
mod corpus;
mod crash;
mod crash_branch;
mod crash_file;
mod crash_migration;
mod doctor;
mod dying;
mod ending;
mod event;
mod first;
mod fork;
mod key;
mod leak;
mod level;
mod limits;
mod mail;
mod order;
mod recover;
mod refuse;
mod resumed;
mod retain;
mod session;
mod sky;
mod stale;
mod wait;
mod weather;
mod weather_file;
mod window;
