//! Checkpoint records: conversion of a run's progress to its stored form, and back (pipeline-utilities §10.2, §10.11).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use singletree_durable::{
    CheckpointRecord, CheckpointState, EnclosingInstance, FanOutProgress, InstanceProgress, InstanceState,
    JsonDocument, NodePosition, PositionHistory, Timestamp,
};
use singletree_graph::{
    ContainerProgress, CursorFrame, FieldContent, Fields, FramePosition, GraphCursor, Item, LineageBoundary,
    MemberProgress, NodeLineage, RunCheckpoint, Snapshot, StoredRun,
};

use super::fan_out::FanOutWork;
use super::graph::{GraphCore, NodeWork};
use super::stores::encode_content;
use crate::plan::fan_out::FanOutPlan;
use crate::plan::topology::TopologyNodeKind;

/// Makes the record of where a run stands.
///
/// # Errors
/// A typed value that cannot be represented in JSON.
pub(crate) fn make_checkpoint_record(
    core: &GraphCore,
    checkpoint: &RunCheckpoint,
    last_saved_at: Timestamp,
) -> serde_json::Result<CheckpointRecord> {
    let identity = &checkpoint.identity;
    let progress = &checkpoint.progress;
    let mut states = progress.frames.iter().map(encode_state).collect::<serde_json::Result<Vec<_>>>()?;
    let fan_outs = progress.containers.iter().filter_map(|container| describe_fan_out(core, container));
    Ok(CheckpointRecord {
        invocation_id: identity.invocation_id.clone(),
        correlation_id: identity.correlation_id.clone(),
        session_id: identity.session_id.clone(),
        schema_version: core.topology.schema.version().to_owned(),
        state: states.pop().unwrap_or_default(),
        parent_states: states,
        completed_positions: checkpoint.completed.clone(),
        fan_out_progress: fan_outs.collect::<serde_json::Result<_>>()?,
        last_saved_at,
        cursor: Some(JsonDocument::from_serializable(&progress.cursor)?),
    })
}

fn encode_state(snapshot: &Snapshot) -> serde_json::Result<CheckpointState> {
    snapshot.iter_fields().map(|(name, slot)| Ok((name.to_owned(), encode_content(slot)?))).collect()
}

/// Finds the fan-out of a namespace, its own name last.
fn find_fan_out_plan<'a>(core: &'a GraphCore, namespace: &[impl AsRef<str>]) -> Option<&'a Arc<FanOutPlan>> {
    let (own, containing) = namespace.split_last()?;
    let mut core = core;
    for name in containing {
        core = match &core.works[core.topology.find_node_index(name.as_ref())?] {
            NodeWork::Subgraph(inner) | NodeWork::FanOut(FanOutWork { core: inner, .. }) => inner,
            // Branches have several graphs, and nothing in them is recorded.
            NodeWork::Function(_) | NodeWork::Branches(_) => return None,
        };
    }
    match &core.topology.nodes[core.topology.find_node_index(own.as_ref())?].kind {
        TopologyNodeKind::FanOut { plan } => Some(plan),
        _ => None,
    }
}

/// Describes a fan-out. Returns nothing for branches, and for fan-outs inside of them, since branches begin again as a
/// whole.
fn describe_fan_out(
    core: &GraphCore,
    container: &ContainerProgress,
) -> Option<serde_json::Result<FanOutProgress>> {
    let boundaries = container.lineage.boundaries();
    if boundaries.iter().any(|boundary| matches!(boundary, LineageBoundary::Branch(_))) {
        return None;
    }
    let plan = find_fan_out_plan(core, &container.namespace)?;
    let names: Vec<String> = container.namespace.iter().map(|it| it.as_ref().to_owned()).collect();
    let (own, containing) = names.split_last()?;
    let enclosing = boundaries.iter().enumerate().filter_map(|(at, boundary)| match boundary {
        LineageBoundary::Instance(index) => Some(EnclosingInstance {
            namespace: names[..at].to_vec(),
            fan_out_node_name: names[at].clone(),
            fan_out_index: *index,
        }),
        LineageBoundary::Subgraph | LineageBoundary::Branch(_) => None,
    });
    let instances = container.members.iter().map(|(_, it)| describe_instance(plan, it));
    Some(instances.collect::<serde_json::Result<Vec<_>>>().map(|instances| FanOutProgress {
        fan_out_node_name: own.clone(),
        namespace: containing.to_vec(),
        enclosing_fan_out_lineage: enclosing.collect(),
        execution: container.execution,
        instance_count: instances.len() as u64,
        instances,
    }))
}

