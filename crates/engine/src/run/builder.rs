//! Building graphs: collect everything, check it all at once.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use singletree_durable::{
    Checkpointer, MemoryStore, MigrationError, PausedStore, SessionStore, StateMigrations, TenantId,
};
use singletree_env::{Clock, Env, IdGenerator, RandomSource, Timer};
use singletree_graph::{DeclaredState, Snapshot, State, StateSchema};

use super::branches::Branches;
use super::context::{Ctx, make_node_body};
use super::fan_out::FanOut;
use super::fault::NodeResult;
use super::graph::{Graph, GraphCore, GraphCoreParts, NodeWork};
use super::limit::Limits;
use super::middleware::{self, Middleware, MiddlewareChain, MiddlewareSite};
use super::queue::OnObserverFailure;
use super::stores::GraphStores;
use crate::error::{Error, ObserverFailure, Result};
use crate::plan::compile::{self, DraftNode, DraftNodeKind, GraphDraft};
use crate::plan::edge::{END, GraphEdge, IntoTarget, Target, TargetFunction};
use crate::plan::problem::{GraphProblem, GraphProblemKind};
use crate::plan::projection::Projection;
use crate::plan::session::SessionShape;

/// Collects a graph's nodes and edges; [`GraphBuilder::compile`] checks them (graph-engine §2).
pub struct GraphBuilder<S> {
    name: Option<Arc<str>>,
    draft: GraphDraft,
    works: Vec<NodeWork>,
    around_all: Vec<Arc<dyn Middleware>>,
    around_one: Vec<(String, Arc<dyn Middleware>)>,
    stores: GraphStores,
    auto_save: bool,
    limits: Limits,
    env: Env,
    on_mishap: OnObserverFailure,
    state: PhantomData<fn() -> S>,
}

impl<S: DeclaredState> Graph<S> {
    /// Starts a graph over a declared state type.
    #[must_use]
    pub fn builder() -> GraphBuilder<S> {
        GraphBuilder::from_schema(S::schema())
    }
}

impl<S: DeclaredState> Graph<S> {
    /// Makes a graph of one function, to declare a fan-out over a function.
    ///
    /// # Errors
    /// As [`GraphBuilder::compile`], for the schema.
    pub fn single_node<F, Fut>(name: &str, function: F) -> Result<Self>
    where
        F: Fn(Ctx<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = NodeResult<S>> + Send + 'static,
    {
        Self::builder().node(name, function).edge(name, END).entry(name).compile()
    }
}

impl Graph<Snapshot> {
    /// Starts a graph over a schema that is only known at run time.
    #[must_use]
    pub fn builder_with(schema: StateSchema) -> GraphBuilder<Snapshot> {
        GraphBuilder::from_schema(Arc::new(schema))
    }
}

impl<S: State> GraphBuilder<S> {
    fn from_schema(schema: Arc<StateSchema>) -> Self {
        let session = SessionShape::default();
        let paused: Arc<dyn PausedStore> = Arc::new(MemoryStore::new());
        Self {
            name: None,
            draft: GraphDraft { schema, nodes: Vec::new(), edges: Vec::new(), entry: None, session },
            works: Vec::new(),
            around_all: Vec::new(),
            around_one: Vec::new(),
            stores: GraphStores {
                sessions: None,
                paused,
                tenant: TenantId::single(),
                migrations: Arc::default(),
                checkpoints: None,
                checkpoint_events: true,
                state_migrations: Arc::default(),
            },
            auto_save: true,
            limits: Limits::default(),
            env: Env::from_system(),
            on_mishap: Arc::new(drop),
            state: PhantomData,
        }
    }

    fn add_node(mut self, name: String, kind: DraftNodeKind, work: NodeWork) -> Self {
        self.draft.nodes.push(DraftNode { name, kind });
        self.works.push(work);
        self
    }

