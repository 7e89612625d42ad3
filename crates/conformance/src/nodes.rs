//! Node directives (conformance-adapter §5.1, §5.4): reading them.

mod body;
mod branches;
mod fan_out;
mod flaky;

use std::time::Duration;

use singletree::engine::Projection;

use crate::failure::{CaseFailure, Outcome};
use crate::fields::{LocatedNode, YamlMapReader};
use crate::middleware::{self, MiddlewareSpec};

pub(crate) use body::{BodyResultSpec, NodeBodySpec, NodeDrainSpec};
pub(crate) use branches::{BranchSpec, ParallelBranchesSpec};
pub(crate) use fan_out::{FanOutConcurrency, FanOutSpec, NumberSource};
pub(crate) use flaky::{FlakyMockSpec, MockErrorSpec, MockFailureMode};

/// Directives that are known and need a capability that the engine does not have.
const NOT_BUILT: &[(&str, &str)] =
    &[("calls_embed", "providers of embeddings"), ("calls_rerank", "providers of reranking")];

/// A node.
#[derive(Debug, Clone)]
pub(crate) struct GraphNodeSpec {
    /// Its name.
    pub(crate) name: String,
    /// The work of the node.
    pub(crate) work: NodeWorkSpec,
    /// The middleware declared at the node itself, outermost first.
    pub(crate) middleware: Vec<MiddlewareSpec>,
}

/// The work of a node.
#[derive(Debug, Clone)]
pub(crate) enum NodeWorkSpec {
    /// It runs a body.
    Body(Box<NodeBodySpec>),
    /// It is a subgraph.
    Subgraph {
        /// Which one.
        graph: String,
        /// The fields that cross its boundary.
        projection: Projection,
        /// Its outputs, where it is written as a call (`subgraph_call`): the parent's field, the subgraph's.
        called_outputs: Vec<(String, String)>,
    },
    /// It is a fan-out.
    FanOut(Box<FanOutSpec>),
    /// It is parallel branches.
    Branches(ParallelBranchesSpec),
}

impl GraphNodeSpec {
    /// Reads a node.
    ///
    /// # Errors
    /// For a directive that is unknown, not built, or not possible together with another.
    pub(crate) fn from_yaml_node(name: String, spot: LocatedNode) -> Outcome<Self> {
        let mut block = spot.into_map_reader()?;
        for (directive, need) in NOT_BUILT {
            if let Some(it) = block.take_value(directive) {
                return Err(CaseFailure::reader_error(
                    &it.path,
                    format!("directive '{directive}' needs {need}, which is not built"),
                ));
            }
        }
        // conformance-adapter §8.3: where a node names both, they are in the order of the document; no fixture does.
        let mut middleware = block
            .take_value("middleware")
            .map(middleware::parse_middleware_list)
            .transpose()?
            .unwrap_or_default();
        if let Some(it) = block.take_value("wrap_with_middleware") {
            middleware.extend(middleware::parse_wrapping_middleware(it)?);
        }
        middleware.extend(middleware::take_node_middleware(&mut block)?);
        if let Some(call) = block.take_value("subgraph_call") {
            let work = parse_subgraph_call(call)?;
            block.reject_remaining_keys()?;
            return Ok(Self { name, work, middleware });
        }
        let work = match block.take_value("subgraph") {
            Some(graph) => {
                let graph = graph.as_text()?.to_owned();
                let projection = take_projection(&mut block)?;
                NodeWorkSpec::Subgraph { graph, projection, called_outputs: Vec::new() }
            }
            None => match (block.take_value("fan_out"), block.take_value("parallel_branches")) {
                (Some(_), Some(_)) => {
                    return Err(CaseFailure::reader_error(block.path(), "a node is one thing"));
                }
                (Some(it), None) => NodeWorkSpec::FanOut(Box::new(FanOutSpec::from_yaml_node(it)?)),
                (None, Some(it)) => NodeWorkSpec::Branches(ParallelBranchesSpec::from_yaml_node(it)?),
                (None, None) => NodeWorkSpec::Body(Box::new(NodeBodySpec::take_from_block(&mut block)?)),
            },
        };
        block.reject_remaining_keys()?;
        Ok(Self { name, work, middleware })
    }
}

