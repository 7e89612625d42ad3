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
    ReadField(String),
    Raises(String),
}

fn target(spot: &LocatedNode) -> Outcome<Target> {
    Ok(match spot.text()? {
        "END" => END.into(),
        name => name.into(),
    })
}

impl GraphEdgeSpec {
    /// Reads an edge.
    ///
    /// # Errors
    /// When the fixture block has an unknown key or value.
    pub(crate) fn read(spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.fields()?;
        let from = block.need("from")?.text()?.to_owned();
        let way = match block.take("condition") {
            None => EdgeTargetSpec::To(target(&block.need("to")?)?),
            Some(condition) => {
                let mut condition = condition.fields()?;
                let way = match condition.text("callable")?.as_deref() {
                    None => EdgeTargetSpec::IfField {
                        field: condition.need("if_field")?.text()?.to_owned(),
                        equals: condition.need("equals")?.node.to_json(),
                        then: target(&condition.need("then")?)?,
                        otherwise: target(&condition.need("else")?)?,
                    },
                    // R20: beside a callable, `to` is a hint; the callable decides.
                    Some(callable) => {
                        block.take("to").map(|value| target(&value)).transpose()?;
                        match callable {
                            "state_field_read" => {
                                EdgeTargetSpec::ReadField(condition.need("field")?.text()?.to_owned())
                            }
                            "edge_raises" => {
                                EdgeTargetSpec::Raises(condition.need("message")?.text()?.to_owned())
                            }
                            other => {
                                let what = format!("unknown callable '{other}'");
                                return Err(CaseFailure::reader(condition.path(), what));
                            }
                        }
                    }
                };
                condition.finish()?;
                way
            }
        };
        block.finish()?;
        Ok(Self { from, way })
    }

    /// Returns the field whose content names the next node, for the edges that work so.
    #[must_use]
    pub(crate) fn reads(&self) -> Option<&str> {
        match &self.way {
            EdgeTargetSpec::ReadField(field) => Some(field),
            EdgeTargetSpec::To(_) | EdgeTargetSpec::IfField { .. } | EdgeTargetSpec::Raises(_) => None,
        }
    }

    /// Adds the edge to a graph.
    #[must_use]
    pub(crate) fn add(&self, builder: GraphBuilder<Snapshot>) -> GraphBuilder<Snapshot> {
        let from = self.from.clone();
        match self.way.clone() {
            EdgeTargetSpec::To(target) => builder.edge(from, target),
            EdgeTargetSpec::Raises(message) => {
                builder.conditional_edge(from, move |_: &Snapshot| Err::<Target, _>(message.clone()))
            }
            EdgeTargetSpec::ReadField(field) => {
                builder.conditional_edge(from, move |state: &Snapshot| match read(state, &field)? {
                    Value::String(name) => Ok(Target::Node(name)),
                    other => Err(format!("field '{field}' names no node: {other}")),
                })
            }
            EdgeTargetSpec::IfField { field, equals, then, otherwise } => {
                builder.conditional_edge(from, move |state: &Snapshot| {
                    let holds = read(state, &field)? == equals;
                    Ok::<_, String>(if holds { then.clone() } else { otherwise.clone() })
                })
            }
        }
    }
}

fn read(state: &Snapshot, field: &str) -> Result<Value, String> {
    let slot = state.get(field).ok_or_else(|| format!("field '{field}' is not declared"))?;
    slot.to_json().map_err(|error| error.to_string())
}