    /// Names the graph, for traces: a subgraph's span carries the name (observability §5.3). It has no other meaning.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds a node: an async function from the context to an update.
    #[must_use]
    pub fn node<F, Fut>(self, name: impl Into<String>, function: F) -> Self
    where
        F: Fn(Ctx<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = NodeResult<S>> + Send + 'static,
    {
        self.add_node(name.into(), DraftNodeKind::Function, NodeWork::Function(make_node_body(function)))
    }

    /// Adds a compiled graph as a node (graph-engine §2). Its own stores are not used: a session is the outermost
    /// graph's concern (sessions §9.1).
    #[must_use]
    pub fn subgraph<C>(self, name: impl Into<String>, graph: &Graph<C>, projection: Projection) -> Self {
        let kind = DraftNodeKind::Subgraph(graph.schema().clone(), projection);
        self.add_node(name.into(), kind, NodeWork::Subgraph(graph.core.clone()))
    }

    /// Adds a fan-out as a node (pipeline-utilities §9).
    #[must_use]
    pub fn fan_out(self, name: impl Into<String>, fan_out: FanOut<S>) -> Self {
        let kind = DraftNodeKind::FanOut(fan_out.work.core.topology.schema.clone(), fan_out.draft);
        self.add_node(name.into(), kind, NodeWork::FanOut(fan_out.work))
    }

    /// Adds parallel branches as a node (pipeline-utilities §11).
    #[must_use]
    pub fn branches(self, name: impl Into<String>, branches: Branches<S>) -> Self {
        self.add_node(name.into(), DraftNodeKind::Branches(branches.draft), NodeWork::Branches(branches.work))
    }

    /// Puts a middleware around every node of this graph, further in than those that were put before it and further out
    /// than those of single nodes (pipeline-utilities §3). The nodes of subgraphs are not this graph's.
    #[must_use]
    pub fn middleware(mut self, middleware: impl Middleware + 'static) -> Self {
        self.around_all.push(Arc::new(middleware));
        self
    }

    /// Puts a middleware around one node, further in than those that were put around it before. Around a subgraph, a
    /// fan-out or branches it stands around the whole of it.
    #[must_use]
    pub fn node_middleware(mut self, node: impl Into<String>, middleware: impl Middleware + 'static) -> Self {
        self.around_one.push((node.into(), Arc::new(middleware)));
        self
    }

    /// Leads a node to a fixed target.
    #[must_use]
    pub fn edge(mut self, from: impl Into<String>, to: impl Into<Target>) -> Self {
        self.draft.edges.push((from.into(), GraphEdge::Static(to.into())));
        self
    }

    /// Leads a node to where a function of the state after its update says.
    #[must_use]
    pub fn conditional_edge<R: IntoTarget>(
        self,
        from: impl Into<String>,
        choose: impl Fn(&S) -> R + Send + Sync + 'static,
    ) -> Self {
        self.add_conditional_edge(from.into(), None, choose)
    }

    /// As [`GraphBuilder::conditional_edge`], with the targets that the function may name: then they are checked, and
    /// nodes that nothing leads to are found.
    #[must_use]
    pub fn conditional_edge_to<R: IntoTarget>(
        self,
        from: impl Into<String>,
        targets: impl IntoIterator<Item = Target>,
        choose: impl Fn(&S) -> R + Send + Sync + 'static,
    ) -> Self {
        self.add_conditional_edge(from.into(), Some(targets.into_iter().collect()), choose)
    }

    fn add_conditional_edge<R: IntoTarget>(
        mut self,
        from: String,
        targets: Option<Vec<Target>>,
        choose: impl Fn(&S) -> R + Send + Sync + 'static,
    ) -> Self {
        let choose: TargetFunction = Arc::new(move |snapshot| choose(&*snapshot.typed_view::<S>()?).route());
        self.draft.edges.push((from, GraphEdge::Conditional { choose, targets }));
        self
    }

    /// Declares where a run begins.
    #[must_use]
    pub fn entry(mut self, node: impl Into<String>) -> Self {
        self.draft.entry = Some(node.into());
        self
    }

    /// Registers where sessions live. Used by invocations that are given a session id (sessions §3).
    #[must_use]
    pub fn session_store(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.stores.sessions = Some(store);
        self
    }

    /// Declares which fields are the session's; all of them otherwise (sessions §4).
    #[must_use]
    pub fn session_shape(mut self, shape: SessionShape) -> Self {
        self.draft.session = shape;
        self
    }

    /// Says whether the session is saved at the end of an invocation; true otherwise (sessions §6.3).
    #[must_use]
    pub fn auto_save(mut self, auto_save: bool) -> Self {
        self.auto_save = auto_save;
        self
    }

    /// Registers migrations of stored session state (sessions §7).
    #[must_use]
    pub fn session_migrations(mut self, migrations: StateMigrations) -> Self {
        self.stores.migrations = Arc::new(migrations);
        self
    }

    /// Registers where suspended invocations live (suspension §8.5).
    ///
    /// Without one they live in memory: they survive the invocation, **but not the process** (R16).
    #[must_use]
    pub fn paused_store(mut self, store: Arc<dyn PausedStore>) -> Self {
        self.stores.paused = store;
        self
    }

    /// Registers where running invocations are saved, at the end of each node execution; nowhere otherwise, and then
    /// nothing is paid for it (pipeline-utilities §10.1.1). A graph has one: who wants two hands in one that saves to
    /// both.
    ///
    /// A save that fails ends the invocation with `checkpoint_save_failed`, past every middleware (§10.10).
    #[must_use]
    pub fn checkpointer(mut self, checkpointer: Arc<dyn Checkpointer>) -> Self {
        self.stores.checkpoints = Some(checkpointer);
        self
    }

    /// Sets whether observers are told of each save ([`GraphEvent::CheckpointSaved`](crate::GraphEvent::CheckpointSaved)); they
    /// are otherwise. Where saves are as many as nodes, so are these events (pipeline-utilities §10.8).
    #[must_use]
    pub fn checkpoint_events(mut self, told: bool) -> Self {
        self.stores.checkpoint_events = told;
        self
    }

    /// Registers migrations of the state of runs that are stored: checkpoints (pipeline-utilities §10.12), and
    /// invocations that were suspended before the schema changed (R36). They apply to the states of all graphs that are
    /// stored of a run, by the version of the outermost one.
    #[must_use]
    pub fn state_migrations(mut self, migrations: StateMigrations) -> Self {
        self.stores.state_migrations = Arc::new(migrations);
        self
    }

    /// Sets whose sessions and suspended invocations these are; `default` otherwise.
    #[must_use]
    pub fn tenant(mut self, tenant: TenantId) -> Self {
        self.stores.tenant = tenant;
        self
    }

    /// Sets the bounds of each invocation.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the whole environment of the graph; the real one by default. The setters below replace one part of it.
    #[must_use]
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// Sets where time comes from.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.env.clock = clock;
        self
    }

