//! Declaring fan-outs (pipeline-utilities §9).

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde_json::Value;
use singletree_durable::BoxError;
use singletree_graph::{Snapshot, State};

use super::fault::NodeError;
use super::graph::{Graph, GraphCore};
use super::members::make_error_record;
use super::middleware::{Middleware, MiddlewareChain};
use crate::plan::fan_out::{EmptyFanOutPolicy, FanOutDraft, FixedOrComputed};
use crate::plan::policy::ErrorPolicy;

/// How many instances run at once unless it is declared.
const CONCURRENCY: i64 = 10;

/// Makes the record of a failed instance.
pub(crate) type ErrorRecord = Arc<dyn Fn(u64, &NodeError) -> Value + Send + Sync>;

/// A fan-out over the state `S` of the graph that it is a node of: one instance of a compiled graph for each item of a
/// list, or a number of them, at most so many at once (pipeline-utilities §9).
///
/// - Each instance begins with the inner graph's defaults, its item and the declared inputs. Instances see nothing of
///   each other.
/// - Nothing is merged before all have ended; then their contributions are, in the order of their indexes, whatever
///   order they ended in. A field that is collected or goes out gets the *list* of the instances' values.
/// - Instances run in the task of the run, one await at a time. Work that needs a core spawns.
/// - The fan-out as a whole is one node execution: its middleware, its events and its step are those of one node.
///
/// ```
/// # use singletree_engine::{END, FieldSpec, Graph, Reducer, StateSchema, FieldShape, FieldContent, StateUpdate};
/// use singletree_engine::FanOut;
/// # let field = |name: &'static str, shape, default: serde_json::Value| {
/// #     FieldSpec::new(name, shape, FieldContent::from_json(default))
/// # };
/// # let inner = StateSchema::new("square", vec![field("n", FieldShape::Int, 0.into()), field("out", FieldShape::Int, 0.into())]);
/// # let list = || FieldShape::Int.list();
/// # let outer = StateSchema::new("all", vec![
/// #     field("numbers", list(), serde_json::json!([1, 2, 3])),
/// #     field("squares", list(), serde_json::json!([])).reducer(Reducer::Append),
/// # ]);
/// let square = Graph::builder_with(inner)
///     .node("square", |cx| async move {
///         let n = cx.snapshot().get("n").and_then(|it| it.to_json().ok()?.as_i64()).unwrap_or(0);
///         Ok(StateUpdate::new().with_json("out", (n * n).into()))
///     })
///     .edge("square", END)
///     .entry("square")
///     .compile()?;
/// let graph = Graph::builder_with(outer)
///     .fan_out("each", FanOut::over(&square).items("numbers", "n").collect("out", "squares").concurrency(2))
///     .edge("each", END)
///     .entry("each")
///     .compile()?;
/// # drop(graph);
/// # Ok::<(), singletree_engine::Error>(())
/// ```
pub struct FanOut<S> {
    pub(crate) draft: FanOutDraft,
    pub(crate) work: FanOutWork,
    state: PhantomData<fn(&S)>,
}

/// The work of a fan-out.
#[derive(Clone)]
pub(crate) struct FanOutWork {
    pub(crate) core: Arc<GraphCore>,
    /// The middleware around each instance.
    pub(crate) chain: MiddlewareChain,
    pub(crate) record: ErrorRecord,
}

impl<S: State> FanOut<S> {
    /// Starts a fan-out of this graph. Its own stores are not used. For a single function, see [`Graph::single_node`].
    #[must_use]
    pub fn over<C>(graph: &Graph<C>) -> Self {
        let draft = FanOutDraft {
            items: None,
            count: None,
            collect: None,
            inputs: Vec::new(),
            extra_outputs: Vec::new(),
            concurrency: FixedOrComputed::Fixed(Some(CONCURRENCY)),
            error_policy: ErrorPolicy::default(),
            errors_field: None,
            on_empty: EmptyFanOutPolicy::default(),
            count_field: None,
        };
        let record: ErrorRecord =
            Arc::new(|index, error| make_error_record("fan_out_index", &index.to_string(), error));
        let work = FanOutWork { core: graph.core.clone(), chain: Arc::new([]), record };
        Self { draft, work, state: PhantomData }
    }

    /// Runs one instance for each item of a list of this graph's, which goes into a field of the inner graph's.
    #[must_use]
    pub fn items(mut self, items_field: impl Into<String>, item_field: impl Into<String>) -> Self {
        self.draft.items = Some((items_field.into(), item_field.into()));
        self
    }

    /// Runs this many instances. A negative number does not compile.
    #[must_use]
    pub fn count(mut self, count: i64) -> Self {
        self.draft.count = Some(FixedOrComputed::Fixed(count));
        self
    }

