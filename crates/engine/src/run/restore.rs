//! From a stored standpoint back to a run: does it still fit the graph? (D28, R19)

use std::sync::Arc;

use serde_json::{Map, Value};
use singletree_graph::{FieldFault, Fields, FramePosition, Snapshot, StateSchema, StoredRun};

use super::graph::{GraphCore, NodeWork};
use super::walk::LevelStandpoint;
use crate::error::{Error, Result};

/// Puts the frames of a run together again.
///
/// # Errors
/// `checkpoint_record_invalid` when the cursor names a node that the graph does not have, `state_validation_error` when
/// a state does not match its schema.
pub(crate) fn restore_standpoints(
    core: &Arc<GraphCore>,
    standing: StoredRun,
) -> Result<Vec<LevelStandpoint>> {
    let misfit = |reason: String| Error::Position { reason };
    let count = standing.cursor.frames.len();
    if count == 0 || count != standing.frames.len() {
        return Err(misfit(format!("{count} frames and {} states", standing.frames.len())));
    }
    let mut core = core.clone();
    let mut points = Vec::with_capacity(count);
    for (depth, (frame, fields)) in standing.cursor.frames.into_iter().zip(standing.frames).enumerate() {
        let node = core.topology.find_node_index(&frame.node);
        let node = node.ok_or_else(|| misfit(format!("the graph has no node '{}'", frame.node)))?;
        let state = restore_snapshot(&core.topology.schema, fields).map_err(invalid_state_error)?;
        let inside = depth + 1 < count;
        if inside != (frame.at == FramePosition::Inside) {
            return Err(misfit(format!("frame {depth} stands {:?} of {count} frames", frame.at)));
        }
        let below = match &core.works[node] {
            NodeWork::Subgraph(child) if inside => Some(child.clone()),
            NodeWork::Function(_) | NodeWork::Subgraph(_) | NodeWork::FanOut(_) | NodeWork::Branches(_)
                if !inside =>
            {
                None
            }
            NodeWork::Function(_) | NodeWork::Subgraph(_) | NodeWork::FanOut(_) | NodeWork::Branches(_) => {
                return Err(misfit(format!("node '{}' is no subgraph", frame.node)));
            }
        };
        points.push(LevelStandpoint { frame, state });
        core = below.unwrap_or(core);
    }
    Ok(points)
}

fn invalid_state_error(source: FieldFault) -> Error {
    Error::Validation { place: None, source, state: None }
}

/// Checks the states of a stored run whole, list elements included: for records that may be foreign.
///
/// # Errors
/// `state_validation_error`. Frames that do not fit the graph are left to [`standpoints`].
pub(crate) fn check_stored_states(core: &GraphCore, standing: &StoredRun) -> Result<()> {
    let mut core = core;
    for (frame, fields) in standing.cursor.frames.iter().zip(&standing.frames) {
        let schema = &core.topology.schema;
        let mut declared = fields.iter().filter(|(name, _)| schema.find_field_index(name).is_some());
        declared
            .try_for_each(|(name, slot)| schema.check_field_content(name, slot))
            .map_err(invalid_state_error)?;
        match core.topology.find_node_index(&frame.node).map(|at| &core.works[at]) {
            Some(NodeWork::Subgraph(child)) => core = child,
            Some(NodeWork::Function(_) | NodeWork::FanOut(_) | NodeWork::Branches(_)) | None => break,
        }
    }
    Ok(())
}

/// Checks that a stored run can be resumed: the graph has the nodes that the cursor names, and the states are complete.
///
/// # Errors
/// As [`standpoints`].
pub(crate) fn check_fits_graph(core: &Arc<GraphCore>, standing: &StoredRun) -> Result<()> {
    restore_standpoints(core, standing.clone()).map(drop)
}

/// Reads a state off stored fields. Fields that the schema no longer has are dropped; new ones take their default.
fn restore_snapshot(schema: &Arc<StateSchema>, fields: Fields) -> Result<Snapshot, FieldFault> {
    let set =
        fields.into_iter().filter_map(|(name, slot)| schema.find_field_index(&name).map(|at| (at, slot)));
    let state = Snapshot::from_defaults_with(schema, set.collect())?;
    state.validate_fields()?;
    Ok(state)
}

/// Overlays a signal's payload (suspension §6): declared fields of the outermost state and, when the suspension was in
/// a subgraph, also those of the suspended frame (R17). Fields that neither declares are dropped.
///
/// # Errors
/// `suspension_resume_payload_invalid`.
pub(crate) fn overlay_payload(points: &mut [LevelStandpoint], payload: &Map<String, Value>) -> Result<()> {
    let last = points.len() - 1;
    for at in if last == 0 { vec![0] } else { vec![0, last] } {
        points[at].state = points[at]
            .state
            .overlay_payload(payload)
            .map_err(|source| Error::SuspensionPayload { source })?;
    }
    Ok(())
}
