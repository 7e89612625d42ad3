//! The attributes of spans of invocations, nodes and inner runs (spec: observability §5.1–§5.8).

use serde_json::{Map, Value};
use singletree_engine::{
    CallerMetadata, ContainerConfig, Descriptor, EventSource, Identity, LineageBoundary, NodeEvent,
    NodeLineage,
};

use crate::attribute::{AttributeValue, Attributes, SetAttribute};
use crate::settings::{SPEC_VERSION, SpanSettings};

/// Returns the attributes that every span of an invocation has (§5.6).
pub(crate) fn common_attributes(identity: &Identity, metadata: &CallerMetadata) -> Attributes {
    let mut attributes = identity_attributes(identity);
    if let Some(entries) = metadata {
        attributes.extend(user_attributes(entries));
    }
    attributes
}

/// Returns the attributes that tell who an invocation is, also outside of its own spans.
pub(crate) fn identity_attributes(identity: &Identity) -> Attributes {
    let mut attributes = Attributes::new();
    attributes.set("openarmature.correlation_id", identity.correlation_id.as_str());
    let session = identity.session_id.as_ref().map(ToString::to_string);
    attributes.set_some("openarmature.session_id", session);
    attributes
}

/// Returns the attributes of the caller's metadata.
pub(crate) fn user_attributes(entries: &Map<String, Value>) -> Attributes {
    let attribute = |(key, value): (&String, &Value)| {
        Some((format!("openarmature.user.{key}").into(), AttributeValue::from_json(value)?))
    };
    entries.iter().filter_map(attribute).collect()
}

/// Sets the attributes of a span at the root of a trace (§5.1).
pub(crate) fn set_invocation_attributes(
    attributes: &mut Attributes,
    settings: &SpanSettings,
    identity: &Identity,
    entry_node: &str,
) {
    attributes.set("openarmature.invocation_id", identity.invocation_id.as_str());
    attributes.set("openarmature.graph.entry_node", entry_node);
    attributes.set("openarmature.graph.spec_version", SPEC_VERSION);
    attributes.set("openarmature.implementation.name", settings.implementation.0.as_str());
    attributes.set("openarmature.implementation.version", settings.implementation.1.as_str());
}

/// Sets the indexes and names of the innermost instance and branch.
pub(crate) fn set_lineage_attributes(attributes: &mut Attributes, lineage: &NodeLineage) {
    attributes.set_some("openarmature.node.fan_out_index", lineage.fan_out_index());
    attributes.set_some("openarmature.node.branch_name", lineage.branch_name());
}

/// Returns the attributes of a node's span (§5.2, §5.4, §5.7).
pub(crate) fn node_attributes(event: &NodeEvent) -> Attributes {
    let mut attributes = common_attributes(&event.identity, &event.caller_invocation_metadata);
    attributes.set("openarmature.node.name", event.node_name.as_ref());
    attributes.set("openarmature.node.namespace", names_value(&event.namespace));
    attributes.set("openarmature.node.step", event.step);
    attributes.set("openarmature.node.attempt_index", event.attempt_index);
    set_lineage_attributes(&mut attributes, &event.lineage);
    match &event.container {
        Some(ContainerConfig::FanOut(config)) => {
            attributes.set("openarmature.fan_out.item_count", config.item_count);
            // Zero stands for no bound (§5.4).
            attributes.set("openarmature.fan_out.concurrency", config.concurrency.unwrap_or(0));
            attributes.set("openarmature.fan_out.error_policy", config.error_policy.as_str());
        }
        Some(ContainerConfig::Branches(config)) => {
            attributes.set("openarmature.parallel_branches.branch_count", config.branch_count);
            attributes.set("openarmature.parallel_branches.error_policy", config.error_policy.as_str());
        }
        None => {}
    }
    attributes
}

/// Sets the attributes of an inner run's span (§5.3, §5.4, §5.7).
pub(crate) fn set_unit_attributes(
    attributes: &mut Attributes,
    node_name: &str,
    namespace: &[std::sync::Arc<str>],
    (lineage, attempt, step): (&NodeLineage, u32, u64),
    graph_name: Option<&str>,
) {
    attributes.set("openarmature.node.name", node_name);
    attributes.set("openarmature.node.namespace", names_value(namespace));
    attributes.set("openarmature.node.attempt_index", attempt);
    set_lineage_attributes(attributes, lineage);
    match lineage.boundaries().last() {
        Some(LineageBoundary::Instance(_)) => {
            attributes.set("openarmature.fan_out.parent_node_name", node_name)
        }
        Some(LineageBoundary::Branch(_)) => {
            attributes.set("openarmature.parallel_branches.parent_node_name", node_name);
        }
        Some(LineageBoundary::Subgraph) | None => {
            // The subgraph is no node execution of its own: its step is that of the first node inside.
            attributes.set("openarmature.node.step", step);
            attributes.set("openarmature.subgraph.name", graph_name.unwrap_or(""))
        }
    }
}

/// Sets the attributes of a node that waits (§5.8). Values that no attribute can hold are written as JSON.
pub(crate) fn set_suspension_attributes(attributes: &mut Attributes, descriptor: &Descriptor) {
    attributes.set("openarmature.outcome", "suspended");
    attributes.set("openarmature.suspension.signal_id", descriptor.signal_id.as_str());
    let fields = descriptor.metadata.as_ref().and_then(Value::as_object).into_iter().flatten();
    for (key, value) in fields.filter(|(_, value)| !value.is_null()) {
        let value = AttributeValue::from_json(value).unwrap_or_else(|| value.to_string().into());
        attributes.set(format!("openarmature.suspension.metadata.{key}"), value);
    }
}

/// Returns the attributes that spans of calls share: those of every span, and the instance and branch of the caller.
pub(crate) fn call_attributes(source: &EventSource, metadata: &CallerMetadata) -> Attributes {
    let mut attributes = common_attributes(&source.identity, metadata);
    set_lineage_attributes(&mut attributes, &source.lineage);
    attributes
}

fn names_value(names: &[std::sync::Arc<str>]) -> AttributeValue {
    names.iter().map(AsRef::as_ref).collect::<Vec<&str>>().into_iter().collect()
}