    /// Runs as many instances as a function of the state says when the fan-out is entered; a negative number is
    /// `fan_out_invalid_count`. The function is called once.
    #[must_use]
    pub fn count_by<E: Into<BoxError>>(
        mut self,
        count: impl Fn(&S) -> Result<i64, E> + Send + Sync + 'static,
    ) -> Self {
        let count = move |state: &Snapshot| count(&*state.typed_view::<S>()?).map_err(Into::into);
        self.draft.count = Some(FixedOrComputed::Function(Arc::new(count)));
        self
    }

    /// Collects a field of the inner graph's into a list field of this graph's, in the order of the instances' indexes.
    #[must_use]
    pub fn collect(mut self, collect_field: impl Into<String>, target_field: impl Into<String>) -> Self {
        self.draft.collect = Some((collect_field.into(), target_field.into()));
        self
    }

    /// Copies a field of this graph's into one of each instance's.
    #[must_use]
    pub fn input(mut self, child_field: impl Into<String>, parent_field: impl Into<String>) -> Self {
        self.draft.inputs.push((child_field.into(), parent_field.into()));
        self
    }

    /// Merges one more field of the inner graph's into one of this graph's: its reducer gets the list of all instances'
    /// values.
    #[must_use]
    pub fn extra_output(mut self, parent_field: impl Into<String>, child_field: impl Into<String>) -> Self {
        self.draft.extra_outputs.push((parent_field.into(), child_field.into()));
        self
    }

    /// Sets how many instances run at once; 10 otherwise. Less than one does not compile.
    #[must_use]
    pub fn concurrency(mut self, limit: i64) -> Self {
        self.draft.concurrency = FixedOrComputed::Fixed(Some(limit));
        self
    }

    /// Lets all instances run at once.
    #[must_use]
    pub fn unbounded(mut self) -> Self {
        self.draft.concurrency = FixedOrComputed::Fixed(None);
        self
    }

    /// Lets as many instances run at once as a function of the state says when the fan-out is entered; none is without
    /// bound, less than one is `fan_out_invalid_concurrency`. The function is called once.
    #[must_use]
    pub fn concurrency_by<E: Into<BoxError>>(
        mut self,
        limit: impl Fn(&S) -> Result<Option<i64>, E> + Send + Sync + 'static,
    ) -> Self {
        let limit = move |state: &Snapshot| limit(&*state.typed_view::<S>()?).map_err(Into::into);
        self.draft.concurrency = FixedOrComputed::Function(Arc::new(limit));
        self
    }

    /// Sets the treatment of failed instances; the first failure is the fan-out's failure otherwise.
    #[must_use]
    pub fn error_policy(mut self, policy: ErrorPolicy) -> Self {
        self.draft.error_policy = policy;
        self
    }

    /// Names the list field of this graph's that gets a record of each failed instance, under
    /// [`ErrorPolicy::Collect`]; they are dropped otherwise. A record is a map of texts: `fan_out_index`, `category`,
    /// `message`, and `cause` (the derived category) where there is one.
    #[must_use]
    pub fn errors_field(mut self, field: impl Into<String>) -> Self {
        self.draft.errors_field = Some(field.into());
        self
    }

    /// Makes the records of failed instances with a function of the instance's index and its error.
    #[must_use]
    pub fn error_record(mut self, record: impl Fn(u64, &NodeError) -> Value + Send + Sync + 'static) -> Self {
        self.work.record = Arc::new(record);
        self
    }

    /// Sets the behaviour of a fan-out without instances; it fails otherwise.
    #[must_use]
    pub fn on_empty(mut self, on_empty: EmptyFanOutPolicy) -> Self {
        self.draft.on_empty = on_empty;
        self
    }

    /// Names the field of this graph's that gets the number of instances.
    #[must_use]
    pub fn count_field(mut self, field: impl Into<String>) -> Self {
        self.draft.count_field = Some(field.into());
        self
    }

    /// Puts a middleware around each instance, further in than those that were put before it. It sees the instance's
    /// first state, and the collected and extra fields of its last one as the update, under the inner graph's names.
    /// The update that it returns is the instance's contribution; a field that the update lacks is null. Called again,
    /// `next` runs the whole instance again.
    #[must_use]
    pub fn instance_middleware(mut self, middleware: impl Middleware + 'static) -> Self {
        let added: Arc<dyn Middleware> = Arc::new(middleware);
        self.work.chain = self.work.chain.iter().cloned().chain([added]).collect();
        self
    }
}

impl<S> fmt::Debug for FanOut<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FanOut").field("draft", &self.draft).finish_non_exhaustive()
    }
}
