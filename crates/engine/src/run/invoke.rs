//! Invoking a graph: the caller's options, and the ways to begin (graph-engine §3, suspension §7).

use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_durable::{InvocationId, SessionId};
use singletree_graph::{FieldFault, RunProgress, Snapshot, State, StateUpdate, catch_panic};

use super::call_tracing::CallTracing;
use super::drive;
use super::extension::Extensions;
use super::graph::Graph;
use super::observe::Subscription;
use super::outcome::{CompletedRun, RunOutcome, SuspendedRun};
use super::port::{PersistencePort, RequestedIdentity};
use super::scope::RunContext;
use super::stores::StorePort;
use crate::error::{Error, Result};

/// The options of one invocation.
#[derive(Debug, Clone, Default)]
pub struct InvokeOptions {
    pub(crate) identity: RequestedIdentity,
    pub(crate) observers: Vec<Subscription>,
    pub(crate) extensions: Extensions,
    pub(crate) label: Option<Arc<str>>,
    pub(crate) metadata: Map<String, Value>,
    pub(crate) recovering: bool,
    pub(crate) tracing: Option<Arc<dyn CallTracing>>,
}

impl InvokeOptions {
    /// Makes options that say nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds the invocation to a session (sessions §3).
    #[must_use]
    pub fn session(mut self, session: SessionId) -> Self {
        self.identity.session_id = Some(session);
        self
    }

    /// Sets the invocation's id; ignored on a resume, which keeps its own (graph-engine §3).
    #[must_use]
    pub fn invocation(mut self, invocation: InvocationId) -> Self {
        self.identity.invocation_id = Some(invocation);
        self
    }

    /// Sets the correlation id.
    #[must_use]
    pub fn correlation(mut self, correlation: impl Into<String>) -> Self {
        self.identity.correlation_id = Some(correlation.into());
        self
    }

    /// Names the invocation for people who look at traces (observability §8.6). It has no other meaning.
    #[must_use]
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Says something about the invocation, for people who search for it later (graph-engine §3, observability §3.4).
    ///
    /// Nodes read it from their context and may add to it ([`Ctx::add_metadata`](crate::Ctx::add_metadata)), observers
    /// read it by [`current_metadata`](crate::current_metadata). It belongs to this call: nothing stores it, and a resume brings its own. Checked when the invocation begins (`invalid_argument`):
    /// keys are not empty and not reserved; values are text, numbers, truth values, or arrays of one of these.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Sets who says in which trace the calls of models and tools go out. It is asked where calls are reported: while an
    /// observer or a port hears of them.
    #[must_use]
    pub fn call_tracing(mut self, tracing: Arc<dyn CallTracing>) -> Self {
        self.tracing = Some(tracing);
        self
    }

    /// Adds an observer of this invocation alone.
    #[must_use]
    pub fn observer(mut self, observer: impl Into<Subscription>) -> Self {
        self.observers.push(observer.into());
        self
    }

    /// Sets whether the invocation may have run before and died; its first node execution sees this as
    /// [`Ctx::is_recovering`](crate::Ctx::is_recovering). For runs that begin anew because nothing of them was
    /// recorded; [`RunStart::Recover`] sets it by itself.
    #[must_use]
    pub fn recovering(mut self, recovering: bool) -> Self {
        self.recovering = recovering;
        self
    }

    /// Hands values to the nodes, by type.
    #[must_use]
    pub fn extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }
}

/// Makes the update with which a run begins, from the state as loaded: the session's over the defaults, or the
/// defaults.
pub type EntryHook = Box<dyn FnOnce(&Snapshot) -> StateUpdate + Send>;

/// How a kept run begins.
pub enum RunStart {
    /// At the entry.
    Fresh {
        /// Fields that the caller sets (R1).
        initial: StateUpdate,
        /// Called between load and merge; its update passes the reducers.
        hook: Option<EntryHook>,
    },
    /// At a suspension, with the payload of its signal.
    Resume {
        /// The payload; empty is a payload, too.
        payload: Map<String, Value>,
    },
    /// After the last recorded step, because the process died.
    Recover,
}

impl std::fmt::Debug for RunStart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fresh { .. } => "Fresh",
            Self::Resume { .. } => "Resume",
            Self::Recover => "Recover",
        })
    }
}

/// A look at a run from outside, also after it was dropped: where it stands.
#[derive(Default)]
pub struct RunMonitor(std::sync::OnceLock<Arc<RunContext>>);

impl RunMonitor {
    /// Returns where the run stands or stood, once it has begun.
    #[must_use]
    pub fn capture_progress(&self) -> Option<RunProgress> {
        self.0.get().and_then(|it| it.capture_progress())
    }

    pub(crate) fn set_run_context(&self, run: &Arc<RunContext>) {
        drop(self.0.set(run.clone()));
    }
}

