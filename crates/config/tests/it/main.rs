//! Files as people write them, with every mistake that there is.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

mod broken;
mod docs;
mod names;
mod notify;
mod outside;
mod property;
mod replies;
mod serving;
mod sound;
mod table;
mod telemetry;
