//! Declaring parallel branches (pipeline-utilities §11).

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use serde_json::Value;
use singletree_graph::{Snapshot, State};

use super::context::{Ctx, make_node_body};
use super::fault::{NodeError, NodeResult};
use super::graph::{Graph, GraphCore, NodeBody};
use super::members::make_error_record;
use super::middleware::{Middleware, MiddlewareChain};
use crate::plan::branches::{BranchDraft, BranchesDraft};
use crate::plan::policy::ErrorPolicy;

/// Makes the record of a failed branch.
type ErrorRecord = Arc<dyn Fn(&str, &NodeError) -> Value + Send + Sync>;

/// Parallel branches over the state `S` of the graph that they are a node of: several different graphs or functions at
/// once, each with its own part in the result (pipeline-utilities §11).
///
/// - All branches begin when the node is entered, in the order of declaration; those whose condition does not hold are
///   left out, without a trace. Branches see nothing of each other.
/// - Nothing is merged before all have ended; then their contributions are, in the order of declaration, whatever order
///   they ended in. Each contribution passes its field's reducer by itself.
/// - Branches run in the task of the run, one await at a time. Work that needs a core spawns.
/// - The branches together are one node execution: its middleware, its events and its step are those of one node.
/// - After a crash inside of them all branches run again (pipeline-utilities §11.9).
///
/// ```
/// # use singletree_engine::{END, FieldSpec, Graph, StateSchema, FieldShape, FieldContent, StateUpdate};
/// use singletree_engine::{Branch, Branches};
/// # let field = |name: &'static str, shape, default: serde_json::Value| {
/// #     FieldSpec::new(name, shape, FieldContent::from_json(default))
/// # };
/// # let inner = StateSchema::new("search", vec![
/// #     field("query", FieldShape::Str, "".into()),
/// #     field("found", FieldShape::Int, 0.into()),
/// # ]);
/// # let outer = StateSchema::new("recall", vec![
/// #     field("query", FieldShape::Str, "".into()),
/// #     field("documents", FieldShape::Int, 0.into()),
/// #     field("notes", FieldShape::Int, 0.into()),
/// # ]);
/// let search = Graph::builder_with(inner)
///     .node("look", |_| async { Ok(StateUpdate::new().with_json("found", 3.into())) })
///     .edge("look", END)
///     .entry("look")
///     .compile()?;
/// let notes = |_| async { Ok(StateUpdate::new().with_json("notes", 1.into())) };
/// let recall = Branches::new()
///     .branch("documents", Branch::new().subgraph(&search).input("query", "query").output("documents", "found"))
///     .branch("notes", Branch::new().call(notes));
/// let graph = Graph::builder_with(outer).branches("recall", recall).edge("recall", END).entry("recall").compile()?;
/// # drop(graph);
/// # Ok::<(), singletree_engine::Error>(())
/// ```
pub struct Branches<S> {
    pub(crate) draft: BranchesDraft,
    pub(crate) work: BranchesWork,
    state: PhantomData<fn(&S)>,
}

/// The work of parallel branches, by their numbers.
#[derive(Clone)]
pub(crate) struct BranchesWork {
    pub(crate) branches: Vec<BranchWork>,
    pub(crate) record: ErrorRecord,
}

/// The work of one branch.
#[derive(Clone)]
pub(crate) struct BranchWork {
    pub(crate) name: String,
    pub(crate) doing: BranchBody,
    /// The middleware around the branch.
    pub(crate) chain: MiddlewareChain,
}

/// The kind of a branch: a graph or a function.
#[derive(Clone)]
pub(crate) enum BranchBody {
    Subgraph(Arc<GraphCore>),
    Call(NodeBody),
}

impl BranchesWork {
    /// Returns the graphs inside.
    pub(crate) fn subgraph_cores(&self) -> impl Iterator<Item = &Arc<GraphCore>> {
        self.branches.iter().filter_map(|branch| match &branch.doing {
            BranchBody::Subgraph(core) => Some(core),
            BranchBody::Call(_) => None,
        })
    }
}

impl<S: State> Branches<S> {
    /// Declares no branches yet; at least one is needed (`parallel_branches_no_branches`).
    #[must_use]
    pub fn new() -> Self {
        let record: ErrorRecord = Arc::new(|branch, error| make_error_record("branch_name", branch, error));
        let work = BranchesWork { branches: Vec::new(), record };
        Self { draft: BranchesDraft::default(), work, state: PhantomData }
    }

    /// Adds a branch after those that were added before. Its name is not empty, and its own among the node's branches.
    #[must_use]
    pub fn branch(mut self, name: impl Into<String>, branch: Branch<S>) -> Self {
        let name = name.into();
        let doing = match (branch.subgraph, branch.call) {
            (Some(core), None) => Some(BranchBody::Subgraph(core)),
            (None, Some(body)) => Some(BranchBody::Call(body)),
            // A problem, found when the graph is compiled.
            (Some(_), Some(_)) | (None, None) => None,
        };
        let work = doing.map(|doing| BranchWork { name: name.clone(), doing, chain: branch.chain });
        self.work.branches.extend(work);
        self.draft.branches.push(BranchDraft { name, ..branch.draft });
        self
    }

