//! Recording suspensions (suspension §8).

use serde_json::{Map, Value};
use singletree_graph::{
    Descriptor, FieldContent, FieldFault, FramePosition, NodeLineage, PausedRun, Snapshot,
};

use super::drive::auto_saved_session;
use super::outcome::SuspendedRun;
use super::port::RunEnding;
use super::scope::RunContext;
use super::suspend::SuspendRequest;
use crate::error::{Error, Result};

/// Records a suspension: session and paused record, or nothing (suspension §8.6).
///
/// The suspending node is the node that asked, or the outermost container around it: only this stands on the main
/// strand.
pub(crate) async fn record_suspension(
    run: &RunContext,
    request: &SuspendRequest,
) -> Result<SuspendedRun<Snapshot>> {
    let (asking, signal) = (&request.scope, &request.signal);
    let containers = asking.level.enclosing_containers();
    let scope = containers.last().unwrap_or(asking);
    let before = || Error::SuspensionContext { context: "before the run".into(), state: None };
    let mut progress = run.capture_progress().ok_or_else(before)?;
    // A container is done, or all of it runs again: how far its members are is not gone on with (suspension §8.2).
    progress.containers.clear();
    let frame = progress.cursor.frames.last_mut().zip(progress.frames.last_mut());
    let (frame, state) = frame.ok_or_else(before)?;
    frame.attempt = scope.attempt;
    frame.at = if signal.mark_node_completed { FramePosition::After } else { FramePosition::Before };
    if signal.mark_node_completed
        && let Some(container) = &scope.container
    {
        // Contributions made up to here count (R18).
        let gathered = container
            .combine_contributions()
            .map_err(|error| error.into_graph_error(&scope.place, scope.graph_state()))?;
        *state = scope.merge_update(gathered)?;
    }
    let mut completed = run.main.completed_positions();
    if signal.mark_node_completed && scope.level.saves {
        completed.push(scope.describe_ended_execution().node_position());
    }
    let state = progress.frames.first().cloned().ok_or_else(before)?;
    if let Some(fields) = &signal.terms.on_deadline {
        check_deadline_fields(&progress.frames, fields)?;
    }
    let paused = PausedRun {
        identity: run.who.identity.clone(),
        progress,
        descriptor: annotate_descriptor(&signal.descriptor, &asking.level.lineage),
        terms: signal.terms.clone(),
        mark_node_completed: signal.mark_node_completed,
        node_name: scope.place.node.clone(),
        namespace: scope.place.namespace.clone(),
        completed,
    };
    let session = auto_saved_session(run, &state);
    run.port.record_ending(RunEnding::Suspended { paused: &paused, session }).await?;
    Ok(SuspendedRun {
        identity: run.who.identity.as_ref().clone(),
        state,
        descriptor: paused.descriptor,
        node_name: paused.node_name,
        namespace: paused.namespace,
    })
}

/// Tells observers of a suspension: the node that asked, then each container around it, outwards.
pub(crate) fn report_suspension(request: &SuspendRequest) {
    let asking = &request.scope;
    asking.report_suspended(&request.signal.descriptor);
    let boundaries = asking.level.lineage.boundaries();
    for container in asking.level.enclosing_containers() {
        let inner =
            NodeLineage::new(boundaries[container.level.lineage.boundaries().len()..].iter().cloned());
        container.report_suspended(&annotate_descriptor(&request.signal.descriptor, &inner));
    }
}

/// Says in a descriptor's metadata which member of a container is awaited (suspension §§8.2, 8.3): the innermost index
/// and branch; where fan-outs or branches are nested, all their indexes or names, too, outermost first.
fn annotate_descriptor(descriptor: &Descriptor, lineage: &NodeLineage) -> Descriptor {
    let indexes: Vec<u64> = lineage.fan_out_index_chain().flatten().collect();
    let branches: Vec<&str> = lineage.branch_name_chain().flatten().collect();
    let (index, branch) = (lineage.fan_out_index(), lineage.branch_name());
    if index.is_none() && branch.is_none() {
        return descriptor.clone();
    }
    let mut metadata = match descriptor.metadata.clone() {
        Some(Value::Object(map)) => map,
        None => Map::new(),
        // Metadata that is no map becomes an entry of one.
        Some(other) => Map::from_iter([("metadata".to_owned(), other)]),
    };
    if let Some(index) = index {
        metadata.insert("fan_out_index".into(), index.into());
    }
    if let Some(branch) = branch {
        metadata.insert("branch_name".into(), branch.into());
    }
    if indexes.len() > 1 {
        metadata.insert("fan_out_index_chain".into(), indexes.into());
    }
    if branches.len() > 1 {
        metadata.insert("branch_name_chain".into(), branches.into());
    }
    Descriptor { signal_id: descriptor.signal_id.clone(), metadata: Some(metadata.into()) }
}

/// Refuses, at the suspension, fields that a deadline could not set (D2): a payload goes to the outermost frame and to
/// the suspended one.
fn check_deadline_fields(frames: &[Snapshot], fields: &Map<String, Value>) -> Result<()> {
    let schemas = [frames.first(), frames.last()].map(|item| item.map(Snapshot::schema));
    for (name, value) in fields {
        let mut declared =
            schemas.iter().flatten().filter(|schema| schema.find_field(name).is_some()).peekable();
        let checked = match declared.peek() {
            None => Err(FieldFault::new(name, "is named by on_deadline, but not declared")),
            Some(_) => {
                let slot = FieldContent::from_json(value.clone());
                declared.try_for_each(|it| it.check_field_content(name, &slot))
            }
        };
        checked.map_err(|source| Error::SuspensionPayload { source })?;
    }
    Ok(())
}
