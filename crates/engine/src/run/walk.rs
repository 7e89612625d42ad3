//! The walk: node after node through one graph (graph-engine §3).
//!
//! Everything that a run does passes through here: a step is numbered, the body runs, its update is merged into the state
//! that the node received, the edge is evaluated on the result, and only then is the completed event dispatched and the
//! step recorded. Subgraphs walk one level deeper, in the same task.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use singletree_durable::BoxFuture;

use super::ambient;
use super::fault::NodeError;
use super::graph::{Body, Core, Work};
use super::observe::Subscription;
use super::panic::{caught, caught_future};
use super::scope::{Level, Run, Scope};
use crate::error::{Error, Place, Result};
use crate::plan::cursor::{Frame, Position};
use crate::plan::edge::{Edge, Target};
use crate::plan::snapshot::Snapshot;
use crate::plan::topology::{Kind, Node};

/// A graph's frame and state, as a run finds or leaves them.
pub(crate) struct Standpoint {
    pub(crate) frame: Frame,
    pub(crate) state: Snapshot,
}

/// Where a walk begins.
pub(crate) enum Begin {
    /// At the entry, with this state.
    Entry(Snapshot),
    /// Where the run stands: this graph's standpoint first, then those below it.
    Standing(std::vec::IntoIter<Standpoint>),
}

/// Walks one graph to its end and returns its final state.
pub(crate) async fn walk(run: &Arc<Run>, level: Arc<Level>, begin: Begin) -> Result<Snapshot> {
    let topology = &level.core.topology;
    let mut walker = Walker { run, depth: level.path.len(), level: &level };
    let (mut at, mut state, mut position, mut attempt, mut below) = match begin {
        Begin::Entry(state) => (topology.entry, state, Position::Before, 0, None),
        Begin::Standing(mut frames) => {
            let Standpoint { frame, state } = frames.next().ok_or_else(|| no_node("a frame is missing"))?;
            let at = topology.index(&frame.node).ok_or_else(|| no_node(&frame.node))?;
            (at, state, frame.at, frame.attempt, Some(frames))
        }
    };
    loop {
        let node = &topology.nodes[at];
        let target = match position {
            Position::After => {
                run.stand(walker.depth, &node.name, (Position::After, 0), &state);
                walker.route(node, &walker.place(node), &state)?
            }
            Position::Before | Position::Inside => {
                let entered = if position == Position::Inside { below.take() } else { None };
                let (after, target) = match &level.core.works[at] {
                    Work::Function(body) => walker.execute(node, body, &state, attempt).await?,
                    Work::Subgraph(child) => walker.enter(node, child, &state, entered).await?,
                };
                state = after;
                target
            }
        };
        match target {
            None => return Ok(state),
            Some(next) => (at, position, attempt) = (next, Position::Before, 0),
        }
    }
}

/// Walks a graph below another one: boxed, since it is the same walk again.
fn walk_below(run: &Arc<Run>, level: Arc<Level>, begin: Begin) -> BoxFuture<'_, Result<Snapshot>> {
    Box::pin(walk(run, level, begin))
}

fn no_node(node: &str) -> Error {
    Error::Position { reason: format!("there is no node '{node}'") }
}

struct Walker<'a> {
    run: &'a Arc<Run>,
    level: &'a Arc<Level>,
    depth: usize,
}

