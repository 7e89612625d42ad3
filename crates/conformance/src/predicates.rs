//! Predicates over a list of events (conformance-adapter §5.9). Their names follow a grammar: a node or a branch, and
//! a property of its events; *inner* events are those below the outermost graph.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use singletree::engine::NodeEvent;

use crate::check::{AssertionChecker, ensure};
use crate::failure::{CaseFailure, Outcome};
use crate::fields::LocatedNode;

type Events<'a> = Vec<&'a NodeEvent>;

/// Asserts predicates over a list of events.
///
/// # Errors
/// For an unknown predicate.
pub(crate) fn predicates(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    events: &[NodeEvent],
) -> Outcome<()> {
    let mut named = spot.fields()?;
    while let Some((name, value)) = named.next() {
        let told = of_all(checker, &name, &value, events)?
            || of_inner(checker, &name, &value, events)
            || of_branches(checker, &name, &value, events)?
            || of_pauses(checker, &name, &value, events)
            || of_node(checker, &name, &value, events);
        if !told {
            return Err(CaseFailure::reader(&value.path, format!("unknown predicate '{name}'")));
        }
    }
    Ok(())
}

fn inner(events: &[NodeEvent]) -> Events<'_> {
    events.iter().filter(|event| event.namespace.len() > 1).collect()
}

fn indexes(event: &NodeEvent) -> Vec<Option<u64>> {
    event.lineage.fan_out_index_chain().collect()
}

fn branches(event: &NodeEvent) -> Vec<Option<String>> {
    event.lineage.branch_name_chain().map(|branch_name_chain| branch_name_chain.map(str::to_owned)).collect()
}

fn branch(event: &NodeEvent) -> Option<String> {
    event.lineage.branch_name().map(str::to_owned)
}

/// Returns the values found in the events, sorted and once each.
fn seen<T: Ord>(events: &[&NodeEvent], what: impl Fn(&NodeEvent) -> Option<T>) -> Vec<T> {
    let seen: BTreeSet<T> = events.iter().filter_map(|event| what(event)).collect();
    seen.into_iter().collect()
}

/// Holds when there are events and each is so: a predicate over nothing says nothing.
fn all(events: &[&NodeEvent], what: &str, is: impl Fn(&NodeEvent) -> bool) -> Result<(), String> {
    ensure(!events.is_empty(), || "there are no such events".into())?;
    let odd = events.iter().find(|event| !is(event));
    ensure(odd.is_none(), || {
        let it = odd.map(|odd| (&odd.namespace, &odd.lineage));
        format!("an event {what}: {it:?}")
    })
}

fn unique<T: Ord>(events: &[&NodeEvent], what: impl Fn(&NodeEvent) -> T) -> Result<(), String> {
    let count = events.iter().map(|event| what(event)).collect::<BTreeSet<_>>().len();
    ensure(count == events.len() && count > 0, || format!("{} events have {count} identities", events.len()))
}