    /// Sets the timer: retries wait by it between attempts, and drains count their limit by it.
    #[must_use]
    pub fn timer(mut self, timer: Arc<dyn Timer>) -> Self {
        self.env.timer = timer;
        self
    }

    /// Sets the source of random numbers, which retries use for jitter.
    #[must_use]
    pub fn chance(mut self, chance: Arc<dyn RandomSource>) -> Self {
        self.env.rng = chance;
        self
    }

    /// Sets where identifiers come from.
    #[must_use]
    pub fn ids(mut self, ids: Arc<dyn IdGenerator>) -> Self {
        self.env.ids = ids;
        self
    }

    /// Sets a callback for failures beside a run: failing observers, a full backlog. None by default.
    #[must_use]
    pub fn on_mishap(mut self, hear: impl Fn(ObserverFailure) + Send + Sync + 'static) -> Self {
        self.on_mishap = Arc::new(hear);
        self
    }

    /// Checks everything and makes the graph (graph-engine §2).
    ///
    /// # Errors
    /// [`Error::Compile`] with every problem that was found, in a fixed order; its category is the first one's.
    /// [`Error::SessionMigration`] (`session_state_migration_chain_ambiguous`, sessions §13) and
    /// [`Error::CheckpointMigration`] (`checkpoint_state_migration_chain_ambiguous`, pipeline-utilities §10.10) when
    /// the registered migrations are ambiguous, looked for when nothing else is wrong.
    pub fn compile(mut self) -> Result<Graph<S>> {
        let mut misplaced = Vec::new();
        let chains = self.build_node_chains(&mut misplaced);
        self.place_member_middleware(&mut misplaced);
        let compiled = match compile::compile_draft(self.draft) {
            Ok(compiled) if misplaced.is_empty() => Ok(compiled),
            Ok(_) => Err(misplaced),
            Err(problems) => Err(problems.into_iter().chain(misplaced).collect()),
        };
        let (topology, warnings) = compiled.map_err(|problems| Error::Compile { problems })?;
        check_migration_chains(&self.stores.migrations, &topology.session.version, |from, to, source| {
            Error::SessionMigration { from, to, source }
        })?;
        check_migration_chains(
            &self.stores.state_migrations,
            topology.schema.version(),
            |from, to, source| Error::CheckpointMigration { from, to, source },
        )?;
        Ok(Graph::from_core(GraphCore::new(GraphCoreParts {
            name: self.name,
            topology,
            works: self.works,
            chains,
            auto_save: self.auto_save,
            stores: self.stores,
            limits: self.limits,
            env: self.env,
            on_mishap: self.on_mishap,
            warnings,
        })))
    }

