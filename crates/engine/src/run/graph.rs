//! Compiled graphs.

use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use singletree_durable::{BoxFuture, InvocationId, StateMigrations};
use singletree_env::Env;
use singletree_graph::{Identity, SessionState, Snapshot, StateSchema, StateUpdate, StoredRun};

use super::ambient;
use super::branches::{BranchBody, BranchesWork};
use super::fan_out::FanOutWork;
use super::fault::NodeError;
use super::limit::Limits;
use super::middleware::MiddlewareChain;
use super::migrate::migrate_frames;
use super::observe::{DrainSummary, ObserverId, Subscription};
use super::queue::{EventBacklog, OnObserverFailure, wait_with_timeout};
use super::restore;
use super::scope::{NodeAttempt, RegisteredObservers};
use super::stores::GraphStores;
use crate::error::{Error, Result};
use crate::plan::problem::GraphWarning;
use crate::plan::topology::GraphTopology;

/// A node's body, without its types.
pub(crate) type NodeBody = Arc<
    dyn Fn(Arc<NodeAttempt>) -> BoxFuture<'static, std::result::Result<StateUpdate, NodeError>> + Send + Sync,
>;

/// The work of a node.
pub(crate) enum NodeWork {
    Function(NodeBody),
    Subgraph(Arc<GraphCore>),
    FanOut(FanOutWork),
    Branches(BranchesWork),
}

/// A compiled graph without its state type, shared by its runs.
pub(crate) struct GraphCore {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) topology: GraphTopology,
    /// The work of each node, by the topology's numbers.
    pub(crate) works: Vec<NodeWork>,
    /// The middleware around each node, by the topology's numbers.
    pub(crate) chains: Vec<MiddlewareChain>,
    pub(crate) auto_save: bool,
    pub(crate) stores: GraphStores,
    pub(crate) limits: Limits,
    pub(crate) env: Env,
    pub(crate) on_mishap: OnObserverFailure,
    digest: String,
    warnings: Vec<GraphWarning>,
    /// Guards the observers attached to this graph; held for a copy only.
    observers: Mutex<GraphObservers>,
    /// Guards the queues of this graph's invocations; held for a copy only.
    backlogs: Mutex<Vec<Arc<EventBacklog>>>,
}

#[derive(Default)]
struct GraphObservers {
    next: u64,
    list: RegisteredObservers,
}

/// The parts of a compiled graph.
pub(crate) struct GraphCoreParts {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) topology: GraphTopology,
    pub(crate) works: Vec<NodeWork>,
    /// The middleware around each node, by the topology's numbers.
    pub(crate) chains: Vec<MiddlewareChain>,
    pub(crate) auto_save: bool,
    pub(crate) stores: GraphStores,
    pub(crate) limits: Limits,
    pub(crate) env: Env,
    pub(crate) on_mishap: OnObserverFailure,
    pub(crate) warnings: Vec<GraphWarning>,
}

impl GraphCore {
    pub(crate) fn new(parts: GraphCoreParts) -> Self {
        Self {
            name: parts.name,
            digest: compute_digest(&parts.topology, &parts.works),
            topology: parts.topology,
            works: parts.works,
            chains: parts.chains,
            auto_save: parts.auto_save,
            stores: parts.stores,
            limits: parts.limits,
            env: parts.env,
            on_mishap: parts.on_mishap,
            warnings: parts.warnings,
            observers: Mutex::default(),
            backlogs: Mutex::default(),
        }
    }

    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the observers attached to this graph, in the order of registration.
    pub(crate) fn attached_observers(&self) -> RegisteredObservers {
        self.observers.lock().unwrap_or_else(PoisonError::into_inner).list.clone()
    }

    pub(crate) fn track_backlog(&self, backlog: &Arc<EventBacklog>) {
        let mut backlogs = self.backlogs.lock().unwrap_or_else(PoisonError::into_inner);
        backlogs.retain(|backlog| !backlog.is_worker_done());
        backlogs.push(backlog.clone());
    }