impl std::fmt::Debug for RunMonitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch({})", if self.0.get().is_some() { "begun" } else { "not begun" })
    }
}

impl<S: State> Graph<S> {
    /// Runs the graph from its entry (graph-engine §3).
    ///
    /// `initial` sets fields of the initial state; the others take their defaults. With a session, the stored fields
    /// come first, and the fields that are set here pass the reducers on top of them (sessions §4, R1).
    ///
    /// # Errors
    /// By category: those of graph-engine §4, sessions §10, suspension §9; `invocation_limit_exceeded`. An error
    /// carries the state that can be recovered ([`Error::recoverable_state`]).
    ///
    /// # Cancellation
    /// Dropping the future ends the run at its next await. A suspension or save that had begun has happened or has not.
    pub async fn invoke(
        &self,
        initial: impl Into<StateUpdate>,
        options: InvokeOptions,
    ) -> Result<RunOutcome<S>> {
        let port = Arc::new(StorePort::for_new_run(&self.core, options.identity.session_id.clone()));
        let start = RunStart::Fresh { initial: initial.into(), hook: None };
        self.read_typed_outcome(
            drive::drive_run(&self.core, port, start, options, &RunMonitor::default()).await?,
        )
    }

    /// Resumes a suspended invocation with the payload of its signal (suspension §6, §7).
    ///
    /// The invocation keeps its id and its session; options that name others are ignored, except that another session
    /// is an error.
    ///
    /// # Errors
    /// As [`Graph::invoke`]; `suspension_record_invalid` when there is nothing to resume,
    /// `suspension_resume_payload_invalid` when the payload does not fit (the record stays suspended),
    /// `session_write_conflict` when the session was written since (it stays suspended, too).
    pub async fn resume(
        &self,
        invocation: &InvocationId,
        payload: Map<String, Value>,
        options: InvokeOptions,
    ) -> Result<RunOutcome<S>> {
        let port =
            StorePort::for_paused_run(&self.core, invocation.clone(), options.identity.session_id.clone());
        let start = RunStart::Resume { payload };
        self.read_typed_outcome(
            drive::drive_run(&self.core, Arc::new(port), start, options, &RunMonitor::default()).await?,
        )
    }

    /// Goes on with an invocation that failed or died, where its checkpoint says that it stood (pipeline-utilities
    /// §10.4).
    ///
    /// Nodes that had completed do not run again; a node that was in the middle does, from its start and with its
    /// attempts counted anew, so nodes must bear being repeated (§10.5, §10.6). It is an invocation of its own: it gets
    /// a fresh id, whatever the options say, and keeps the correlation id. The session is not loaded again, since the
    /// state has it already; it is saved at the end. Options that name another session than the record's are an error.
    ///
    /// # Errors
    /// As [`Graph::invoke`]; `checkpoint_not_found`, also without a checkpointer; `checkpoint_load_failed`;
    /// `checkpoint_record_invalid` when the record does not fit the graph, also a fan-out that has another number of
    /// instances now; `checkpoint_state_migration_*` when its state is of another version.
    pub async fn recover(&self, invocation: &InvocationId, options: InvokeOptions) -> Result<RunOutcome<S>> {
        let session = options.identity.session_id.clone();
        let port = Arc::new(StorePort::for_checkpoint(&self.core, invocation.clone(), session));
        self.read_typed_outcome(
            drive::drive_run(&self.core, port, RunStart::Recover, options, &RunMonitor::default()).await?,
        )
    }

    /// Runs the graph over a port of the caller's own, which keeps the run. Harnesses build on this call.
    ///
    /// # Errors
    /// As [`Graph::invoke`], and the errors of the port.
    ///
    /// # Cancellation
    /// As [`Graph::invoke`]; `watch` tells where a dropped run stood.
    pub async fn invoke_with_port(
        &self,
        port: Arc<dyn PersistencePort>,
        start: RunStart,
        options: InvokeOptions,
        watch: &RunMonitor,
    ) -> Result<RunOutcome<Snapshot>> {
        drive::drive_run(&self.core, port, start, options, watch).await
    }

    fn read_typed_outcome(&self, outcome: RunOutcome<Snapshot>) -> Result<RunOutcome<S>> {
        outcome.try_map_state(|state| {
            let read = catch_panic(|| S::read(&state))
                .unwrap_or_else(|caught| Err(FieldFault::new("final state", caught)));
            read.map_err(|source| Error::Validation { place: None, source, state: Some(state) })
        })
    }
}

impl<S> From<CompletedRun<S>> for RunOutcome<S> {
    fn from(completed: CompletedRun<S>) -> Self {
        Self::Completed(completed)
    }
}

impl<S> From<SuspendedRun<S>> for RunOutcome<S> {
    fn from(suspended: SuspendedRun<S>) -> Self {
        Self::Suspended(suspended)
    }
}
