//! The abstract harness: one transmission in, one turn, one of three outcomes (harness §3 to §7).
//!
//! [`Harness`] wraps a graph for any runtime: a transport turns its input into an [`InboundRequest`], and answers with the
//! [`TurnReport`]. It builds on the engine alone and does not depend on the chat; sessions belong to the engine, and
//! the harness never accesses their store (§8.1). It has no acceptance, queues, numbered waits or recovery, which the
//! chat harness adds: turns of one session are not put in order, and a pause keeps its descriptor only, not the
//! deadline, action digest or payload schema that its node asked for.

mod builder;
mod coordinator;
mod failure;
mod harness;
mod inbound;
mod report;
mod resuming;
mod route;
mod subscriptions;

pub use builder::HarnessBuilder;
pub use coordinator::SignalCoordinator;
pub use failure::TurnFailure;
pub use harness::Harness;
pub use inbound::{InboundIntent, InboundRequest, SignalArrival, SignalTarget};
pub use report::{EngineInvocation, HarnessOutcome, TurnReport};
pub use route::HarnessMode;
pub use subscriptions::MemoryCoordinator;
