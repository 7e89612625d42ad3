//! When a run is saved whole: at the end of each node execution (pipeline-utilities §10.3).

use singletree_durable::NodePosition;
use singletree_graph::{LineageBoundary, NodeLineage, RunCheckpoint};

use super::event::{CheckpointEvent, GraphEvent};
use super::level::GraphLevel;
use super::scope::{NodeAttempt, RunContext, describe_graph_error};
use super::suspend::AbortRequest;
use crate::error::{NodeLocation, Result};

/// A node execution, or a member of a container, that has ended and is saved.
pub(crate) struct EndedExecution {
    pub(crate) place: NodeLocation,
    pub(crate) lineage: NodeLineage,
    pub(crate) step: u64,
    pub(crate) attempt: u32,
}

impl RunContext {
    /// Saves where the run stands.
    ///
    /// Members of a container end side by side. Each waits for its turn and then saves the progress at that time, so
    /// that a later record never knows less than an earlier one.
    async fn save_checkpoint(
        &self,
        level: &GraphLevel,
        ended: impl FnOnce() -> EndedExecution,
    ) -> Result<()> {
        let _turn = self.saving.lock().await;
        let Some(progress) = self.capture_progress() else { return Ok(()) };
        let (identity, at) = (self.who.identity.clone(), self.core.env.clock.now());
        let completed = self.main.completed_positions();
        let count = completed.len() as u64;
        let saved = self.port.save_checkpoint(RunCheckpoint { identity, at, progress, completed }).await;
        if let (Some(events), Some(backend)) = (&self.events, self.port.checkpoint_backend()) {
            let EndedExecution { place, lineage, step, attempt } = ended();
            let event = CheckpointEvent {
                identity: self.who.identity.clone(),
                started_at: at,
                at: self.core.env.clock.now(),
                backend: backend.into(),
                node_name: place.node,
                namespace: place.namespace,
                lineage,
                step,
                attempt_index: attempt,
                completed_node_count: count,
                last_saved_at: saved.as_ref().map(|saved| *saved).map_err(describe_graph_error),
            };
            events.dispatch_event(GraphEvent::CheckpointSaved(event), level.observers.clone());
        }
        saved.map(drop)
    }
}

impl GraphLevel {
    /// Describes an ended member of the container that the graph is inside of. Its place is the container's.
    pub(crate) fn describe_ended_member(&self, member: u64) -> EndedExecution {
        let container = self.within.as_ref().expect("members are walked inside of a container");
        let lineage = self.lineage.with_inner_boundary(LineageBoundary::Instance(member));
        EndedExecution { lineage, ..container.describe_ended_execution() }
    }

    /// Saves that a node execution of this graph has ended, where runs are saved.
    ///
    /// A save that fails ends the invocation: the following work could not be relied upon after a crash, and no
    /// middleware around a node could deal with a failed store (§10.10 leaves the choice).
    pub(crate) async fn save_checkpoint_or_abort(
        &self,
        run: &RunContext,
        ended: impl FnOnce() -> EndedExecution,
    ) {
        if self.saves
            && let Err(error) = run.save_checkpoint(self, ended).await
        {
            run.requests.request_abort(AbortRequest { error, scopes: self.enclosing_containers() }).await
        }
    }
}

impl EndedExecution {
    /// Its place among those that are completed. The namespace, unlike that of events, has not the node's own name.
    pub(crate) fn node_position(&self) -> NodePosition {
        let place = &self.place;
        let containing = place.namespace.len().saturating_sub(1);
        NodePosition {
            namespace: place.namespace[..containing].iter().map(|it| it.as_ref().to_owned()).collect(),
            node_name: place.node.as_ref().to_owned(),
            step: self.step,
            attempt_index: self.attempt,
            fan_out_index: self.lineage.fan_out_index(),
        }
    }
}

impl NodeAttempt {
    /// Describes the attempt as ended.
    pub(crate) fn describe_ended_execution(&self) -> EndedExecution {
        let (place, lineage) = (self.place.clone(), self.level.lineage.clone());
        EndedExecution { place, lineage, step: self.step, attempt: self.attempt }
    }
}