    fn tracked_backlogs(&self) -> Vec<Arc<EventBacklog>> {
        self.backlogs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn check_session_state(&self, loaded: &SessionState) -> Result<()> {
        let checked = self.topology.session.check_stored_fields(&self.topology.schema, &loaded.fields);
        checked.map_err(|source| Error::Validation { place: None, source, state: None })
    }

    /// Brings the states of a stored run to the graph's version.
    pub(crate) fn migrate_stored_run(
        &self,
        standing: StoredRun,
        from: &str,
        migrations: &StateMigrations,
    ) -> Result<StoredRun> {
        let frames = migrate_frames(standing.frames, (from, self.topology.schema.version()), migrations)?;
        Ok(StoredRun { frames, ..standing })
    }

    /// Returns the session's slice of a state, for an invocation that has a session.
    pub(crate) fn session_state(&self, state: &Snapshot, identity: &Identity) -> Option<SessionState> {
        identity.session_id.as_ref()?;
        let plan = &self.topology.session;
        let fields = plan
            .fields
            .iter()
            .map(|(name, at)| (name.clone(), state.field_content_at(*at).clone()))
            .collect();
        Some(SessionState { schema_version: plan.version.clone(), fields })
    }
}

/// Describes a graph's structure and digests the description; cursors depend on it (D28). Bodies are not part of it.
fn compute_digest(topology: &GraphTopology, works: &[NodeWork]) -> String {
    let mut hash = Sha256::new();
    for field in topology.schema.fields() {
        hash.update(format!(
            "field {}: {} by {}\n",
            field.name(),
            field.shape(),
            field.effective_reducer().name()
        ));
    }
    for (node, work) in topology.nodes.iter().zip(works) {
        let inner = match work {
            NodeWork::Function(_) => "function".to_owned(),
            NodeWork::Subgraph(core) => core.digest.clone(),
            NodeWork::FanOut(fan) => format!("fan-out {}", fan.core.digest),
            NodeWork::Branches(dispatch) => {
                dispatch.branches.iter().fold("branches".to_owned(), |text, it| {
                    let inner = match &it.doing {
                        BranchBody::Subgraph(core) => core.digest.as_str(),
                        BranchBody::Call(_) => "function",
                    };
                    format!("{text} {:?} {inner}", it.name)
                })
            }
        };
        hash.update(format!("node {} {inner} {:?}\n", node.name, node.edge));
    }
    hash.update(format!("entry {}", topology.nodes[topology.entry].name));
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// A compiled graph: immutable and executable (graph-engine §2). Cloning shares it.
pub struct Graph<S> {
    pub(crate) core: Arc<GraphCore>,
    state: PhantomData<fn() -> S>,
}

impl<S> Graph<S> {
    pub(crate) fn from_core(core: GraphCore) -> Self {
        Self { core: Arc::new(core), state: PhantomData }
    }

    /// Returns the same graph over its schema, without its state type.
    #[must_use]
    pub fn untyped(&self) -> Graph<Snapshot> {
        Graph { core: self.core.clone(), state: PhantomData }
    }

    /// Returns the schema of the graph's state.
    #[must_use]
    pub fn schema(&self) -> &Arc<StateSchema> {
        &self.core.topology.schema
    }

    /// Returns the session's fields: pairs of (session field, state field) (sessions §4).
    pub fn session_fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let topology = &self.core.topology;
        topology.session.fields.iter().map(|(name, at)| (name.as_ref(), topology.schema.fields()[*at].name()))
    }

    /// Returns the version of the session's schema (sessions §7).
    #[must_use]
    pub fn session_version(&self) -> &str {
        &self.core.topology.session.version
    }

    /// Checks state that comes from a store or a migration, list elements included: a port does this once, when it
    /// loads state that it did not write itself. Fields that are not the session's are not looked at.
    ///
    /// # Errors
    /// `state_validation_error`.
    pub fn check_session_state(&self, loaded: &SessionState) -> Result<()> {
        self.core.check_session_state(loaded)
    }

    /// Migrates the states of a run that was stored under another version of the state's schema to the graph's version,
    /// and checks the migrated states, list elements included: a port does this when it enters a stored run. Each frame
    /// is migrated by the same chain (pipeline-utilities §10.12.2). A run of the same version is returned unchanged:
    /// its states are not checked and the registry is not consulted.
    ///
    /// # Errors
    /// `checkpoint_state_migration_missing`, `…_chain_ambiguous`, `…_failed`, `state_validation_error`.
    pub fn migrate_stored_run(
        &self,
        standing: StoredRun,
        from: &str,
        migrations: &StateMigrations,
    ) -> Result<StoredRun> {
        if from == self.schema().version() {
            return Ok(standing);
        }
        let standing = self.core.migrate_stored_run(standing, from, migrations)?;
        restore::check_stored_states(&self.core, &standing)?;
        Ok(standing)
    }

    /// Returns a digest of the graph's structure: fields, nodes, edges, entry, also those of its subgraphs (D28).
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.core.digest
    }

