//! Agents in conversation, over stores that die and over stores that do not.
#![expect(clippy::disallowed_methods, reason = "a test starts tasks and measures the time of its runtime")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod approvals;
mod artifacts;
mod budget;
mod cancelling;
mod command;
mod commits;
mod compaction;
mod crashes;
mod demo;
mod early_ends;
mod failing;
mod inside;
mod one_record;
mod orphans;
mod payloads;
mod pictures;
mod plays;
mod probe;
mod repair;
mod replies;
mod rig;
mod stateless;
mod steering;
mod streaming;
mod team;
mod time_limits;
mod tool_documents;
mod tool_pictures;
mod tools;
mod trace_context;
mod traces;
mod watched;
mod window;
