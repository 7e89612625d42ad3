//! The builder of a harness.

use std::fmt;
use std::sync::Arc;

use singletree_durable::{BoxError, PausedStore, SessionId, TenantId};
use singletree_engine::{Extensions, Graph, State, StateUpdate};
use singletree_env::{Env, IdGenerator};
use singletree_session::{BucketTable, Limits};

use super::coordinator::SignalCoordinator;
use super::harness::Harness;
use super::inbound::InboundRequest;
use super::route::HarnessMode;
use super::subscriptions::MemoryCoordinator;
use crate::agents::reply::Redact;

/// Determines the session of a transmission: none when it names none, an error when the name is not a valid session id.
///
/// A function of the transmission alone, since the same one must always take the same path (harness §3.4).
pub(super) type ResolveSession =
    Arc<dyn Fn(&InboundRequest) -> Result<Option<SessionId>, BoxError> + Send + Sync>;

/// Makes the initial state of a transmission: the fields that it sets; the engine checks them.
pub(super) type BuildState = Arc<dyn Fn(&InboundRequest) -> StateUpdate + Send + Sync>;

/// Where the paused records of the graph are, so that one that nobody can resume is removed (R32).
#[derive(Debug, Clone)]
pub(super) struct PausedRecords {
    pub(super) store: Arc<dyn PausedStore>,
    pub(super) tenant: TenantId,
}

/// Builds a [`Harness`].
pub struct HarnessBuilder<S> {
    pub(super) graph: Graph<S>,
    pub(super) mode: HarnessMode,
    pub(super) resolve: ResolveSession,
    pub(super) build: BuildState,
    pub(super) coordinator: Arc<dyn SignalCoordinator>,
    pub(super) paused: Option<PausedRecords>,
    pub(super) buckets: BucketTable,
    pub(super) redact: Redact,
    pub(super) limits: Limits,
    pub(super) env: Env,
    pub(super) extensions: Extensions,
}

impl<S: State> HarnessBuilder<S> {
    pub(super) fn for_graph(graph: Graph<S>, mode: HarnessMode) -> Self {
        Self {
            graph,
            mode,
            resolve: Arc::new(|it| Ok(it.session_id.as_deref().map(SessionId::parse).transpose()?)),
            build: Arc::new(|it| it.fields.clone().into()),
            coordinator: Arc::new(MemoryCoordinator::new()),
            paused: None,
            buckets: BucketTable::default(),
            redact: Arc::new(str::to_owned),
            limits: Limits::default(),
            env: Env::from_system(),
            extensions: Extensions::default(),
        }
    }

    /// Sets how a session is made out; by [`InboundRequest::session_id`] otherwise. Never called in stateless mode, nor for
    /// signals.
    #[must_use]
    pub fn session_resolver(
        mut self,
        resolve: impl Fn(&InboundRequest) -> Result<Option<SessionId>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.resolve = Arc::new(resolve);
        self
    }

    /// Sets how the initial state is made; of all of [`InboundRequest::fields`] otherwise.
    #[must_use]
    pub fn state_builder(
        mut self,
        build: impl Fn(&InboundRequest) -> StateUpdate + Send + Sync + 'static,
    ) -> Self {
        self.build = Arc::new(build);
        self
    }

    /// Sets the coordinator that routes signals to waiting invocations.
    ///
    /// A [`MemoryCoordinator`] otherwise: after a restart it knows **no** subscription. Harnesses in different modes
    /// over one graph need one each, else a stateless one could resume an invocation that has a session.
    #[must_use]
    pub fn coordinator(mut self, coordinator: Arc<dyn SignalCoordinator>) -> Self {
        self.coordinator = coordinator;
        self
    }

    /// Says where the graph keeps its paused records, and whose they are: the store and tenant that it was compiled
    /// with.
    ///
    /// With it, the record of a pause that cannot be subscribed to is deleted; without, it stays, and no signal leads
    /// to it (R32).
    #[must_use]
    pub fn paused_store(mut self, store: Arc<dyn PausedStore>, tenant: TenantId) -> Self {
        self.paused = Some(PausedRecords { store, tenant });
        self
    }

    /// Sets which category is in which bucket (harness §7).
    #[must_use]
    pub fn buckets(mut self, buckets: BucketTable) -> Self {
        self.buckets = buckets;
        self
    }

    /// Sets the redactor that every message of a failure passes (INV-16).
    #[must_use]
    pub fn redact(mut self, redact: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.redact = Arc::new(redact);
        self
    }

    /// Sets the bounds (INV-12). Of them count here: `payload_bytes`, `diagnostic_bytes`, and `read_time` for each call
    /// of the coordinator. How long a turn may take is the runtime's to say: dropping it ends it (§2).
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the environment: its timer counts time limits, and identifiers come from it; the real one by default.
    #[must_use]
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// Sets where the names of sessions come from that callers do not name (INV-11).
    #[must_use]
    pub fn ids(mut self, ids: Arc<dyn IdGenerator>) -> Self {
        self.env.ids = ids;
        self
    }

    /// Hands values to the nodes of every turn, by type.
    #[must_use]
    pub fn extensions(mut self, extensions: Extensions) -> Self {
        self.extensions = extensions;
        self
    }

    /// Makes the harness.
    #[must_use]
    pub fn build(self) -> Harness<S> {
        Harness::from_builder(self)
    }
}

impl<S> fmt::Debug for HarnessBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HarnessBuilder")
            .field("graph", &self.graph)
            .field("mode", &self.mode)
            .field("coordinator", &self.coordinator)
            .finish_non_exhaustive()
    }
}
