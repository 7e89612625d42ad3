//! The abstract harness: one transmission in, one turn, one of three outcomes (harness §3 to §7).
//!
//! [`Harness`] wraps a graph for any runtime: a transport makes an [`Inbound`] of what it received, and answers with the
//! [`TurnReport`]. It builds on the engine alone and knows no chat; sessions are the engine's, it never touches their
//! store (§8.1). What the chat harness adds (acceptance, queues, numbered waits, recovery) is not here: turns of one
//! session are not put in order, and a pause keeps its descriptor only, not the deadline, action digest or payload schema
//! that its node asked for.

mod builder;
mod coordinator;
mod failure;
mod harness;
mod inbound;
mod report;
mod resuming;
mod route;
mod subscriptions;

pub use builder::{BuildState, HarnessBuilder, ResolveSession};
pub use coordinator::SignalCoordinator;
pub use failure::Failure;
pub use harness::Harness;
pub use inbound::{Inbound, Intent, SignalArrival, SignalTarget};
pub use report::{HarnessOutcome, Invoked, TurnReport};
pub use route::Mode;
pub use subscriptions::MemoryCoordinator;
