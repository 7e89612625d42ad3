//! Whether the events of a process are well-formed (graph-engine §6).

use std::collections::{BTreeMap, BTreeSet};

use singletree_engine::{AttemptPhase, LineageBoundary, NodeEvent};

use super::run::{Stretch, StretchEnd};
use super::state::number;
use super::world::{Ended, Key, place};

/// The properties of one process's events that are known beforehand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    /// The number of the first step.
    pub(crate) step: u64,
    /// The places of containers whose members may be cut off.
    pub(crate) cuts: &'a BTreeSet<String>,
}

/// An attempt, by step and number.
type Attempt = (u64, u32);

fn place_of(event: &NodeEvent) -> String {
    place(&event.namespace, &event.lineage)
}

fn shown(event: &NodeEvent) -> String {
    format!("{}.{} {} {}", event.step, event.attempt_index, event.phase.as_str(), place_of(event))
}

/// Checks the events; returns the number of the step after the last one.
///
/// # Errors
/// A description of the wrong event.
pub(crate) fn check(stretch: &Stretch, expected: Expected<'_>) -> Result<u64, String> {
    let events = &stretch.events;
    let mut next = expected.step;
    let mut steps: BTreeMap<u64, (u32, String)> = BTreeMap::new();
    let mut open: BTreeMap<Attempt, &NodeEvent> = BTreeMap::new();
    let mut ends: BTreeMap<Attempt, &NodeEvent> = BTreeMap::new();
    for event in events {
        let wrong = |what: &str| Err(format!("event {}: {what}", shown(event)));
        if let Err(what) = aligned(event) {
            return wrong(&what);
        }
        let at = (event.step, event.attempt_index);
        match event.phase {
            AttemptPhase::Started => {
                match steps.get(&event.step) {
                    None if event.step != next => return wrong(&format!("the next step is {next}")),
                    None => next += 1,
                    Some((attempt, path)) => {
                        if event.attempt_index != attempt + 1 || *path != place_of(event) {
                            return wrong(&format!("it comes after attempt {attempt} of {path}"));
                        }
                        if open.contains_key(&(event.step, *attempt)) {
                            return wrong("the attempt before has not ended");
                        }
                    }
                }
                steps.insert(event.step, (event.attempt_index, place_of(event)));
                open.insert(at, event);
            }
            AttemptPhase::Completed | AttemptPhase::Suspended => {
                let Some(started) = open.remove(&at) else { return wrong("it is not open") };
                if place_of(started) != place_of(event) || !started.pre_state.is_same_state(&event.pre_state)
                {
                    return wrong(&format!("what started was {}", shown(started)));
                }
                if event.phase == AttemptPhase::Completed
                    && event.post_state().is_some() == event.attempt_error().is_some()
                {
                    return wrong("it has one of a state and an error");
                }
                if event.phase == AttemptPhase::Suspended && !matches!(stretch.end, StretchEnd::Suspended(_))
                {
                    return wrong("nothing suspended");
                }
                ends.insert(at, event);
            }
        }
    }
    if let Some(event) = open.values().find(|it| !may_stay_open(it, &stretch.end, expected.cuts)) {
        return Err(format!("event {} has no end", shown(event)));
    }
    performed(stretch, &ends)?;
    Ok(next)
}

/// Checks that the chains of an event are aligned with its path, and that each boundary is one of its node's kind.
fn aligned(event: &NodeEvent) -> Result<(), String> {
    let containing = event.namespace.len() - 1;
    let boundaries = event.lineage.boundaries();
    let lengths = [
        boundaries.len(),
        event.parent_states.len(),
        event.lineage.fan_out_index_chain().len(),
        event.lineage.branch_name_chain().len(),
    ];
    if lengths != [containing; 4] {
        return Err(format!("chains of {lengths:?} for {containing} containing nodes"));
    }
    if event.namespace.last() != Some(&event.node_name) {
        return Err("its path ends elsewhere".into());
    }
    for (name, boundary) in event.namespace.iter().zip(boundaries) {
        let fits = match boundary {
            LineageBoundary::Subgraph => name.starts_with('s'),
            LineageBoundary::Instance(_) => name.starts_with('f'),
            LineageBoundary::Branch(_) => name.starts_with('k'),
        };
        if !fits {
            return Err(format!("{name} is entered as {boundary:?}"));
        }
    }
    let innermost = |it: &LineageBoundary| matches!(it, LineageBoundary::Instance(_));
    let index = boundaries.iter().rev().find(|it| innermost(it));
    if event.fan_out_index().is_some() != index.is_some() {
        return Err("its index is not that of its chain".into());
    }
    Ok(())
}

/// Tells whether an attempt may have no end: a sibling's failure or suspension cut it off.
fn may_stay_open(event: &NodeEvent, end: &StretchEnd, cuts: &BTreeSet<String>) -> bool {
    let containers = event.lineage.boundaries().iter().enumerate().filter_map(|(at, boundary)| {
        let inside = !matches!(boundary, LineageBoundary::Subgraph);
        // The place of a container does not have the member that comes after it.
        inside.then(|| {
            let outer = singletree_engine::NodeLineage::new(event.lineage.boundaries()[..at].iter().cloned());
            place(&event.namespace[..=at], &outer)
        })
    });
    let mut containers = containers.peekable();
    match end {
        StretchEnd::Failed | StretchEnd::Over => containers.any(|it| cuts.contains(&it)),
        StretchEnd::Suspended(_) => containers.peek().is_some(),
    }
}

/// Checks that functions and events tell the same: each performance has its attempt, and each attempt its performance.
fn performed(stretch: &Stretch, ends: &BTreeMap<Attempt, &NodeEvent>) -> Result<(), String> {
    let functions =
        |it: &&NodeEvent| it.node_name.starts_with(['w', 'c']) && it.phase == AttemptPhase::Started;
    let told = stretch.events.iter().filter(functions).map(|it| {
        let at = (it.step, it.attempt_index);
        (at, (place_of(it), number(&it.pre_state, "acc")))
    });
    let told: BTreeMap<_, _> = told.collect();
    let noted: BTreeMap<_, _> =
        stretch.notes.iter().map(|it| ((it.step, it.attempt), it.key.clone())).collect();
    if noted.len() != stretch.notes.len() {
        return Err("two performances have one step and one attempt".into());
    }
    if told != noted {
        let apart = |one: &BTreeMap<Attempt, Key>, other: &BTreeMap<Attempt, Key>| {
            let more: Vec<_> = one.iter().filter(|(at, key)| other.get(at) != Some(*key)).collect();
            format!("{more:?}")
        };
        let (more, less) = (apart(&told, &noted), apart(&noted, &told));
        return Err(format!("told and not done: {more}; done and not told: {less}"));
    }
    for note in &stretch.notes {
        let Some(end) = ends.get(&(note.step, note.attempt)) else { continue };
        let again = noted.contains_key(&(note.step, note.attempt + 1));
        let fits = match note.ended {
            Some(Ended::Done) => end.post_state().is_some(),
            Some(Ended::Failed) => {
                end.phase == AttemptPhase::Completed && (end.attempt_error().is_some() || !again)
            }
            Some(Ended::Asked(_)) => end.phase == AttemptPhase::Suspended,
            None => false,
        };
        if !fits {
            return Err(format!("event {} ends what ended as {:?}", shown(end), note.ended));
        }
    }
    Ok(())
}
