//! The caller's metadata of an invocation, and its checks (graph-engine §3, observability §3.4).

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Names that backends of observability write themselves (observability §3.4).
const RESERVED: [&str; 29] = [
    "attempt_index",
    "branch_name",
    "correlation_id",
    "detached",
    "detached_child_trace_ids",
    "detached_from_invocation_id",
    "entry_node",
    "fan_out_concurrency",
    "fan_out_error_policy",
    "fan_out_index",
    "fan_out_item_count",
    "fan_out_parent_node_name",
    "finish_reason",
    "implementation_name",
    "implementation_version",
    "invocation_id",
    "namespace",
    "parallel_branches_branch_count",
    "parallel_branches_error_policy",
    "parallel_branches_parent_node_name",
    "prompt",
    "prompt_group_name",
    "request_extras",
    "response_id",
    "response_model",
    "spec_version",
    "step",
    "subgraph_name",
    "system",
];

/// The namespaces in which no caller may write.
const NAMESPACES: [&str; 2] = ["openarmature.", "gen_ai."];

/// The caller's metadata as one sequential context of a run sees it: a walk, an instance, a branch. A context inside it
/// begins with a copy, so that additions never reach its siblings (observability §3.4).
#[derive(Debug)]
pub(crate) struct MetadataScope(Mutex<Arc<Map<String, Value>>>);

impl MetadataScope {
    pub(crate) fn new(entries: Arc<Map<String, Value>>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(entries)))
    }

    /// Returns the entries as they are now.
    pub(crate) fn entries(&self) -> Arc<Map<String, Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins the context of an inner run.
    pub(crate) fn fork(&self) -> Arc<Self> {
        Self::new(self.entries())
    }

    /// Takes back what was added since: an attempt that is made again begins like the one before it.
    pub(crate) fn reset_to(&self, entries: Arc<Map<String, Value>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = entries;
    }

    /// Adds entries, in place of earlier ones of the same keys.
    pub(crate) fn add_entries(&self, entries: Map<String, Value>) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut held).extend(entries);
    }
}

/// Checks keys and values, before anything else is done.
///
/// # Errors
/// `invalid_argument`, which names the key.
pub(crate) fn check_metadata(metadata: &Map<String, Value>) -> Result<()> {
    metadata.iter().try_for_each(|(key, value)| {
        let wrong = find_key_problem(key).or_else(|| find_value_problem(value));
        wrong.map_or(Ok(()), |why| Err(Error::Argument { what: format!("metadata '{key}' {why}") }))
    })
}

fn find_key_problem(key: &str) -> Option<&'static str> {
    if key.is_empty() {
        return Some("has an empty key");
    }
    let reserved = RESERVED.contains(&key) || NAMESPACES.iter().any(|it| key.starts_with(it));
    reserved.then_some("has a reserved key")
}

fn find_value_problem(value: &Value) -> Option<&'static str> {
    let Value::Array(items) = value else {
        return scalar_kind(value).is_none().then_some("is neither a scalar nor an array of scalars");
    };
    let first = items.first()?;
    let same =
        scalar_kind(first).is_some() && items.iter().all(|item| scalar_kind(item) == scalar_kind(first));
    (!same).then_some("is not an array of scalars of one kind")
}

#[derive(PartialEq)]
enum MetadataValueKind {
    Bool,
    Whole,
    Fraction,
    Text,
}

fn scalar_kind(value: &Value) -> Option<MetadataValueKind> {
    match value {
        Value::Bool(_) => Some(MetadataValueKind::Bool),
        Value::Number(number) if number.is_f64() => Some(MetadataValueKind::Fraction),
        Value::Number(_) => Some(MetadataValueKind::Whole),
        Value::String(_) => Some(MetadataValueKind::Text),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