/// Reads `subgraph_call: {subgraph, outputs}`.
fn parse_subgraph_call(spot: LocatedNode) -> Outcome<NodeWorkSpec> {
    let mut block = spot.into_map_reader()?;
    let graph = block.take_required("subgraph")?.as_text()?.to_owned();
    let called_outputs = block.take_value("outputs").map(parse_name_pairs).transpose()?.unwrap_or_default();
    block.reject_remaining_keys()?;
    let projection = Projection::by_name();
    Ok(NodeWorkSpec::Subgraph { graph, projection, called_outputs })
}

fn take_projection(block: &mut YamlMapReader) -> Outcome<Projection> {
    let mut projection = Projection::by_name();
    let mut maps = block.take_value("mapping").map(LocatedNode::into_map_reader).transpose()?;
    let mut map = |key: &str| -> Outcome<Option<Vec<(String, String)>>> {
        let nested = maps.as_mut().and_then(|maps| maps.take_value(key));
        match block.take_value(key).or(nested) {
            Some(it) => parse_name_pairs(it).map(Some),
            None => Ok(None),
        }
    };
    if let Some(inputs) = map("inputs")? {
        projection = projection.inputs(inputs.iter().map(|(a, b)| (a.as_str(), b.as_str())));
    }
    if let Some(outputs) = map("outputs")? {
        projection = projection.outputs(outputs.iter().map(|(a, b)| (a.as_str(), b.as_str())));
    }
    if let Some(maps) = maps {
        maps.reject_remaining_keys()?;
    }
    if let Some(names) = block.take_value("projects_in") {
        projection = projection.projects_in(names.into_texts()?.iter().map(String::as_str));
    }
    if let Some(names) = block.take_value("projects_out") {
        projection = projection.projects_out(names.into_texts()?.iter().map(String::as_str));
    }
    Ok(projection)
}

/// Reads a map of names.
///
/// # Errors
/// When a key or value is no name.
pub(crate) fn parse_name_pairs(spot: LocatedNode) -> Outcome<Vec<(String, String)>> {
    let mut map = spot.into_map_reader()?;
    let mut pairs = Vec::new();
    while let Some((to, from)) = map.take_next_entry() {
        pairs.push((to, from.as_text()?.to_owned()));
    }
    Ok(pairs)
}

/// Reads a time in milliseconds.
///
/// # Errors
/// When it is no number, or negative.
pub(crate) fn parse_milliseconds(spot: &LocatedNode) -> Outcome<Duration> {
    let millis = u64::try_from(spot.as_integer()?).map_err(|_| spot.unexpected_kind("a time"))?;
    Ok(Duration::from_millis(millis))
}

/// Reads a time limit in seconds; null is none.
///
/// # Errors
/// When it is no number, or no time.
pub(crate) fn parse_seconds(spot: &LocatedNode) -> Outcome<Option<Duration>> {
    parse_time_limit(spot)?.map_err(|_| spot.unexpected_kind("a time"))
}

/// Reads a time limit in seconds, or returns the reason why there is none: the engine's type of time limits has
/// neither negative values nor NaN, so that a caller is refused where a number becomes a time limit (graph-engine
/// §6).
///
/// # Errors
/// When it is no number.
pub(crate) fn parse_time_limit(spot: &LocatedNode) -> Outcome<Result<Option<Duration>, String>> {
    if spot.is_null() {
        return Ok(Ok(None));
    }
    Ok(Duration::try_from_secs_f64(spot.as_number()?).map(Some).map_err(|error| error.to_string()))
}
