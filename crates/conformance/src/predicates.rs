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
pub(crate) fn check_event_predicates(
    checker: &mut AssertionChecker,
    spot: LocatedNode,
    events: &[NodeEvent],
) -> Outcome<()> {
    let mut named = spot.into_map_reader()?;
    while let Some((name, value)) = named.take_next_entry() {
        let told = check_container_predicate(checker, &name, &value, events)?
            || check_inner_predicate(checker, &name, &value, events)
            || check_branch_predicate(checker, &name, &value, events)?
            || check_pause_predicate(checker, &name, &value, events)
            || check_node_predicate(checker, &name, &value, events);
        if !told {
            return Err(CaseFailure::reader_error(&value.path, format!("unknown predicate '{name}'")));
        }
    }
    Ok(())
}

fn inner_events(events: &[NodeEvent]) -> Events<'_> {
    events.iter().filter(|event| event.namespace.len() > 1).collect()
}

fn fan_out_indexes(event: &NodeEvent) -> Vec<Option<u64>> {
    event.lineage.fan_out_index_chain().collect()
}

fn branch_names(event: &NodeEvent) -> Vec<Option<String>> {
    event.lineage.branch_name_chain().map(|branch_name_chain| branch_name_chain.map(str::to_owned)).collect()
}

fn branch_name(event: &NodeEvent) -> Option<String> {
    event.lineage.branch_name().map(str::to_owned)
}

/// Returns the values found in the events, sorted and once each.
fn distinct_values<T: Ord>(events: &[&NodeEvent], what: impl Fn(&NodeEvent) -> Option<T>) -> Vec<T> {
    let seen: BTreeSet<T> = events.iter().filter_map(|event| what(event)).collect();
    seen.into_iter().collect()
}

/// Holds when there are events and each is so: a predicate over nothing says nothing.
fn ensure_all_events(
    events: &[&NodeEvent],
    what: &str,
    is: impl Fn(&NodeEvent) -> bool,
) -> Result<(), String> {
    ensure(!events.is_empty(), || "there are no such events".into())?;
    let odd = events.iter().find(|event| !is(event));
    ensure(odd.is_none(), || {
        let it = odd.map(|odd| (&odd.namespace, &odd.lineage));
        format!("an event {what}: {it:?}")
    })
}

fn ensure_unique_events<T: Ord>(events: &[&NodeEvent], what: impl Fn(&NodeEvent) -> T) -> Result<(), String> {
    let count = events.iter().map(|event| what(event)).collect::<BTreeSet<_>>().len();
    ensure(count == events.len() && count > 0, || format!("{} events have {count} identities", events.len()))
}

