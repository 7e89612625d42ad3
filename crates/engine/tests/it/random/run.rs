//! Running a graph through all its suspensions, each answered by another process.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use singletree_durable::{BoxError, BoxFuture, InvocationId};
use singletree_engine::{
    Error, Graph, GraphEvent, InvokeOptions, NodeEvent, Observer, RunOutcome, Snapshot, StateUpdate,
};

use super::build::Workshop;
use super::plan::Plan;
use super::state::number;
use super::stores::Stores;
use super::world::Note;
use crate::rig::{invocation, state};

/// How long a run may take, by a clock that is set forward whenever nothing else happens: longer is for ever.
const PATIENCE: Duration = Duration::from_secs(3600);

/// More suspensions than any graph here has.
const MOST: usize = 60;

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    Completed(Value),
    /// By category, with the node that failed and the state that can be recovered.
    Failed {
        category: String,
        node: Option<String>,
        recoverable: Option<Value>,
    },
}

/// The part of a run that one process performed.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    pub(crate) events: Vec<NodeEvent>,
    pub(crate) notes: Vec<Note>,
    pub(crate) end: StretchEnd,
}

/// How it ended: the run, or by a suspension of this node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StretchEnd {
    Over,
    Failed,
    Suspended(String),
}

/// A run from where it began to its end.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) end: End,
    pub(crate) stretches: Vec<Stretch>,
}

/// Makes another event of one before it is looked at.
pub(crate) type Damage = fn(NodeEvent) -> NodeEvent;

/// An observer that keeps the events of nodes.
#[derive(Clone, Default)]
pub(crate) struct Watcher {
    seen: Arc<Mutex<Vec<NodeEvent>>>,
    damage: Option<Damage>,
}

impl Watcher {
    fn take(&self) -> Vec<NodeEvent> {
        std::mem::take(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for Watcher {
    fn observe_event<'a>(&'a self, event: &'a GraphEvent) -> BoxFuture<'a, Result<(), BoxError>> {
        if let GraphEvent::Node(event) = event {
            let event = self.damage.map_or_else(|| event.clone(), |it| it(event.clone()));
            self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

/// How a run begins.
#[derive(Debug, Clone)]
pub(crate) enum Begin {
    Anew,
    /// From the checkpoint of an invocation.
    Recover(InvocationId),
    /// From a suspension, with this answer.
    Resume(InvocationId, i64),
}

impl Begin {
    pub(crate) async fn run(
        self,
        graph: &Graph<Snapshot>,
        options: InvokeOptions,
    ) -> Result<RunOutcome<Snapshot>, Error> {
        let options = options.correlation("all");
        match self {
            Self::Anew => graph.invoke(StateUpdate::new(), options.invocation(first())).await,
            Self::Recover(id) => graph.recover(&id, options).await,
            Self::Resume(id, answer) => graph.resume(&id, payload(answer), options).await,
        }
    }
}

/// One process after the other.
#[derive(Clone)]
pub(crate) struct Runner<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) workshop: &'a Workshop,
    pub(crate) damage: Option<Damage>,
}

pub(crate) fn first() -> InvocationId {
    invocation("work")
}

fn payload(answer: i64) -> Map<String, Value> {
    Map::from_iter([("answer".to_owned(), json!(answer))])
}

impl Run {
    pub(crate) fn notes(&self) -> impl Iterator<Item = &Note> {
        self.stretches.iter().flat_map(|it| &it.notes)
    }
}

impl Runner<'_> {
    pub(crate) fn graph(&self, stores: &Stores) -> Graph<Snapshot> {
        let builder = self.workshop.graph(self.plan);
        builder
            .checkpointer(stores.checkpoints.clone())
            .paused_store(stores.paused.clone())
            .compile()
            .unwrap()
    }

    /// Runs one process; returns none when the process makes no progress any more.
    async fn stretch(
        &self,
        graph: &Graph<Snapshot>,
        begin: Begin,
    ) -> Option<(Result<RunOutcome<Snapshot>, Error>, Vec<NodeEvent>)> {
        let watcher = Watcher { damage: self.damage, ..Watcher::default() };
        let running = begin.run(graph, InvokeOptions::new().observer(watcher.clone()));
        let outcome = tokio::time::timeout(PATIENCE, running).await.ok()?;
        graph.drain(None).await.unwrap();
        Some((outcome, watcher.take()))
    }

    /// Runs to the end. Each process has a graph of its own, made by the caller, and shares nothing but the stores:
    /// each answer is given to another process.
    ///
    /// # Errors
    /// A message, when the run does not end.
    pub(crate) async fn run(
        &self,
        mut graph: impl FnMut() -> Graph<Snapshot>,
        mut begin: Begin,
    ) -> Result<Run, String> {
        let mut stretches = Vec::new();
        loop {
            let (outcome, events) =
                self.stretch(&graph(), begin).await.ok_or("it neither ends nor goes on")?;
            let notes = self.workshop.world.take();
            let (end, how) = match outcome {
                Ok(RunOutcome::Completed(done)) => (End::Completed(state(&done.state)), StretchEnd::Over),
                Ok(RunOutcome::Suspended(paused)) => {
                    let node = paused.namespace.join("/");
                    stretches.push(Stretch { events, notes, end: StretchEnd::Suspended(node) });
                    if stretches.len() > MOST {
                        return Err("it asks for ever".into());
                    }
                    begin = Begin::Resume(paused.identity.invocation_id, answer(&paused.state));
                    continue;
                }
                Err(error) => (failed(&error), StretchEnd::Failed),
            };
            stretches.push(Stretch { events, notes, end: how });
            return Ok(Run { end, stretches });
        }
    }
}

/// The answer to a suspension at this state: answers are counted.
pub(crate) fn answer(outermost: &Snapshot) -> i64 {
    number(outermost, "answer") + 1
}

impl End {
    pub(crate) fn failed(error: &Error) -> Self {
        failed(error)
    }
}

fn failed(error: &Error) -> End {
    End::Failed {
        category: error.derived_category().to_owned(),
        node: error.node_location().map(|it| it.node.to_string()),
        recoverable: error.recoverable_state().map(state),
    }
}