    /// Puts the middleware of members where it stands.
    fn place_member_middleware(&mut self, problems: &mut Vec<GraphProblem>) {
        for (node, work) in self.draft.nodes.iter().zip(&mut self.works) {
            match (work, &node.kind) {
                (NodeWork::FanOut(fan), DraftNodeKind::FanOut(_, draft)) => {
                    let collect_field = draft.collect.as_ref().map(|(from, _)| from.as_str());
                    let site = MiddlewareSite::Instance { node: &node.name, collect_field };
                    fan.chain = middleware::place_middleware(fan.chain.iter(), &site, problems).into();
                }
                (NodeWork::Branches(dispatch), _) => {
                    for branch in &mut dispatch.branches {
                        let site = MiddlewareSite::Branch { node: &node.name, branch: &branch.name };
                        branch.chain =
                            middleware::place_middleware(branch.chain.iter(), &site, problems).into();
                    }
                }
                (NodeWork::Function(_) | NodeWork::Subgraph(_) | NodeWork::FanOut(_), _) => {}
            }
        }
    }

    /// Puts each node's chain together, the graph's middleware outside of the node's own.
    fn build_node_chains(&self, problems: &mut Vec<GraphProblem>) -> Vec<MiddlewareChain> {
        let named = |name: &str| self.draft.nodes.iter().any(|node| node.name == name);
        for (name, _) in self.around_one.iter().filter(|(name, _)| !named(name)) {
            let message = format!("a middleware stands around node '{name}', which is not declared");
            problems.push(GraphProblem::new(GraphProblemKind::InvalidDeclaration, message));
        }
        let nodes = self.draft.nodes.iter().map(|node| node.name.as_str());
        let chain = |node| {
            let own = self.around_one.iter().filter(|(name, _)| name == node).map(|(_, it)| it);
            let mut chain =
                middleware::place_middleware(&self.around_all, &MiddlewareSite::Graph { node }, problems);
            chain.extend(middleware::place_middleware(own, &MiddlewareSite::Node { node }, problems));
            chain.into()
        };
        nodes.map(chain).collect()
    }
}

fn check_migration_chains(
    migrations: &StateMigrations,
    version: &str,
    wrong: impl Fn(String, String, Box<MigrationError>) -> Error,
) -> Result<()> {
    migrations.check().map_err(|source| {
        let (from, to) = match &source {
            MigrationError::Ambiguous { from_version, to_version } => {
                (from_version.clone(), to_version.clone())
            }
            _ => (None, None),
        };
        let from = from.unwrap_or_else(|| "any".into());
        wrong(from, to.unwrap_or_else(|| version.to_owned()), source.into())
    })
}

impl<S> std::fmt::Debug for GraphBuilder<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GraphBuilder").field("draft", &self.draft).finish_non_exhaustive()
    }
}
