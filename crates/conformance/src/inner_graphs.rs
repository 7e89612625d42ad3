//! Parts of graphs that the fixtures of observability leave to the adapter: fan-outs with `inner_subgraph` (029, 039, 044,
//! 054) say which items there are and which graph each of them runs, and no more.
//!
//! Each entry of an item is a field of the inner graph, where that graph uses it. Fields that the inner graph writes and
//! the graph around it declares are collected. Fields that no state declares are declared here.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use singletree::engine::FieldShape;

use crate::failure::{CaseFailure, Outcome};
use crate::graph::{FixtureGraphSpec, Subgraphs};
use crate::middleware::MiddlewareSpec;
use crate::nodes::{BranchSpec, FanOutSpec, NodeWorkSpec};
use crate::telemetry::NodeStepSpec;

/// The field of an inner graph that gets the whole item.
pub(crate) const ITEM_FIELD: &str = "item";

/// Completes the graphs of a case.
///
/// # Errors
/// When a part names a graph that is not there.
pub(crate) fn complete_inner_graphs(outer: &mut FixtureGraphSpec, subgraphs: &mut Subgraphs) -> Outcome<()> {
    let names: Vec<String> = subgraphs.keys().cloned().collect();
    let mut declared_sources = BTreeSet::new();
    for name in &names {
        if let Some(graph) = subgraphs.get_mut(name) {
            let sources = declare_item_sources(graph);
            declared_sources.extend(sources.into_iter().map(|field| (name.clone(), field)));
        }
    }
    declare_item_sources(outer);
    // The graphs are changed one at a time, each while the others can be looked up.
    for name in &names {
        let Some(mut graph) = subgraphs.remove(name) else { continue };
        let completed = complete_graph(&mut graph, subgraphs, &declared_sources);
        subgraphs.insert(name.clone(), graph);
        completed?;
    }
    complete_graph(outer, subgraphs, &declared_sources)
}

/// Declares the lists that brief fan-outs take their items from, and returns those that were not declared.
fn declare_item_sources(graph: &mut FixtureGraphSpec) -> Vec<String> {
    let sources = graph.nodes.iter().filter_map(|node| match &node.work {
        NodeWorkSpec::FanOut(fan_out) if fan_out.brief.is_some() => Some(fan_out.items.clone()?.0),
        _ => None,
    });
    let sources: Vec<String> = sources.filter(|field| !graph.state.declares_field(field)).collect();
    for field in &sources {
        graph.state.declare_field(field, FieldShape::Any.list(), json!([]));
    }
    sources
}

fn complete_graph(
    graph: &mut FixtureGraphSpec,
    subgraphs: &mut Subgraphs,
    sources: &BTreeSet<(String, String)>,
) -> Outcome<()> {
    for at in 0..graph.nodes.len() {
        let mut work = graph.nodes[at].work.clone();
        match &mut work {
            NodeWorkSpec::FanOut(fan_out) if fan_out.brief.is_some() => {
                complete_fan_out(graph, fan_out, subgraphs)?;
            }
            NodeWorkSpec::Branches(branches) => {
                for branch in &mut branches.branches {
                    complete_branch(graph, branch, subgraphs)?;
                }
            }
            NodeWorkSpec::Subgraph { graph: inner, projection, called_outputs }
                if !called_outputs.is_empty() =>
            {
                // A graph that is called gets the lists of its fan-outs from the graph around it (039).
                let passed = sources.iter().filter(|(name, _)| name == inner).map(|(_, field)| field);
                let passed: Vec<&str> = passed.map(String::as_str).collect();
                for field in &passed {
                    graph.state.declare_field(field, FieldShape::Any.list(), json!([]));
                }
                // 039 writes a list into a field that is declared as a map.
                for (field, _) in called_outputs.iter() {
                    graph.state.declare_field(field, FieldShape::Any, Value::Null);
                }
                let outputs = called_outputs.iter().map(|(to, from)| (to.as_str(), from.as_str()));
                let inputs = passed.iter().map(|field| (*field, *field));
                *projection = projection.clone().inputs(inputs).outputs(outputs);
            }
            NodeWorkSpec::FanOut(_) | NodeWorkSpec::Body(_) | NodeWorkSpec::Subgraph { .. } => {}
        }
        graph.nodes[at].work = work;
    }
    Ok(())
}

