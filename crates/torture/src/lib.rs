//! Random load, kills, restarts, and the audit of what is left.
//!
//! A parent process starts a child that serves a chat over pipes, sends it what many clients would, kills it in the middle
//! of things (SIGKILL), starts it again, and keeps **the clients' own log**: what they asked, which turns, outcomes and
//! event ids they were given. Tools write their effects to a log of their own. In the end the store is opened again and
//! compared with both logs by [`singletree_audit`], and looked over by the doctor.
//!
//! # Use
//! The program hands a [`Plan`] and a way to start the child to [`torture`]; the child calls [`serve`]. Which store and
//! which binary, the program says: this crate knows neither.
//!
//! # Inside
//! `wire` is what goes over the pipes. `child` serves: `phase` and `watched` tell which commit is under way, `effects` and
//! `agent` are the load's tools and model, `office` is a second agent, whose releases differ by a list field. `heartbeat`
//! says that the child lives, `fault` which of its commits fail. `clients` decides what to ask and keeps the log, `mix` counts
//! what that was, `aim` chooses what to kill at, `process` starts and kills, `load` runs it all, `verdict` says what is left.
//! Whether something is stuck is measured before a kill, in a process that was left alone: a kill cures it.
//!
//! # Invariants
//! INV-1 to INV-4 and INV-6 to INV-8 (see ARCHITECTURE.md) are what it looks for.

mod aim;
mod child;
mod clients;
mod dice;
mod error;
mod fault;
mod heartbeat;
mod load;
mod mix;
mod phase;
mod process;
mod verdict;
mod wire;

pub use child::{ChildParts, Say, serve};
pub use error::{Error, Result};
pub use fault::CommitFaults;
pub use heartbeat::{ChildPhase, Heartbeat};
pub use load::{Opened, Plan, Until, torture};
pub use mix::Mix;
pub use phase::Phase;
pub use verdict::{Kills, Verdict};
pub use wire::{Ask, Line, Moment};
