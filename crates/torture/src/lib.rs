//! Random load, kills, restarts, and the audit of the stored data after them.
//!
//! A parent process starts a child that serves a chat over pipes, sends it the calls of many clients, kills it at any
//! moment (SIGKILL), starts it again, and keeps **the clients' own log**: their calls, and the turns, outcomes and
//! event ids that they received. Tools write their effects to a log of their own. In the end the store is opened
//! again, compared with both logs by [`singletree_audit`], and examined by the doctor.
//!
//! # Use
//! The program hands a [`TorturePlan`] and a way to start the child to [`torture_child`]; the child calls
//! [`serve_requests`]. [`torture_nodes`] does the same with several children over one database. Which store and which binary, the program says: this crate knows neither.
//!
//! # Inside
//! `wire` is the protocol on the pipes. `child` serves: `phase` and `watched` report the commit that is under way,
//! `effects` and `agent` are the load's tools and model, `office` is a second agent, whose releases differ by a list
//! field. `heartbeat` reports that the child lives, `fault` decides which of its commits fail. `clients` decides the
//! next calls and keeps the log, `mix` counts them, `aim` chooses the moment of a kill, `process` starts and kills,
//! `load` runs everything with one process, `nodes` with several over one database, behind the connections of `proxy`;
//! `verdict` judges the stored data. Whether something is stuck is measured before a kill, in
//! a process that was left alone: a kill cures it.
//!
//! # Invariants
//! It checks INV-1 to INV-4 and INV-6 to INV-8 (see ARCHITECTURE.md).

mod aim;
mod child;
mod clients;
mod dice;
mod error;
mod fault;
mod heartbeat;
mod load;
mod mix;
mod nodes;
mod phase;
mod process;
mod proxy;
mod verdict;
mod wire;

pub use child::{ChildParts, Say, serve_requests};
pub use error::{Error, Result};
pub use fault::CommitFaults;
pub use heartbeat::{ChildPhase, Heartbeat};
pub use load::{ReopenedStore, StopCondition, TorturePlan, torture_child};
pub use mix::LoadComposition;
pub use nodes::{NodeFaults, NodePrograms, NodesPlan, STALLED, torture_nodes};
pub use phase::BatchPurpose;
pub use proxy::DatabaseAddress;
pub use verdict::{KillStatistics, TortureVerdict};
pub use wire::{ChildReport, ChildRequest, CommitSide};