/// Asserts a predicate about a map from nodes to branches, or about a list of nodes.
fn check_container_predicate(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    events: &[NodeEvent],
) -> Outcome<bool> {
    match name {
        "inner_events_carry_correct_branch_name" => {
            let mut nodes = value.clone().into_map_reader()?;
            while let Some((node, it)) = nodes.take_next_entry() {
                let of: Events<'_> =
                    inner_events(events).into_iter().filter(|item| *item.node_name == *node).collect();
                checker.check_exact(
                    &it,
                    json!(distinct_values(&of, |it| Some(branch_name(it)))).as_array().map_or(
                        Value::Null,
                        |items| {
                            if items.len() == 1 { items[0].clone() } else { Value::Array(items.clone()) }
                        },
                    ),
                );
            }
        }
        "outermost_events_have_no_branch_name" => {
            let mut block = value.clone().into_map_reader()?;
            let nodes = block.take_required("nodes")?;
            block.reject_remaining_keys()?;
            let outermost: Events<'_> = events.iter().filter(|event| event.namespace.len() == 1).collect();
            let named = ensure_all_events(&outermost, "has a branch", |it| branch_name(it).is_none());
            checker.check_result(&value.path, named);
            let mut there = Vec::<&str>::new();
            for it in outermost {
                if !there.contains(&&*it.node_name) {
                    there.push(&it.node_name);
                }
            }
            checker.check_exact(&nodes, json!(there));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn check_inner_predicate(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    events: &[NodeEvent],
) -> bool {
    let inner = inner_events(events);
    let index = |it: &NodeEvent| it.lineage.fan_out_index();
    match name {
        "inner_event_count" => checker.check_exact(value, inner.len()),
        "inner_attempt_indices_seen" | "inner_events_attempt_indices_seen" => {
            checker.check_exact(value, distinct_values(&inner, |it| Some(it.attempt_index)));
        }
        "inner_fan_out_indices_seen" | "fan_out_indices_seen" => {
            checker.check_exact(value, distinct_values(&inner, index))
        }
        "inner_branch_names_seen" => checker.check_exact(value, distinct_values(&inner, branch_name)),
        "inner_event_identities_unique" => {
            let identity =
                |it: &NodeEvent| (it.namespace.clone(), it.attempt_index, it.lineage.clone(), it.phase);
            checker.check_truth(value, ensure_unique_events(&inner, identity));
        }
        "inner_events_have_fan_out_index" => {
            checker.check_truth(
                value,
                ensure_all_events(&inner, "has no fan-out index", |it| index(it).is_some()),
            );
        }
        "inner_event_pair_count_per_instance" => {
            let counts = distinct_values(&inner, |it| {
                Some(inner.iter().filter(|other| other.lineage == it.lineage).count())
            });
            let only = if let [only] = counts.as_slice() { json!(only) } else { json!(counts) };
            checker.check_exact(value, only);
        }
        _ => return false,
    }
    true
}

/// Asserts a predicate about branches: about those that hold a fan-out, about plain ones, or about one branch by its
/// name.
fn check_branch_predicate(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    events: &[NodeEvent],
) -> Outcome<bool> {
    let inner = inner_events(events);
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
            let both = |it: &NodeEvent| branch_name(it).is_some() && index(it).is_some();
            checker.check_truth(value, ensure_all_events(&fan_out, "lacks branch or index", both));
        }
        "fan_out_inner_branch_name_seen" => {
            checker.check_exact(value, only(distinct_values(&fan_out, branch_name)))
        }
        "fan_out_inner_fan_out_indices_seen" => checker.check_exact(value, distinct_values(&fan_out, index)),
        "plain_inner_events_carry_branch_name_but_no_fan_out_index" => {
            let right = |it: &NodeEvent| branch_name(it).is_some() && index(it).is_none();
            checker.check_truth(value, ensure_all_events(&plain, "lacks a branch or has an index", right));
        }
        "plain_inner_branch_name_seen" => {
            checker.check_exact(value, only(distinct_values(&plain, branch_name)))
        }
        "branch_started_event_order" => {
            let started = inner
                .iter()
                .filter(|item| item.phase.as_str() == "started")
                .filter_map(|item| branch_name(item));
            let mut order = Vec::<String>::new();
            started.for_each(|it| {
                if !order.contains(&it) {
                    order.push(it);
                }
            });
            checker.check_exact(value, order);
        }
        _ => match name.strip_suffix("_inner_attempt_indices_seen") {
            Some(of) => {
                let of: Events<'_> =
                    inner.into_iter().filter(|item| item.lineage.branch_name() == Some(of)).collect();
                checker.check_exact(value, distinct_values(&of, |it| Some(it.attempt_index)));
            }
            None => return Ok(false),
        },
    }
    Ok(true)
}

fn check_pause_predicate(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    events: &[NodeEvent],
) -> bool {
    match name {
        "no_completed_event_for_suspending_node" => {
            checker.check_truth(value, ensure_no_completed_event(events))
        }
        "suspended_event_carries_descriptor" => checker.check_truth(value, ensure_descriptor_carried(events)),
        "started_followed_by_suspended_in_order" => {
            checker.check_truth(value, ensure_started_then_suspended(events))
        }
        _ => return false,
    }
    true
}

/// Asserts a predicate about one node's events: the node's name, perhaps `node`, and a property.
fn check_node_predicate(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    events: &[NodeEvent],
) -> bool {
    let properties = PROPERTIES.iter().filter_map(|(property, assert)| {
        let node = name.strip_suffix(property)?;
        Some((node, node.strip_suffix("_node").unwrap_or(node), assert))
    });
    let is_node = |node: &str| events.iter().any(|event| *event.node_name == *node);
    let mut properties: Vec<_> = properties.collect();
    // A node may be called as another and `_node`: its whole name goes first.
    let Some((node, shorter, assert)) = properties.pop() else {
        return check_presence_predicate(checker, name, value, events);
    };
    let node = if is_node(node) { node } else { shorter };
    let of: Events<'_> = events.iter().filter(|event| *event.node_name == *node).collect();
    assert(checker, value, &of);
    true
}

type Property = fn(&mut AssertionChecker, &LocatedNode, &[&NodeEvent]);

const PROPERTIES: &[(&str, Property)] = &[
    ("_events_count", |checker, value, of| checker.check_exact(value, of.len())),
    ("_fan_out_index_absent", |checker, value, of| {
        checker.check_truth(
            value,
            ensure_all_events(of, "has an index", |it| it.lineage.fan_out_index().is_none()),
        );
    }),
    ("_scalar_branch_name_absent", |checker, value, of| {
        checker.check_truth(
            value,
            ensure_all_events(of, "has a branch", |it| it.lineage.branch_name().is_none()),
        );
    }),
    ("_fan_out_index_chain_empty", |checker, value, of| {
        checker.check_truth(value, ensure_all_events(of, "has a chain", |it| fan_out_indexes(it).is_empty()));
    }),
    ("_fan_out_index_chains_seen", |checker, value, of| {
        checker.check_exact(value, json!(distinct_values(of, |it| Some(fan_out_indexes(it)))));
    }),
    ("_branch_name_chains_seen", |checker, value, of| {
        checker.check_exact(value, json!(distinct_values(of, |it| Some(branch_names(it)))));
    }),
    ("_scalar_fan_out_index_equals_innermost_chain_element", |checker, value, of| {
        let same = |it: &NodeEvent| {
            let innermost = fan_out_indexes(it).into_iter().rev().flatten().next();
            innermost.is_some() && it.lineage.fan_out_index() == innermost
        };
        checker.check_truth(value, ensure_all_events(of, "has another index", same));
    }),
    ("_event_identities_unique_by_chain", |checker, value, of| {
        let identity = |it: &NodeEvent| {
            (it.namespace.clone(), fan_out_indexes(it), branch_names(it), it.attempt_index, it.phase)
        };
        checker.check_truth(value, ensure_unique_events(of, identity));
    }),
    ("_scalar_fan_out_index_not_unique_across_outer_instances", |checker, value, of| {
        let scalar = |it: &NodeEvent| (it.lineage.fan_out_index(), it.phase);
        let collides = ensure_unique_events(of, scalar).is_err() && !of.is_empty();
        checker.check_truth(value, ensure(collides, || "the scalar tells all events apart".into()));
    }),
];

fn check_presence_predicate(
    checker: &mut AssertionChecker,
    name: &str,
    value: &LocatedNode,
    events: &[NodeEvent],
) -> bool {
    let Some((node, phase)) = name.strip_suffix("_present").and_then(|name| name.rsplit_once('_')) else {
        return false;
    };
    let there = events.iter().any(|event| *event.node_name == *node && event.phase.as_str() == phase);
    checker.check_truth(value, ensure(there, || format!("there is no event {phase} of node '{node}'")));
    true
}

fn suspended_position(events: &[NodeEvent]) -> Result<usize, String> {
    let at = events.iter().position(|event| event.phase.as_str() == "suspended");
    at.ok_or_else(|| "there is no suspended event".into())
}

fn ensure_no_completed_event(events: &[NodeEvent]) -> Result<(), String> {
    let at = suspended_position(events)?;
    let completed =
        events.iter().any(|event| event.phase.as_str() == "completed" && event.step == events[at].step);
    ensure(!completed, || "the suspending node has a completed event, too".into())
}

fn ensure_descriptor_carried(events: &[NodeEvent]) -> Result<(), String> {
    let at = suspended_position(events)?;
    ensure(events[at].descriptor.is_some(), || "the suspended event has no descriptor".into())
}

fn ensure_started_then_suspended(events: &[NodeEvent]) -> Result<(), String> {
    let at = suspended_position(events)?;
    let before = at.checked_sub(1).map(|left| &events[left]);
    let follows = before
        .is_some_and(|before| before.phase.as_str() == "started" && before.namespace == events[at].namespace);
    ensure(follows, || "no started event of the node comes right before its suspended event".into())
}