fn describe_instance(plan: &FanOutPlan, progress: &MemberProgress) -> serde_json::Result<InstanceProgress> {
    Ok(match progress {
        MemberProgress::NotStarted => InstanceProgress::with_state(InstanceState::NotStarted),
        MemberProgress::InFlight { completed, .. } => InstanceProgress {
            completed_inner_positions: completed.to_vec(),
            ..InstanceProgress::with_state(InstanceState::InFlight)
        },
        MemberProgress::Contributed(update) => {
            let (collected, extra) = plan.split_contribution(update)?;
            let text = |it: Item| Ok(JsonDocument::from_text(it.json_text()?));
            let extra = extra.into_iter().map(|(name, it)| Ok((name.to_owned(), text(it)?)));
            InstanceProgress {
                result: collected.map(text).transpose()?,
                extra_outputs: extra.collect::<serde_json::Result<_>>()?,
                ..InstanceProgress::with_state(InstanceState::Completed)
            }
        }
        MemberProgress::Failed(record) => InstanceProgress {
            result: Some(JsonDocument::from_text(record.json_text()?)),
            result_is_error: true,
            ..InstanceProgress::with_state(InstanceState::Completed)
        },
    })
}

/// Makes a standing of a record: where the run goes on. The identity is left out; states are as stored, not checked.
///
/// # Errors
/// Why the record is not one, in words.
pub(crate) fn stored_run_from_record(
    core: &GraphCore,
    record: &CheckpointRecord,
) -> Result<StoredRun, String> {
    let cursor = match &record.cursor {
        Some(json) => json.decode().map_err(|error| format!("its cursor is damaged: {error}"))?,
        None => derive_cursor(core, record)?,
    };
    // Somebody else may have saved the state of an instance, too, which begins again from its entry: the states are
    // those of the graphs around the fan-out, and then that one (R19).
    let states = record.parent_states.iter().chain([&record.state]).map(decode_fields);
    let kept = if record.cursor.is_some() { usize::MAX } else { cursor.frames.len() };
    let containers = record.fan_out_progress.iter().map(|it| restore_container(core, it));
    Ok(StoredRun {
        identity: None,
        cursor,
        frames: states.take(kept).collect::<Result<_, _>>()?,
        records: BTreeMap::new(),
        containers: containers.filter_map(Result::transpose).collect::<Result<_, _>>()?,
        completed: record.completed_positions.clone(),
    })
}

pub(crate) fn decode_fields(state: &CheckpointState) -> Result<Fields, String> {
    let field = |(name, json): (&String, &JsonDocument)| {
        let value: Value =
            json.decode().map_err(|error| format!("its field '{name}' is damaged: {error}"))?;
        Ok((Arc::from(name.as_str()), FieldContent::from_json(value)))
    };
    state.iter().map(field).collect()
}

/// Says where a run stands of which only the specification's fields are stored: before the fan-out that was under way,
/// or after the node that completed last, in the graph that contains it. The place is that of one node, not of a set of
/// them, so that cycles are no special case.
fn derive_cursor(core: &GraphCore, record: &CheckpointRecord) -> Result<GraphCursor, String> {
    let positions = record.completed_positions.to_vec();
    let next_step = positions.iter().map(|position| position.step + 1).max().unwrap_or(0);
    let depth = record.parent_states.len();
    let frame = |node: &String, at| CursorFrame { node: node.clone(), at, attempt: 0 };
    let inside = |path: &[String], last| {
        let containing = path.iter().map(|it| frame(it, FramePosition::Inside));
        GraphCursor { frames: containing.chain([last]).collect(), next_step }
    };
    // Nodes that completed inside of an instance do not tell where the run stood.
    let last = positions.iter().rfind(|position| position.fan_out_index.is_none());
    if let Some(fan_out) = find_unmerged_fan_out(core, record, last) {
        let node = &fan_out.fan_out_node_name;
        if fan_out.namespace.len() > depth {
            let around = fan_out.namespace.len();
            return Err(format!(
                "fan-out '{node}' is {around} graphs deep, and {depth} containing states are kept"
            ));
        }
        return Ok(inside(&fan_out.namespace, frame(node, FramePosition::Before)));
    }
    let Some(last) = last else {
        if depth > 0 {
            return Err("it stands in a subgraph, and no node of one has completed".into());
        }
        let node = core.topology.nodes[core.topology.entry].name.as_ref().to_owned();
        return Ok(inside(&[], frame(&node, FramePosition::Before)));
    };
    if last.namespace.len() != depth {
        let (node, inside) = (&last.node_name, last.namespace.len());
        return Err(format!(
            "node '{node}' completed {inside} graphs deep, and {depth} containing states are kept"
        ));
    }
    Ok(inside(&last.namespace, frame(&last.node_name, FramePosition::After)))
}