    /// Returns the compiler's warnings.
    #[must_use]
    pub fn warnings(&self) -> &[GraphWarning] {
        &self.core.warnings
    }

    /// Attaches an observer to every invocation that begins from now on, also where this graph is a subgraph.
    pub fn attach_observer(&self, observer: impl Into<Subscription>) -> ObserverId {
        let mut attached = self.core.observers.lock().unwrap_or_else(PoisonError::into_inner);
        let id = attached.next;
        attached.next += 1;
        attached.list = attached.list.iter().cloned().chain([(id, observer.into())]).collect();
        ObserverId(id)
    }

    /// Takes an observer off, for invocations that begin from now on; false when it was not attached.
    pub fn detach_observer(&self, observer: ObserverId) -> bool {
        let mut attached = self.core.observers.lock().unwrap_or_else(PoisonError::into_inner);
        let before = attached.list.len();
        attached.list = attached.list.iter().filter(|(id, _)| *id != observer.0).cloned().collect();
        attached.list.len() < before
    }

    /// Waits until every event of the invocations that are active now was delivered (graph-engine §6).
    ///
    /// With a time limit it returns in time and drops the undelivered events: the workers end, later invocations are
    /// not touched. A slow observer makes this as slow; give a limit in short-lived processes.
    ///
    /// # Errors
    /// `invalid_argument` inside an invocation, which would wait for itself.
    pub async fn drain(&self, timeout: Option<Duration>) -> Result<DrainSummary> {
        let backlogs = self.core.tracked_backlogs();
        if let Some(current) = ambient::current_identity()
            && backlogs.iter().any(|backlog| backlog.invocation == current.invocation_id)
        {
            let what = "drain was called inside an invocation of the same graph; use drain_events".into();
            return Err(Error::Argument { what });
        }
        let wait = async {
            for backlog in &backlogs {
                backlog.wait_for_worker_end().await;
            }
        };
        let timeout_reached = wait_with_timeout(self.core.env.timer.as_ref(), timeout, wait).await;
        let undelivered =
            |it: &Arc<EventBacklog>| if timeout_reached { it.abort_worker() } else { it.undelivered_count() };
        Ok(DrainSummary { undelivered_count: backlogs.iter().map(undelivered).sum(), timeout_reached })
    }

    /// Waits until the events of one invocation that were dispatched by now are delivered (graph-engine §6). May be
    /// called in a node's body; a time limit cancels nothing. An invocation that is not known or done is drained at
    /// once.
    pub async fn drain_events_for(
        &self,
        invocation: &InvocationId,
        timeout: Option<Duration>,
    ) -> DrainSummary {
        let backlogs: Vec<_> = self
            .core
            .tracked_backlogs()
            .into_iter()
            .filter(|backlog| backlog.invocation == *invocation)
            .collect();
        let mut summary = DrainSummary { undelivered_count: 0, timeout_reached: false };
        for backlog in backlogs {
            let one = backlog.wait_for_delivery(timeout).await;
            summary.undelivered_count += one.undelivered_count;
            summary.timeout_reached |= one.timeout_reached;
        }
        summary
    }
}

impl<S> Clone for Graph<S> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone(), state: PhantomData }
    }
}

impl<S> fmt::Debug for Graph<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("nodes", &self.core.topology.nodes).finish_non_exhaustive()
    }
}
