//! The graph engine: graph declarations, and their execution.
//!
//! A *graph* is nodes, edges and a state schema, compiled and checked ([`GraphBuilder::compile`]). A *run* walks it:
//! node after node, each update merged by the fields' reducers, each edge evaluated on the result ([`Graph::invoke`]).
//! A node may pause the run for a signal ([`Ctx::suspend`]); it goes on later, in any process ([`Graph::resume`]).
//!
//! The engine implements the graph-engine, sessions and suspension specifications. It never writes by itself: a run is
//! kept through a port ([`PersistencePort`]), over the specifications' stores or a harness's journal.
//!
//! # Two halves
//! `plan` holds graph structure and positions in it; it is pure. `run` executes graphs on tokio, in the caller's task.
//!
//! # Invariants
//! INV-4, INV-5, INV-10, INV-11, INV-17 (see ARCHITECTURE.md).

mod error;
mod plan;
mod run;

pub use error::{Error, NodeLocation, ObserverFailure, Result};
pub use plan::cursor::{CursorFrame, FramePosition, GraphCursor};
pub use plan::edge::{END, GraphEnd, IntoTarget, Target};
pub use plan::fan_out::EmptyFanOutPolicy;
pub use plan::field::{
    FieldFault, JsonField, SharedList, StateField, StateListField, declare_field, read_field,
};
pub use plan::item::Item;
pub use plan::lineage::{LineageBoundary, NodeLineage};
pub use plan::list::PersistentList;
pub use plan::outline::{
    BranchOutline, CountOutline, EdgeOutline, GraphOutline, InstanceSourceOutline, NodeKind, NodeOutline,
};
pub use plan::policy::ErrorPolicy;
pub use plan::problem::{GraphProblem, GraphProblemKind, GraphWarning, GraphWarningKind};
pub use plan::projection::Projection;
pub use plan::reducer::{CustomReducer, KeyExtractor, Reducer, ReducerFault};
pub use plan::schema::{FieldSpec, StateSchema, UNVERSIONED, ValueCheck};
pub use plan::session::SessionShape;
pub use plan::shape::FieldShape;
pub use plan::slot::FieldContent;
pub use plan::snapshot::Snapshot;
pub use plan::state::{DeclaredState, State};
pub use plan::update::StateUpdate;
pub use run::ambient::{current, current_metadata, suspend};
pub use run::branches::{Branch, Branches};
pub use run::builder::GraphBuilder;
pub use run::chain::Next;
pub use run::classify::{Classification, ErrorLink, classify};
pub use run::context::Ctx;
pub use run::event::{
    AttemptEnd, AttemptPhase, BranchesConfig, CheckpointEvent, ContainerConfig, EventError, FanOutConfig,
    GraphEvent, IsolationEvent, NodeEvent,
};
pub use run::extension::Extensions;
pub use run::fan_out::FanOut;
pub use run::fault::{NodeError, NodeFault, NodeResult};
pub use run::graph::Graph;
pub use run::input::{
    Clock, IdGenerator, MonotonicClock, RandomIds, RandomSource, RuntimeTimer, SeededRandomSource,
    SystemClock, SystemMonotonicClock, SystemRandomSource, Timer,
};
pub use run::invoke::{EntryHook, InvokeOptions, RunMonitor, RunStart};
pub use run::limit::Limits;
pub use run::middleware::around::{FunctionMiddleware, around};
pub use run::middleware::isolation::FailureIsolation;
pub use run::middleware::retry::{Retry, RetryBackoff, is_transient};
pub use run::middleware::timing::{TimedOutcome, Timing, TimingRecord};
pub use run::middleware::{Middleware, MiddlewareSite};
pub use run::migrate::migrate_session;
pub use run::observe::{DrainSummary, Observer, ObserverId, Subscription};
pub use run::outcome::{CompletedRun, Identity, RunOutcome, SuspendedRun};
pub use run::port::{
    ContainerProgress, Fields, MemberProgress, PausedRun, PersistencePort, RequestedIdentity, RunCheckpoint,
    RunEnding, RunEntry, RunProgress, SessionState, StoredRun,
};
pub use run::scope::chain;
pub use run::signal::{Deadline, Descriptor, Signal, WaitTerms};
pub use singletree_durable::{MigrationError, StateMigrations};