impl Walker<'_> {
    fn place(&self, node: &Node) -> Place {
        let path = &self.level.path;
        let namespace = if path.is_empty() {
            node.alone.clone()
        } else {
            path.iter().cloned().chain([node.name.clone()]).collect()
        };
        Place { node: node.name.clone(), namespace }
    }

    /// Runs a function node; returns the state after it and the next node, or none for the end.
    async fn execute(
        &mut self,
        node: &Node,
        body: &Body,
        state: &Snapshot,
        attempt: u32,
    ) -> Result<(Snapshot, Option<usize>)> {
        let run = self.run;
        run.stand(self.depth, &node.name, (Position::Before, attempt), state);
        let scope = Arc::new(Scope {
            run: run.clone(),
            level: self.level.clone(),
            place: self.place(node),
            step: run.take_step()?,
            attempt,
            state: state.clone(),
            ended: AtomicBool::new(false),
        });
        scope.started();
        let ended = self.attempt(node, body, &scope).await;
        let (after, target) = ended.inspect_err(|error| scope.failed(error))?;
        scope.merged(&after);
        run.stand(self.depth, &node.name, (Position::After, 0), &after);
        run.node_completed();
        // What ends the outermost graph is recorded by the end itself.
        if run.port.keeps_steps()
            && (target.is_some() || self.depth > 0)
            && let Some(progress) = run.progress()
        {
            run.port.step(progress).await?;
        }
        Ok((after, target))
    }

    /// One attempt: body, merge, edge.
    async fn attempt(
        &self,
        node: &Node,
        body: &Body,
        scope: &Arc<Scope>,
    ) -> Result<(Snapshot, Option<usize>)> {
        let running = caught(|| body(scope.clone()));
        let running = running.map_err(|it| self.node_error(scope, NodeError::new(it)))?;
        let running = ambient::within_node(scope.clone(), caught_future(running));
        let returned = running.await;
        if self.run.requests.settle(scope) {
            // The driver stops polling here, and takes the request.
            std::future::pending::<()>().await;
        }
        let update = match returned {
            Ok(Ok(update)) => update,
            Ok(Err(error)) => return Err(self.node_error(scope, error)),
            Err(panicked) => return Err(self.node_error(scope, NodeError::new(panicked))),
        };
        let merged = caught(|| scope.state.merge(update));
        let merged = merged.map_err(|it| self.node_error(scope, NodeError::new(it)))?;
        let after = merged.map_err(|it| Error::of_merge(it, &scope.place, &scope.state))?;
        let target = self.route(node, &scope.place, &after)?;
        Ok((after, target))
    }

    fn node_error(&self, scope: &Scope, error: NodeError) -> Error {
        Error::Node { place: scope.place.clone(), source: error.into_fault(), state: scope.state.clone() }
    }

    /// Walks a subgraph and merges what it projects out. The wrapper itself is no step and has no events (R23).
    async fn enter(
        &mut self,
        node: &Node,
        child: &Arc<Core>,
        state: &Snapshot,
        below: Option<std::vec::IntoIter<Standpoint>>,
    ) -> Result<(Snapshot, Option<usize>)> {
        let Kind::Subgraph { crossing } = &node.kind else {
            unreachable!("work and kind are compiled together")
        };
        self.run.stand(self.depth, &node.name, (Position::Inside, 0), state);
        let begin = match below {
            Some(frames) => Begin::Standing(frames),
            None => {
                let place = self.place(node);
                let start = crossing.enter(state, &child.topology.schema);
                Begin::Entry(start.map_err(|source| Error::Validation {
                    place: Some(place),
                    source,
                    state: Some(state.clone()),
                })?)
            }
        };
        let level = Arc::new(self.level.below(self.run, node, child, state));
        let ended = walk_below(self.run, level, begin).await?;
        let update = crossing.leave(&self.level.core.topology.schema, &ended);
        let place = self.place(node);
        let merged = caught(|| state.merge(update));
        let merged = merged.map_err(|it| {
            let source = NodeError::new(it).into_fault();
            Error::Node { place: place.clone(), source, state: state.clone() }
        })?;
        let after = merged.map_err(|it| Error::of_merge(it, &place, state))?;
        let target = self.route(node, &place, &after)?;
        self.run.stand(self.depth, &node.name, (Position::After, 0), &after);
        Ok((after, target))
    }

    /// Evaluates a node's edge on the state after its update: the next node, or none for the end.
    fn route(&self, node: &Node, place: &Place, state: &Snapshot) -> Result<Option<usize>> {
        let nowhere =
            |destination| Error::Routing { place: place.clone(), destination, state: state.clone() };
        let failed = |source| Error::Edge { place: place.clone(), source, state: state.clone() };
        let chosen;
        let target = match &node.edge {
            None => return Err(nowhere(None)),
            Some(Edge::Static(target)) => target,
            Some(Edge::Conditional { choose, .. }) => {
                chosen = caught(|| choose(state)).map_err(|it| failed(it.into()))?.map_err(failed)?;
                &chosen
            }
        };
        match target {
            Target::End => Ok(None),
            Target::Node(name) => {
                let next = self.level.core.topology.index(name);
                next.map(Some).ok_or_else(|| nowhere(Some(name.clone())))
            }
        }
    }
}

impl Level {
    /// The outermost graph of a run.
    pub(crate) fn outermost(run: &Run) -> Self {
        Self::of(run, &run.core, Vec::new(), Arc::new([]), &[])
    }

    fn below(&self, run: &Run, node: &Node, child: &Arc<Core>, state: &Snapshot) -> Self {
        let path = self.path.iter().cloned().chain([node.name.clone()]).collect();
        let parents = self.parents.iter().cloned().chain([state.clone()]).collect();
        Self::of(run, child, path, parents, &self.attached)
    }

    /// Observers attached to a graph see what is below it, before those attached further in (graph-engine §6).
    fn of(
        run: &Run,
        core: &Arc<Core>,
        path: Vec<Arc<str>>,
        parents: Arc<[Snapshot]>,
        outer: &[Subscription],
    ) -> Self {
        let attached: Vec<_> = outer.iter().cloned().chain(run.observers.attached_to(core)).collect();
        let observers = attached.iter().chain(&run.observers.own).cloned().collect();
        Self { core: core.clone(), path, parents, attached, observers }
    }
}
