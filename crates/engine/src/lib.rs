//! The graph engine: graph declarations, and their execution.
//!
//! A *graph* is nodes, edges and a state schema, compiled and checked ([`GraphBuilder::compile`]). A *run* walks it:
//! node after node, each update merged by the fields' reducers, each edge evaluated on the result ([`Graph::invoke`]).
//! A node may pause the run for a signal ([`Ctx::suspend`]); it goes on later, in any process ([`Graph::resume`]).
//!
//! The engine implements the graph-engine, sessions and suspension specifications. It never writes by itself: a run is
//! kept through a port ([`PersistencePort`]), over the specifications' stores or a harness's journal.
//!
//! # A typed state
//!
//! ```
//! use singletree_engine::{Ctx, END, Graph, InvokeOptions, NodeResult, RunOutcome};
//! use singletree_macros::State;
//!
//! #[derive(Debug, State)]
//! #[state(engine = singletree_engine)] // not needed with the facade crate
//! struct Support {
//!     #[state(append)]
//!     replies: Vec<String>,
//!     approved: bool,
//! }
//!
//! async fn send(cx: Ctx<Support>) -> NodeResult<Support> {
//!     let reply = if cx.state().approved { "Sent." } else { "Not sent." };
//!     Ok(Support::update().approved(false).replies([reply])) // an approval never outlives its turn
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let graph = Graph::<Support>::builder().node("send", send).edge("send", END).entry("send").compile()?;
//! let outcome = graph.invoke(Support::update().approved(true), InvokeOptions::new()).await?;
//! let RunOutcome::Completed(done) = outcome else { unreachable!("nothing suspends") };
//! assert_eq!((done.state.replies, done.state.approved), (vec!["Sent.".to_owned()], false));
//! # Ok::<(), singletree_engine::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Two halves
//! `plan` holds the structure of a graph; it is pure. `run` executes graphs on tokio, in the caller's task. The values of
//! a state and the cursor of a run are the crate `graph`'s, reexported here.
//!
//! # Invariants
//! INV-4, INV-5, INV-10, INV-11, INV-17 (see ARCHITECTURE.md).

mod error;
mod plan;
mod run;

pub use error::{Error, NodeLocation, ObserverFailure, Result};
pub use plan::edge::{END, GraphEnd, IntoTarget, Target};
pub use plan::fan_out::EmptyFanOutPolicy;
pub use plan::outline::{
    BranchOutline, CountOutline, EdgeOutline, GraphOutline, InstanceSourceOutline, NodeKind, NodeOutline,
};
pub use plan::policy::ErrorPolicy;
pub use plan::problem::{GraphProblem, GraphProblemKind, GraphWarning, GraphWarningKind};
pub use plan::projection::Projection;
pub use plan::session::SessionShape;
pub use run::ambient::{
    add_invocation_metadata, current_calls, current_identity, current_metadata, suspend_invocation,
};
pub use run::branches::{Branch, Branches};
pub use run::builder::GraphBuilder;
pub use run::call_event::{
    CallerMetadata, EventSource, LlmAttemptEvent, LlmCall, LlmCompletionEvent, LlmDeltaKind, LlmFailedEvent,
    LlmFailure, LlmOutput, LlmRequestRecord, LlmTokenEvent, ToolCallEvent, ToolCallFailedEvent,
    ToolExecution,
};
pub use run::call_tracing::{CallTracing, TracedCall};
pub use run::calls::{ObservedCalls, ToolRun};
pub use run::chain::Next;
pub use run::classify::{Classification, ErrorLink, classify_error};
pub use run::context::Ctx;
pub use run::event::{
    AttemptEnd, AttemptPhase, BranchesConfig, CheckpointEvent, ContainerConfig, EventError, FanOutConfig,
    GraphEvent, IsolationEvent, NodeEvent,
};
pub use run::extension::Extensions;
pub use run::fan_out::FanOut;
pub use run::fault::{NodeError, NodeFault, NodeResult};
pub use run::graph::Graph;
pub use run::invoke::{EntryHook, InvokeOptions, RunMonitor, RunStart};
pub use run::lifecycle_event::{InvocationChange, InvocationEvent, MetadataEvent, UnitChange, UnitEvent};
pub use run::limit::Limits;
pub use run::middleware::around::{FunctionMiddleware, around};
pub use run::middleware::isolation::FailureIsolation;
pub use run::middleware::retry::is_transient_error;
pub use run::middleware::timing::{TimedOutcome, Timing, TimingRecord};
pub use run::middleware::{Middleware, MiddlewareSite};
pub use run::migrate::migrate_session;
pub use run::model_call::ModelCallScope;
pub use run::observe::{DrainSummary, Observer, ObserverId, Subscription};
pub use run::outcome::{CompletedRun, RunOutcome, SuspendedRun};
pub use run::port::{PersistencePort, RequestedIdentity, RunEnding, RunEntry};
pub use run::retrieval_event::{
    EmbeddingEvent, EmbeddingFailedEvent, RerankEvent, RerankFailedEvent, RetrievalAnswer, RetrievalCall,
    RetrievalFailure, ScoredDocument,
};
pub use run::scope::format_error_chain;
pub use run::signal::Signal;
pub use run::tool_call::ToolCallScope;
pub use singletree_durable::{MigrationError, StateMigrations};
pub use singletree_env::{
    Clock, IdGenerator, MonotonicClock, RandomIds, RandomSource, Retry, RetryBackoff, RetryableError,
    RuntimeTimer, SeededRandomSource, SystemClock, SystemMonotonicClock, SystemRandomSource, Timer,
    TraceHeaders,
};
pub use singletree_graph::{
    ContainerProgress, CursorFrame, CustomReducer, Deadline, DeclaredState, Descriptor, FieldContent,
    FieldFault, FieldShape, FieldSpec, Fields, FramePosition, GraphCursor, Identity, Item, JsonField,
    KeyExtractor, LineageBoundary, MemberProgress, NodeLineage, PausedRun, PersistentList, Reducer,
    ReducerFault, RunCheckpoint, RunProgress, SessionState, SharedList, Snapshot, State, StateField,
    StateListField, StateSchema, StateUpdate, StoredRun, UNVERSIONED, ValueCheck, WaitTerms, declare_field,
    read_field,
};
