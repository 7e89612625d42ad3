//! Narration: its endpoints, and that nothing depends on it (agent-chat-output §12, INV-9).
//!
//! A *story* is played by a *world* with a fixed time, names, model and tools (`story`, `world`). Everything that it
//! shows to other readers than people is recorded, line by line (`seen`). The tests play stories again with narration
//! deleted, replaced, lost or marked, at every point, and compare the bytes; *mutants* that do read narration must fail
//! them (`teeth`).

mod agent;
mod deletion;
mod disturbed;
mod endpoints;
mod points;
mod seen;
mod sinks;
mod story;
mod strong;
mod tamper;
mod teeth;
mod wire;
mod world;
