//! Edge directives (conformance-adapter §5.3).

use serde_json::Value;
use singletree::engine::{END, GraphBuilder, Snapshot, Target};

use crate::failure::{CaseFailure, Outcome};
use crate::fields::LocatedNode;

/// An edge.
#[derive(Debug, Clone)]
pub(crate) struct GraphEdgeSpec {
    from: String,
    way: EdgeTargetSpec,
}

#[derive(Debug, Clone)]
enum EdgeTargetSpec {
    To(Target),
    IfField { field: String, equals: Value, then: Target, otherwise: Target },
    IfGreater { field: String, limit: i64, then: Target, otherwise: Option<Target> },
    ReadField(String),
    Raises(String),
}

fn parse_edge_target(spot: &LocatedNode) -> Outcome<Target> {
    Ok(match spot.as_text()? {
        "END" => END.into(),
        name => name.into(),
    })
}

/// Reads `when: {field, gt}`: the edge is taken where the field is greater.
fn parse_guarded_target(when: LocatedNode, to: &LocatedNode) -> Outcome<EdgeTargetSpec> {
    let mut block = when.into_map_reader()?;
    let way = EdgeTargetSpec::IfGreater {
        field: block.take_required("field")?.as_text()?.to_owned(),
        limit: block.take_required("gt")?.as_integer()?,
        then: parse_edge_target(to)?,
        otherwise: None,
    };
    block.reject_remaining_keys()?;
    Ok(way)
}

impl GraphEdgeSpec {
    /// Reads an edge.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn from_yaml_node(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        let from = block.take_required("from")?.as_text()?.to_owned();
        if let Some(when) = block.take_value("when") {
            let way = parse_guarded_target(when, &block.take_required("to")?)?;
            block.reject_remaining_keys()?;
            return Ok(Self { from, way });
        }
        let way = match block.take_value("condition") {
            None => EdgeTargetSpec::To(parse_edge_target(&block.take_required("to")?)?),
            Some(condition) => {
                let mut condition = condition.into_map_reader()?;
                let way = match condition.take_text("callable")?.as_deref() {
                    None => EdgeTargetSpec::IfField {
                        field: condition.take_required("if_field")?.as_text()?.to_owned(),
                        equals: condition.take_required("equals")?.node.to_json(),
                        then: parse_edge_target(&condition.take_required("then")?)?,
                        otherwise: parse_edge_target(&condition.take_required("else")?)?,
                    },
                    // R20: beside a callable, `to` is a hint; the callable decides.
                    Some(callable) => {
                        block.take_value("to").map(|value| parse_edge_target(&value)).transpose()?;
                        match callable {
                            "state_field_read" => EdgeTargetSpec::ReadField(
                                condition.take_required("field")?.as_text()?.to_owned(),
                            ),
                            "edge_raises" => EdgeTargetSpec::Raises(
                                condition.take_required("message")?.as_text()?.to_owned(),
                            ),
                            other => {
                                let what = format!("unknown callable '{other}'");
                                return Err(CaseFailure::reader_error(condition.path(), what));
                            }
                        }
                    }
                };
                condition.reject_remaining_keys()?;
                way
            }
        };
        block.reject_remaining_keys()?;
        Ok(Self { from, way })
    }

    /// Joins an edge that has a guard with the edge after it that leaves the same node (observability 011).
    #[must_use]
    pub(crate) fn join_guarded_edges(edges: Vec<Self>) -> Vec<Self> {
        let mut joined: Vec<Self> = Vec::new();
        for edge in edges {
            let guarded = joined.iter_mut().find(|guarded| guarded.from == edge.from);
            match (guarded.map(|guarded| &mut guarded.way), &edge.way) {
                (Some(EdgeTargetSpec::IfGreater { otherwise, .. }), EdgeTargetSpec::To(target))
                    if otherwise.is_none() =>
                {
                    *otherwise = Some(target.clone());
                }
                _ => joined.push(edge),
            }
        }
        joined
    }

    /// Returns the field whose content names the next node, for the edges that work so.
    #[must_use]
    pub(crate) fn target_field(&self) -> Option<&str> {
        match &self.way {
            EdgeTargetSpec::ReadField(field) => Some(field),
            EdgeTargetSpec::To(_)
            | EdgeTargetSpec::IfField { .. }
            | EdgeTargetSpec::IfGreater { .. }
            | EdgeTargetSpec::Raises(_) => None,
        }
    }

    /// Adds the edge to a graph.
    #[must_use]
    pub(crate) fn add_to_graph(&self, builder: GraphBuilder<Snapshot>) -> GraphBuilder<Snapshot> {
        let from = self.from.clone();
        match self.way.clone() {
            EdgeTargetSpec::To(target) => builder.edge(from, target),
            EdgeTargetSpec::Raises(message) => {
                builder.conditional_edge(from, move |_: &Snapshot| Err::<Target, _>(message.clone()))
            }
            EdgeTargetSpec::ReadField(field) => builder.conditional_edge(from, move |state: &Snapshot| {
                match read_state_field(state, &field)? {
                    Value::String(name) => Ok(Target::Node(name)),
                    other => Err(format!("field '{field}' names no node: {other}")),
                }
            }),
            EdgeTargetSpec::IfGreater { field, limit, then, otherwise } => {
                builder.conditional_edge(from, move |state: &Snapshot| {
                    let value = read_state_field(state, &field)?.as_i64();
                    let value = value.ok_or_else(|| format!("field '{field}' holds no whole number"))?;
                    Ok::<_, String>(match (value > limit, &otherwise) {
                        (true, _) => then.clone(),
                        (false, Some(target)) => target.clone(),
                        (false, None) => END.into(),
                    })
                })
            }
            EdgeTargetSpec::IfField { field, equals, then, otherwise } => {
                builder.conditional_edge(from, move |state: &Snapshot| {
                    let holds = read_state_field(state, &field)? == equals;
                    Ok::<_, String>(if holds { then.clone() } else { otherwise.clone() })
                })
            }
        }
    }
}

fn read_state_field(state: &Snapshot, field: &str) -> Result<Value, String> {
    let slot = state.get(field).ok_or_else(|| format!("field '{field}' is not declared"))?;
    slot.to_json().map_err(|error| error.to_string())
}
