//! When a run is saved whole: at the end of each node execution (pipeline-utilities §10.3).

use singletree_durable::NodePosition;

use super::level::Level;
use super::port::Checkpoint;
use super::scope::{Run, Scope};
use super::suspend::Abort;
use crate::error::{Place, Result};
use crate::plan::lineage::Lineage;

impl Run {
    /// Saves where the run stands.
    ///
    /// Members of a container end side by side. Each waits for its turn and then saves what is true by then, so that a
    /// later record never knows less than an earlier one.
    async fn checkpoint(&self) -> Result<()> {
        let _turn = self.saving.lock().await;
        let Some(progress) = self.progress() else { return Ok(()) };
        let identity = self.who.identity.clone();
        self.port.checkpoint(Checkpoint { identity, progress, completed: self.main.completed() }).await
    }
}

impl Level {
    /// Saves that a node execution of this graph has ended, where runs are saved.
    ///
    /// A save that fails ends the invocation: what would happen next could not be relied upon after a crash, and a failed
    /// store is nothing that a middleware around some node could deal with (§10.10 leaves the choice).
    pub(crate) async fn checkpoint(&self, run: &Run) {
        if self.saves
            && let Err(error) = run.checkpoint().await
        {
            run.requests.abort(Abort { error, scopes: self.containers() }).await
        }
    }
}

impl Scope {
    /// The place of the attempt among those that are completed.
    pub(crate) fn position(&self) -> NodePosition {
        position(&self.place, &self.level.lineage, self.step, self.attempt)
    }
}

/// A place among those that are completed. Its namespace, unlike that of events, has not the node's own name.
pub(crate) fn position(place: &Place, lineage: &Lineage, step: u64, attempt: u32) -> NodePosition {
    let containing = place.namespace.len().saturating_sub(1);
    NodePosition {
        namespace: place.namespace[..containing].iter().map(|it| it.as_ref().to_owned()).collect(),
        node_name: place.node.as_ref().to_owned(),
        step,
        attempt_index: attempt,
        fan_out_index: lineage.fan_out_index(),
    }
}
