//! `parallel_branches:` built through the engine's public interface.

use std::sync::Arc;

use serde_json::Value;
use singletree::Graph;
use singletree::engine::{Branch, Branches, ErrorPolicy, Middleware, Snapshot};

use crate::body;
use crate::nodes::{BranchSpec, ParallelBranchesSpec};

/// The built parts of a branch.
pub(crate) struct BuiltBranch {
    /// Its subgraph.
    pub(crate) subgraph: Option<Graph<Snapshot>>,
    /// Its function.
    pub(crate) call: Option<Arc<body::NodeBodyContext>>,
    /// The middleware around the branch.
    pub(crate) middleware: Vec<Arc<dyn Middleware>>,
}

/// Makes parallel branches of their parts, which come in the same order.
#[must_use]
pub(crate) fn build_branches(spec: &ParallelBranchesSpec, parts: Vec<BuiltBranch>) -> Branches<Snapshot> {
    let mut branches = Branches::new();
    for (of, parts) in spec.branches.iter().zip(parts) {
        branches = branches.branch(of.name.clone(), build_branch(of, parts));
    }
    if let Some(collects) = spec.collects_errors {
        branches = branches.error_policy(if collects { ErrorPolicy::Collect } else { ErrorPolicy::FailFast });
    }
    match &spec.errors {
        Some(field) => branches.errors_field(field),
        None => branches,
    }
}

fn build_branch(spec: &BranchSpec, parts: BuiltBranch) -> Branch<Snapshot> {
    let mut branch = Branch::new();
    if let Some(graph) = &parts.subgraph {
        branch = branch.subgraph(graph);
    }
    if let Some(part) = parts.call {
        branch = branch.call(move |cx| body::run_node_body(part.clone(), cx));
    }
    for (child, parent) in spec.inputs.iter().flatten() {
        branch = branch.input(child, parent);
    }
    for (parent, child) in spec.outputs.iter().flatten() {
        branch = branch.output(parent, child);
    }
    if let Some(field) = spec.when.clone() {
        branch = branch.when(move |state: &Snapshot| is_field_truthy(state, &field));
    }
    parts.middleware.into_iter().fold(branch, Branch::middleware)
}

/// Tells whether a field holds something: not nothing, false, zero, or empty (pipeline-utilities 074).
fn is_field_truthy(state: &Snapshot, field: &str) -> bool {
    match state.get(field).and_then(|it| it.to_json().ok()) {
        None | Some(Value::Null) => false,
        Some(Value::Bool(it)) => it,
        Some(Value::Number(it)) => it.as_f64() != Some(0.0),
        Some(Value::String(it)) => !it.is_empty(),
        Some(Value::Array(it)) => !it.is_empty(),
        Some(Value::Object(it)) => !it.is_empty(),
    }
}
