//! Engines that are wrong, and how soon the property finds out.
//!
//! None of them is a switch in the engine. Each is a double at one of its edges that makes exactly the symptom of a
//! wrong engine: a record that another cursor comes back from, a member whose update is lost on the way, events with a
//! wrong number.

use std::io::Write as _;

use singletree_durable::{CheckpointRecord, InstanceState, JsonDocument};
use singletree_engine::{CursorFrame, FramePosition, GraphCursor, NodeEvent};

use super::everywhere::{self, Spoiled};
use super::generate;
use super::property::paused;

/// How many graphs a wrong engine may survive.
const BOUND: u64 = 150;

fn with(record: CheckpointRecord, change: impl FnOnce(&mut GraphCursor)) -> CheckpointRecord {
    let mut cursor: GraphCursor = record.cursor.as_ref().unwrap().decode().unwrap();
    change(&mut cursor);
    CheckpointRecord { cursor: Some(JsonDocument::from_serializable(&cursor).unwrap()), ..record }
}

/// Stands before a node again that had been left.
fn again(record: CheckpointRecord, letter: char) -> CheckpointRecord {
    with(record, |cursor| {
        let last = cursor.frames.last_mut().unwrap();
        if last.at == FramePosition::After && last.node.starts_with(letter) {
            last.at = FramePosition::Before;
        }
    })
}

/// An engine that keeps the containers that have completed nowhere, and so enters a fan-out once more.
fn enters_a_fan_out_again(record: CheckpointRecord) -> CheckpointRecord {
    again(record, 'f')
}

/// The same with branches.
fn enters_branches_again(record: CheckpointRecord) -> CheckpointRecord {
    again(record, 'k')
}

/// An engine that goes on with the first node that is not among the completed ones, and has no completion of a
/// subgraph: when the node after it was the last to complete, it enters the subgraph once more and projects out again.
fn enters_a_subgraph_again(record: CheckpointRecord) -> CheckpointRecord {
    let positions = record.completed_positions.to_vec();
    let [.., before, last] = positions.as_slice() else { return record };
    let Some(subgraph) = before.namespace.first().filter(|_| last.namespace.is_empty()) else {
        return record;
    };
    let frame = CursorFrame { node: subgraph.clone(), at: FramePosition::Before, attempt: 0 };
    with(record, |cursor| cursor.frames = vec![frame])
}

/// An engine that forgets which instances have completed, and runs them again.
fn forgets_an_instance(mut record: CheckpointRecord) -> CheckpointRecord {
    let all = record.fan_out_progress.iter_mut().flat_map(|it| &mut it.instances);
    for instance in all.filter(|it| it.state == InstanceState::Completed).take(1) {
        *instance = singletree_durable::InstanceProgress::with_state(InstanceState::NotStarted);
    }
    record
}

/// An engine that numbers a second attempt as it did the first.
fn numbers_attempts_alike(event: NodeEvent) -> NodeEvent {
    NodeEvent { attempt_index: event.attempt_index.saturating_sub(1), ..event }
}

/// Looks after how many graphs the property finds it.
fn found(name: &str, spoiled: Spoiled, expected: &str) {
    let runtime = paused();
    for seed in 0..BOUND {
        let (plan, told) = generate::graph(seed);
        if let Err(what) = runtime.block_on(everywhere::check(&plan, &told, (seed, spoiled))) {
            assert!(what.contains(expected), "{name}, seed {seed}: {what}");
            drop(writeln!(std::io::stderr(), "mutant: {name}: found with graph {}", seed + 1));
            return;
        }
    }
    panic!("{name}: not found within {BOUND} graphs");
}

// spec: pipeline-utilities §10.4
#[test]
fn a_completed_subgraph_that_is_entered_again_is_found() {
    let spoiled = Spoiled { tamper: Some(enters_a_subgraph_again), ..Spoiled::default() };
    found("a completed subgraph entered again", spoiled, "gone on with");
}

#[test]
fn a_completed_fan_out_that_is_entered_again_is_found() {
    let spoiled = Spoiled { tamper: Some(enters_a_fan_out_again), ..Spoiled::default() };
    found("a completed fan-out entered again", spoiled, "gone on with");
}

#[test]
fn completed_branches_that_are_entered_again_are_found() {
    let spoiled = Spoiled { tamper: Some(enters_branches_again), ..Spoiled::default() };
    found("completed branches entered again", spoiled, "gone on with");
}

// spec: pipeline-utilities §10.7
#[test]
fn a_completed_instance_that_runs_again_is_found() {
    let spoiled = Spoiled { tamper: Some(forgets_an_instance), ..Spoiled::default() };
    found("a completed instance run again", spoiled, "ran again");
}

// spec: pipeline-utilities §11.4: a middleware around a branch drops its update, as an engine would that forgets a
// member.
#[test]
fn a_dropped_contribution_of_a_branch_is_found() {
    let spoiled = Spoiled { drops: true, ..Spoiled::default() };
    found("a branch's contribution dropped", spoiled, "it ended as");
}

// spec: graph-engine §6
#[test]
fn an_attempt_index_that_is_used_again_is_found() {
    let spoiled = Spoiled { damage: Some(numbers_attempts_alike), ..Spoiled::default() };
    found("an attempt index used again", spoiled, "it comes after attempt");
}