    /// Sets the treatment of failed branches; the first failure is the node's failure otherwise
    /// (`parallel_branches_branch_failed`).
    #[must_use]
    pub fn error_policy(mut self, policy: ErrorPolicy) -> Self {
        self.draft.error_policy = policy;
        self
    }

    /// Names the list field of this graph's that gets a record of each failed branch, under [`ErrorPolicy::Collect`];
    /// they are dropped otherwise. A record is a map of texts: `branch_name`, `category`, `message`, and `cause` (the
    /// derived category) where there is one.
    #[must_use]
    pub fn errors_field(mut self, field: impl Into<String>) -> Self {
        self.draft.errors_field = Some(field.into());
        self
    }

    /// Makes the records of failed branches with a function of the branch's name and its error.
    #[must_use]
    pub fn error_record(
        mut self,
        record: impl Fn(&str, &NodeError) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.work.record = Arc::new(record);
        self
    }
}

impl<S: State> Default for Branches<S> {
    fn default() -> Self {
        Self::new()
    }
}

/// One parallel branch: a compiled graph or a function, exactly one of them (pipeline-utilities §11.1.1).
pub struct Branch<S> {
    draft: BranchDraft,
    subgraph: Option<Arc<GraphCore>>,
    call: Option<NodeBody>,
    chain: MiddlewareChain,
    state: PhantomData<fn(&S)>,
}

impl<S: State> Branch<S> {
    /// Declares nothing yet; [`Branch::subgraph`] or [`Branch::call`] is needed
    /// (`parallel_branches_invalid_branch_spec`).
    #[must_use]
    pub fn new() -> Self {
        let (draft, chain) = (BranchDraft::default(), MiddlewareChain::from([]));
        Self { draft, subgraph: None, call: None, chain, state: PhantomData }
    }

    /// Runs a compiled graph. It begins with its own defaults and the declared inputs; only declared outputs come back.
    /// Its own stores are not used.
    #[must_use]
    pub fn subgraph<C>(mut self, graph: &Graph<C>) -> Self {
        self.draft.subgraph = Some(graph.schema().clone());
        self.subgraph = Some(graph.core.clone());
        self
    }

    /// Runs a function of this graph's state, whose update is the branch's contribution. It has the events of one node,
    /// which is called as the branch is. An update that could not be merged by itself is the branch's failure.
    #[must_use]
    pub fn call<F, Fut>(mut self, function: F) -> Self
    where
        F: Fn(Ctx<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = NodeResult<S>> + Send + 'static,
    {
        self.draft.call = true;
        self.call = Some(make_node_body(function));
        self
    }

    /// Copies a field of this graph's into one of the branch's graph's. For branches that run a graph.
    #[must_use]
    pub fn input(mut self, child_field: impl Into<String>, parent_field: impl Into<String>) -> Self {
        self.draft.inputs.push((child_field.into(), parent_field.into()));
        self
    }

    /// Merges a field of the branch's graph's into one of this graph's. A field that is not declared does not come back
    /// (R37). For branches that run a graph.
    #[must_use]
    pub fn output(mut self, parent_field: impl Into<String>, child_field: impl Into<String>) -> Self {
        self.draft.outputs.push((parent_field.into(), child_field.into()));
        self
    }

    /// Dispatches the branch only when a function of the state that the node received says so. It is called once for
    /// each dispatch, in the order of the branches.
    #[must_use]
    pub fn when(mut self, condition: impl Fn(&S) -> bool + Send + Sync + 'static) -> Self {
        self.draft.when = Some(Arc::new(move |state: &Snapshot| Ok(condition(&*state.typed_view::<S>()?))));
        self
    }

    /// Puts a middleware around the whole branch, further in than those that were put before it (pipeline-utilities
    /// §11.7).
    ///
    /// Around a graph it sees the graph's first state, and the fields that go out as the update, under the inner
    /// graph's names; around a function the state and update of this graph's. The update that it returns is the
    /// branch's contribution; a field that the update lacks is left alone. Called again, `next` runs the whole branch
    /// again.
    #[must_use]
    pub fn middleware(mut self, middleware: impl Middleware + 'static) -> Self {
        let added: Arc<dyn Middleware> = Arc::new(middleware);
        self.chain = self.chain.iter().cloned().chain([added]).collect();
        self
    }
}

impl<S: State> Default for Branch<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> fmt::Debug for Branches<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branches").field("draft", &self.draft).finish_non_exhaustive()
    }
}

impl<S> fmt::Debug for Branch<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branch").field("draft", &self.draft).finish_non_exhaustive()
    }
}
