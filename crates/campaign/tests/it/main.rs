//! Tests of campaigns: plans, proposals, proofs, commands, prompts, schedules, and random sequences of all of them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod budgets;
mod plans;
mod prompts;
mod proofs;
mod proposals;
mod races;
mod random;
mod rules;
mod schedules;
mod stored;