/// Asserts a predicate about a map from nodes to branches, or about a list of nodes.
fn of_all(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    events: &[NodeEvent],
) -> Outcome<bool> {
    match name {
        "inner_events_carry_correct_branch_name" => {
            let mut nodes = value.clone().fields()?;
            while let Some((node, it)) = nodes.next() {
                let of: Events<'_> =
                    inner(events).into_iter().filter(|item| *item.node_name == *node).collect();
                checker.exactly(
                    &it,
                    json!(seen(&of, |it| Some(branch(it)))).as_array().map_or(Value::Null, |items| {
                        if items.len() == 1 { items[0].clone() } else { Value::Array(items.clone()) }
                    }),
                );
            }
        }
        "outermost_events_have_no_branch_name" => {
            let mut block = value.clone().fields()?;
            let nodes = block.need("nodes")?;
            block.finish()?;
            let outermost: Events<'_> = events.iter().filter(|event| event.namespace.len() == 1).collect();
            let named = all(&outermost, "has a branch", |it| branch(it).is_none());
            checker.holds(&value.path, named);
            let mut there = Vec::<&str>::new();
            for it in outermost {
                if !there.contains(&&*it.node_name) {
                    there.push(&it.node_name);
                }
            }
            checker.exactly(&nodes, json!(there));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn of_inner(checker: &mut AssertionChecker, name: &str, value: &LocatedNode, events: &[NodeEvent]) -> bool {
    let inner = inner(events);
    let index = |it: &NodeEvent| it.lineage.fan_out_index();
    match name {
        "inner_event_count" => checker.exactly(value, inner.len()),
        "inner_attempt_indices_seen" | "inner_events_attempt_indices_seen" => {
            checker.exactly(value, seen(&inner, |it| Some(it.attempt_index)));
        }
        "inner_fan_out_indices_seen" | "fan_out_indices_seen" => checker.exactly(value, seen(&inner, index)),
        "inner_branch_names_seen" => checker.exactly(value, seen(&inner, branch)),
        "inner_event_identities_unique" => {
            let identity =
                |it: &NodeEvent| (it.namespace.clone(), it.attempt_index, it.lineage.clone(), it.phase);
            checker.truth(value, unique(&inner, identity));
        }
        "inner_events_have_fan_out_index" => {
            checker.truth(value, all(&inner, "has no fan-out index", |it| index(it).is_some()));
        }
        "inner_event_pair_count_per_instance" => {
            let counts =
                seen(&inner, |it| Some(inner.iter().filter(|other| other.lineage == it.lineage).count()));
            let only = if let [only] = counts.as_slice() { json!(only) } else { json!(counts) };
            checker.exactly(value, only);
        }
        _ => return false,
    }
    true
}

/// Asserts a predicate about branches: about those that hold a fan-out, about plain ones, or about one branch by its
/// name.
fn of_branches(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    events: &[NodeEvent],
) -> Outcome<bool> {
    let inner = inner(events);
    let leads = |it: &NodeEvent| {
        events.iter().any(|other| {
            other.namespace.len() > it.namespace.len() && other.namespace.starts_with(&it.namespace)
        })
    };
    let fan_out: Events<'_> = inner.iter().copied().filter(|item| item.namespace.len() > 2).collect();
    let plain: Events<'_> =
        inner.iter().copied().filter(|item| item.namespace.len() == 2 && !leads(item)).collect();
    let index = |it: &NodeEvent| it.lineage.fan_out_index();
    let only = |names: Vec<String>| if let [only] = names.as_slice() { json!(only) } else { json!(names) };
    match name {
        "fan_out_inner_events_carry_both_branch_name_and_fan_out_index" => {
            let both = |it: &NodeEvent| branch(it).is_some() && index(it).is_some();
            checker.truth(value, all(&fan_out, "lacks branch or index", both));
        }
        "fan_out_inner_branch_name_seen" => checker.exactly(value, only(seen(&fan_out, branch))),
        "fan_out_inner_fan_out_indices_seen" => checker.exactly(value, seen(&fan_out, index)),
        "plain_inner_events_carry_branch_name_but_no_fan_out_index" => {
            let right = |it: &NodeEvent| branch(it).is_some() && index(it).is_none();
            checker.truth(value, all(&plain, "lacks a branch or has an index", right));
        }
        "plain_inner_branch_name_seen" => checker.exactly(value, only(seen(&plain, branch))),
        "branch_started_event_order" => {
            let started =
                inner.iter().filter(|item| item.phase.as_str() == "started").filter_map(|item| branch(item));
            let mut order = Vec::<String>::new();
            started.for_each(|it| {
                if !order.contains(&it) {
                    order.push(it);
                }
            });
            checker.exactly(value, order);
        }
        _ => match name.strip_suffix("_inner_attempt_indices_seen") {
            Some(of) => {
                let of: Events<'_> =
                    inner.into_iter().filter(|item| item.lineage.branch_name() == Some(of)).collect();
                checker.exactly(value, seen(&of, |it| Some(it.attempt_index)));
            }
            None => return Ok(false),
        },
    }
    Ok(true)
}

fn of_pauses(checker: &mut AssertionChecker, name: &str, value: &LocatedNode, events: &[NodeEvent]) -> bool {
    match name {
        "no_completed_event_for_suspending_node" => checker.truth(value, no_completed(events)),
        "suspended_event_carries_descriptor" => checker.truth(value, carries_descriptor(events)),
        "started_followed_by_suspended_in_order" => checker.truth(value, started_then_suspended(events)),
        _ => return false,
    }
    true
}

/// Asserts a predicate about one node's events: the node's name, perhaps `node`, and a property.
fn of_node(checker: &mut AssertionChecker, name: &str, value: &LocatedNode, events: &[NodeEvent]) -> bool {
    let properties = PROPERTIES.iter().filter_map(|(property, assert)| {
        let node = name.strip_suffix(property)?;
        Some((node, node.strip_suffix("_node").unwrap_or(node), assert))
    });
    let is_node = |node: &str| events.iter().any(|event| *event.node_name == *node);
    let mut properties: Vec<_> = properties.collect();
    // A node may be called as another and `_node`: its whole name goes first.
    let Some((node, shorter, assert)) = properties.pop() else {
        return present(checker, name, value, events);
    };
    let node = if is_node(node) { node } else { shorter };
    let of: Events<'_> = events.iter().filter(|event| *event.node_name == *node).collect();
    assert(checker, value, &of);
    true
}

type Property = fn(&mut AssertionChecker, &LocatedNode, &[&NodeEvent]);

const PROPERTIES: &[(&str, Property)] = &[
    ("_events_count", |checker, value, of| checker.exactly(value, of.len())),
    ("_fan_out_index_absent", |checker, value, of| {
        checker.truth(value, all(of, "has an index", |it| it.lineage.fan_out_index().is_none()));
    }),
    ("_scalar_branch_name_absent", |checker, value, of| {
        checker.truth(value, all(of, "has a branch", |it| it.lineage.branch_name().is_none()));
    }),
    ("_fan_out_index_chain_empty", |checker, value, of| {
        checker.truth(value, all(of, "has a chain", |it| indexes(it).is_empty()));
    }),
    ("_fan_out_index_chains_seen", |checker, value, of| {
        checker.exactly(value, json!(seen(of, |it| Some(indexes(it)))));
    }),
    ("_branch_name_chains_seen", |checker, value, of| {
        checker.exactly(value, json!(seen(of, |it| Some(branches(it)))));
    }),
    ("_scalar_fan_out_index_equals_innermost_chain_element", |checker, value, of| {
        let same = |it: &NodeEvent| {
            let innermost = indexes(it).into_iter().rev().flatten().next();
            innermost.is_some() && it.lineage.fan_out_index() == innermost
        };
        checker.truth(value, all(of, "has another index", same));
    }),
    ("_event_identities_unique_by_chain", |checker, value, of| {
        let identity =
            |it: &NodeEvent| (it.namespace.clone(), indexes(it), branches(it), it.attempt_index, it.phase);
        checker.truth(value, unique(of, identity));
    }),
    ("_scalar_fan_out_index_not_unique_across_outer_instances", |checker, value, of| {
        let scalar = |it: &NodeEvent| (it.lineage.fan_out_index(), it.phase);
        let collides = unique(of, scalar).is_err() && !of.is_empty();
        checker.truth(value, ensure(collides, || "the scalar tells all events apart".into()));
    }),
];

fn present(checker: &mut AssertionChecker, name: &str, value: &LocatedNode, events: &[NodeEvent]) -> bool {
    let Some((node, phase)) = name.strip_suffix("_present").and_then(|name| name.rsplit_once('_')) else {
        return false;
    };
    let there = events.iter().any(|event| *event.node_name == *node && event.phase.as_str() == phase);
    checker.truth(value, ensure(there, || format!("there is no event {phase} of node '{node}'")));
    true
}

fn suspended(events: &[NodeEvent]) -> Result<usize, String> {
    let at = events.iter().position(|event| event.phase.as_str() == "suspended");
    at.ok_or_else(|| "there is no suspended event".into())
}

fn no_completed(events: &[NodeEvent]) -> Result<(), String> {
    let at = suspended(events)?;
    let completed =
        events.iter().any(|event| event.phase.as_str() == "completed" && event.step == events[at].step);
    ensure(!completed, || "the suspending node has a completed event, too".into())
}

fn carries_descriptor(events: &[NodeEvent]) -> Result<(), String> {
    let at = suspended(events)?;
    ensure(events[at].descriptor.is_some(), || "the suspended event has no descriptor".into())
}

fn started_then_suspended(events: &[NodeEvent]) -> Result<(), String> {
    let at = suspended(events)?;
    let before = at.checked_sub(1).map(|left| &events[left]);
    let follows = before
        .is_some_and(|before| before.phase.as_str() == "started" && before.namespace == events[at].namespace);
    ensure(follows, || "no started event of the node comes right before its suspended event".into())
}