/// The outermost fan-out that had not merged. One whose instances have all completed may have, as its position says.
fn find_unmerged_fan_out<'a>(
    core: &GraphCore,
    record: &'a CheckpointRecord,
    last: Option<&NodePosition>,
) -> Option<&'a FanOutProgress> {
    let on_main = record.fan_out_progress.iter().filter(|it| is_on_main_walk(core, it));
    let outermost = on_main.min_by_key(|it| it.namespace.len())?;
    let merged = outermost.instances.iter().all(|instance| instance.state == InstanceState::Completed)
        && last.is_some_and(|last| {
            last.namespace == outermost.namespace && last.node_name == outermost.fan_out_node_name
        });
    (!merged).then_some(outermost)
}

/// Tells whether only subgraphs contain a fan-out. An entry without lineage may be of one inside of another all the
/// same, from when there were no lineages: it says nothing (§10.11).
fn is_on_main_walk(core: &GraphCore, stored: &FanOutProgress) -> bool {
    let mut core = core;
    stored.enclosing_fan_out_lineage.is_empty()
        && stored.namespace.iter().all(|it| {
            match core.topology.find_node_index(it).map(|at| &core.works[at]) {
                Some(NodeWork::Subgraph(inner)) => {
                    core = inner;
                    true
                }
                Some(NodeWork::Function(_) | NodeWork::FanOut(_) | NodeWork::Branches(_)) | None => false,
            }
        })
}

/// Makes a container's progress of a stored one; nothing when it can match no container that runs, so that all of it
/// runs again (§10.11: never a wrong skip).
fn restore_container(core: &GraphCore, stored: &FanOutProgress) -> Result<Option<ContainerProgress>, String> {
    let node = &stored.fan_out_node_name;
    if stored.instances.len() as u64 != stored.instance_count {
        let (has, says) = (stored.instances.len(), stored.instance_count);
        return Err(format!("fan-out '{node}' has {has} instances, and says {says}"));
    }
    let namespace: Vec<&str> = stored.namespace.iter().chain([node]).map(String::as_str).collect();
    let Some(plan) = find_fan_out_plan(core, &namespace) else {
        return Err(format!("the graph has no fan-out '{}'", namespace.join("/")));
    };
    let Some(lineage) = restore_lineage(stored) else { return Ok(None) };
    let members = stored.instances.iter().enumerate().map(|(index, it)| {
        let progress =
            restore_member(plan, it).map_err(|why| format!("instance {index} of fan-out '{node}' {why}"))?;
        Ok((LineageBoundary::Instance(index as u64), progress))
    });
    Ok(Some(ContainerProgress {
        namespace: namespace.into_iter().map(Arc::from).collect(),
        lineage,
        execution: stored.execution,
        members: members.collect::<Result<_, String>>()?,
    }))
}

/// Returns the boundaries of a stored lineage: an instance where it names one, subgraphs elsewhere. Returns nothing
/// when it names an instance of a node that does not contain the fan-out.
fn restore_lineage(stored: &FanOutProgress) -> Option<NodeLineage> {
    let enclosing = &stored.enclosing_fan_out_lineage;
    let boundary = |at: usize| {
        let named = |it: &&EnclosingInstance| {
            it.namespace == stored.namespace[..at] && it.fan_out_node_name == stored.namespace[at]
        };
        enclosing
            .iter()
            .find(named)
            .map_or(LineageBoundary::Subgraph, |enclosing| LineageBoundary::Instance(enclosing.fan_out_index))
    };
    let boundaries: Vec<_> = (0..stored.namespace.len()).map(boundary).collect();
    let found = boundaries.iter().filter(|boundary| matches!(boundary, LineageBoundary::Instance(_))).count();
    (found == enclosing.len()).then(|| NodeLineage::new(boundaries))
}

fn restore_member(plan: &FanOutPlan, stored: &InstanceProgress) -> Result<MemberProgress, String> {
    let damaged = |it: serde_json::Error| format!("has a damaged result: {it}");
    let value = |json: &JsonDocument| json.decode::<Value>().map_err(damaged);
    Ok(match (stored.state, stored.result_is_error) {
        (InstanceState::Completed, true) => {
            let record = stored.result.as_ref().ok_or("has failed and has no record of it")?;
            MemberProgress::Failed(Item::from_json(value(record)?))
        }
        (InstanceState::Completed, false) => {
            let collected = stored.result.as_ref().map(value).transpose()?;
            let extra = stored.extra_outputs.iter().map(|(name, it)| Ok((name.as_str(), value(it)?)));
            let extra = extra.collect::<Result<BTreeMap<_, _>, String>>()?;
            MemberProgress::Contributed(plan.restore_contribution(collected, extra)?)
        }
        (InstanceState::InFlight, _) => MemberProgress::InFlight {
            frames: Vec::new(),
            states: Vec::new(),
            completed: stored.completed_inner_positions.iter().cloned().collect::<PositionHistory>(),
        },
        (InstanceState::NotStarted, _) => MemberProgress::NotStarted,
    })
}
