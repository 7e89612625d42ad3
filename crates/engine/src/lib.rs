//! The graph engine: graph declarations, and their execution.
//!
//! A *graph* is nodes, edges and a state schema, compiled and checked ([`GraphBuilder::compile`]). A *run* walks it:
//! node after node, each update merged by the fields' reducers, each edge evaluated on the result ([`Graph::invoke`]).
//! A node may pause the run for a signal ([`Ctx::suspend`]); it goes on later, in any process ([`Graph::resume`]).
//!
//! The engine implements the graph-engine, sessions and suspension specifications. It never writes by itself: a run is
//! kept through a port ([`Persist`]), over the specifications' stores or a harness's journal.
//!
//! # Two halves
//! `plan` holds graph structure and positions in it; it is pure. `run` executes graphs on tokio, in the caller's task.
//!
//! # Invariants
//! INV-4, INV-5, INV-10, INV-11, INV-17 (see ARCHITECTURE.md).

mod error;
mod plan;
mod run;

pub use error::{Error, Mishap, Place, Result};
pub use plan::cursor::{Cursor, Frame, Position};
pub use plan::edge::{END, End, Route, Target};
pub use plan::fan_out::OnEmpty;
pub use plan::field::{Field, FieldFault, Json, ListField, ListOf, declare_field, read_field};
pub use plan::item::Item;
pub use plan::lineage::{Boundary, Lineage};
pub use plan::list::List;
pub use plan::outline::{Amount, BranchOutline, NextOutline, NodeKind, NodeOutline, Outline, Over};
pub use plan::policy::ErrorPolicy;
pub use plan::problem::{Problem, ProblemKind, Warning, WarningKind};
pub use plan::projection::Projection;
pub use plan::reducer::{CustomReducer, Key, Reducer, ReducerFault};
pub use plan::schema::{Check, FieldSpec, Schema, UNVERSIONED};
pub use plan::session::SessionShape;
pub use plan::shape::Shape;
pub use plan::slot::Slot;
pub use plan::snapshot::Snapshot;
pub use plan::state::{Declared, State};
pub use plan::update::Update;
pub use run::ambient::{current, current_metadata, suspend};
pub use run::branches::{Branch, Branches};
pub use run::builder::GraphBuilder;
pub use run::chain::Next;
pub use run::classify::{Classification, Link, classify};
pub use run::context::Ctx;
pub use run::event::{
    AttemptEnd, BranchesConfig, CheckpointEvent, ContainerConfig, Event, EventError, FanOutConfig,
    IsolationEvent, NodeEvent, Phase,
};
pub use run::extension::Extensions;
pub use run::fan_out::FanOut;
pub use run::fault::{Fault, NodeError, NodeResult};
pub use run::graph::Graph;
pub use run::input::{
    Chance, Clock, Ids, Monotonic, RandomIds, RuntimeTimer, SeededChance, SystemChance, SystemClock,
    SystemMonotonic, Timer,
};
pub use run::invoke::{EntryHook, InvokeOptions, Start, Watch};
pub use run::limit::Limits;
pub use run::middleware::around::{Around, around};
pub use run::middleware::isolation::FailureIsolation;
pub use run::middleware::retry::{Backoff, Retry, is_transient};
pub use run::middleware::timing::{TimedOutcome, Timing, TimingRecord};
pub use run::middleware::{Middleware, Site};
pub use run::migrate::migrate_session;
pub use run::observe::{DrainSummary, Observer, ObserverId, Subscription};
pub use run::outcome::{Completed, Identity, Outcome, Suspended};
pub use run::port::{
    Checkpoint, ContainerProgress, Ending, Entered, Fields, MemberProgress, Paused, Persist, Progress,
    RequestedIdentity, SessionState, Standing,
};
pub use run::scope::chain;
pub use run::signal::{Deadline, Descriptor, Signal, WaitTerms};
pub use singletree_durable::{MigrationError, Migrations};