fn complete_fan_out(
    graph: &FixtureGraphSpec,
    fan_out: &mut FanOutSpec,
    subgraphs: &mut Subgraphs,
) -> Outcome<()> {
    let Some(brief) = fan_out.brief.clone() else { return Ok(()) };
    let inner = find_graph(&fan_out.subgraph, subgraphs)?;
    declare_written_fields(inner);
    for (_, field) in &brief.augments {
        declare_missing_field(inner, field);
    }
    prepend_augmentation(inner, &brief.augments)?;
    let collected = written_fields(inner).into_iter().find(|field| graph.state.declares_field(field));
    (fan_out.collect, fan_out.target) = (collected.clone(), collected);
    fan_out.middleware.push(MiddlewareSpec::ItemUnpacker);
    Ok(())
}

fn complete_branch(
    graph: &mut FixtureGraphSpec,
    branch: &mut BranchSpec,
    subgraphs: &mut Subgraphs,
) -> Outcome<()> {
    let Some(name) = &branch.subgraph else { return Ok(()) };
    if branch.augments.is_empty() {
        // A graph that is not declared is the engine's to refuse.
        if let Ok(inner) = find_graph(name, subgraphs) {
            declare_written_fields(inner);
        }
        return Ok(());
    }
    let inner = find_graph(name, subgraphs)?;
    declare_written_fields(inner);
    for (_, field) in &branch.augments {
        declare_missing_field(inner, field);
        declare_missing_field(graph, field);
        branch.inputs.get_or_insert_default().push((field.clone(), field.clone()));
    }
    prepend_augmentation(inner, &branch.augments)
}

fn find_graph<'a>(name: &str, subgraphs: &'a mut Subgraphs) -> Outcome<&'a mut FixtureGraphSpec> {
    subgraphs
        .get_mut(name)
        .ok_or_else(|| CaseFailure::build_error("inner_subgraph", format!("no graph '{name}'")))
}

fn declare_missing_field(graph: &mut FixtureGraphSpec, field: &str) {
    if !graph.state.declares_field(field) {
        graph.state.declare_field(field, FieldShape::Any, Value::Null);
    }
}

/// Returns the fields that directives of a graph's nodes write.
fn written_fields(graph: &FixtureGraphSpec) -> Vec<String> {
    let bodies = graph.nodes.iter().filter_map(|node| match &node.work {
        NodeWorkSpec::Body(body) => Some(&body.steps),
        NodeWorkSpec::Subgraph { .. } | NodeWorkSpec::FanOut(_) | NodeWorkSpec::Branches(_) => None,
    });
    bodies.flatten().filter_map(|step| step.written_field().map(str::to_owned)).collect()
}

fn declare_written_fields(graph: &mut FixtureGraphSpec) {
    for field in written_fields(graph) {
        declare_missing_field(graph, &field);
    }
}

/// Lets the first node of a graph add to the caller's metadata before anything else (029).
fn prepend_augmentation(graph: &mut FixtureGraphSpec, augments: &[(String, String)]) -> Outcome<()> {
    if augments.is_empty() {
        return Ok(());
    }
    let entry = graph.nodes.iter_mut().find(|node| Some(&node.name) == graph.entry.as_ref());
    match entry.map(|node| &mut node.work) {
        Some(NodeWorkSpec::Body(body)) => {
            body.steps.insert(0, NodeStepSpec::AugmentFromFields(augments.to_vec()));
            Ok(())
        }
        _ => Err(CaseFailure::build_error("inner_subgraph", "its first node has no body")),
    }
}
